"""What rows of any graph obey, whoever made it: masks of those that do not, for frames and for saved graphs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import event_of, is_end
from hta_graph.model import (
    EDGE_MEANING,
    ROLE,
    WALKABLE,
    Bools,
    Codes,
    EdgeKind,
    EdgeRole,
    Ids,
    Ints,
    kind_mask,
)
from hta_graph.trace.table import Trace

__all__ = ["all_edges_valid", "far_from_first", "from_start_to_end", "invalid_edges", "repeated_rows", "without_points"]

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
    """Mark rows that end more than so many ns after the first start."""
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
    """Tell whether neither :func:`without_points` nor :func:`invalid_edges` marks an edge, in a few passes.

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
