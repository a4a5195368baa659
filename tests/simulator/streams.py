"""The GPU: in-order streams, event waits, graphs.

Work waits only for work enqueued before it, so its times are known as soon as it is enqueued.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.simulator.program import Graph, GraphNode, Latencies, Stream
from tests.simulator.recording import Cause, Recording
from tests.simulator.run import EventKind, SimEvent

DEFAULT = 7
FIRST_GRAPH_STREAM = 1_001


class Work(NamedTuple):
    """What a call asks of the GPU."""

    kind: EventKind
    name: str
    ns: int | None
    overlap_ns: int = 0
    after: tuple[Cause, ...] = ()
    """What it waits for besides its launch, its stream and events."""


@dataclass
class Queue:
    """What was enqueued on one stream."""

    launches: deque[SimEvent]
    tail: list[SimEvent] = field(default_factory=list)
    """The latest work: one activity, or the last one on each lane of a graph."""
    pending: dict[int, SimEvent] = field(default_factory=dict)
    """What waits captured that no work has followed yet."""


class Gpu:
    """All devices: place activities in time and know what a record captures."""

    def __init__(
        self, recording: Recording, latencies: Latencies, queue_depth: int, *, has_legacy_default: bool = False
    ) -> None:
        self.recording = recording
        self.latencies = latencies
        self.queue_depth = queue_depth
        self.has_legacy_default = has_legacy_default
        self.queues: dict[Stream, Queue] = {}
        self.last_on: dict[Stream, SimEvent] = {}
        self.owner: dict[int, Stream] = {}
        self.graph_streams: dict[tuple[int, Stream, int], Stream] = {}

    def queue(self, stream: Stream) -> Queue:
        """Return a stream's queue, new if need be."""
        if stream not in self.queues:
            self.queues[stream] = Queue(deque(maxlen=self.queue_depth))
        return self.queues[stream]

    def outstanding(self, stream: Stream) -> list[SimEvent]:
        """Return what a record or sync of the stream waits for: its latest work and its pending waits."""
        queue = self.queue(stream)
        return [*queue.tail, *queue.pending.values()]

    def outstanding_on(self, device: int) -> list[SimEvent]:
        """Return the last work of each stream of a device, and pending waits for other devices."""
        last = [event for lane, event in self.last_on.items() if lane.device == device]
        queues = [queue for stream, queue in self.queues.items() if stream.device == device]
        foreign = {uid: event for queue in queues for uid, event in queue.pending.items() if event.pid != device}
        return last + list(foreign.values())

    def hold(self, stream: Stream, captured: tuple[SimEvent, ...]) -> None:
        """Let the stream's next work wait for captured work, save what stream order gives anyway."""
        pending = self.queue(stream).pending
        pending.update({event.uid: event for event in captured if self.owner[event.uid] != stream})

    def slot_freed_by(self, stream: Stream, now: int) -> SimEvent | None:
        """Return the activity whose start frees a slot, if the launch queue is full."""
        launches = self.queue(stream).launches
        if len(launches) == self.queue_depth and launches[0].start_ns > now:
            return launches[0]
        return None

    def enqueue(self, call: SimEvent, stream: Stream, work: Work) -> SimEvent:
        """Enqueue one activity."""
        queue = self.queue(stream)
        causes = [self._launch(call), *self._after_queue(queue, stream), *work.after]
        causes += self._after_lane(stream, work, max(cause.allows_ns for cause in causes))
        event = self._place(call, stream, stream, work, causes)
        queue.tail, queue.pending = [event], {}
        queue.launches.append(event)
        return event

    def enqueue_graph(
        self, call: SimEvent, stream: Stream, number: int, graph: Graph, lengths: Sequence[int]
    ) -> list[SimEvent]:
        """Enqueue a graph: its roots follow the stream's earlier work, its last rows precede the later."""
        queue = self.queue(stream)
        rows: list[SimEvent] = []
        last_in_branch: dict[int, SimEvent] = {}
        for node, ns in zip(graph.nodes, lengths, strict=True):
            lane = stream if node.branch == 0 and not graph.captured else self._graph_lane(number, stream, node.branch)
            causes = [self._launch(call, node.sent_ns), *self._after_nodes(node, graph, rows)]
            if not node.after and node.branch not in last_in_branch:
                causes += self._after_queue(queue, lane)
            work = Work(node.kind, node.name, ns)
            causes += self._after_lane(lane, work, 0)
            rows.append(self._place(call, lane, stream, work, causes))
            last_in_branch[node.branch] = rows[-1]
        queue.tail, queue.pending = list(last_in_branch.values()), {}
        return rows

    def _graph_lane(self, graph: int, stream: Stream, branch: int) -> Stream:
        number = FIRST_GRAPH_STREAM + len(self.graph_streams)
        return self.graph_streams.setdefault((graph, stream, branch), Stream(number, stream.device))

    def _launch(self, call: SimEvent, sent_ns: int = 0) -> Cause:
        return Cause("launch", call, "start", self.latencies.launch + sent_ns)

    def _after_queue(self, queue: Queue, lane: Stream) -> list[Cause]:
        """Return what stream order on the lane does not give: rows of a graph elsewhere, pending waits."""
        elsewhere = [event for event in queue.tail if event is not self.last_on.get(lane)]
        causes = [Cause("graph_order", event, "end", self.latencies.graph) for event in elsewhere]
        waits = queue.pending.values()
        causes += [Cause("event_wait", event, "end", self.latencies.wait) for event in waits]
        return causes + self._at_barriers(lane, {cause.source.uid for cause in causes})

    def _at_barriers(self, lane: Stream, awaited: set[int]) -> list[Cause]:
        """Return what the legacy default stream waits for, or what waits for it, besides what is awaited anyway."""
        others = (
            event
            for other, event in self.last_on.items()
            if self.has_legacy_default and other.device == lane.device and DEFAULT in {lane.number, other.number}
            if other != lane and event.uid not in awaited
        )
        return [Cause("event_wait", event, "end", self.latencies.wait, hidden=True) for event in others]

    def _after_nodes(self, node: GraphNode, graph: Graph, rows: list[SimEvent]) -> list[Cause]:
        joins = [rows[index] for index in node.after if graph.nodes[index].branch != node.branch]
        return [Cause("graph_order", row, "end", self.latencies.graph, hidden=True) for row in joins]

    def _after_lane(self, lane: Stream, work: Work, ready_ns: int) -> list[Cause]:
        """Return the stream order; one that overlaps stays shorter than its work and so ends after its predecessor.

        In the real traces looked at (H100, A100, B200) the second of an overlapping pair never ended first.
        """
        previous = self.last_on.get(lane)
        if previous is None:
            return []
        overlap_ns = min(work.overlap_ns, work.ns - 1) if work.ns is not None else 0
        if overlap_ns <= 0 or previous.kind != "kernel":
            return [Cause("stream_order", previous, "end", self.latencies.stream)]
        earliest = max(previous.start_ns + 1, previous.end_ns - overlap_ns)
        if max(earliest, ready_ns) >= previous.end_ns:
            return [Cause("stream_order", previous, "end", 0)]
        return [Cause("stream_order", previous, "start", earliest - previous.start_ns)]

    def _place(self, call: SimEvent, lane: Stream, owner: Stream, work: Work, causes: list[Cause]) -> SimEvent:
        event = self.recording.event(work.kind, work.name, lane.device, lane.number, lane.context)
        event.correlation, event.external_id = call.correlation, call.external_id
        self.recording.settle(event, "start", causes)
        if work.ns is not None:
            self.recording.settle(event, "end", [Cause("execution", event, "start", work.ns)])
        self.last_on[lane] = event
        self.owner[event.uid] = owner
        return event
