"""Runtime calls: what each does to the GPU, to the driver's lock and to its caller."""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tests.simulator.program import (
    Call,
    Copy,
    CustomStatement,
    GraphLaunch,
    Latencies,
    Launch,
    Poll,
    Program,
    QueryEvent,
    Record,
    Set,
    Statement,
    Stream,
    SyncDevice,
    SyncEvent,
    SyncStream,
    Wait,
)
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import EdgeKind, SimEvent, SyncKind, SyncRow
from tests.simulator.streams import Gpu, Work
from tests.simulator.threads import HostThread

COPY_NAMES = {
    "HtoD": "Memcpy HtoD ({host} -> Device)",
    "DtoH": "Memcpy DtoH (Device -> {host})",
    "DtoD": "Memcpy DtoD (Device -> Device)",
    "PtoP": "Memcpy PtoP (Device -> Device)",
}


class Recorded(NamedTuple):
    """An event's latest record: the call, the stream, and the work captured."""

    call: SimEvent
    stream: Stream
    captured: tuple[SimEvent, ...]


class Driver:
    """Execute runtime calls, each at its start; work is submitted before the call waits for anything."""

    def __init__(self, program: Program, recording: Recording, pid: int) -> None:
        self.program = program
        self.latencies = program.latencies
        self.recording = recording
        self.pid = pid
        self.gpu = Gpu(
            recording,
            program.latencies,
            program.launch_queue_depth,
            has_legacy_default=program.has_legacy_default,
        )
        self.events: dict[int, Recorded] = {}
        self.lock_holder: SimEvent | None = None
        self.correlations = 0
        self.shadows: dict[tuple[int, Stream], list[SimEvent]] = defaultdict(list)
        self.execute: dict[type[Statement], Callable[[HostThread, Any], None]] = {
            Launch: self.launch,
            Copy: self.copy,
            Set: self.set,
            Record: self.record,
            Wait: self.wait,
            SyncStream: self.sync_stream,
            SyncDevice: self.sync_device,
            SyncEvent: self.sync_event,
            QueryEvent: self.query_event,
            Call: self.call,
            GraphLaunch: self.launch_graph,
            Poll: self.poll,
        }

    def use(self, latencies: Latencies) -> None:
        """Let the next statements' causes take effect after these times."""
        self.latencies = self.gpu.latencies = latencies

    def launch(self, thread: HostThread, statement: Launch) -> None:
        """Launch a kernel."""
        name = "cudaLaunchKernelExC" if statement.overlap_ns else "cudaLaunchKernel"
        work = Work("kernel", statement.name, statement.ns, statement.overlap_ns)
        self.submit(thread, name, statement.stream, work, statement.call_ns)

    def set(self, thread: HostThread, statement: Set) -> None:
        """Fill memory."""
        work = Work("memset", "Memset (Device)", statement.ns)
        self.submit(thread, "cudaMemsetAsync", statement.stream, work, statement.call_ns)

    def copy(self, thread: HostThread, statement: Copy) -> None:
        """Copy memory; a call that its copy holds back does not hold the lock meanwhile."""
        work = Work("memcpy", COPY_NAMES[statement.direction].format(host=statement.host.title()), statement.ns)
        name = "cudaMemcpy" if statement.blocking else "cudaMemcpyAsync"
        if not statement.holds_the_caller:
            self.submit(thread, name, statement.stream, work, statement.call_ns)
            return
        call = self._begin(thread, name)
        activity = self._enqueue(thread, call, statement.stream, work)
        self._end(thread, call, statement.call_ns, self._returns("blocking_copy", [activity]))

    def launch_graph(self, thread: HostThread, statement: GraphLaunch) -> None:
        """Launch a graph."""
        call = self._begin(thread, "cudaGraphLaunch")
        graph = self.program.graphs[statement.graph]
        rng, spread = random.Random(statement.seed), statement.spread
        lengths = [round(node.ns * (1 + spread * rng.uniform(-1, 1))) for node in graph.nodes]
        rows = self.gpu.enqueue_graph(call, statement.stream, statement.graph, graph, lengths)
        self._shadow(thread, rows)
        self._end_locked(thread, call, statement.call_ns)

    def call(self, thread: HostThread, statement: Call) -> None:
        """Make a call that gives the GPU no work."""
        call = self._begin(thread, statement.name)
        if statement.locked:
            self._end_locked(thread, call, statement.ns)
        else:
            self._end(thread, call, statement.ns)

    def custom(self, thread: HostThread, statement: CustomStatement) -> None:
        """Do what a statement says itself."""
        statement.execute(self, thread)

    def poll(self, thread: HostThread, statement: Poll) -> None:
        """Spin until the latest kernel lets the host go on; nothing is waited for where nothing runs."""
        kernel = self.gpu.last_on.get(statement.stream)
        if kernel is not None:
            length = kernel.end_ns - kernel.start_ns
            written = Cause("host_poll", kernel, "start", max(length - statement.before_end_ns, 0))
            thread.wait_for(written._replace(hidden=written.allows_ns <= thread.now()))

    def record(self, thread: HostThread, statement: Record) -> None:
        """Record an event: it captures the work enqueued so far."""
        call = self._begin(thread, "cudaEventRecord")
        captured = tuple(self.gpu.outstanding(statement.stream))
        self.events[statement.event] = Recorded(call, statement.stream, captured)
        self._end(thread, call, statement.call_ns)

    def wait(self, thread: HostThread, statement: Wait) -> None:
        """Let a stream wait; the profiler drops the row while the stream has seen no work (pytorch/kineto#904)."""
        call = self._begin(thread, "cudaStreamWaitEvent")
        recorded = self.events.get(statement.event)
        if recorded:
            self.gpu.hold(statement.stream, recorded.captured)
        if statement.stream in self.gpu.last_on or self.program.keeps_first_waits:
            self._note_event("Stream Wait Event", call, statement.event, statement.stream)
        self._end(thread, call, statement.call_ns)

    def sync_stream(self, thread: HostThread, statement: SyncStream) -> None:
        """Block until a stream is done."""
        call = self._begin(thread, "cudaStreamSynchronize")
        stream = statement.stream
        self.recording.run.sync_rows.append(SyncRow("Stream Sync", call.uid, stream.device, stream.number))
        self._end(thread, call, statement.call_ns, self._returns("stream_sync", self.gpu.outstanding(stream)))

    def sync_device(self, thread: HostThread, statement: SyncDevice) -> None:
        """Block until a device is done."""
        call = self._begin(thread, "cudaDeviceSynchronize")
        self.recording.run.sync_rows.append(SyncRow("Context Sync", call.uid, statement.device))
        awaited = self.gpu.outstanding_on(statement.device)
        self._end(thread, call, statement.call_ns, self._returns("device_sync", awaited))

    def sync_event(self, thread: HostThread, statement: SyncEvent) -> None:
        """Block until an event is reached."""
        call = self._begin(thread, "cudaEventSynchronize")
        recorded = self.events.get(statement.event)
        self._note_event("Event Sync", call, statement.event)
        awaited = recorded.captured if recorded else ()
        self._end(thread, call, statement.call_ns, self._returns("event_sync", awaited))

    def query_event(self, thread: HostThread, statement: QueryEvent) -> None:
        """Ask for an event; the profiler writes a row as if the call had waited."""
        call = self._begin(thread, "cudaEventQuery")
        self._note_event("Event Sync", call, statement.event)
        self._end(thread, call, statement.call_ns)

    def submit(self, thread: HostThread, name: str, stream: Stream, work: Work, call_ns: int) -> None:
        """Make a call that enqueues work and holds the lock meanwhile."""
        call = self._begin(thread, name)
        freeing = self.gpu.slot_freed_by(stream, call.start_ns)
        self._enqueue(thread, call, stream, work)
        others = [Cause("queue_full", freeing, "start", self.latencies.queue_return)] if freeing else []
        self._end_locked(thread, call, call_ns, others)

    def _enqueue(self, thread: HostThread, call: SimEvent, stream: Stream, work: Work) -> SimEvent:
        activity = self.gpu.enqueue(call, stream, work)
        self._shadow(thread, [activity])
        return activity

    def _begin(self, thread: HostThread, name: str) -> SimEvent:
        call = self.recording.event("runtime", name, self.pid, thread.tid)
        self.correlations += 1
        call.correlation = self.correlations
        op = thread.innermost("cpu_op")
        call.external_id = op.external_id if op else None
        thread.reach(self.recording, call, "start")
        return call

    def _end(self, thread: HostThread, call: SimEvent, call_ns: int, others: Iterable[Cause] = ()) -> None:
        thread.work(call_ns)
        thread.reach(self.recording, call, "end", others)

    def _end_locked(self, thread: HostThread, call: SimEvent, call_ns: int, others: Iterable[Cause] = ()) -> None:
        """Return from a call that holds the driver's lock from its start, or from its last holder's return."""
        holder, self.lock_holder = self.lock_holder, call
        waits = [Cause("runtime_lock", holder, "end", call_ns)] if holder and holder.end_ns > call.start_ns else []
        self._end(thread, call, call_ns, [*waits, *others])

    def _returns(self, kind: EdgeKind, awaited: Iterable[SimEvent]) -> list[Cause]:
        return [Cause(kind, activity, "end", self.latencies.sync_return) for activity in awaited]

    def _note_event(self, kind: SyncKind, call: SimEvent, event: int, waiting: Stream | None = None) -> None:
        recorded = self.events.get(event)
        device = waiting.device if waiting else recorded.stream.device if recorded else 0
        row = SyncRow(kind, call.uid, device, waiting.number if waiting else None, event)
        if recorded:
            row = row._replace(wait_on_stream=recorded.stream.number, record=recorded.call.uid)
        self.recording.run.sync_rows.append(row)

    def _shadow(self, thread: HostThread, rows: Iterable[SimEvent]) -> None:
        """Widen the GPU shadows of the open annotations over newly launched activities."""
        opened = [scope.event for scope in thread.scopes if scope.event and scope.event.kind == "annotation"]
        for annotation in opened:
            for row in rows:
                self.shadows[annotation.uid, Stream(row.tid, row.pid)].append(row)
