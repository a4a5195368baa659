"""A role's ranks at once: the simulator's rules for one thread and its streams, a time per rank at every point.

The order of what happens does not depend on times where one thread at a time acts, so every point is the same maximum
on every rank. Tests compare each row's times with those of the simulator of events.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import numpy as np

from tests.simulator.large.random_lengths import Ints, drawn
from tests.simulator.program import (
    Annotation,
    Backward,
    Body,
    Copy,
    Gap,
    Latencies,
    Launch,
    Op,
    Record,
    Statement,
    Stream,
    SyncStream,
    Wait,
)
from tests.simulator.ranks.communication_statements import Meet

Running = Generator["Arrival", Ints, None]


class Arrival(NamedTuple):
    """Ranks that have come to a communication, and when; they are told when their part of it ends."""

    meet: Meet
    start: Ints


class VectorRanks:
    """The rows of some ranks that run one program; `start` and `end` are lists by row, in the order of uids."""

    def __init__(self, ranks: Ints, latencies: Latencies | None = None) -> None:
        self.ranks = ranks
        self.lag = latencies or Latencies()
        self.now: Ints = np.zeros(len(ranks), np.int64)
        self.start: list[Ints] = []
        self.end: list[Ints] = []
        self.last_on: dict[int, int] = {}
        self.pending: dict[int, dict[int, None]] = {}
        self.owner: dict[int, int] = {}
        self.recorded: dict[int, list[int]] = {}
        self.opened: list[int] = []
        self.shadows: dict[tuple[int, int], list[int]] = {}
        self.handlers: dict[type[Statement], Callable[[Any], Running]] = {
            Op: self._scope,
            Annotation: self._annotation,
            Gap: self._idle,
            Launch: self._launch,
            Copy: self._copy,
            Record: self._record,
            Wait: self._wait,
            SyncStream: self._sync,
            Backward: self._backward,
            Meet: self._meet,
        }

    def run(self, program: Body) -> Running:
        """Run a program; yield at every communication."""
        yield from self._all(program)
        for rows in self.shadows.values():
            self._open(np.minimum.reduce([self.start[row] for row in rows]))
            self.end[-1] = np.maximum.reduce([self.end[row] for row in rows])

    def _all(self, body: Body) -> Running:
        for statement in body:
            yield from self.handlers[type(statement)](statement)

    def _open(self, start: Ints) -> int:
        self.start.append(start)
        self.end.append(start)
        return len(self.start) - 1

    # -- the host -----------------------------------------------------------------------------------------------------

    def _scope(self, scope: Op | Annotation) -> Running:
        row = self._open(self.now)
        yield from self._inside(row, scope)

    def _annotation(self, scope: Annotation) -> Running:
        row = self._open(self.now)
        self.opened.append(row)
        yield from self._inside(row, scope)
        self.opened.pop()

    def _inside(self, row: int, scope: Op | Annotation) -> Running:
        self.now = self.now + self.lag.scope
        yield from self._all(scope.body)
        self.now = self.end[row] = self.now + self.lag.scope

    def _idle(self, gap: Gap) -> Running:
        self.now = self.now + drawn(gap.ns, self.ranks)
        yield from ()

    def _backward(self, backward: Backward) -> Running:
        # Annotations of the calling thread cover nothing that another one launches.
        around, self.opened = self.opened, []
        self.now = self.now + self.lag.handoff
        yield from self._all(backward.body)
        self.now = self.now + self.lag.handoff
        self.opened = around

    # -- calls --------------------------------------------------------------------------------------------------------

    def _launch(self, launch: Launch) -> Running:
        self._call_with_work(launch.stream, launch.call_ns, drawn(launch.ns, self.ranks))
        yield from ()

    def _copy(self, copy: Copy) -> Running:
        call, activity = self._call_with_work(copy.stream, copy.call_ns, drawn(copy.ns, self.ranks))
        if copy.holds_the_caller:
            self._return_after(call, [activity])
        yield from ()

    def _meet(self, meet: Meet) -> Running:
        _, kernel = self._call_with_work(meet.stream, meet.call_ns, 0)
        self.end[kernel] = yield Arrival(meet, self.start[kernel])

    def _record(self, record: Record) -> Running:
        self._call(record.call_ns)
        self.recorded[record.event] = self._outstanding(record.stream)
        yield from ()

    def _wait(self, wait: Wait) -> Running:
        self._call(wait.call_ns)
        foreign = [row for row in self.recorded.get(wait.event, ()) if self.owner[row] != wait.stream.number]
        self.pending.setdefault(wait.stream.number, {}).update(dict.fromkeys(foreign))
        yield from ()

    def _sync(self, sync: SyncStream) -> Running:
        call = self._call(sync.call_ns)
        self._return_after(call, self._outstanding(sync.stream))
        yield from ()

    def _call(self, call_ns: int) -> int:
        row = self._open(self.now)
        self.now = self.end[row] = self.now + call_ns
        return row

    def _return_after(self, call: int, awaited: list[int]) -> None:
        for row in awaited:
            self.now = np.maximum(self.now, self.end[row] + self.lag.sync_return)
        self.end[call] = self.now

    # -- the GPU ------------------------------------------------------------------------------------------------------

    def _call_with_work(self, stream: Stream, call_ns: int, ns: Ints | int) -> tuple[int, int]:
        """Enqueue work: it follows its call, the work before it on the stream, and what the stream waits for."""
        call = self._call(call_ns)
        begin = self.start[call] + self.lag.launch
        if (last := self.last_on.get(stream.number)) is not None:
            begin = np.maximum(begin, self.end[last] + self.lag.stream)
        for row in self.pending.pop(stream.number, ()):
            begin = np.maximum(begin, self.end[row] + self.lag.wait)
        activity = self._open(begin)
        self.end[activity] = begin + ns
        self.last_on[stream.number] = activity
        self.owner[activity] = stream.number
        for annotation in self.opened:
            self.shadows.setdefault((annotation, stream.number), []).append(activity)
        return call, activity

    def _outstanding(self, stream: Stream) -> list[int]:
        last = self.last_on.get(stream.number)
        return [*([] if last is None else [last]), *self.pending.get(stream.number, ())]
