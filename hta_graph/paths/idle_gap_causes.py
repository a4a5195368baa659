"""Why nothing ran: walks back through gaps between GPU activities, and the accounting of gaps by their causes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, last_at_most, split_intervals, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of, start_point
from hta_graph.model import EDGE_MEANING, ROLE, Codes, EdgeEnd, EdgeKind, EdgeRole, EventKind, GapCause, Ids, Ints
from hta_graph.paths.binding_edges import WalkSpans, binding_edges, run_starts
from hta_graph.paths.intervals import Intervals
from hta_graph.paths.time_accounting import AccountedTime, TimeAccounting, TimePart
from hta_graph.paths.unrecorded_work import unrecorded_times


@dataclass(frozen=True, eq=False)
class Gaps(Columns):
    """Times [start, end) without work, each with the activity that starts next (canonical row; -1: none does)."""

    start: Ints
    end: Ints
    after: Ids


@dataclass(frozen=True, eq=False)
class _WalkHeads(Columns):
    """Where the walks through some gaps have got to: the gap, the point, and the time, which never increases."""

    gap: Ints
    point: Ids
    time: Ints


def walk_gaps(graph: DependencyGraph, gaps: Gaps) -> WalkSpans:
    r"""Follow binding edges back from the start of what ends each gap, as far as the gap's start.

    A walk also ends where it meets GPU work (an activity of another stream), or a point without a known predecessor.
    The spans of one gap (``walk``) tile it, and may reach beyond its end.

        gap            |=======================|
        thread      ...──a──────b───────────c          c launched the activity
        stream                               \_[kernel  after
        spans          |--------|-----------|--|

    Spans on one thread are taken in one go, so that the cost grows with what happens in the gaps.
    """
    walk = _GapWalk(graph, gaps)
    known = np.flatnonzero(gaps.after >= 0)
    point = start_point(gaps.after[known])
    heads = _WalkHeads(known, point, graph.timeline.times[point])
    parts: list[WalkSpans] = []
    # A round takes every walk along its thread and over one edge: as many rounds as the longest walk has hand-overs.
    while len(heads):
        heads, along = walk.along_threads(heads)
        heads, across = walk.across_edges(heads)
        parts += [along, *across]
    found = WalkSpans.join(parts)
    return found.take(found.end > found.start)


class _GapWalk:
    def __init__(self, graph: DependencyGraph, gaps: Gaps) -> None:
        # One row behind the last, so that edge -1 has source -1 and kind -1.
        self._source = np.append(graph.edge_table.source, np.int32(-1))
        self._kind = np.append(graph.edge_table.kind, np.int8(-1))
        self._times = graph.timeline.times
        self._calls = graph.calls
        self._lane = graph.event_table.lane
        self._on_gpu = graph.is_gpu
        self._binding = binding_edges(graph)
        self._gap_start = gaps.start
        self._place = graph.timeline.position_on_thread
        # Runs of threads only: a point of a stream is GPU work, where a walk ends.
        follows = ROLE[self._kind[self._binding[self._calls.points]]] == EdgeRole.THREAD
        self._first = run_starts(follows)

    def along_threads(self, heads: _WalkHeads) -> tuple[_WalkHeads, WalkSpans]:
        """Follow each walk's thread to the gap's start, or to a point that something else binds."""
        place = self._place(heads.point)
        if (place < 0).all():
            return heads, WalkSpans.empty()
        until, lane, on_thread = place.copy(), self._lane[event_of(heads.point)], place >= 0
        first, past = (self._calls.first[lane[on_thread] + further] for further in (0, 1))
        until[on_thread] = last_at_most(self._calls.time, first, past, self._gap_start[heads.gap[on_thread]])
        # No further than the gap's start, nor than the oldest point that this thread alone explains.
        until = np.where(place >= 0, np.clip(until, self._first[place], place), place)
        found = self._between_neighbours(heads, until, place)
        point = np.where(place >= 0, self._calls.points[until], heads.point)
        moved = _WalkHeads(heads.gap, point, np.minimum(heads.time, self._times[point]))
        return moved.take(moved.time > self._gap_start[heads.gap]), found

    def _between_neighbours(self, heads: _WalkHeads, first: Ids, last: Ids) -> WalkSpans:
        """Return the spans between neighboring points from place ``first`` to place ``last`` of each walk."""
        walk, place = expand_ranges(first + 1, np.maximum(last - first, 0))
        source, target = self._calls.points[place - 1], self._calls.points[place]
        gap = heads.gap[walk]
        # A head may be earlier than its own point: time had been pulled back by a clock fault.
        latest = np.minimum(heads.time[walk], self._times[target])
        start = np.maximum(np.minimum(self._times[source], latest), self._gap_start[gap])
        return self._spans_on_edges(gap, start, latest, source, target, self._binding[target])

    def across_edges(self, heads: _WalkHeads) -> tuple[_WalkHeads, list[WalkSpans]]:
        """Follow each walk over one edge from elsewhere."""
        edge = self._binding[heads.point]
        lost = heads.take(edge < 0)
        parts = [self._rest_of_gaps(lost, edge[edge < 0])]
        heads, edge = heads.take(edge >= 0), edge[edge >= 0]
        source = self._source[edge]
        time = np.minimum(heads.time, self._times[source])
        since = np.maximum(time, self._gap_start[heads.gap])
        parts.append(self._spans_on_edges(heads.gap, since, heads.time, source, heads.point, edge))
        inside = time > self._gap_start[heads.gap]
        # On GPU work a walk ends: why that was late is the question of another gap, of its own stream.
        meets_work = inside & self._on_gpu[event_of(source)]
        waiting = _WalkHeads(heads.gap, heads.point, time).take(meets_work)
        parts.append(self._rest_of_gaps(waiting, edge[meets_work], pending=True))
        return _WalkHeads(heads.gap, source, time).take(inside & ~meets_work), parts

    def _rest_of_gaps(self, heads: _WalkHeads, edge: Ids, *, pending: bool = False) -> WalkSpans:
        """Return what is left of gaps in which a walk ends."""
        start = np.minimum(self._gap_start[heads.gap], heads.time)
        return self._spans_on_edges(
            heads.gap, start, heads.time, self._source[edge], heads.point, edge, pending=pending
        )

    def _spans_on_edges(
        self, gap: Ints, start: Ints, end: Ints, source: Ids, target: Ids, edge: Ids, *, pending: bool = False
    ) -> WalkSpans:
        return WalkSpans.of(
            walk=gap, start=start, end=end, source=source, target=target, edge=edge, kind=self._kind[edge],
            lane=self._lane[event_of(target)], pending=pending,
        )  # fmt: skip


CAUSE_OF_EDGE = np.array(
    [GapCause.UNKNOWN if (cause := EDGE_MEANING[kind].gap) is None else cause for kind in EdgeKind], np.int8
)
NAMED_BY_SOURCE = np.array([EDGE_MEANING[kind].gap_owner == EdgeEnd.SOURCE for kind in EdgeKind])

SILENT = (GapCause.STREAM_ORDER, GapCause.GRAPH_ORDER, GapCause.UNKNOWN)
"""Causes that would hide a late host, where the next activity's launch is not in the file."""


@dataclass(frozen=True, eq=False)
class GapSegments(Columns):
    """Parts of gaps, each with one cause; those of a gap tile it, to the nanosecond.

    ``event`` is the row behind it (canonical; -1: none): the operator, call, frame, or the activity waited for.
    ``edge`` is the one that explains it (-1: none).
    """

    gap: Ints
    start: Ints
    end: Ints
    cause: Codes
    event: Ids
    edge: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start

    def within(self, times: Intervals, cause: GapCause) -> GapSegments:
        """Give what lies in some times another cause, without an event or edge behind it."""
        if not len(times.start):
            return self
        of, start, end = split_intervals(self.start, self.end, np.sort(np.concatenate([times.start, times.end])))
        found = replace(self.take(of), start=start, end=end)
        inside = times.covered_until(end) > times.covered_until(start)
        event, edge = (np.where(inside, np.int32(-1), column) for column in (found.event, found.edge))
        causes = np.where(inside, np.int8(cause), found.cause)
        return replace(found, cause=causes, event=event, edge=edge).take(end > start)


class GapExplainer:
    """Explains gaps of one graph by the edges that bound the start of what came next.

    The same rules as for the critical path hold: of two causes the one that finished last binds, and a lag counts as
    explained up to max(50 µs, 5 × the trace's median for its kind), next to its target. ``data_load`` are expressions
    of operators and annotations that mean data loading, PyTorch's if none are given.
    """

    def __init__(self, graph: DependencyGraph, data_load: Sequence[str] = ()) -> None:
        self._graph = graph
        self._accounting = TimeAccounting(graph, data_load)

    def binding_edge(self, activities: Ids) -> Ids:
        """Return the edge that bound the start of each activity (canonical row); -1 for none, and for row -1."""
        found: Ids = take_or(binding_edges(self._graph), np.where(activities >= 0, start_point(activities), -1))
        return found

    def explain(self, gaps: Gaps) -> GapSegments:
        """Return the parts of gaps with their causes, in order of gap and time."""
        spans = walk_gaps(self._graph, gaps)
        accounts = self._accounting.divide(spans, gaps.start, gaps.end)
        of = spans.take(accounts.span)
        cause, event = self._cause_of_pieces(accounts, of), self._events_behind(accounts, of)
        # Before an activity whose launch is not in the file, stream order may hide that the host was late.
        after = gaps.after[of.walk]
        hidden = (self._graph.launching_call[after] < 0) & np.isin(cause, SILENT)
        known = GapSegments.of(
            gap=of.walk, start=accounts.start, end=accounts.end, edge=of.edge,
            cause=np.where(hidden, GapCause.LAUNCH_UNKNOWN, cause), event=np.where(hidden, after, event),
        )  # fmt: skip
        pieces = GapSegments.join([_gaps_without_successor(gaps), known])
        pieces = pieces.within(unrecorded_times(self._graph), GapCause.NOT_RECORDED)
        return pieces.take(np.lexsort((pieces.start, pieces.gap)))

    def _cause_of_pieces(self, accounts: AccountedTime, of: WalkSpans) -> Codes:
        part, owner = accounts.part, accounts.owner
        # What the edge says holds, unless what the part is says more, and then who owns it.
        cause = np.append(CAUSE_OF_EDGE, np.int8(GapCause.UNKNOWN))[of.kind]
        waits = (part == TimePart.PENDING) & self._graph.event_flags.waits_on_device[event_of(of.source)]
        cause[waits] = GapCause.EVENT_WAIT
        runs = np.where(part == TimePart.ACTIVITY, owner, -1)
        in_callback = take_or(self._graph.event_table.kind == EventKind.GRAPH_HOST_NODE, runs, otherwise=False)
        cause[in_callback] = GapCause.OTHER_THREAD
        cause[part == TimePart.EXCESS] = GapCause.UNKNOWN
        cause[part == TimePart.CALL] = GapCause.LAUNCH
        cause[(part == TimePart.START) & (owner >= 0)] = GapCause.HOST_NO_OPERATOR
        works, idle = part == TimePart.WORK, part == TimePart.IDLE
        cause[idle] = GapCause.HOST_NO_OPERATOR
        cause[works] = self._cause_of_work(owner[works])
        cause[(works | idle) & accounts.is_loading] = GapCause.DATA_LOADING
        return cause

    def _cause_of_work(self, owner: Ids) -> Codes:
        in_call = self._graph.event_table.kind[owner] == EventKind.RUNTIME
        cause = np.where(in_call, GapCause.HOST_CALL, GapCause.HOST_OPERATOR)
        return np.where(self._graph.event_flags.blocking_call[owner], GapCause.HOST_BLOCKED, cause).astype(np.int8)

    def _events_behind(self, accounts: AccountedTime, of: WalkSpans) -> Ids:
        """Return after whom each part is named: its owner, or one side of the edge; of an excess what came late."""
        by_source = np.append(NAMED_BY_SOURCE, False)[of.kind] & (accounts.part != TimePart.EXCESS)
        side = event_of(np.where(by_source, of.source, of.target))
        on_thread = ~self._graph.lanes.is_stream[of.lane]
        owned = np.isin(accounts.part, (TimePart.WORK, TimePart.IDLE, TimePart.CALL)) | (
            on_thread & (accounts.part == TimePart.START)
        )
        return np.where(owned, accounts.owner, side).astype(np.int32)


def _gaps_without_successor(gaps: Gaps) -> GapSegments:
    """Gaps after which no activity follows."""
    gap = np.flatnonzero(gaps.after < 0)
    start, end = gaps.start[gap], gaps.end[gap]
    return GapSegments.of(gap=gap, start=start, end=end, cause=GapCause.NO_MORE_WORK, event=-1, edge=-1)
