"""The same semantics once more, naively: streams as lists of markers, order as reachability."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from tests.simulator.calls import Driver
from tests.simulator.engine import Simulator
from tests.simulator.program import (
    Copy,
    GraphLaunch,
    Launch,
    Program,
    Record,
    Set,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from tests.simulator.run import Run
from tests.simulator.threads import HostThread

Order = dict[int, set[int]]
Logged = tuple[Statement, int]


def order_of_run(run: Run) -> Order:
    """Return for each activity all those that the run's constraints put before it."""
    before: Order = defaultdict(set)
    for constraint in run.constraints:
        if constraint.kind in {"stream_order", "graph_order", "event_wait"}:
            before[constraint.target] |= {constraint.source} | before.get(constraint.source, set())
    return before


def order_by_definition(program: Program) -> Order:
    """Return for each activity all those that must be before it."""
    return _Markers(program).order


def awaited_by_definition(program: Program) -> Order:
    """Return for each blocking call all activities that it waits for."""
    return _Markers(program).awaited


def _calls_in_order(program: Program) -> list[Logged]:
    """Return the calls with their uids as the simulator makes them; only the order is taken from it."""
    simulator = Simulator(program)
    log: list[Logged] = []
    events = simulator.recording.run.events

    def logged(execute: Any) -> Any:
        def run(thread: HostThread, statement: Statement) -> None:
            log.append((statement, len(events)))
            execute(thread, statement)

        return run

    driver: Driver = simulator.driver
    for kind, execute in driver.execute.items():
        simulator.handlers[kind] = logged(execute)
    simulator.execute()
    return log


class _Markers:
    """A stream is at any time the set of activities that its next item comes after."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.reached: dict[Stream, set[int]] = defaultdict(set)
        self.recorded: dict[int, set[int]] = defaultdict(set)
        self.order: Order = defaultdict(set)
        self.awaited: Order = defaultdict(set)
        for statement, uid in _calls_in_order(program):
            self._apply(statement, uid)
        self.order = defaultdict(set, {uid: earlier for uid, earlier in self.order.items() if earlier})
        self.awaited = defaultdict(set, {uid: awaited for uid, awaited in self.awaited.items() if awaited})

    def _apply(self, statement: Statement, uid: int) -> None:
        match statement:
            case Launch(stream=stream) | Copy(stream=stream) | Set(stream=stream):
                self.order[uid + 1] = set(self.reached[stream])
                self.reached[stream].add(uid + 1)
                if isinstance(statement, Copy) and statement.holds_the_caller:
                    self.awaited[uid] = set(self.reached[stream])
            case GraphLaunch(graph=graph, stream=stream):
                self._replay(graph, stream, uid + 1)
            case Record(event=event, stream=stream):
                self.recorded[event] = set(self.reached[stream])
            case Wait(stream=stream, event=event):
                self.reached[stream] |= self.recorded[event]
            case SyncStream(stream=stream):
                self.awaited[uid] = set(self.reached[stream])
            case SyncEvent(event=event):
                self.awaited[uid] = set(self.recorded[event])
            case SyncDevice(device=device):
                reached: Iterable[set[int]] = (done for stream, done in self.reached.items() if stream.device == device)
                self.awaited[uid] = set().union(*reached)

    def _replay(self, graph: int, stream: Stream, first: int) -> None:
        nodes = self.program.graphs[graph].nodes
        for index, node in enumerate(nodes):
            branch = [earlier for earlier in range(index) if nodes[earlier].branch == node.branch]
            self.order[first + index] = set(self.reached[stream])
            for earlier in {*node.after, *branch}:
                self.order[first + index] |= {first + earlier} | self.order[first + earlier]
        self.reached[stream].update(range(first, first + len(nodes)))
