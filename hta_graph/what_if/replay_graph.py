"""A window of a graph, ready for replay: what each edge weighs, whose that time is, and what may change.

The edge that bound a point keeps its measured lag, so that nothing changes as long as nothing is changed. All others
weigh what they need and never what was waited on them:

sync call   [start ~~~~~~~~~~~~~~~~~ return]      the thread's own edge: only what came after the kernel's end
kernel        [=================]---▶|            this one bound it: the measured lag
stream      [==]- - - - - - - - ▶[===]            did not bind: no more than such a lag usually takes

Of a window only what was issued in it may change:

carried over   [======|====]              issued before the window: its times are given
window                |---------------|
issued in it          |~~op──|  [=====|~~   may change, also the time ~ from the window's start to the first cause
                                            and from the last point to its end

A change shifts the iterations before, too, and with them the start of the asked one. So an iteration is replayed
together with all before it (of a host that runs ahead, its work was launched in several), and its length is how much
later it ends than these:

before         |------1------|------2------|
after a change |-----1----|-----2-----|          iteration 2 lasts from the end of 1, wherever that is now
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, freeze, last_of_runs, stable_order, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, is_end
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, ROLE, Bools, BoundBy, Codes, EdgeKind, EdgeRole, Floats, Ids, Ints
from hta_graph.paths.binding_edges import WalkSpans, binding_edges, lane_runs
from hta_graph.paths.polled_loops import polled_loops
from hta_graph.paths.segments import OWNED_BY_SOURCE, lag_classes, owners_and_classes
from hta_graph.paths.time_accounting import TimeAccounting, TimePart, explained_lags
from hta_graph.paths.window_ends import NO_POINTS, issue_times
from hta_graph.paths.windows import LATEST_NS, Window
from hta_graph.what_if.longest_paths import ContractedPaths, LongestPaths

DEFAULT_LAG_NS = 10_000
"""Where no lag of a kind ever bound anything: launches, streams and returns take 1 to 10 µs on healthy machines."""

BINDING_ROUNDS = 2
"""How often what bound work is judged by usual lags, and these by what bound it; a third time changes hardly any."""

LAUNCHED_AHEAD_NS = 20_000
"""A launch that is as long before the predecessor's end does not delay a kernel."""

FEWEST_LAUNCHED_AHEAD = 10
"""A few gaps show no usual one."""

ON_LANE_KINDS = np.isin(
    ROLE[list(EdgeKind)], (EdgeRole.THREAD, EdgeRole.ACTIVITY, EdgeRole.TRANSFER, EdgeRole.AWAKENING)
)
"""Edges into a point that other work released: they weigh what came after that."""
IS_STREAM_KIND = ROLE[list(EdgeKind)] == EdgeRole.STREAM
COMPARED_KINDS = np.isin(ROLE[list(EdgeKind)], (EdgeRole.LAUNCH, EdgeRole.STREAM))
"""Edges into work on streams, whose lags show which one let it start."""


@dataclass(frozen=True, eq=False)
class EdgeParts(Columns):
    """What the weights of edges consist of, in order of edge: those of an edge sum to its weight, if that is positive.

    ``start`` is when (ns) the part was, or would have been, of ``length`` (ns); ``owner`` whose it is (row; -1:
    no event's), ``lane`` where, ``bound`` its class; ``part`` is its :class:`TimePart`.
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


LEAST_USUAL_NS = 500
"""Lags are not compared with shorter ones: AMD's profiler notes work back to back without a gap, so that each would be
many times the usual lag (NVIDIA's usual ones are 0.8 µs and more)."""


@memoized
def edge_weights(graph: DependencyGraph) -> EdgeWeights:
    """Weigh the edges of a graph; every point falls on its recorded time, but queries that a loop repeated."""
    edges, times = graph.edge_table, graph.timeline.times
    measured = times[edges.target] - times[edges.source]
    rank, alike = graph.rank_index_of(event_of(edges.target)), _edges_by_kind(graph, measured)
    bound_by = _bound_without_locks(graph, binding_edges(graph)[edges.target])
    binds = bound_by == np.arange(len(edges))
    usual = _usual_lags(graph, alike, measured, _without_late_launches(graph, rank, binds))[rank, edges.kind]
    lags = _lags_of_causes(graph, measured)
    for _ in range(BINDING_ROUNDS):
        bound_by = _likeliest_causes(graph, lags / np.maximum(usual, LEAST_USUAL_NS), bound_by)
        bound_by = _bound_by_messages_under_way(graph, usual, bound_by)
        binds = bound_by == np.arange(len(edges))
        usual = _usual_lags(graph, alike, measured, binds)[rank, edges.kind]
    called = _call_durations(graph)
    least = np.where(ON_LANE_KINDS[edges.kind], measured[bound_by], np.maximum(usual, called))
    weight = np.where(binds, measured, np.minimum(measured, least))
    # Queries are repeated as long as the work takes: they need no time of their own.
    weight[np.isin(edges.target, polled_loops(graph).inside) & (edges.kind == EdgeKind.THREAD_ORDER)] = 0
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


def _without_late_launches(graph: DependencyGraph, rank: Ids | Ints, binds: Bools) -> Bools:
    """Leave out what came last before work on a stream that was launched shortly before, where there is enough else.

    Where the host launches late, the stream is ready after most launches, too, and its lag is the rest of theirs.

        launch      |~~~~~~~ 6 µs ~~~~~~~▶[work          no lag of a stream: it takes 4 µs because of the launch
        stream      ....=======]~ 4 µs ~~~[work
        launch      ..~~~~~ 90 µs ~~~~~~~▶[work          one: launched ahead
        stream      .............=======]~[work
    """
    kind = graph.edge_table.kind
    rows = np.flatnonzero(binds & IS_STREAM_KIND[kind])
    is_ahead, group = launched_ahead(graph, rows), rank[rows] * len(EdgeKind) + kind[rows]
    certain = np.bincount(group[is_ahead], minlength=(len(graph.rank_graphs) + 1) * len(EdgeKind))
    found = binds.copy()
    found[rows[~is_ahead & (certain[group] >= FEWEST_LAUNCHED_AHEAD)]] = False
    return found


def launched_ahead(graph: DependencyGraph, rows: Ints) -> Bools:
    """Mark edges (rows) into work that was launched so long before their source that the launch does not delay it."""
    edges = graph.edge_table.take(rows)
    call = take_or(graph.launching_call, event_of(edges.target))
    launched = take_or(graph.event_table.start, call, otherwise=LATEST_NS)
    found: Bools = launched <= graph.timeline.times[edges.source] - LAUNCHED_AHEAD_NS
    return found


def _lags_of_causes(graph: DependencyGraph, measured: Ints) -> Ints:
    """Return how long after each cause work began; of work that overlaps its predecessor, how long before its end.

    Where kernels may overlap (programmatic dependent launch), one starts about when its predecessor ends.
    """
    edges, times = graph.edge_table, graph.timeline.times
    overlaps = (edges.kind == EdgeKind.STREAM_ORDER) & ~is_end(edges.source)
    before_end = times[end_point(event_of(edges.source))] - times[edges.target]
    return np.where(overlaps, before_end, measured)


def _likeliest_causes(graph: DependencyGraph, times_usual: Floats, bound_by: Ids) -> Ids:
    """Let work on streams have been bound by what is likeliest: the cause whose lag is the least times its usual one.

    The cause that came last need not be it: a launch takes longer to reach the GPU than a stream to go on.

    launch      |~~~~~~~ 6 µs, as usual ~~~~~~~▶[work    this one, and not
    stream      ....=======]~ 4 µs, usually 1 ~▶[work    the one that came last
    """
    edges, points = graph.edge_table, len(graph.timeline.times)
    rows = np.flatnonzero(COMPARED_KINDS[edges.kind])
    least, likeliest = np.full(points, np.inf), np.full(points, -1, np.int32)
    np.minimum.at(least, edges.target[rows], times_usual[rows])
    rows = rows[times_usual[rows] == least[edges.target[rows]]]
    # Of equals it is what bound it before, else the last one.
    for chosen in (rows, rows[bound_by[rows] == rows]):
        likeliest[edges.target[chosen]] = chosen
    found = likeliest[edges.target]
    return np.where(found >= 0, found, bound_by).astype(np.int32)


def _bound_by_messages_under_way(graph: DependencyGraph, usual: Ints, bound_by: Ids) -> Ids:
    """Let ends of messages on CPUs have been bound by the other rank where the message was still under way, as usual.

    thread     ────────[c10d::recv_]▶|~~|
    message    sent ~~~~~ as usual ~~~~▶|      this one, though the thread came to wait for it later than it was sent
    """
    edges, times = graph.edge_table, graph.timeline.times
    sent = np.flatnonzero(edges.kind == EdgeKind.POINT_TO_POINT)
    came = bound_by[sent]
    of_thread = take_or(edges.kind, came) == EdgeKind.THREAD_ORDER
    under_way = of_thread & (times[edges.source[sent]] + usual[sent] > times[take_or(edges.source, came, otherwise=0)])
    message = np.full(len(times), -1, np.int32)
    message[edges.target[sent[under_way]]] = sent[under_way]
    found = message[edges.target]
    return np.where(found >= 0, found, bound_by).astype(np.int32)


EdgesByKind = list[tuple[Ints, Ints]]
"""Of each rank the edges with a lag that is not negative, kind by kind, and where each kind begins."""


def _edges_by_kind(graph: DependencyGraph, measured: Ints) -> EdgesByKind:
    found, kinds = [], np.arange(len(EdgeKind) + 1)
    for rows in edges_by_rank(graph):
        own = rows[measured[rows] >= 0]
        kind = graph.edge_table.kind[own]
        order = stable_order(kind)
        found.append((own[order], np.searchsorted(kind[order], kinds)))
    return found


def _usual_lags(graph: DependencyGraph, alike: EdgesByKind, measured: Ints, binds: Bools) -> Ints:
    """Return per rank and edge kind the median (ns) of the lags that bound something, whatever they are on others.

    A kind that never bound anything has no usual lag: its least one counts, and no more than is usual for other kinds
    of its role (10 µs where these bound nothing either). Of launches and streams none is longer than what counts as
    explained: where few bound something, that may be work from before the recording which they waited for.
    """
    # One more for rank -1: only what leads to a rendezvous is of no rank, and that weighs nothing.
    usual = np.zeros((len(graph.rank_graphs) + 1, len(EdgeKind)), np.int64)
    for part, (rows, first) in zip(graph.rank_graphs, alike, strict=True):
        usual[part.index] = _usual_lags_of_rank(first, measured[rows], binds[rows])
    most = np.where(COMPARED_KINDS, explained_lags(graph), np.iinfo(np.int64).max)
    usual[:-1] = np.minimum(usual[:-1], most)
    return usual


@memoized
def edges_by_rank(graph: DependencyGraph) -> list[Ints]:
    """Return the edges (rows) that lead to events of each rank."""
    rank = graph.rank_index_of(event_of(graph.edge_table.target))
    order = np.argsort(rank, kind="stable")
    first = np.searchsorted(rank[order], np.arange(len(graph.rank_graphs) + 1))
    return np.split(order[first[0] : first[-1]], first[1:-1] - first[0])


def _usual_lags_of_rank(first: Ints, lags: Ints, is_bound: Bools) -> Ints:
    usual = np.zeros(len(EdgeKind), np.int64)
    every = [lags[begin:end] for begin, end in pairwise(first)]
    bound = [own[is_bound[begin:end]] for own, (begin, end) in zip(every, pairwise(first), strict=True)]
    for of in EdgeKind:
        alike = [bound[of]] if len(bound[of]) else [bound[other] for other in EdgeKind if ROLE[other] == ROLE[of]]
        known = np.concatenate(alike)
        usual_of_role = int(np.median(known)) if len(known) else DEFAULT_LAG_NS
        usual[of] = usual_of_role if len(bound[of]) else every[of].min(initial=usual_of_role)
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
    on_lane = ON_LANE_KINDS[graph.edge_table.kind] & ~binds & positive
    yield _parts_like_binding(binding, np.flatnonzero(on_lane), bound_by, weight)
    yield from _lag_parts(graph, np.flatnonzero(~binds & positive & ~on_lane), weight, called)


def _binding_parts(graph: DependencyGraph, rows: Ints) -> EdgeParts:
    """Divide what bound something as the accounting of a critical path does."""
    edges, times = graph.edge_table.take(rows), graph.timeline.times
    spans = WalkSpans.of(
        walk=0, start=times[edges.source], end=times[edges.target], source=edges.source, target=edges.target,
        edge=rows, kind=edges.kind, lane=graph.event_table.lane[event_of(edges.target)], pending=False,
    )  # fmt: skip
    return divide_into_parts(graph, spans, rows)


def divide_into_parts(graph: DependencyGraph, spans: WalkSpans, number: Ints) -> EdgeParts:
    """Return the parts of spans of time, in order of the numbers that these get as edges."""
    ever = (np.array([extreme], np.int64) for extreme in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
    accounting = TimeAccounting(graph, ())
    accounts = accounting.divide(spans, *ever)
    owner, bound = owners_and_classes(graph, accounts, spans)
    parts = EdgeParts.of(
        edge=number[accounts.span], start=accounts.start, length=accounts.end - accounts.start, owner=owner,
        lane=accounting.lanes(accounts, spans), part=accounts.part, bound=bound,
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


@dataclass(frozen=True)
class ReplayEdges:
    """The edges that decide times in a window: their rows in ``graph.edge_table`` (-1: added), points and weights."""

    row: Ids
    source: Ids
    target: Ids
    weight: Ints
    preferred: Bools


class ReplayGraph:
    """A window of a graph as recorded, to which changes are applied.

    Points at or before its start and after its end keep their times. What has no cause in the graph keeps its distance
    to what came before it on the thread of its rank that does most, or, before that began, to the window's start: a
    point of its own behind those of the graph.

    Args:
        graph: one rank's or a job's.
        window: the window.
        previous: what is before it and ends where it starts, to be replayed with it; its tails stand last.
        external_points: points whose times others decide: they keep those that they are given.
        until: up to when (ns) points may change where others make that later than the window's end.
    """

    def __init__(
        self,
        graph: DependencyGraph,
        window: Window,
        external_points: Ids = NO_POINTS,
        until: int | None = None,
        previous: Window | None = None,
    ) -> None:
        self.graph = graph
        self.window = window
        self.previous = previous
        self.first = previous or window
        """The window with which replay begins."""
        sinks = [window.sink] if previous is None else [window.sink, previous.sink]
        self.ends: Ids = np.concatenate([sink.ends for sink in sinks])
        self.tails: Ints = np.concatenate([sink.tails for sink in sinks])
        self.tail_lanes: Ids = np.concatenate([sink.lanes for sink in sinks])
        self.answers: dict[Callable[[Any], Any], Any] = {}
        """Answers that were found (:func:`hta_graph.graph.memo.memoized`)."""
        self.start_point = len(graph.timeline.times)
        self.times = freeze(np.append(graph.timeline.times, self.first.start_ns))
        """The recorded times (ns) of all points, and last the start."""
        self.until = self._last_inside(window.end_ns if until is None else until)
        """Up to when (ns) points may change."""
        self.is_inside = self._points_inside(external_points)
        self.edges = self._edges_inside()

    def of_query(self, graph: DependencyGraph, window: Window) -> ReplayGraph:
        """Return this window as another query of its graph finds it; what is known of it stays."""
        found = copy(self)
        found.graph, found.window, found.first = graph, window, self.previous or window
        return found

    def without_graph(self) -> ReplayGraph:
        """Return what a graph may keep: a window that held the graph that keeps it would keep both for ever."""
        found = copy(self)
        del found.graph
        return found

    @property
    def length_ns(self) -> int:
        """The window's length as recorded."""
        return self.window.end_ns - self.window.start_ns

    def _last_inside(self, end: int) -> int:
        # What runs at the end of explicit times ends later.
        end = int(self.times[self.ends].max(initial=end))
        table, times = self.graph.edge_table, self.times
        faults = np.flatnonzero(times[table.source] > times[table.target])
        causes, effects = times[table.source[faults]], times[table.target[faults]]
        # By a clock fault a cause inside may be stamped after the end, and so may its own.
        while (beyond := int(causes[effects <= end].max(initial=end))) > end:
            end = beyond
        return end

    def _points_inside(self, external_points: Ids) -> Bools:
        inside = self.changes_at(self.times)
        inside[self.start_point] = inside[external_points] = False
        return freeze(inside)

    def changes_at(self, times: Ints) -> Bools:
        """Mark the times (ns) at which points may change."""
        inside: Bools = (times > self.first.start_ns) & (times <= self.until)
        return inside | (times == self.window.start_ns) if self.window.is_whole else inside

    def _edges_inside(self) -> ReplayEdges:
        known, table = edge_weights(self.graph), self.graph.edge_table
        # Who holds a lock first is decided anew when times change: that ties no thread to the times of another.
        rows = np.flatnonzero(self.is_inside[table.target] & (table.kind != EdgeKind.RUNTIME_LOCK))
        without = self.is_inside & np.append(self.graph.timeline.position >= 0, False)
        without[table.target[rows]] = False
        target = np.flatnonzero(without).astype(np.int32)
        source = self._preceding_points(target)
        weight = self.times[target] - self.times[source]
        return ReplayEdges(
            np.append(rows, np.full(len(source), -1)).astype(np.int32),
            np.append(table.source[rows], source),
            np.append(table.target[rows], target),
            np.append(known.weight[rows], weight),
            np.append(known.binds[rows], np.ones(len(source), np.bool_)),
        )

    def _preceding_points(self, roots: Ids) -> Ids:
        """Return for points without a cause the last point before them of their rank's busiest thread, or the start."""
        found = np.full(len(roots), self.start_point, np.int32)
        part = self.graph.rank_index_of(event_of(roots))
        for place, points in enumerate(_busiest_threads(self.graph)):
            own = np.flatnonzero(part == place)
            # So far back that clock faults, which lead back by less, cannot close a cycle.
            before = np.searchsorted(self.times[points], self.times[roots[own]] - CLOCK_FAULT_LIMIT_NS, side="left")
            found[own[before > 0]] = points[before[before > 0] - 1]
        found[self.times[found] < self.first.start_ns] = self.start_point
        return found

    @property
    @memoized
    def paths(self) -> LongestPaths:
        """The shape of the window's edges."""
        return self.paths_of(self.edges)

    def paths_of(self, edges: ReplayEdges, kept: Bools | None = None) -> LongestPaths:
        """Return the shape of other edges in the same window, or of some of them.

        Raises:
            QueryError: they form a cycle.
        """
        return LongestPaths(
            edges.source, edges.target, np.append(lane_runs(self.graph).points, np.int32(self.start_point)),
            np.append(self.graph.timeline.position, np.int32(-1)), ~self.is_inside, edges.preferred, kept,
        )  # fmt: skip

    @property
    @memoized
    def contracted(self) -> ContractedPaths:
        """The window's paths to its ends as recorded, for other weights."""
        return ContractedPaths(self.paths, self.edges.weight, self.ends)

    @property
    @memoized
    def deciding_ends(self) -> tuple[Ints, ContractedPaths]:
        """The places among ``ends`` of those that may be the latest however parts are scaled, and the paths to them.

        No end is behind another one in line, unless by a clock fault; one that the window continues behind may decide.
        """
        paths, own = self.paths, len(self.window.sink.ends)
        run, at = paths.run_of[self.ends], paths.place_in_run[self.ends]
        faults = np.append(np.cumsum(self.edges.weight[paths.followed_edge] < 0), 0)[at]
        order = np.lexsort((at, faults, run, np.arange(len(at)) >= own))
        last = last_of_runs(*(column[order] for column in (faults, run, np.arange(len(at)) >= own)))
        decides = (run < 0) | (self.tails > 0)
        decides[order[last]] = True
        places = np.flatnonzero(decides)
        return places, ContractedPaths(paths, self.edges.weight, self.ends[places])

    # -- whose the time is ---------------------------------------------------------------------------------------------

    @property
    @memoized
    def parts(self) -> EdgeParts:
        """What the weights consist of, as far as it lies in the window.

        ``edge`` is a row of ``edges``; behind those follow the tails of the window's ends, in their order.
        """
        every, own = edge_weights(self.graph).parts, self.edges.row >= 0
        number = np.full(len(self.graph.edge_table), -1, np.int32)
        number[self.edges.row[own]] = np.flatnonzero(own)
        found = every.take(number[every.edge] >= 0)
        found = EdgeParts.join([
            replace(found, edge=number[found.edge]), self._frozen_parts(), self._boundary_parts()
        ])  # fmt: skip
        start = np.maximum(found.start, self.first.start_ns)
        found = replace(found, start=start, length=np.minimum(found.start + found.length, self.window.end_ns) - start)
        found = found.take(found.length > 0)
        return found.take(np.lexsort((found.start, found.edge)))

    @property
    @memoized
    def tail_edges(self) -> Ints:
        """The edges along lanes that go on from the ends beyond the window, by their rows in the graph; -1: none."""
        table, found = self.graph.edge_table, np.full(len(self.times), -1, np.int64)
        beyond = np.isin(table.source, self.ends) & (self.times[table.target] > self.until)
        rows = np.flatnonzero(beyond & np.isin(ROLE[table.kind], (EdgeRole.THREAD, EdgeRole.ACTIVITY)))
        found[table.source[rows]] = rows
        return found[self.ends]

    @property
    @memoized
    def first_tail_part(self) -> int:
        """Where the parts of tails, which stand last, begin."""
        return int(np.searchsorted(self.parts.edge, np.int32(len(self.edges.row))))

    def _frozen_parts(self) -> EdgeParts:
        """Give the time before points without a cause no owner."""
        frozen = self.edges.row < 0
        frozen[self._heads] = False
        rows = np.flatnonzero(frozen)
        return EdgeParts.of(
            edge=rows, start=self.times[self.edges.source[rows]], length=self.edges.weight[rows], owner=-1,
            lane=self.graph.event_table.lane[event_of(self.edges.target[rows])], part=TimePart.EXCESS,
            bound=BoundBy.UNEXPLAINED,
        )  # fmt: skip

    def _boundary_parts(self) -> EdgeParts:
        """Divide the time from the window's start to the first causes, and from its ends to its end."""
        lanes = self.graph.event_table.lane
        target = self.edges.target[self._heads]
        heads = WalkSpans.of(
            walk=0, start=self.times[self.edges.source[self._heads]], end=self.times[target], source=-1, target=target,
            edge=-1, kind=-1, lane=lanes[event_of(target)], pending=False,
        )  # fmt: skip
        last = np.flatnonzero(self.tails > 0)
        source = self.ends[last]
        on_thread = ~self.graph.is_activity[event_of(source)]
        tails = WalkSpans.of(
            walk=0, start=self.times[source], end=self.times[source] + self.tails[last],
            source=np.where(on_thread, source, -1), target=-1, edge=-1,
            kind=np.where(on_thread, EdgeKind.THREAD_ORDER, -1),
            lane=np.where(on_thread, self.tail_lanes[last], -1), pending=False,
        )  # fmt: skip
        number = np.append(self._heads, len(self.edges.row) + last)
        return divide_into_parts(self.graph, WalkSpans.join([heads, tails]), number)

    @property
    @memoized
    def _heads(self) -> Ints:
        """The edges to points of threads without a cause; from the window's start only where a thread begins."""
        rows = np.flatnonzero(self.edges.row < 0)
        row = event_of(self.edges.target[rows])
        on_thread = ~self.graph.is_activity[row] & ~is_end(self.edges.target[rows])
        from_start = self.edges.source[rows] == self.start_point
        first = rows[on_thread & from_start]
        lane = self.graph.event_table.lane[event_of(self.edges.target[first])]
        return np.append(rows[on_thread & ~from_start], first[np.unique(lane, return_index=True)[1]])

    @property
    @memoized
    def is_issued(self) -> Bools:
        """Mark the rows that may change: what was issued in the window, and all that threads do; the rest keeps times.

        What a thread does in the window is the window's, whenever the operator around it began.
        """
        since = min(self.first.start_ns, self.first.cpu_span[0])
        found: Bools = self.window.is_whole | ~self.graph.is_activity | (issue_times(self.graph) >= since)
        return found

    @property
    @memoized
    def may_change(self) -> Bools:
        """Mark the parts of time that may change."""
        # What the recorder itself cost is no part of the program: no change of that saves it.
        changes = self.is_issued & ~self.graph.event_flags.profiler_overhead
        found: Bools = take_or(changes, self.parts.owner, otherwise=True)
        return found

    @property
    @memoized
    def is_gpu_work(self) -> Bools:
        """Mark the parts of time in which activities of GPUs run."""
        on_gpu = take_or(self.graph.is_gpu, self.parts.owner, otherwise=False)
        found: Bools = on_gpu & (self.parts.part == TimePart.ACTIVITY)
        return found

    @property
    @memoized
    def part_rank(self) -> Ids:
        """The place of the rank of each part: its owner's, else that of what its edge leads to."""
        leads_to = np.append(self.edges.target, self.ends)[self.parts.edge]
        owner = self.graph.rank_index_of(self.parts.owner)
        return np.where(owner >= 0, owner, self.graph.rank_index_of(event_of(leads_to)))

    # -- where it ends -------------------------------------------------------------------------------------------------

    def end_of(self, values: Ints, tails: Ints) -> int:
        """Return when (ns) the window ends with some values of all points and tails: with the last it waits for."""
        return int(self.ends_of(values[self.ends][None], tails[None])[0])

    def ends_of(self, values: Ints | Floats, tails: Ints | Floats) -> Any:
        """Return when (ns) the window ends, given rows of values of ``ends`` and of their tails.

        Where those before move, that is counted as if they had ended when they did.
        """
        own = len(self.window.sink.ends)
        if not own:
            return np.full(len(values), self.window.end_ns)
        reached = values + tails
        groups = [reached[:, :own], reached[:, own:]][: len(self.first_ends)]
        return self.ends_of_latest(np.stack([group.max(axis=1) for group in groups], axis=1))

    @property
    def first_ends(self) -> list[int]:
        """Where the ends of the window begin among ``ends``, and those of the window before."""
        return [0] if self.previous is None else [0, len(self.window.sink.ends)]

    def ends_of_latest(self, latest: Any) -> Any:
        """Return the same, given rows of when the latest end of the window is, and that of the window before."""
        if self.previous is None:
            return latest[:, 0]
        return self.window.start_ns + np.maximum(latest[:, 0] - latest[:, 1], 0)

    def start_of(self, values: Ints | Floats, tails: Ints | Floats) -> int:
        """Return when (ns) the window starts with some values of ``ends``: when those before end, if these may move."""
        if self.previous is None:
            return self.window.start_ns
        return int((values + tails)[len(self.window.sink.ends) :].max())

    def last_of(self, values: Ints | Floats, tails: Ints | Floats, *, of_previous: bool = False) -> int:
        """Return the place among ``ends`` of the one with which the window ends, by their values; -1: waits for none.

        Of several it is the one with which it ends as recorded, else one of the same rank. If asked, it is that of the
        window before.
        """
        sink, first = self.window.sink, 0
        if of_previous and self.previous is not None:
            sink, first = self.previous.sink, len(sink.ends)
        if not len(sink.ends):
            return -1
        reached = (values + tails)[first : first + len(sink.ends)]
        latest = np.flatnonzero(reached == reached.max())
        rank = self.graph.rank_index_of(event_of(np.append(sink.ends[latest], np.int32(sink.point))))
        is_usual, of_its_rank = sink.ends[latest] == sink.point, rank[:-1] == rank[-1]
        return first + int(latest[np.lexsort((~of_its_rank, ~is_usual))[0]])


def _busiest_threads(graph: DependencyGraph) -> list[Ids]:
    """Return the points of the thread with the most points of each rank, in order of time."""
    calls = graph.calls
    count = np.diff(calls.first)
    threads = []
    for part in graph.rank_graphs:
        own = np.where(graph.rank_index_of_lane == part.index, count[: len(graph.rank_index_of_lane)], 0)
        lane = int(np.argmax(own)) if len(own) else 0
        threads.append(calls.points[calls.lane_slice(lane)] if len(own) and own[lane] else calls.points[:0])
    return threads
