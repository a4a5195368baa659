"""Cycles: only clock faults and equal times can close one, so only those edges are looked at."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.timeline import Timeline
from hta_graph.model import WITHIN_A_LANE, Ids, Ints

__all__ = ["edges_on_a_cycle", "edges_that_close_cycles"]


def edges_that_close_cycles(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return the edges to drop so that none is on a cycle: inferred ones first, then clamped ones, then the others.

    Edges that go forward in the global order of points cannot close a cycle alone. A cycle goes back by edges against
    that order only, so it lies within the stretches that those span.
    """
    chosen = _edges_in_question(edges, timeline.position)
    dropped: list[int] = []
    # One edge at a time: dropping it may break several cycles, and no more is dropped than must be.
    while len(cycle := _find_cycle(edges, chosen)):
        worst = _weakest_edge(edges, timeline, cycle)
        dropped.append(worst)
        chosen = chosen[chosen != worst]
    return np.array(dropped, np.int64)


def edges_on_a_cycle(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return edges that are all on cycles through each other; none if there is no cycle."""
    return _find_cycle(edges, _edges_in_question(edges, timeline.position))


def _edges_in_question(edges: EdgeTable, place: Ids) -> Ints:
    """Select the edges that lie inside the union of the stretches that backward edges span."""
    backward = place[edges.source] >= place[edges.target]
    if not backward.any():
        return np.empty(0, np.int64)
    # +1 where a backward edge's stretch begins, -1 behind its end: the running sum counts the stretches over a place.
    cover = np.zeros(int(place.max()) + 2, np.int64)
    np.add.at(cover, place[edges.target[backward]], 1)
    np.add.at(cover, place[edges.source[backward]] + 1, -1)
    inside = np.cumsum(cover) > 0
    return np.flatnonzero(inside[place[edges.source]] & inside[place[edges.target]])


def _find_cycle(edges: EdgeTable, chosen: Ints) -> Ints:
    """Return the edges of one cycle among the chosen ones; empty if there is none."""
    if not len(chosen):
        return chosen
    import rustworkx

    points, flat = np.unique(np.concatenate([edges.source[chosen], edges.target[chosen]]), return_inverse=True)
    source, target = flat[: len(chosen)], flat[len(chosen) :]
    graph: rustworkx.PyDiGraph[None, int] = rustworkx.PyDiGraph(multigraph=True)
    graph.add_nodes_from([None] * len(points))
    graph.add_edges_from(list(zip(source.tolist(), target.tolist(), chosen.tolist(), strict=True)))
    if rustworkx.is_directed_acyclic_graph(graph):
        return np.empty(0, np.int64)
    # Any edge between two points of one component is on a cycle.
    for component in rustworkx.strongly_connected_components(graph):
        if len(component) > 1:
            inside = np.zeros(len(points), np.bool_)
            inside[list(component)] = True
            inner: Ints = chosen[inside[source] & inside[target]]
            return inner
    loops: Ints = chosen[source == target]
    return loops


def _weakest_edge(edges: EdgeTable, timeline: Timeline, cycle: Ints) -> int:
    """Choose what to drop: an inferred edge before a clamped one, the order of a thread or an activity never."""
    droppable = cycle[~np.isin(edges.kind[cycle], WITHIN_A_LANE)]
    against = timeline.position[edges.source[droppable]] >= timeline.position[edges.target[droppable]]
    clamped = edges.clamped(timeline.times)[droppable]
    rank = np.lexsort(
        (edges.target[droppable], edges.source[droppable], ~against, ~clamped, ~edges.inferred[droppable])
    )
    return int(droppable[rank[0]])
