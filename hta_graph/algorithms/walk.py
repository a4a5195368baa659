"""Walk back from a point: at each point to the predecessor that finished last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.graph import DependencyGraph
from hta_graph.links.edges import EdgeTable
from hta_graph.model import Bools, EdgeKind, Ids, Ints

__all__ = ["Chain", "binding_edges", "walk_back"]


@dataclass(frozen=True)
class Chain:
    """A walk back in time: ``edges[i]`` leads from ``points[i + 1]`` to ``points[i]``; ``times`` never increase."""

    points: Ids
    edges: Ids
    times: Ints


def binding_edges(edges: EdgeTable, graph: DependencyGraph) -> Ids:
    """For each point, the incoming edge whose source finished last (-1: none).

    A source stamped after its target by a clock fault counts as finished at the target. Ties go to the kind that comes
    first in ``EdgeKind``, then to the source that comes later in the global order of points.
    """
    times, place = graph.timeline.times, graph.timeline.position
    finished = np.minimum(times[edges.source], times[edges.target])
    binding = np.full(len(times), -1, np.int32)
    best = np.full(len(times), np.iinfo(np.int64).min)
    for kind in EdgeKind:
        rows = _one_per_target(np.flatnonzero(edges.kind == kind).astype(np.int32), edges, finished, place)
        rows = rows[finished[rows] > best[edges.target[rows]]]
        binding[edges.target[rows]] = rows
        best[edges.target[rows]] = finished[rows]
    return binding


def _one_per_target(rows: Ids, edges: EdgeTable, finished: Ints, place: Ids) -> Ids:
    targets = edges.target[rows]
    chosen = np.full(int(targets.max(initial=-1)) + 1, -1, np.int32)
    chosen[targets] = rows
    if (chosen[targets] == rows).all():
        return rows
    order = np.lexsort((place[edges.source[rows]], finished[rows], targets))
    last = np.append(targets[order][1:] != targets[order][:-1], True)
    unique: Ids = rows[order[last]]
    return unique


def walk_back(graph: DependencyGraph, binding: Ids, sink: int, until_ns: int) -> Chain:
    """Follow binding edges from a point until a point at or before ``until_ns`` or without a predecessor.

    Stretches in which a lane's points follow each other are taken whole; they may reach beyond ``until_ns``.
    """
    runs = _LaneRuns(graph, binding)
    edge_of, source_of, time_of = binding.data, graph.edge_table.source.data, graph.timeline.times.data
    entered = [sink]
    while True:
        left = runs.oldest[entered[-1]]
        edge = edge_of[left]
        if edge < 0 or time_of[left] <= until_ns:
            break
        entered.append(source_of[edge])
    walked = runs.behind(np.array(entered, np.int32))
    return Chain(walked, binding[walked[:-1]], np.minimum.accumulate(graph.timeline.times[walked]))


class _LaneRuns:
    """Runs of points of one lane, each of which binds the next; ``oldest[point]`` is where a point's run begins."""

    def __init__(self, graph: DependencyGraph, binding: Ids) -> None:
        self._points = _by_lane(graph)
        places = np.arange(len(self._points), dtype=np.int32)
        follows = _bound_by_the_one_before(graph, binding, self._points)
        self._first = np.maximum.accumulate(np.where(follows, 0, places))
        self._place = np.empty(len(binding), np.int32)
        self._place[self._points] = places
        self.oldest = self._points[self._first[self._place]].data

    def behind(self, entered: Ids) -> Ids:
        """Return each of some points and what is behind it in its run, latest first."""
        place = self._place[entered]
        count = place - self._first[place] + 1
        nth = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        walked: Ids = self._points[np.repeat(place, count) - nth]
        return walked


def _by_lane(graph: DependencyGraph) -> Ids:
    """Return all points, lane by lane in order of time; behind them those that are not walked."""
    timeline, lane = graph.timeline, graph.trace.events.lane
    on_stream = timeline.order[graph.trace.is_gpu[timeline.order >> 1]]
    by_stream = on_stream[np.argsort(lane[on_stream >> 1], kind="stable")]
    not_walked = np.flatnonzero(timeline.position < 0).astype(np.int32)
    return np.concatenate([timeline.calls.points, by_stream, not_walked])


def _bound_by_the_one_before(graph: DependencyGraph, binding: Ids, points: Ids) -> Bools:
    """Mark the points that are bound by the one before them, on their own lane."""
    lane = graph.trace.events.lane[points >> 1]
    source = np.append(graph.edge_table.source, -1)[binding[points]]
    marked = np.zeros(len(points), np.bool_)
    marked[1:] = (source[1:] == points[:-1]) & (lane[1:] == lane[:-1])
    return marked
