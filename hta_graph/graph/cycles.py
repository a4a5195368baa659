"""Which edges are on a cycle: only clock faults and equal times can close one, so only those edges are looked at."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import class_of_points, event_of, is_end
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Bools, Ids, Ints
from hta_graph.trace.table import Trace

__all__ = ["cycle_among", "edges_in_question", "edges_on_a_cycle", "go_forward"]


def edges_on_a_cycle(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return edges that are all on cycles through each other; none if there is no cycle."""
    return cycle_among(edges, edges_in_question(edges, timeline.position))


def go_forward(edges: EdgeTable, trace: Trace, times: Ints) -> Bools:
    """Mark the edges that go forward for certain, without sorting all points; if all do, there is no cycle.

    What is not marked may go forward nevertheless: at an instant at which rows without length lie on threads, only the
    order of all points (:attr:`Timeline.order`) tells.
    """
    lag = times[edges.target] - times[edges.source]
    forward: Bools = lag > 0
    level = np.flatnonzero(lag == 0)
    source, target = edges.source[level], edges.target[level]
    source_class, target_class = (class_of_points(trace.events, side, trace.is_activity) for side in (source, target))
    rows = event_of(source), event_of(target)
    # Of one class ends stand in reverse, so that the innermost row ends first.
    in_turn = np.where(is_end(source) & is_end(target), rows[0] > rows[1], rows[0] < rows[1])
    in_turn |= (rows[0] == rows[1]) & (source < target)
    known = (source_class >= 0) & (target_class >= 0)
    forward[level] = known & ((source_class < target_class) | ((source_class == target_class) & in_turn))
    return forward


def edges_in_question(edges: EdgeTable, place: Ids) -> Ints:
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


def cycle_among(edges: EdgeTable, chosen: Ints) -> Ints:
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
