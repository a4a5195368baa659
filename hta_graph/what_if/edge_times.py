"""What each edge weighs when a graph is replayed, and whose time that is.

The edge that bound a point keeps its measured lag, so that nothing changes as long as nothing is changed. All others
weigh what they need and never what was waited on them:

sync call   [start ~~~~~~~~~~~~~~~~~ return]      the thread's own edge: only what came after the kernel's end
kernel        [=================]---▶|            this one bound it: the measured lag
stream      [==]- - - - - - - - ▶[===]            did not bind: no more than such a lag usually takes
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import Columns, freeze, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, is_end
from hta_graph.model import ROLE, Bools, BoundBy, Codes, EdgeKind, EdgeRole, Floats, Ids, Ints
from hta_graph.paths.binding_edges import Stretches, binding_edges
from hta_graph.paths.segments import OWNED_BY_SOURCE, lag_classes, owners_and_classes
from hta_graph.paths.time_accounting import TimeAccounting, TimePart

__all__ = ["EdgeParts", "EdgeWeights", "divide_into_parts", "edge_weights", "edges_by_rank"]

DEFAULT_LAG_NS = 10_000
"""Where no lag of a kind ever bound anything: launches, streams and returns take 1 to 10 µs on healthy machines."""

BINDING_ROUNDS = 2
"""How often what bound work is judged by usual lags, and these by what bound it; a third time changes hardly any."""

SAME_LANE_ROLES = (EdgeRole.THREAD, EdgeRole.ACTIVITY, EdgeRole.TRANSFER, EdgeRole.AWAKENING)
"""Edges into a point that somebody else let go: they weigh what came after that."""


@dataclass(frozen=True, eq=False)
class EdgeParts(Columns):
    """What the weights of edges consist of, in order of edge: those of an edge sum to its weight, if that is positive.

    ``start`` is when (ns) the part was, or would have been, of ``length`` (ns); ``owner`` whose it is (row; -1:
    nobody's), ``lane`` where, ``bound`` its class; ``part`` is its :class:`TimePart`.
    """

    edge: Ids
    start: Ints
    length: Ints
    owner: Ids
    lane: Ids
    part: Codes
    bound: Codes


@dataclass(frozen=True)
class EdgeWeights:
    """The weight (ns, of clock faults negative) of every edge of a graph, and its parts."""

    weight: Ints
    parts: EdgeParts
    binds: Bools


@memoized
def edge_weights(graph: DependencyGraph) -> EdgeWeights:
    """Weigh the edges of a graph; with these weights every point falls on its recorded time."""
    edges, times = graph.edge_table, graph.timeline.times
    measured, role = times[edges.target] - times[edges.source], ROLE[edges.kind]
    rank = graph.rank_index_of(event_of(edges.target))
    bound_by = _bound_without_locks(graph, binding_edges(graph)[edges.target])
    binds = bound_by == np.arange(len(edges))
    usual = _usual_lags(graph, measured, binds)[rank, edges.kind]
    for _ in range(BINDING_ROUNDS):
        bound_by = _likeliest_causes(graph, measured / np.maximum(usual, 1), bound_by)
        binds = bound_by == np.arange(len(edges))
        usual = _usual_lags(graph, measured, binds)[rank, edges.kind]
    called = _call_durations(graph)
    least = np.where(np.isin(role, SAME_LANE_ROLES), measured[bound_by], np.maximum(usual, called))
    weight = np.where(binds, measured, np.minimum(measured, least))
    parts = EdgeParts.join(_all_parts(graph, weight, binds, bound_by, called))
    return EdgeWeights(freeze(weight), parts.take(np.argsort(parts.edge, kind="stable")), freeze(binds))


def _bound_without_locks(graph: DependencyGraph, bound_by: Ids) -> Ids:
    """Let a call that a lock held have been bound by its own thread: its wait is its own time, as long as it was.

    Who comes first is decided anew when times change, so that no call is tied to the times of another thread.
    """
    edges = graph.edge_table
    own = np.full(len(graph.timeline.times), -1, np.int32)
    on_thread = np.flatnonzero(edges.kind == EdgeKind.THREAD_ORDER)
    own[edges.target[on_thread]] = on_thread
    return np.where(edges.kind[bound_by] == EdgeKind.RUNTIME_LOCK, own[edges.target], bound_by).astype(np.int32)


def _likeliest_causes(graph: DependencyGraph, times_usual: Floats, bound_by: Ids) -> Ids:
    """Let work on streams have been bound by what is likeliest: the cause whose lag is the least times its usual one.

    The cause that came last need not be it: a launch takes longer to reach the GPU than a stream to go on.

    launch      |~~~~~~~ 6 µs, as usual ~~~~~~~▶[work    this one, and not
    stream      ....=======]~ 4 µs, usually 1 ~▶[work    the one that came last
    """
    edges = graph.edge_table
    enters = np.isin(ROLE[edges.kind], (EdgeRole.LAUNCH, EdgeRole.STREAM))
    overlapping = enters & (edges.kind == EdgeKind.STREAM_ORDER) & ~is_end(edges.source)
    known = np.zeros(len(graph.timeline.times), np.bool_)
    known[edges.target[overlapping]] = True
    rows = np.flatnonzero(enters & ~known[edges.target])
    # The later of equals wins, so what bound it before comes last.
    order = rows[np.lexsort((bound_by[rows] == rows, -times_usual[rows], edges.target[rows]))]
    likeliest = np.full(len(known), -1, np.int32)
    likeliest[edges.target[order]] = order
    found = likeliest[edges.target]
    return np.where(found >= 0, found, bound_by).astype(np.int32)


def _usual_lags(graph: DependencyGraph, measured: Ints, binds: Bools) -> Ints:
    """Return per rank and edge kind the median (ns) of the lags that bound something, whatever they are on others.

    A kind that never bound anything has no usual lag: its least one counts, and no more than is usual for other kinds
    of its role (10 µs where these bound nothing either).
    """
    # One more for rank -1: only what leads to a rendezvous is of no rank, and that weighs nothing.
    usual = np.zeros((len(graph.parts) + 1, len(EdgeKind)), np.int64)
    for part, rows in zip(graph.parts, edges_by_rank(graph), strict=True):
        own = rows[measured[rows] >= 0]
        usual[part.place] = _usual_lags_of_rank(graph.edge_table.kind[own], measured[own], binds[own])
    return usual


@memoized
def edges_by_rank(graph: DependencyGraph) -> list[Ints]:
    """Return the edges (rows) that lead to events of each rank."""
    rank = graph.rank_index_of(event_of(graph.edge_table.target))
    order = np.argsort(rank, kind="stable")
    first = np.searchsorted(rank[order], np.arange(len(graph.parts) + 1))
    return np.split(order[first[0] : first[-1]], first[1:-1] - first[0])


def _usual_lags_of_rank(kind: Codes, measured: Ints, binds: Bools) -> Ints:
    usual = np.zeros(len(EdgeKind), np.int64)
    for of in EdgeKind:
        every = kind == of
        bound = every & binds
        known = bound if bound.any() else (ROLE[kind] == ROLE[of]) & binds
        usual_of_role = int(np.median(measured[known])) if known.any() else DEFAULT_LAG_NS
        usual[of] = usual_of_role if bound.any() else measured[every].min(initial=usual_of_role)
    return usual


def _call_durations(graph: DependencyGraph) -> Ints:
    """Return for each launch how long its call takes (ns), 0 where that waited for something; 0 for other edges."""
    edges, events = graph.edge_table, graph.event_table
    call = event_of(edges.source)
    returned_by = take_or(ROLE[edges.kind], binding_edges(graph)[end_point(call)])
    is_own = (edges.kind == EdgeKind.LAUNCH) & (returned_by == EdgeRole.THREAD)
    return np.where(is_own, events.end[call] - events.start[call], 0)


def _all_parts(graph: DependencyGraph, weight: Ints, binds: Bools, bound_by: Ids, called: Ints) -> Iterator[EdgeParts]:
    positive = weight > 0
    binding = _binding_parts(graph, np.flatnonzero(binds & positive))
    yield binding
    on_lane = np.isin(ROLE[graph.edge_table.kind], SAME_LANE_ROLES) & ~binds & positive
    yield _parts_like_binding(binding, np.flatnonzero(on_lane), bound_by, weight)
    yield from _lag_parts(graph, np.flatnonzero(~binds & positive & ~on_lane), weight, called)


def _binding_parts(graph: DependencyGraph, rows: Ints) -> EdgeParts:
    """Divide what bound something as the accounting of a critical path does."""
    edges, times = graph.edge_table.take(rows), graph.timeline.times
    stretches = Stretches.of(
        walk=0, start=times[edges.source], end=times[edges.target], source=edges.source, target=edges.target,
        edge=rows, kind=edges.kind, lane=graph.event_table.lane[event_of(edges.target)], pending=False,
    )  # fmt: skip
    return divide_into_parts(graph, stretches, rows)


def divide_into_parts(graph: DependencyGraph, stretches: Stretches, number: Ints) -> EdgeParts:
    """Return the parts of stretches of time, in order of the numbers that these get as edges."""
    span = (np.array([extreme], np.int64) for extreme in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
    accounting = TimeAccounting(graph, ())
    accounts = accounting.divide(stretches, *span)
    owner, bound = owners_and_classes(graph, accounts, stretches)
    parts = EdgeParts.of(
        edge=number[accounts.stretch], start=accounts.start, length=accounts.end - accounts.start, owner=owner,
        lane=accounting.lanes(accounts, stretches), part=accounts.part, bound=bound,
    )  # fmt: skip
    return parts.take(np.lexsort((parts.start, parts.edge)))


def _parts_like_binding(binding: EdgeParts, rows: Ints, bound_by: Ids, weight: Ints) -> EdgeParts:
    """Give edges of a lane the parts of the edge that let their target go, the latest ones up to their weight."""
    first = np.searchsorted(binding.edge, bound_by[rows], side="left")
    count = np.searchsorted(binding.edge, bound_by[rows], side="right") - first
    place = np.repeat(np.arange(len(rows)), count)
    nth = np.arange(len(place)) - (np.cumsum(count) - count)[place]
    found = replace(binding.take(first[place] + nth), edge=rows[place].astype(np.int32))
    too_long = summed_by(place, found.length, len(rows)) - weight[rows]
    if not (too_long > 0).any():
        return found
    # What an edge weighs less than the binding one is missing at the beginning.
    before = np.cumsum(found.length) - found.length
    before -= before[np.searchsorted(place, place, side="left")]
    cut = np.clip(too_long[place] - before, 0, found.length)
    shorter = replace(found, start=found.start + cut, length=found.length - cut)
    return shorter.take(shorter.length > 0)


def _lag_parts(graph: DependencyGraph, rows: Ints, weight: Ints, called: Ints) -> Iterator[EdgeParts]:
    """Divide lags that bound nothing: of a launch first the call's own time, the rest is a lag of its kind."""
    edges, events, times = graph.edge_table.take(rows), graph.event_table, graph.timeline.times
    end, in_call = times[edges.target], np.minimum(called[rows], weight[rows])
    owner = event_of(np.where(OWNED_BY_SOURCE[edges.kind], edges.source, edges.target))
    lag = EdgeParts.of(
        edge=rows, start=end - weight[rows] + in_call, length=weight[rows] - in_call, owner=owner,
        lane=events.lane[owner], part=TimePart.LAG, bound=lag_classes(edges.kind),
    )  # fmt: skip
    yield lag.take(lag.length > 0)
    call = replace(
        lag, start=end - weight[rows], length=in_call, part=np.full(len(rows), TimePart.CALL, np.int8),
        bound=np.full(len(rows), BoundBy.CPU_BOUND, np.int8),
    )  # fmt: skip
    yield call.take(call.length > 0)
