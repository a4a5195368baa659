"""Which edges are on a cycle: only clock faults and equal times can close one, so only those edges are looked at."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.points import (
    CPU_END,
    CPU_ZERO,
    CPU_ZERO_AT_END,
    classes_of_points,
    event_of,
    is_end,
)
from hta_graph.model import Codes, Ids, Ints
from hta_graph.trace.table import Trace

__all__ = ["all_go_forward", "cycle_among", "edges_in_question", "edges_on_a_cycle"]

LONGEST_CHAIN = 30
"""Rows without length that follow each other at one instant; longer chains are left to the order of all points."""


def edges_on_a_cycle(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return edges that are all on cycles through each other; none if there is no cycle."""
    return cycle_among(edges, edges_in_question(edges, timeline.position))


def all_go_forward(edges: EdgeTable, trace: Trace, times: Ints) -> bool:
    """Tell whether all edges go forward in some order of points that keeps their times, without sorting the points.

    If so, there is no cycle. If not, there may be none nevertheless.
    """
    level_rows = []
    for first, part in edges.pieces():
        lag = times.take(part.target) - times.take(part.source)
        if lag.min() < 0:
            return False
        level_rows.append(np.flatnonzero(lag == 0) + first)
    level = edges.take(np.concatenate([np.empty(0, np.int64), *level_rows]))
    rows = event_of(level.source), event_of(level.target)
    before, after = _classes_at_one_time(level, trace)
    # Of one class ends stand in reverse, so that the innermost row ends first.
    both_end = is_end(level.source) & is_end(level.target) & (before != CPU_ZERO) & (before != CPU_ZERO_AT_END)
    in_turn = np.where(both_end, rows[0] > rows[1], level.source < level.target)
    return bool(((before < after) | ((before == after) & in_turn)).all())


def _classes_at_one_time(level: EdgeTable, trace: Trace) -> tuple[Codes, Codes]:
    """Return the classes of both points of edges without lag.

    Rows without length on threads stand before the ends of their instant if an edge leads from them to one.
    """
    classes = classes_of_points(trace.events, trace.is_activity)
    before, after = classes.take(level.source), classes.take(level.target)
    source, target = event_of(level.source), event_of(level.target)
    is_before_end = np.zeros(len(trace.events), np.bool_)
    is_before_end[source[(before < 0) & (after == CPU_END)]] = True
    chain = np.flatnonzero((before < 0) & (after < 0) & (source != target))
    for _ in range(LONGEST_CHAIN):
        new = is_before_end[target[chain]] & ~is_before_end[source[chain]]
        if not new.any():
            break
        is_before_end[source[chain[new]]] = True
    of_row = np.where(is_before_end, CPU_ZERO_AT_END, CPU_ZERO).astype(np.int8)
    return np.where(before < 0, of_row[source], before), np.where(after < 0, of_row[target], after)


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
