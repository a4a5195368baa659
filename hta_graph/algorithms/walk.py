"""Walk back from a point: at each point to the predecessor that finished last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.graph import DependencyGraph
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind, Ids, Ints

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

    Stretches in which a thread's points follow each other are taken whole; they may reach beyond ``until_ns``.
    """
    runs = _ThreadRuns(graph, binding)
    edge_of, source_of, time_of = binding.data, graph.edge_table.source.data, graph.timeline.times.data
    points = [sink]
    edges: list[int] = []
    while True:
        behind = runs.behind(points[-1])
        edges += binding[[points[-1], *behind[:-1]]].tolist() if behind else []
        points += behind
        edge = edge_of[points[-1]]
        if edge < 0 or time_of[points[-1]] <= until_ns:
            break
        edges.append(edge)
        points.append(source_of[edge])
    walked = np.array(points, np.int32)
    return Chain(walked, np.array(edges, np.int32), np.minimum.accumulate(graph.timeline.times[walked]))


class _ThreadRuns:
    """Runs of points of one thread, each of which binds the next."""

    def __init__(self, graph: DependencyGraph, binding: Ids) -> None:
        self._points = graph.timeline.calls.points
        self._place = np.full(len(binding), -1, np.int32)
        self._place[self._points] = np.arange(len(self._points), dtype=np.int32)
        edge = binding[self._points]
        follows = (edge >= 0) & (graph.edge_table.kind[edge] == EdgeKind.THREAD_ORDER) if len(edge) else edge > 0
        self._first = np.maximum.accumulate(np.where(follows, 0, np.arange(len(follows))))

    def behind(self, point: int) -> list[int]:
        """Return the points behind one in its run, latest first."""
        place = int(self._place[point])
        if place < 0:
            return []
        first = int(self._first[place])
        behind: list[int] = self._points[first:place][::-1].tolist()
        return behind
