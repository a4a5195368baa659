"""The simulator's clock: threads act one at a time, the earliest first."""

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from typing import Any

from tests.simulator.calls import Driver
from tests.simulator.program import Annotation, Backward, Frame, Gap, Lagging, Op, Program, Scope, Statement
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import EventKind, Flow, Run, SimEvent
from tests.simulator.threads import HostThread, OpenScope

PID = 4_242
SCOPE_KINDS: dict[type[Statement], EventKind] = {
    Op: "cpu_op",
    Annotation: "annotation",
    Frame: "python_function",
}


def simulate(program: Program) -> Run:
    """Execute a program and return its events with every true constraint.

    Kinds and granularity are those of the design's edge table. Where it leaves room:

    - a stream sync awaits the stream's latest work and what its pending waits captured, an event wait and an
      event sync what the record captured in the same sense; a device sync awaits the last work of each stream
      of the device (those of graphs too) and what pending waits captured on other devices;
    - of a graph, the last row on each of its streams counts as latest work. `graph_order` leads from such rows, or
      from the plain work before, to the roots or the plain work after, where the two share no stream (there it is
      `stream_order`). Joins between branches are `graph_order` marked `hidden`;
    - `queue_full` and `runtime_lock` exist only where the call really found the queue full or the lock taken.
    """
    simulator = Simulator(program)
    simulator.execute()
    return simulator.finish()


class Simulator:
    """Advance the threads in the order of their next actions."""

    def __init__(self, program: Program) -> None:
        self.recording = Recording()
        self.scope_ns = program.latencies.scope
        self.handoff_ns = program.latencies.handoff
        self.driver = Driver(program, self.recording, PID)
        self.threads = [
            HostThread(PID + index, thread.name, thread.start_ns, [OpenScope(iter(thread.body))])
            for index, thread in enumerate(program.threads)
        ]
        self.ready = [(thread.now(), thread.tid) for thread in self.threads]
        heapify(self.ready)
        self.last = -1, -1
        self.autograd = HostThread(PID + len(self.threads), "autograd", is_autograd=True)
        self.jobs: list[tuple[HostThread, Backward]] = []
        self.forward: dict[int, SimEvent] = {}
        self.external_ids = 0
        self.handlers: dict[type[Statement], Callable[[HostThread, Any], None]] = {
            **self.driver.execute,
            **dict.fromkeys(SCOPE_KINDS, self._open),
            Gap: self._idle,
            Backward: self._hand_off,
            Lagging: self._lag,
        }

    def execute(self) -> None:
        """Run every thread to its end."""
        while self.ready:
            self.act()

    def act(self) -> None:
        """Let the earliest thread act; no two do at one time, since a trace could not tell who was first."""
        now, tid = heappop(self.ready)
        thread = self._thread(tid)
        if now == self.last[0] and tid != self.last[1]:
            thread.work(1)
            self._schedule(thread)
            return
        self.last = now, tid
        self._step(thread)

    def finish(self) -> Run:
        """Return the run, with the GPU shadows of annotations."""
        run = self.recording.run
        for (uid, lane), rows in self.driver.shadows.items():
            annotation = run.events[uid]
            shadow = self.recording.event("gpu_annotation", annotation.name, lane.device, lane.number, lane.context)
            shadow.start_ns, shadow.end_ns = min(row.start_ns for row in rows), max(row.end_ns for row in rows)
            shadow.external_id = annotation.external_id
        run.thread_names = {thread.tid: thread.name for thread in [*self.threads, self.autograd]}
        return run

    def _thread(self, tid: int) -> HostThread:
        index = tid - PID
        return self.threads[index] if index < len(self.threads) else self.autograd

    def _schedule(self, thread: HostThread) -> None:
        heappush(self.ready, (thread.now(), thread.tid))

    def _step(self, thread: HostThread) -> None:
        statement = next(thread.scopes[-1].body, None)
        if statement is None:
            self._close(thread)
            return
        self._do(thread, statement)
        if not isinstance(statement, Backward):
            self._schedule(thread)

    def _do(self, thread: HostThread, statement: Statement) -> None:
        self.handlers.get(type(statement), self.driver.custom)(thread, statement)

    def _idle(self, thread: HostThread, gap: Gap) -> None:
        thread.work(gap.ns)

    def _lag(self, thread: HostThread, lagging: Lagging) -> None:
        self.driver.use(lagging.latencies)
        self._do(thread, lagging.statement)
        self.driver.use(self.driver.program.latencies)

    def _open(self, thread: HostThread, scope: Scope) -> None:
        row = self.recording.event(SCOPE_KINDS[type(scope)], scope.name, PID, thread.tid)
        if not isinstance(scope, Frame):
            self.external_ids += 1
            row.external_id = self.external_ids
        if isinstance(scope, Op):
            thread.reach(self.recording, row, "start", self._after_forward(thread, row, scope))
        else:
            row.start_ns = thread.now()
        scope_ns = self.scope_ns if scope.scope_ns is None else scope.scope_ns
        thread.scopes.append(OpenScope(iter(scope.body), row, None, thread.scopes[-1].flows, scope_ns))
        thread.work(scope_ns)

    def _close(self, thread: HostThread) -> None:
        closed = thread.scopes.pop()
        if closed.caller is not None:
            self._resume(closed.caller)
        if closed.event is None:
            return
        thread.work(closed.closing_ns)
        if closed.event.kind == "cpu_op":
            thread.reach(self.recording, closed.event, "end")
        else:
            closed.event.end_ns = thread.now()
        self._schedule(thread)

    def _after_forward(self, thread: HostThread, row: SimEvent, op: Op) -> list[Cause]:
        """Join operators that share a number: the last to start forward, the inner one backward, as arrows do."""
        if op.sequence is None:
            return []
        row.sequence, row.forward_thread = op.sequence, int(thread.is_autograd)
        if not thread.is_autograd:
            self.forward[op.sequence] = row
            return []
        forward = self.forward.get(op.sequence)
        outer = any(isinstance(inner, Op) and inner.sequence == op.sequence for inner in op.body)
        if outer or forward is None or forward.end_ns < 0:
            return []
        if thread.scopes[-1].flows:
            self.recording.run.flows.append(Flow(forward.uid, row.uid))
        return [Cause("forward_backward", forward, "end", 0)]

    def _hand_off(self, thread: HostThread, backward: Backward) -> None:
        if thread.is_autograd:
            raise ValueError("a backward pass within a backward pass would wait for itself")
        self.jobs.append((thread, backward))
        if not self.autograd.scopes:
            self._start_job()

    def _start_job(self) -> None:
        caller, backward = self.jobs.pop(0)
        self.autograd.follow(caller, self.handoff_ns)
        self.autograd.scopes.append(OpenScope(iter(backward.body), caller=caller, flows=backward.flows))
        self._schedule(self.autograd)

    def _resume(self, caller: HostThread) -> None:
        caller.follow(self.autograd, self.handoff_ns)
        self._schedule(caller)
        if self.jobs:
            self._start_job()
