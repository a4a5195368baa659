"""The vocabulary: kinds of events and edges and what each edge kind means, evidence, classes of time, array types.

Times are int64 nanoseconds, absolute. A *point* is the start (``2 * event``) or the end (``2 * event + 1``) of one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
"""int64 columns: times, correlation and external ids."""
Ids = NDArray[np.int32]
"""int32 columns: event and point numbers, name and lane codes; -1 is none."""
Codes = NDArray[np.int8]
"""int8 columns: enum members."""
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
"""float64 columns: rates; NaN where absent. Times are never floats."""

CLOCK_FAULT_LIMIT_NS = 1_000_000
"""How far GPU and CPU clocks may disagree before an edge is left out: 1 ms (real traces reach 0.1 ms)."""

LONGEST_NS = 366 * 24 * 3600 * 10**9
"""Times of one trace, and what is added to them, lie within a year: more is a mistake of units or clocks."""


class _Named(IntEnum):
    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


class EventKind(_Named):
    """What an event is; edges of a rank join the first five kinds and graph nodes, those of a job also rendezvous."""

    CPU_OP = 0
    RUNTIME = 1
    KERNEL = 2
    MEMCPY = 3
    MEMSET = 4
    ANNOTATION = 5
    PYTHON_FUNCTION = 6
    OVERHEAD = 7
    SYNC_RECORD = 8
    GPU_ANNOTATION = 9
    MEMORY = 10
    OTHER = 11
    OS_CALL = 12
    """A call of the operating system that may block, or a time in which a thread did not run."""
    RENDEZVOUS = 13
    """Where ranks meet in one collective: an instant of a job, no row of any trace."""
    GRAPH_HOST_NODE = 14
    """A callback of the host that is a node of a CUDA graph: the driver's thread works, the stream waits for it."""
    GRAPH_EVENT_NODE = 15
    """A node of a CUDA graph that records an event: other nodes wait for it, and it works on nothing."""


class EdgeKind(_Named):
    """Why the target point could not have happened before the source point."""

    THREAD_ORDER = 0
    EXECUTION = 1
    LAUNCH = 2
    STREAM_ORDER = 3
    GRAPH_ORDER = 4
    EVENT_WAIT = 5
    STREAM_SYNC = 6
    DEVICE_SYNC = 7
    EVENT_SYNC = 8
    BLOCKING_COPY = 9
    THREAD_HANDOFF = 10
    FORWARD_BACKWARD = 11
    RUNTIME_LOCK = 12
    QUEUE_FULL = 13
    HOST_POLL = 14
    COLLECTIVE = 15
    POINT_TO_POINT = 16
    COLLECTIVE_WAIT = 17
    CUSTOM_CPU_TO_CPU = 18
    """Of a rule of your own, between two threads; the last four kinds are such, and ``rule`` is the edge's label."""
    CUSTOM_CPU_TO_GPU = 19
    CUSTOM_GPU_TO_CPU = 20
    CUSTOM_GPU_TO_GPU = 21


class Evidence(_Named):
    """Whether the trace records it or a rule inferred it."""

    RECORDED = 0
    INFERRED = 1


class EdgeRule(_Named):
    """The named rule that produced an edge; ``RECORDED``: the trace records it."""

    RECORDED = 0
    COPY_DIRECTION_AND_TIMING = 1
    """A copy whose direction and host kind block, and whose call returned after it."""
    GRAPH_IN_LAUNCHING_STREAM = 2
    """A graph launch is one piece of work of the stream that its thread launches on."""
    STREAM_BY_TIMING = 3
    """Of the candidate streams the one whose work ended just before the waiting work continued."""
    ONLY_OTHER_STREAM = 4
    """The only stream that could be meant."""
    STREAM_OF_LAST_LAUNCH = 5
    """The stream that the thread launched on last."""
    EVERY_STREAM = 6
    """A device synchronization waits for every stream."""
    SILENCE_OF_LAUNCHING_THREAD = 7
    """The autograd thread works while the launching thread does nothing."""
    RETURNED_TOGETHER = 8
    """A call took far longer than usual and returned right after another one that holds the same lock."""
    SLOT_FREED = 9
    """A launch took far longer than usual with the queue full and returned when the stream continued."""
    SILENCE_UNTIL_KERNEL_END = 10
    """After nearly all launches of a kernel the thread stood still until shortly before that kernel's end."""
    END_OF_OTHER_STREAM = 11
    """Idle work continued so soon after another stream's work that chance is improbable."""
    SAME_EXTERNAL_ID = 12
    """A call and a kernel that alone have one External id, and the call names the kernel; no row has a correlation."""
    ALIGNED_SEQUENCES = 13
    """The ranks' communications aligned in their order; nothing numbers them."""
    CALL_OF_WORKER = 14
    """A group's calls and the rows of its workers in their order."""
    SILENCE_UNTIL_WORK_END = 15
    """The calling thread stood still, in no operator of its own, while its collective ended."""
    OF_PRODUCER = 16
    """The program that supplied the edges as a table inferred it."""
    STREAM_OF_COPY = 17
    """The stream of the copy whose call directly precedes the synchronization on its thread."""
    RETURNED_WITH_WORK = 18
    """Calls of a name that may wait, or that no vocabulary has, returned right after all earlier work had ended."""
    KERNEL_NAME_IN_ORDER = 19
    """Calls that name a kernel and the kernels of that name without a correlation, in their order on one stream."""
    POLLED_UNTIL_WORK_END = 20
    """The thread asked again and again, and continued with something else at the first query after the work's end."""
    SAME_IN_ALL_REPLAYS = 21
    """In every replay of a CUDA graph the node had ended before the other one started, and often right before it."""
    SAME_IN_OTHER_ROUNDS = 22
    """Where the same launches stand before and after such a wait, timing mostly shows this stream."""


class BoundBy(_Named):
    """The class of a part of the critical path."""

    CPU_BOUND = 0
    DATA_LOADING = 1
    GPU_COMPUTE_BOUND = 2
    GPU_COMMUNICATION_BOUND = 3
    GPU_MEMORY_BOUND = 4
    GPU_KERNEL_KERNEL_OVERHEAD = 5
    GPU_KERNEL_LAUNCH_OVERHEAD = 6
    CPU_GAP = 7
    SYNC_OVERHEAD = 8
    UNEXPLAINED = 9


CLASS_LABELS: Mapping[str, str] = {
    "cpu_bound": "CPU work",
    "data_loading": "data loading",
    "gpu_compute_bound": "GPU compute",
    "gpu_communication_bound": "GPU communication",
    "gpu_memory_bound": "GPU copies",
    "gpu_kernel_kernel_overhead": "kernel gaps",
    "gpu_kernel_launch_overhead": "launch latency",
    "cpu_gap": "CPU, no operator",
    "sync_overhead": "sync return",
    "unexplained": "unexplained",
}
"""What people read for the key of each class."""
CLASS_LABELS_IN_JOBS: Mapping[str, str] = {**CLASS_LABELS, "gpu_communication_bound": "communication"}
"""The same on the path of a job, where communication may run on the CPU."""


class Reason(_Named):
    """Why a part of a path is unexplained; anything but ``UNKNOWN`` has evidence in the trace."""

    BEFORE_RECORDING = 0
    """It waited for work that was enqueued before the recording began."""
    MISSING_GRAPH_NODE = 1
    """Replay after replay of one graph launch shows the same hole."""
    WAIT_WITHOUT_RECORD = 2
    """A blocking call, or work held back on its stream, waited for something of which the file has no record."""
    OTHER_RANK = 3
    """It waited for another rank; only the traces of all ranks can show this."""
    CLOCK_FAULT = 4
    """The times contradict each other."""
    UNKNOWN = 5
    """The trace gives no evidence."""
    NOT_RECORDED = 6
    """Launched work ran, or may have run, of which the file has no row."""
    STREAM_HELD = 7
    """A call before it enqueued what holds a stream and leaves no row: a host function, a wait on memory."""


class GapCause(_Named):
    """What kept the next GPU activity from starting."""

    HOST_OPERATOR = 0
    """The launching thread worked in an operator."""
    HOST_CALL = 1
    """The launching thread was in a runtime call: allocation, event, another launch."""
    HOST_BLOCKED = 2
    """The launching thread was in a synchronizing call, or in a copy that blocks."""
    HOST_NO_OPERATOR = 3
    """The launching thread had no operator open: Python, the framework."""
    DATA_LOADING = 4
    """The launching thread loaded data."""
    OTHER_THREAD = 5
    """Another thread handed the work over, or held the driver's lock."""
    QUEUE_FULL = 6
    """The launch waited for room in the stream's queue."""
    LAUNCH = 7
    """The launch was under way, from the call's start to the activity's."""
    STREAM_ORDER = 8
    """Launched in time; the stream went from one activity to the next."""
    GRAPH_ORDER = 9
    """The same between the nodes of a graph, or a graph and the work around it."""
    EVENT_WAIT = 10
    """The stream waited for an event of another stream."""
    LAUNCH_UNKNOWN = 11
    """The launching call is not in the file, so the host may have been late or not."""
    UNKNOWN = 12
    """Nothing recorded explains it."""
    NO_MORE_WORK = 13
    """No activity follows in the trace."""
    OTHER_RANK = 14
    """What had to end before waited for another rank; known where several ranks are compared."""
    NOT_RECORDED = 15
    """Launched work may have run of which the file has no row: the GPU is not known to be idle."""


class EdgeRole(_Named):
    """What an edge leads between, and so who owns the time on it."""

    THREAD = 0
    """Two points of one thread that follow each other: its innermost open event works, or none does."""
    ACTIVITY = 1
    """An activity's own start and end: it runs."""
    LAUNCH = 2
    """CPU → GPU: first the launching call's own time, then a lag."""
    STREAM = 3
    """GPU → GPU: a lag; from an activity's start, that activity still runs."""
    RETURN = 4
    """GPU → CPU: a call returns when GPU work has ended; the rest is a lag."""
    HOLD = 5
    """A call is held by another thread or by the GPU's queue; a lag until it returns."""
    RESUMPTION = 6
    """CPU → CPU: a thread continues where another one stopped; a lag."""
    RELEASE = 7
    """GPU → CPU: from an activity's start; it runs until it lets the thread go on, whatever came before on that."""
    TRANSFER = 8
    """Between ranks: from when all came that were needed, what takes part in a communication does its own work."""
    AWAKENING = 9
    """CPU → CPU: a thread that stood still is let go; from then on its time is its own, in its open row or in none."""


class EdgeEnd(_Named):
    """One side of an edge: what is waited for, or what waits."""

    SOURCE = 0
    TARGET = 1


@dataclass(frozen=True)
class EdgeMeaning:
    """What an edge kind means.

    Attributes:
        says: one sentence for people.
        role: what it leads between.
        lag: the class of the time between source and target; None where that time is an event's own work.
        lag_owner: whose that time is on a critical path.
        gap: the cause of an idle GPU's time on it; None where that time has an owner.
        gap_owner: after whom that cause is named.
        holds: whether a thread is blocked until the target: exports let its next work wait for the source.
        exported: of synchronization, what waits: ``"cpu"`` (a call) or ``"gpu"`` (a stream).
        of_job: whether it takes several ranks to find such an edge.
        colour: of its arrows in pictures.
    """

    says: str
    role: EdgeRole
    colour: str
    lag: BoundBy | None = None
    lag_owner: EdgeEnd = EdgeEnd.TARGET
    gap: GapCause | None = None
    gap_owner: EdgeEnd = EdgeEnd.TARGET
    holds: bool = False
    exported: str | None = None
    of_job: bool = False


SOURCE, TARGET = EdgeEnd
KERNEL_OVERHEAD, LAUNCH_OVERHEAD = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD

EDGE_MEANING: Mapping[EdgeKind, EdgeMeaning] = {
    EdgeKind.THREAD_ORDER: EdgeMeaning("a thread runs one call at a time", EdgeRole.THREAD, "#8a8a8a"),
    EdgeKind.EXECUTION: EdgeMeaning("an activity ends after it starts", EdgeRole.ACTIVITY, "#8a8a8a"),
    EdgeKind.LAUNCH: EdgeMeaning(
        "a launch call starts before the work it launches", EdgeRole.LAUNCH, "#1f6fb4",
        lag=LAUNCH_OVERHEAD, lag_owner=SOURCE, gap=GapCause.LAUNCH, gap_owner=SOURCE,
    ),
    EdgeKind.STREAM_ORDER: EdgeMeaning(
        "a stream runs its work in order", EdgeRole.STREAM, "#2e8b57",
        lag=KERNEL_OVERHEAD, gap=GapCause.STREAM_ORDER, gap_owner=SOURCE,
    ),
    EdgeKind.GRAPH_ORDER: EdgeMeaning(
        "nodes of a CUDA graph wait for each other, and its stream for all of them", EdgeRole.STREAM, "#0e9aa7",
        lag=KERNEL_OVERHEAD, gap=GapCause.GRAPH_ORDER, gap_owner=SOURCE,
    ),
    EdgeKind.EVENT_WAIT: EdgeMeaning(
        "a stream waits for the work captured by an event", EdgeRole.STREAM, "#e07b00",
        lag=KERNEL_OVERHEAD, gap=GapCause.EVENT_WAIT, gap_owner=SOURCE, exported="gpu",
    ),
    EdgeKind.STREAM_SYNC: EdgeMeaning(
        "a call returns when a stream is done", EdgeRole.RETURN, "#d62728",
        lag=BoundBy.SYNC_OVERHEAD, gap=GapCause.HOST_BLOCKED, holds=True, exported="cpu",
    ),
    EdgeKind.DEVICE_SYNC: EdgeMeaning(
        "a call returns when all streams of a device are done", EdgeRole.RETURN, "#b3473f",
        lag=BoundBy.SYNC_OVERHEAD, gap=GapCause.HOST_BLOCKED, holds=True, exported="cpu",
    ),
    EdgeKind.EVENT_SYNC: EdgeMeaning(
        "a call returns when an event has completed", EdgeRole.RETURN, "#e0529c",
        lag=BoundBy.SYNC_OVERHEAD, gap=GapCause.HOST_BLOCKED, holds=True, exported="cpu",
    ),
    EdgeKind.BLOCKING_COPY: EdgeMeaning(
        "a copy call returns when its data has arrived", EdgeRole.RETURN, "#7d4fb3",
        lag=BoundBy.SYNC_OVERHEAD, gap=GapCause.HOST_BLOCKED, holds=True, exported="cpu",
    ),
    EdgeKind.THREAD_HANDOFF: EdgeMeaning(
        "a thread hands work to the autograd thread and waits for it", EdgeRole.RESUMPTION, "#8c564b",
        lag=BoundBy.CPU_GAP, gap=GapCause.OTHER_THREAD, holds=True,
    ),
    EdgeKind.FORWARD_BACKWARD: EdgeMeaning(
        "a backward operator follows its forward operator", EdgeRole.RESUMPTION, "#9a9a1c",
        lag=BoundBy.CPU_GAP, gap=GapCause.OTHER_THREAD,
    ),
    EdgeKind.RUNTIME_LOCK: EdgeMeaning(
        "a call waits for another thread's call that holds the driver lock", EdgeRole.HOLD, "#5b6abf",
        lag=BoundBy.CPU_BOUND, gap=GapCause.OTHER_THREAD, holds=True,
    ),
    EdgeKind.QUEUE_FULL: EdgeMeaning(
        "a launch waits until the GPU has started enough of the earlier ones", EdgeRole.HOLD, "#b15928",
        lag=LAUNCH_OVERHEAD, gap=GapCause.QUEUE_FULL, gap_owner=SOURCE, holds=True,
    ),
    EdgeKind.HOST_POLL: EdgeMeaning(
        "the host spins until a running kernel releases it", EdgeRole.RELEASE, "#c49c00",
        gap=GapCause.HOST_BLOCKED, gap_owner=SOURCE, holds=True,
    ),
    EdgeKind.COLLECTIVE: EdgeMeaning(
        "a collective cannot end on any rank before every rank it needs has arrived", EdgeRole.TRANSFER, "#c2185b",
        of_job=True,
    ),
    EdgeKind.POINT_TO_POINT: EdgeMeaning(
        "a message arrives after it was sent; a large send waits for its receiver", EdgeRole.TRANSFER, "#a64fc4",
        of_job=True,
    ),
    EdgeKind.COLLECTIVE_WAIT: EdgeMeaning(
        "a thread continues when the communication it waits for has ended", EdgeRole.AWAKENING, "#00838f",
        gap=GapCause.OTHER_THREAD, holds=True, of_job=True,
    ),
    EdgeKind.CUSTOM_CPU_TO_CPU: EdgeMeaning(
        "a thread waits for another thread, by a custom rule", EdgeRole.RESUMPTION, "#6d4c41",
        lag=BoundBy.CPU_GAP, gap=GapCause.OTHER_THREAD, holds=True,
    ),
    EdgeKind.CUSTOM_CPU_TO_GPU: EdgeMeaning(
        "work on a GPU waits for a thread, by a custom rule", EdgeRole.LAUNCH, "#0277bd",
        lag=LAUNCH_OVERHEAD, lag_owner=SOURCE, gap=GapCause.LAUNCH, gap_owner=SOURCE,
    ),
    EdgeKind.CUSTOM_GPU_TO_CPU: EdgeMeaning(
        "a thread waits for GPU work, by a custom rule", EdgeRole.RETURN, "#ad1457",
        lag=BoundBy.SYNC_OVERHEAD, gap=GapCause.HOST_BLOCKED, holds=True, exported="cpu",
    ),
    EdgeKind.CUSTOM_GPU_TO_GPU: EdgeMeaning(
        "work on a GPU waits for other work, by a custom rule", EdgeRole.STREAM, "#ef6c00",
        lag=KERNEL_OVERHEAD, gap=GapCause.EVENT_WAIT, gap_owner=SOURCE, exported="gpu",
    ),
}  # fmt: skip
"""What each edge kind means; a kind without a row is an error when this module is imported."""


def edge_kinds(wanted: Callable[[EdgeMeaning], object]) -> tuple[EdgeKind, ...]:
    """Return the edge kinds whose meaning has a property.

    >>> [kind.label for kind in edge_kinds(lambda meaning: meaning.exported == "gpu")]
    ['event_wait', 'custom_gpu_to_gpu']
    """
    return tuple(kind for kind in EdgeKind if wanted(EDGE_MEANING[kind]))


WITHIN_A_LANE = edge_kinds(lambda meaning: meaning.role in (EdgeRole.THREAD, EdgeRole.ACTIVITY))
"""Edges that order one thread or activity, not waits for another one; they always hold."""

ROLE = np.array([*(EDGE_MEANING[kind].role for kind in EdgeKind), -1], np.int8)
"""The role of each edge kind; -1 for kind -1, where no edge is known."""

BETWEEN_ACTIVITIES = edge_kinds(lambda meaning: meaning.role == EdgeRole.STREAM)
"""Edges from work on a stream to work on that or another one."""

CUSTOM_KINDS: Mapping[tuple[bool, bool], EdgeKind] = {
    (False, False): EdgeKind.CUSTOM_CPU_TO_CPU,
    (False, True): EdgeKind.CUSTOM_CPU_TO_GPU,
    (True, False): EdgeKind.CUSTOM_GPU_TO_CPU,
    (True, True): EdgeKind.CUSTOM_GPU_TO_GPU,
}
"""The kinds of edges that custom rules give, by whether the source and the target are GPU work."""

RETURNS = edge_kinds(lambda meaning: meaning.role == EdgeRole.RETURN)
"""Edges to the return of a call that waited for GPU work."""

CPU_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME)
GPU_KINDS = (EventKind.KERNEL, EventKind.MEMCPY, EventKind.MEMSET)
GRAPH_NODE_KINDS = (EventKind.GRAPH_HOST_NODE, EventKind.GRAPH_EVENT_NODE)
"""What a graph launch runs on streams besides GPU work."""
ON_STREAMS = GPU_KINDS + GRAPH_NODE_KINDS
WALKABLE = CPU_KINDS + ON_STREAMS


def kind_mask(kind: Codes, members: tuple[EventKind, ...]) -> Bools:
    """Mark the rows whose kind is one of ``members``.

    >>> kind_mask(np.array([0, 2, 5], np.int8), GPU_KINDS)
    array([False,  True, False])
    """
    # Comparing bytes is many times faster than looking each one up.
    found = np.zeros(len(kind), np.bool_)
    for member in members:
        found |= kind == member
    return found


BUILD_DIAGNOSTICS: dict[str, str] = {
    "activities_without_launch": "GPU activities whose launch call is not in the file (orphans)",
    "overlaps_on_a_stream": "activities that start before their stream has finished its earlier work",
    "nesting_violations": "operators and calls that end after the event around them",
    "edges_clamped": "edges whose target is up to 1 ms before its source (clock fault); kept with lag 0",
    "graph_arrows_backward": "recorded arrows from a node that ended after the other one began (clock fault)",
    "gpu_clock_behind_ns": "how far the GPU clock is behind the host clock at most (ns), as estimated",
    "edges_dropped_back_in_time": "edges dropped because they go back in time by more than 1 ms",
    "edges_dropped_cycle": "edges dropped because they would close a cycle",
    "event_waits": "stream waits for events, with or without a profiler record",
    "event_waits_unresolved": "unresolved stream waits: the event record or its stream is unknown",
    "event_waits_for_nothing": "stream waits for a stream without recorded work",
    "stream_syncs_unresolved": "unresolved stream synchronizations: the stream is unknown",
    "waits_of_unknown_calls": "calls of unknown names taken as waits: they return when the GPU runs out of work",
    "implicit_waits": "calls such as cudaFree taken as waits: they return when the GPU runs out of work",
    "event_syncs_unresolved": "unresolved event synchronizations: the event record or its stream is unknown",
    "event_queries": "event queries, of which each returns at once",
    "polled_waits": "waits in which a thread queried again and again until the GPU was done",
    "sync_records": "the profiler's synchronization records",
    "sync_records_without_call": "synchronization records whose CPU call is not in the file",
    "sync_records_moved": "synchronization records moved to the device of their context, where their own has no work",
    "sync_records_without_work": "synchronization records of slow calls whose stream has no work; inferred instead",
    "sync_records_contradicted": "synchronization records set aside: most name work that ended after their call",
    "forward_backward_unresolved": "forward-backward pairs without two operators that follow each other",
    "collectives_group_unknown": "CPU collectives left out: neither the trace nor their timing shows the process group",
    "matches_withdrawn": "communications that match only if clocks of one host differ by more than they can; left out",
}
"""The counts of building a graph: key → meaning."""
