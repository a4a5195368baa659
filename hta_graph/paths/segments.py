"""A path as segments of time: who owns each, of which class it is, and long runs of them merged into one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hta_graph.base.arrays import Columns, first_of_runs, last_of_runs, pair_key, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import (
    EDGE_MEANING,
    RETURNS,
    ROLE,
    Bools,
    BoundBy,
    Codes,
    EdgeEnd,
    EdgeKind,
    EdgeRole,
    EventKind,
    Ids,
    Ints,
    Reason,
)
from hta_graph.paths.binding_edges import Chain, WalkSpans
from hta_graph.paths.time_accounting import ALWAYS_EXPLAINED_NS, AccountedTime, TimeAccounting, TimePart
from hta_graph.paths.unexplained_reasons import UnexplainedTimes, open_calls, unexplained_reasons
from hta_graph.paths.windows import Window


@dataclass(frozen=True, eq=False)
class SegmentTable(Columns):
    """Spans of time; ``edge_kind``, ``event`` and ``lane`` are -1 where there is none.

    ``part`` is the index of its rank in ``graph.rank_graphs``. ``reason`` says why an unexplained one is that (-1 for
    all others), ``open_call`` what the host stood in meanwhile.
    """

    start: Ints
    end: Ints
    edge_kind: Codes
    inferred: Bools
    bound: Codes
    event: Ids
    lane: Ids
    part: Ids
    reason: Codes
    open_call: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start

    def merged(self, path: Ints, count: int) -> list[SegmentTable]:
        """Sort the segments of each of ``count`` paths by time, and merge neighbors of equal event, edge and class."""
        order = np.argsort(self.start, kind="stable")
        order = order[np.argsort(path[order], kind="stable")] if count > 1 else order
        ordered, path = self.take(order), path[order]
        own = path, ordered.event, ordered.lane, ordered.part
        columns = ordered.edge_kind, ordered.inferred, ordered.bound, *own, ordered.reason
        first = first_of_runs(*columns)
        every = replace(ordered.take(first), end=ordered.end[last_of_runs(*columns)])
        bounds = np.searchsorted(path[first], np.arange(count + 1)).tolist()
        return [every.take(slice(*of)) for of in pairwise(bounds)]


def path_spans(graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window]) -> WalkSpans:
    """Return the spans that tile each window, from the walk back from its sink; ``walk`` is the window's place."""
    walked = _WalkedPoints(graph, chains, windows)
    return WalkSpans.join([walked.after_the_paths(), walked.between_points(), walked.before_the_paths()])


class _WalkedPoints:
    """The points of all walks end to end, each walk's latest first."""

    def __init__(self, graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window]) -> None:
        self._graph = graph
        self._points = np.concatenate([chain.points for chain in chains])
        self._times = np.concatenate([chain.times for chain in chains])
        self._edges = np.concatenate([chain.edges for chain in chains])
        self._lane = graph.event_table.lane[event_of(self._points)]
        self._walk = np.repeat(np.arange(len(chains)), [len(chain.points) for chain in chains])
        self._start: Ints = np.array([window.start_ns for window in windows], np.int64)
        self._end: Ints = np.array([window.end_ns for window in windows], np.int64)
        self._sink_lane: Ids = np.array([window.sink.lane for window in windows], np.int32)

    def after_the_paths(self) -> WalkSpans:
        """What lies between the last point of a path and the window's end: its thread's, where that is known."""
        last = np.flatnonzero(first_of_runs(self._walk))
        walk = self._walk[last]
        on_thread = self._sink_lane[walk] >= 0
        return WalkSpans.of(
            walk=walk, start=self._times[last], end=self._end[walk], source=np.where(on_thread, self._points[last], -1),
            target=-1, edge=-1, kind=np.where(on_thread, EdgeKind.THREAD_ORDER, -1), lane=self._sink_lane[walk],
            pending=False,
        )  # fmt: skip

    def between_points(self) -> WalkSpans:
        """The times between the points, latest first."""
        later = np.flatnonzero(~last_of_runs(self._walk))
        return WalkSpans.of(
            walk=self._walk[later], start=self._times[later + 1], end=self._times[later],
            source=self._points[later + 1], target=self._points[later], edge=self._edges,
            kind=self._graph.edge_table.kind[self._edges], lane=self._lane[later], pending=False,
        )  # fmt: skip

    def before_the_paths(self) -> WalkSpans:
        """What lies before the first recorded cause; of a walk without points the whole window."""
        first = np.flatnonzero(last_of_runs(self._walk))
        end, lane, target = self._end.copy(), self._sink_lane.copy(), np.full(len(self._end), -1, np.int32)
        walk = self._walk[first]
        end[walk], lane[walk], target[walk] = self._times[first], self._lane[first], self._points[first]
        return WalkSpans.of(
            walk=np.arange(len(end)), start=self._start, end=end, source=-1, target=target, edge=-1, kind=-1, lane=lane,
            pending=False,
        )  # fmt: skip


CLASS_OF_PART = {
    TimePart.WORK: BoundBy.CPU_BOUND,
    TimePart.IDLE: BoundBy.CPU_GAP,
    TimePart.CALL: BoundBy.CPU_BOUND,
    TimePart.EXCESS: BoundBy.UNEXPLAINED,
    TimePart.START: BoundBy.UNEXPLAINED,
}
"""The classes of parts that have one; that of an activity is its kind's, that of a lag its edge kind's."""

LAG_CLASS = np.array(
    [BoundBy.UNEXPLAINED if (bound := EDGE_MEANING[kind].lag) is None else bound for kind in EdgeKind], np.int8
)
OWNED_BY_SOURCE = np.array([EDGE_MEANING[kind].lag_owner == EdgeEnd.SOURCE for kind in EdgeKind])


def lag_classes(kinds: Codes) -> Codes:
    """Return the class of an explained lag on edges of some kinds."""
    found: Codes = LAG_CLASS[kinds]
    return found


def segments_of_paths(
    graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window], accounting: TimeAccounting
) -> list[SegmentTable]:
    """Return the segments that tile each window, from the walk back from its sink."""
    spans = path_spans(graph, chains, windows)
    bounds = ([window.start_ns for window in windows], [window.end_ns for window in windows])
    accounts = accounting.divide(spans, *(np.array(times, np.int64) for times in bounds))
    kind = spans.kind[accounts.span]
    owner, bound = owners_and_classes(graph, accounts, spans)
    # A lag is shown where its owner is; time before the first cause has a lane only where somebody owns it.
    lane = accounting.lanes(accounts, spans)
    lagging, begins = np.isin(accounts.part, (TimePart.LAG, TimePart.EXCESS)), accounts.part == TimePart.START
    lane[lagging] = graph.event_table.lane[owner[lagging]]
    lane[begins & (owner < 0)] = -1
    kind[begins & (owner >= 0)] = EdgeKind.THREAD_ORDER
    inferred = take_or(graph.edge_table.inferred, spans.edge[accounts.span], otherwise=False)
    unsent = (accounts.part == TimePart.CALL) & (ROLE[kind] == EdgeRole.STREAM)
    kind[unsent], inferred[unsent] = EdgeKind.LAUNCH, True
    reason, open_call = np.full(len(bound), -1, np.int8), np.full(len(bound), -1, np.int32)
    unknown = np.flatnonzero(bound == BoundBy.UNEXPLAINED)
    if len(unknown):
        holes = _unexplained_times(graph, accounts.take(unknown), spans)
        reason[unknown], open_call[unknown] = _reasons_by_rank(graph, holes)
    part = _rank_of_spans(graph, spans, windows)[accounts.span]
    every = SegmentTable(accounts.start, accounts.end, kind, inferred, bound, owner, lane, part, reason, open_call)
    return every.merged(spans.walk[accounts.span], len(windows))


def owners_and_classes(graph: DependencyGraph, accounts: AccountedTime, spans: WalkSpans) -> tuple[Ids, Codes]:
    """Return whose the time of each part is (canonical row; -1: no event's), and of what class."""
    kind = spans.kind[accounts.span]
    return _segment_owners(accounts, spans, kind), _segment_classes(graph, accounts, kind)


def _rank_of_spans(graph: DependencyGraph, spans: WalkSpans, windows: Sequence[Window]) -> Ids:
    """Return the place of the rank that each span is on: where it leads, else where it comes from, else the sink."""
    leads, comes = (
        graph.rank_index_of(np.where(points >= 0, event_of(points), -1)) for points in (spans.target, spans.source)
    )
    points = np.array([window.sink.point for window in windows])
    sink = np.where(points >= 0, graph.rank_index_of(event_of(points)), 0)[spans.walk]
    return np.where(leads >= 0, leads, np.where(comes >= 0, comes, sink)).astype(np.int32)


def _unexplained_times(graph: DependencyGraph, unknown: AccountedTime, spans: WalkSpans) -> UnexplainedTimes:
    """Describe unexplained parts in full: parts outside the window are evidence, too."""
    of = spans.take(unknown.span)
    inside = unknown.part == TimePart.WORK
    launched = ROLE[of.kind] == EdgeRole.LAUNCH
    returned = np.where(launched, take_or(graph.event_table.end, np.where(launched, event_of(of.source), -1)), of.start)
    return UnexplainedTimes(
        np.where(inside, unknown.start, np.minimum(returned, of.end)), np.where(inside, unknown.end, of.end), of.kind,
        of.source, of.target, np.where(inside, unknown.owner, -1).astype(np.int32), of.lane,
    )  # fmt: skip


def _reasons_by_rank(graph: DependencyGraph, holes: UnexplainedTimes) -> tuple[Codes, Ids]:
    """Ask each rank about its own holes: what was enqueued when, what it stood in, is known of one rank alone."""
    reason, open_call = np.full(len(holes), Reason.UNKNOWN, np.int8), np.full(len(holes), -1, np.int32)
    rank = graph.rank_index_of(np.where(holes.target >= 0, event_of(holes.target), event_of(holes.source)))
    for place, part in enumerate(graph.rank_graphs):
        here = np.flatnonzero(rank == place)
        if len(here):
            own = holes.take(here).of_rank(part)
            reason[here] = unexplained_reasons(part.graph, own)
            open_call[here] = part.of_job(open_calls(part.graph, own))
    return reason, open_call


def _segment_owners(accounts: AccountedTime, spans: WalkSpans, kind: Codes) -> Ids:
    """Return whose the time is: of a lag the waiting event's, of a launch the call's."""
    owner = accounts.owner.copy()
    lags = np.isin(accounts.part, (TimePart.LAG, TimePart.EXCESS))
    of = spans.take(accounts.span[lags])
    owner[lags] = event_of(np.where(OWNED_BY_SOURCE[kind[lags]], of.source, of.target))
    return owner


def _segment_classes(graph: DependencyGraph, accounts: AccountedTime, kind: Codes) -> Codes:
    part, owner = accounts.part, accounts.owner
    # By what the part is; lags, activities and work, which the part alone does not settle, follow.
    table = np.full(len(TimePart), -1, np.int8)
    table[list(CLASS_OF_PART)] = list(CLASS_OF_PART.values())
    bound = table[part]
    lags, active, works = part == TimePart.LAG, part == TimePart.ACTIVITY, part == TimePart.WORK
    bound[lags] = LAG_CLASS[kind[lags]]
    bound[active] = _activity_classes(graph)[owner[active]]
    bound[(part == TimePart.START) & (owner >= 0)] = BoundBy.CPU_GAP
    bound[works] = np.where(_blocks_without_source(graph)[owner[works]], BoundBy.UNEXPLAINED, BoundBy.CPU_BOUND)
    may_load = (bound == BoundBy.CPU_BOUND) | (bound == BoundBy.CPU_GAP)
    bound[may_load & accounts.is_loading] = BoundBy.DATA_LOADING
    return bound


@memoized
def _activity_classes(graph: DependencyGraph) -> Codes:
    """Return the class of each activity's own time, by event."""
    flags = graph.event_flags
    classes = np.full(len(graph.event_table), BoundBy.GPU_COMPUTE_BOUND, np.int8)
    classes[flags.moves_memory] = BoundBy.GPU_MEMORY_BOUND
    classes[flags.communicates | graph.lanes.is_communication[graph.event_table.lane]] = BoundBy.GPU_COMMUNICATION_BOUND
    classes[flags.waits_on_device] = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD
    kind = graph.event_table.kind
    classes[kind == EventKind.GRAPH_HOST_NODE] = BoundBy.CPU_BOUND
    classes[kind == EventKind.GRAPH_EVENT_NODE] = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD
    return classes


@memoized
def _blocks_without_source(graph: DependencyGraph) -> Bools:
    """Mark blocking calls of which the graph does not know what they waited for.

    A short one with all its work done before it began had nothing left to wait for.
    """
    events = graph.event_table
    blind = graph.event_flags.blocking_call.copy()
    returns = graph.edges_of(*RETURNS)
    ended_inside = returns.source_ns >= events.start[returns.target]
    short = events.end[returns.target] - events.start[returns.target] <= ALWAYS_EXPLAINED_NS
    blind[returns.target[ended_inside | short]] = False
    # A synchronous copy needs no edge of its own: its call is known to have waited for what it launched.
    calls = graph.edges_of(EdgeKind.LAUNCH).source
    blind[calls[graph.event_flags.synchronous_copy_call[calls]]] = False
    return blind


MERGE_RESOLUTION = 1000
"""Calls of at least the window's length divided by this are shown on their own: about a pixel of a wide screen."""

CALL_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)


@dataclass(frozen=True, eq=False)
class SegmentRuns(SegmentTable):
    """Runs of neighbors: each stands for ``segments`` of them, of which ``first`` is the place of the first.

    ``event`` owns most of a run's time; ``inside`` is the innermost long enough call around it (-1: none,
    or work of the GPU). ``edge_kind`` is that of the first segment where ``is_mixed`` says that they differ.
    """

    first: Ints
    segments: Ints
    inside: Ids
    is_mixed: Bools

    def holding(self, segments: Ints) -> Ints:
        """Return the run that each segment is part of."""
        return np.searchsorted(self.first, segments, side="right") - 1


def merge_runs(graph: DependencyGraph, segments: SegmentTable, window_ns: int) -> SegmentRuns:
    """Merge neighbors of equal class, lane, evidence, reason and stack, in a path of a window of some length (ns).

    Two segments have an equal stack if the same call is the innermost one around them, where calls (operators, runtime
    calls, Python frames, annotations) shorter than a thousandth of the window count as part of their callers.
    GPU activities have no stack: each stays apart, and so does what is unexplained.

        forward      |-----------------------------------|     long
        isinstance      |-|   |-|                              short
        aten::mm                      |--------|               long
        segments     |F |i| F |i| F   |   mm   |    F    |
        runs         |       F        |   mm   |    F    |     if all are of one class
    """
    inside = _distinct_calls(graph, segments, -(-window_ns // MERGE_RESOLUTION))
    stack = np.where(_is_never_merged(graph, segments), segments.event, inside)
    columns = segments.bound, segments.lane, segments.part, segments.inferred, segments.reason, stack
    is_first = first_of_runs(*columns)
    first, number = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    merged = segments.take(is_first)
    changes_edge = (first_of_runs(segments.edge_kind) & ~is_first).astype(np.int64)
    return SegmentRuns(
        start=merged.start,
        end=segments.end[last_of_runs(*columns)],
        edge_kind=merged.edge_kind,
        inferred=merged.inferred,
        bound=merged.bound,
        event=_largest_owners(number, segments),
        lane=merged.lane,
        part=merged.part,
        reason=merged.reason,
        open_call=merged.open_call,
        first=first,
        segments=np.diff(np.append(first, len(segments))),
        inside=inside[first],
        is_mixed=summed_by(number, changes_edge, len(first)) > 0,
    )


def _distinct_calls(graph: DependencyGraph, segments: SegmentTable, least_ns: int) -> Ids:
    """Return the innermost call around each segment that is long enough, the owner included; -1 where none is."""
    events, found = graph.event_table, np.full(len(segments), -1, np.int32)
    on_cpu = np.flatnonzero((segments.event >= 0) & ~take_or(graph.is_activity, segments.event, otherwise=False))
    is_long = events.end - events.start >= least_ns
    found[on_cpu] = nearest_around(graph.nesting(*CALL_KINDS).parent, segments.event[on_cpu], is_long)
    return found


def _is_never_merged(graph: DependencyGraph, segments: SegmentTable) -> Bools:
    apart: Bools = (segments.bound == BoundBy.UNEXPLAINED) | take_or(graph.is_activity, segments.event, otherwise=False)
    return apart


def _largest_owners(number: Ints, segments: SegmentTable) -> Ids:
    """Return for each run the event (-1: none) that owns most of its time, of equals the one that comes first."""
    key = pair_key(number, segments.event)
    pairs, place = np.unique(key, return_inverse=True)
    time = summed_by(place, segments.length, len(pairs))
    # A pair's upper half is the run also where the event is -1, which borrows from it.
    run = (pairs + 1) >> 32
    order = np.lexsort((-time, run))
    return (pairs[order] - (run[order] << 32))[first_of_runs(run[order])].astype(np.int32)
