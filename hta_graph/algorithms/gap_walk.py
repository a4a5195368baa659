"""Walk back through many gaps at once: from what ends each gap to what happened in it, by binding edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.graph import DependencyGraph
from hta_graph.model import GPU_KINDS, Bools, EdgeKind, Ids, Ints, kind_mask
from hta_graph.timeline import start_point

__all__ = ["Gaps", "Stretches", "walk_gaps"]


@dataclass(frozen=True)
class Gaps:
    """Times [start, end) without work, each with the activity that starts next (canonical row; -1: none does)."""

    start: Ints
    end: Ints
    after: Ids

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True)
class Stretches:
    """Parts of gaps between two points of a walk, in no order; those of one gap tile it, and may reach beyond its end.

    ``edge`` led from the earlier point to ``target`` (-1: nothing is known to have led there). Where ``pending`` is
    set, the stretch lies before the edge's source, GPU work that had yet to get there: all of it was waiting.
    """

    gap: Ints
    start: Ints
    end: Ints
    edge: Ids
    target: Ids
    pending: Bools

    def take(self, chosen: Bools) -> Stretches:
        """Select stretches."""
        return Stretches(*(getattr(self, name)[chosen] for name in Stretches.__annotations__))


@dataclass(frozen=True)
class _Heads:
    """Where the walks through some gaps have got to: the gap, the point, and the time, which never increases."""

    gap: Ints
    point: Ids
    time: Ints

    def take(self, chosen: Bools) -> _Heads:
        return _Heads(self.gap[chosen], self.point[chosen], self.time[chosen])


def walk_gaps(graph: DependencyGraph, binding: Ids, gaps: Gaps) -> Stretches:
    """Follow binding edges back from the start of what ends each gap, as far as the gap's start.

    A walk also ends where it meets GPU work (an activity of another stream), or a point without a known predecessor.
    Stretches on one thread are taken in one go, so that the cost grows with what happens in the gaps.
    """
    walk = _Walk(graph, binding, gaps)
    known = np.flatnonzero(gaps.after >= 0)
    point = start_point(gaps.after[known])
    heads = _Heads(known, point, graph.timeline.times[point])
    parts: list[Stretches] = []
    while len(heads.gap):
        heads, along = walk.along_threads(heads)
        heads, across = walk.across_edges(heads)
        parts += [along, *across]
    return _joined(parts)


class _Walk:
    def __init__(self, graph: DependencyGraph, binding: Ids, gaps: Gaps) -> None:
        self._edges = graph.edge_table
        self._times = graph.timeline.times
        self._calls = graph.timeline.calls
        self._lane = graph.trace.events.lane
        self._on_gpu = kind_mask(graph.trace.events.kind, GPU_KINDS)
        self._binding = binding
        self._gap_start = gaps.start
        points = self._calls.points
        self._place = np.full(len(binding), -1, np.int32)
        self._place[points] = np.arange(len(points), dtype=np.int32)
        self._first = _first_of_run(graph, binding[points])

    def along_threads(self, heads: _Heads) -> tuple[_Heads, Stretches]:
        """Follow each walk's thread to the gap's start, or to a point that something else binds."""
        place = self._place[heads.point]
        if (place < 0).all():
            return heads, _joined([])
        until = place.copy()
        for lane in np.unique(self._lane[heads.point[place >= 0] >> 1]).tolist():
            here = (place >= 0) & (self._lane[heads.point >> 1] == lane)
            until[here] = self._last_before(lane, self._gap_start[heads.gap[here]])
        until = np.where(place >= 0, np.clip(until, self._first[place], place), place)
        found = self._expanded(heads, until, place)
        point = np.where(place >= 0, self._calls.points[until], heads.point)
        time = np.minimum(heads.time, self._times[point])
        moved = _Heads(heads.gap, point, time)
        return moved.take(time > self._gap_start[heads.gap]), found

    def _last_before(self, lane: int, times: Ints) -> Ints:
        """Return the place of a thread's last point at or before each time; the place before the thread if none is."""
        part = self._calls.lane_slice(lane)
        before: Ints = np.searchsorted(self._times[self._calls.points[part]], times, side="right") - 1
        before += part.start
        return before

    def _expanded(self, heads: _Heads, first: Ids, last: Ids) -> Stretches:
        """Return the stretches between neighbouring points from place ``first`` to place ``last`` of each walk."""
        walk, place = _ranges(first + 1, last + 1)
        points = self._calls.points
        gap, target = heads.gap[walk], points[place]
        latest = np.minimum(heads.time[walk], self._times[target])
        start = np.maximum(np.minimum(self._times[points[place - 1]], latest), self._gap_start[gap])
        return _stretches(gap, start, latest, self._binding[target], target)

    def across_edges(self, heads: _Heads) -> tuple[_Heads, list[Stretches]]:
        """Follow each walk over one edge from elsewhere."""
        edge = self._binding[heads.point]
        lost = edge < 0
        parts = [self._rest(heads.take(lost), edge[lost], pending=False)]
        heads, edge = heads.take(~lost), edge[~lost]
        source = self._edges.source[edge]
        time = np.minimum(heads.time, self._times[source])
        since = np.maximum(time, self._gap_start[heads.gap])
        parts.append(_stretches(heads.gap, since, heads.time, edge, heads.point))
        inside = time > self._gap_start[heads.gap]
        on_gpu = inside & self._on_gpu[source >> 1]
        parts.append(self._rest(_Heads(heads.gap, heads.point, time).take(on_gpu), edge[on_gpu], pending=True))
        return _Heads(heads.gap, source, time).take(inside & ~on_gpu), parts

    def _rest(self, heads: _Heads, edge: Ids, *, pending: bool) -> Stretches:
        start = np.minimum(self._gap_start[heads.gap], heads.time)
        return _stretches(heads.gap, start, heads.time, edge, heads.point, pending=pending)


def _first_of_run(graph: DependencyGraph, edge: Ids) -> Ints:
    """Return for each point of the threads where the run of points begins of which each binds the next."""
    follows = np.append(graph.edge_table.kind, np.int8(-1))[edge] == EdgeKind.THREAD_ORDER
    first: Ints = np.maximum.accumulate(np.where(follows, 0, np.arange(len(edge))))
    return first


def _stretches(gap: Ints, start: Ints, end: Ints, edge: Ids, target: Ids, *, pending: bool = False) -> Stretches:
    return Stretches(gap, start, end, edge, target, np.full(len(gap), pending))


def _ranges(first: Ids, stop: Ids) -> tuple[Ints, Ints]:
    """Return pairs (place in ``first``, number) for all numbers of each range.

    >>> _ranges(np.array([3, 7], np.int32), np.array([5, 8], np.int32))
    (array([0, 0, 1]), array([3, 4, 7]))
    """
    count = np.maximum(stop - first, 0)
    walk = np.repeat(np.arange(len(first)), count)
    return walk, np.arange(len(walk)) - np.repeat(np.cumsum(count) - count, count) + first[walk]


def _joined(parts: list[Stretches]) -> Stretches:
    none = np.empty(0, np.int64)
    empty = _stretches(none, none, none, none.astype(np.int32), none.astype(np.int32))
    every = [empty, *parts]
    joined = Stretches(*(np.concatenate([getattr(part, name) for part in every]) for name in Stretches.__annotations__))
    return joined.take(joined.end > joined.start)
