"""What every graph obeys, whatever its source: edges lead between what their kind allows, and none closes a cycle.

For graphs of DataFrames and saved graphs. Only clock faults and equal times can close a cycle, so only such edges are
looked at. Of a trace's own edges those that close one are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.base.arrays import first_of_runs
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import CPU_END, CPU_ZERO, CPU_ZERO_AT_END, classes_of_points, event_of, is_end
from hta_graph.graph.timeline import Timeline
from hta_graph.model import (
    EDGE_MEANING,
    ROLE,
    WALKABLE,
    WITHIN_A_LANE,
    Bools,
    Codes,
    EdgeKind,
    EdgeRole,
    EventKind,
    Ids,
    Ints,
    kind_mask,
)
from hta_graph.trace.table import Trace

SIDES = {
    EdgeRole.THREAD: (False, False),
    EdgeRole.ACTIVITY: (True, True),
    EdgeRole.LAUNCH: (False, True),
    EdgeRole.STREAM: (True, True),
    EdgeRole.RETURN: (True, False),
    EdgeRole.HOLD: (None, False),
    EdgeRole.RESUMPTION: (False, False),
    EdgeRole.RELEASE: (True, False),
}
"""Whether source and target of each role are GPU activities; None: either."""

HAS_POINTS, ON_GPU = 1, 2
WRONG_SIDES = np.array([
    [any(needed not in (None, found) for needed, found in zip(SIDES.get(role, (None, None)), on_gpu, strict=True))
     for on_gpu in ((False, False), (False, True), (True, False), (True, True))]
    for role in (EDGE_MEANING[kind].role for kind in EdgeKind)
]).ravel()  # fmt: skip
"""4 × kind + 2 × whether the source is on the GPU + whether the target is → whether that cannot be."""


def far_from_first(start: Ints, end: Ints, longest_ns: int) -> Bools:
    """Mark rows that end more than ``longest_ns`` after the first start."""
    # In floats, since the difference of two far apart does not fit.
    apart: Bools = (end.astype(np.float64) - (float(start.min()) if len(start) else 0.0)) > longest_ns
    return apart


def repeated_rows(*columns: Codes | Ids | Ints) -> Bools:
    """Mark the rows that equal an earlier one in all columns.

    >>> repeated_rows(np.array([4, 5, 4, 4]), np.array([1, 1, 1, 2])).tolist()
    [False, False, True, False]
    """
    order = np.lexsort((np.arange(len(columns[0])), *columns[::-1]))
    again = np.zeros(len(columns[0]), np.bool_)
    again[order] = ~first_of_runs(*(column[order] for column in columns))
    return again


def without_points(trace: Trace, points: Ids) -> Bools:
    """Mark the points of events that are only looked up, never walked over."""
    walkable = kind_mask(trace.events.kind, WALKABLE) | trace.is_activity
    if trace.lanes.is_communication.any():
        # A boundary of an annotation may show since when its thread waited for a message.
        walkable |= trace.events.kind == EventKind.ANNOTATION
    absent: Bools = ~walkable[event_of(points)]
    return absent


def from_start_to_end(source: Ids, target: Ids) -> Bools:
    """Mark the edges from an event's own start to its own end."""
    own: Bools = (source ^ target == 1) & ~is_end(source)
    return own


def invalid_edges(edges: EdgeTable, trace: Trace) -> Iterator[tuple[Bools, str]]:
    """Yield masks of edges that lead between what an edge of their kind cannot, and what to say of each."""
    on_gpu, lane, role = trace.is_activity, trace.events.lane, ROLE[edges.kind]
    source, target = event_of(edges.source), event_of(edges.target)
    if trace.lanes.is_communication.any():
        # What a job's threads did with other ranks runs beside them, and is joined to them like a call.
        beside = trace.lanes.is_communication[lane]
        role = np.where(beside[source] | beside[target], np.int8(-1), role)
    for wanted, sides in SIDES.items():
        wrong = np.zeros(len(edges), np.bool_)
        for side, needed in zip((source, target), sides, strict=True):
            wrong |= needed is not None and on_gpu[side] != needed
        yield (role == wanted) & wrong, "does not lead from {} to {}".format(*map(_side_name, sides))
    yield (role == EdgeRole.THREAD) & (lane[source] != lane[target]), "leads to another lane"
    elsewhere = (role == EdgeRole.ACTIVITY) & ~from_start_to_end(edges.source, edges.target)
    yield elsewhere, "does not lead from a row's start to its end"


def all_edges_valid(edges: EdgeTable, trace: Trace) -> bool:
    """Return whether neither :func:`without_points` nor :func:`invalid_edges` marks an edge, in a few passes.

    Where it is false there may be none nevertheless: of communication on CPUs only those two know.
    """
    place = 4 * trace.events.lane + _sides_of_events(trace)
    return all(_are_valid(part, place) for _, part in edges.pieces())


def _are_valid(edges: EdgeTable, place: Ids) -> bool:
    # take() is twice as fast as an index in brackets.
    source, target = place.take(event_of(edges.source)), place.take(event_of(edges.target))
    sides = 4 * edges.kind + ((source & ON_GPU) + ((target & ON_GPU) >> 1)).astype(np.int8)
    if not (source & target & HAS_POINTS).all() or WRONG_SIDES.take(sides).any():
        return False
    strays = (edges.kind == EdgeKind.THREAD_ORDER) & (source ^ target >= 4)
    elsewhere = (edges.kind == EdgeKind.EXECUTION) & ~from_start_to_end(edges.source, edges.target)
    return not strays.any() and not elsewhere.any()


def _sides_of_events(trace: Trace) -> Ids:
    on_gpu = trace.is_activity
    walkable = kind_mask(trace.events.kind, WALKABLE) | on_gpu
    found: Ids = HAS_POINTS * walkable.astype(np.int32) + ON_GPU * on_gpu.astype(np.int32)
    return found


def _side_name(on_gpu: bool | None) -> str:  # noqa: FBT001 - one of three sides
    return {True: "GPU work", False: "a thread", None: "any row"}[on_gpu]


LONGEST_CHAIN = 30
"""Rows without length that follow each other at one instant; longer chains are left to the order of all points."""


def edges_on_a_cycle(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return edges that are all on cycles through each other; none if there is no cycle."""
    return cycle_among(edges, edges_in_question(edges, timeline.position))


def all_go_forward(edges: EdgeTable, trace: Trace, times: Ints) -> bool:
    """Return whether all edges go forward in some order of points that keeps their times, without sorting the points.

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
    """Select the edges that lie inside the union of the intervals that backward edges span; -1 is before all places."""
    place = place + 1
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


def edges_that_close_cycles(edges: EdgeTable, timeline: Timeline) -> Ints:
    """Return the edges to drop so that none is on a cycle: inferred ones first, then clamped ones, then the others.

    Edges that go forward in the global order of points cannot close a cycle alone. A cycle goes back by edges against
    that order only, so it lies within the intervals that those span.
    """
    chosen = edges_in_question(edges, timeline.position)
    dropped: list[int] = []
    # One edge at a time: dropping it may break several cycles, and no more is dropped than must be.
    while len(cycle := cycle_among(edges, chosen)):
        worst = _weakest_edge(edges, timeline, cycle)
        dropped.append(worst)
        chosen = chosen[chosen != worst]
    return np.array(dropped, np.int64)


def _weakest_edge(edges: EdgeTable, timeline: Timeline, cycle: Ints) -> int:
    """Choose what to drop: an inferred edge before a clamped one, the order of a thread or an activity never."""
    droppable = cycle[~np.isin(edges.kind[cycle], WITHIN_A_LANE)]
    against = timeline.position[edges.source[droppable]] >= timeline.position[edges.target[droppable]]
    clamped = edges.clamped(timeline.times)[droppable]
    rank = np.lexsort(
        (edges.target[droppable], edges.source[droppable], ~against, ~clamped, ~edges.inferred[droppable])
    )
    return int(droppable[rank[0]])
