"""What each rank did between collectives and messages: walks back that stay on the rank.

thread   ──[call k-1]──a──b──[call k]──           back from the arrival at k: b, a, then the call of k-1
thread   ──[call k-1]───····──a──[call k]         the thread had waited for k-1: back to where its work ended
worker          └[=== k-1 ===]─┘

thread   ──[launch a]──[launch b]──               two walks join at a call: that of k from b, of k-1 from a
compute             └[ a ]   └[ b ]
communication            └[k-1]  └[k]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import is_queue
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import Bools, EdgeRule, Ids, Ints
from hta_graph.paths.binding_edges import WalkSpans, binding_edges, lane_runs


@dataclass(frozen=True, eq=False)
class _WalkEnds(Columns):
    """Where ways end, in order of their places among the runs of lanes.

    The end of a member, or a point of the way to its arrival; ``way`` continues from there.
    """

    place: Ids
    way: Ids
    is_end: Bools


@dataclass(frozen=True, eq=False)
class _WalkHeads(Columns):
    """Where ways back have got to: their places among the runs, and the last stop at or before that."""

    way: Ints
    place: Ids
    stop: Ints


@dataclass(frozen=True)
class LocalWalks:
    """How ranks came to what they did with others, by what happened on each rank alone.

    Each member has a way, of its number: back from what let it arrive to what the rank met before. One that arrived on
    a GPU has another from the first point on a thread that its way comes to, since ways of the next members join there.
    So has a message on the CPU whose thread did other things before it waited: back from there to its arrival, or to
    what the rank met meanwhile. ``member`` says whose each is. ``before`` is the way that continues (-1: none), met at
    ``before_ns``: at the end of its member where ``resumed`` is set (the rank had waited for it), else on the way to
    its arrival. ``since`` are the spans of the ways; ``lag`` those from what let a member arrive to its arrival, by
    member. That a kernel stood behind another communication on its stream is no part of its way, since the rank
    continued meanwhile: ``queued`` is that one, where nothing else let the kernel arrive later (-1: none).
    """

    member: Ids
    before: Ids
    resumed: Bools
    before_ns: Ints
    since: WalkSpans
    lag: WalkSpans
    queued: Ids


def rank_local_walks(job: DependencyGraph) -> LocalWalks:
    """Walk back from the arrival of every member to what its rank met before, along what bound that rank alone.

    What let a kernel arrive is the source of the edge that bound its start; on the CPU it is the point of the calling
    thread at which the rank arrived.
    """
    walk = _RankLocalWalk(job.independent_ranks)
    return walk.from_members()


class _RankLocalWalk:
    def __init__(self, apart: DependencyGraph) -> None:
        self._graph = apart
        self._runs = lane_runs(apart)
        self._binding = binding_edges(apart)
        self._times = apart.timeline.times
        self._cause = self._arrival_edges()
        every = np.arange(len(apart.members), dtype=np.int32)
        arrived = every[self._cause >= 0]
        ends = self._runs.place[end_point(apart.members.row)]
        begins = self._runs.place[apart.edge_table.source[self._cause[arrived]]]
        self._member = every
        joins, joined_at = self._first_on_threads(self._sorted_stops([ends], [every]), arrived, begins)
        busy = np.flatnonzero(apart.members.busy)
        self._member = np.concatenate([every, joins, busy]).astype(np.int32)
        further = np.arange(len(every), len(self._member), dtype=np.int32)
        self._late = further[len(joins) :]
        # Whoever comes to the end of such a message comes from where its thread waited for it.
        of_end = every.copy()
        of_end[busy] = self._late
        self._stops = self._sorted_stops([ends, begins, joined_at], [of_end, arrived, further[: len(joins)]])

    def _arrival_edges(self) -> Ids:
        """Return the edge by whose source each member arrived (-1: none): its call's, else what bound its start."""
        edges, start = self._graph.edge_table, start_point(self._graph.members.row)
        called = np.full(len(self._times), -1, np.int32)
        by_call = np.flatnonzero(edges.rule == EdgeRule.CALL_OF_WORKER)
        called[edges.target[by_call]] = by_call
        return np.where(called[start] >= 0, called[start], self._binding[start]).astype(np.int32)

    def _sorted_stops(self, places: Sequence[Ids], ways: Sequence[Ids | Ints]) -> _WalkEnds:
        """Sort places at which ways may end; the first are ends of members."""
        way = np.concatenate(ways)
        stops = _WalkEnds.of(place=np.concatenate(places), way=way, is_end=np.arange(len(way)) < len(ways[0]))
        # At one place the end comes first: what it let arrive comes after it.
        came = self._graph.members.arrival[self._member[stops.way]]
        return stops.take(np.lexsort((stops.way, came, ~stops.is_end, stops.place)))

    def _first_on_threads(self, ends: _WalkEnds, arrived: Ids, place: Ids) -> tuple[Ints, Ids]:
        """Find the first point on a thread on the way to each member that a GPU held, if no other's end comes first."""
        held = self._on_gpu(place)
        heads = _WalkHeads.of(way=arrived[held], place=place[held], stop=_last_walk_end(ends, place[held]))
        found = [_WalkHeads.empty()]
        while len(heads):
            first, _, ends_here = self._until(ends, heads)
            heads, _ = self._across_edges(ends, heads.take(~ends_here), first[~ends_here])
            on_gpu = self._on_gpu(heads.place)
            found.append(heads.take(~on_gpu))
            heads = heads.take(on_gpu)
        every = _WalkHeads.join(found)
        return every.way, every.place

    def _on_gpu(self, place: Ids) -> Bools:
        found: Bools = self._graph.is_gpu[event_of(self._runs.points[place])]
        return found

    def from_members(self) -> LocalWalks:
        count, stops, parts = len(self._member), self._stops, [WalkSpans.empty()]
        before, resumed = np.full(count, -1, np.int32), np.zeros(count, np.bool_)
        before_ns = np.zeros(count, np.int64)
        own = np.flatnonzero(~stops.is_end)
        heads = _WalkHeads.of(way=stops.way[own], place=stops.place[own], stop=own - 1)
        heads = _WalkHeads.join([heads, self._before_waits()])
        # A round takes every way along its lane and over one edge: as many rounds as the longest way has hand-overs.
        while len(heads):
            first, until, ends_here = self._until(stops, heads)
            parts.append(self._along_lanes(heads, until))
            met = heads.take(ends_here)
            before[met.way], resumed[met.way] = stops.way[met.stop], stops.is_end[met.stop]
            before_ns[met.way] = self._times[self._runs.points[stops.place[met.stop]]]
            heads, across = self._across_edges(stops, heads.take(~ends_here), first[~ends_here])
            parts.append(across)
        return LocalWalks(self._member, before, resumed, before_ns, WalkSpans.join(parts), self._lags(), self._queued())

    def _before_waits(self) -> _WalkHeads:
        """Return where threads came to wait for the messages that they had asked for before."""
        edge = self._binding[end_point(self._graph.members.row[self._member[self._late]])]
        known = np.flatnonzero(edge >= 0)
        place = self._runs.place[self._graph.edge_table.source[edge[known]]]
        return _WalkHeads.of(way=self._late[known], place=place, stop=_last_walk_end(self._stops, place))

    def _until(self, stops: _WalkEnds, heads: _WalkHeads) -> tuple[Ids, Ids, Bools]:
        """Return where each head's run begins, how far back it leads, and whether a stop ends it there."""
        first = self._runs.first[heads.place]
        stop = np.append(stops.place, np.int32(-1))[heads.stop]
        return first, np.maximum(stop, first), stop >= first

    def _along_lanes(self, heads: _WalkHeads, until: Ids) -> WalkSpans:
        head, place = expand_ranges(until + 1, heads.place - until)
        target = self._runs.points[place]
        return self._spans_into(heads.way[head], target, self._binding[target])

    def _across_edges(self, stops: _WalkEnds, heads: _WalkHeads, first: Ids) -> tuple[_WalkHeads, WalkSpans]:
        edge = self._binding[self._runs.points[first]]
        known = np.flatnonzero(edge >= 0)
        way, target, edge = heads.way[known], self._runs.points[first[known]], edge[known]
        place = self._runs.place[self._graph.edge_table.source[edge]]
        crossed = _WalkHeads.of(way=way, place=place, stop=_last_walk_end(stops, place))
        return crossed, self._spans_into(way, target, edge)

    def _lags(self) -> WalkSpans:
        """Return the span from what let each member arrive to its start; a call arrives by itself."""
        members = self._graph.members
        called = (members.call >= 0) & ~self._graph.is_gpu[members.row]
        member = np.flatnonzero((self._cause >= 0) & ~called)
        return self._spans_into(member, start_point(members.row[member]), self._cause[member])

    def _queued(self) -> Ids:
        members, behind = self._graph.members, _queue_predecessor(self._graph)
        source = self._graph.edge_table.source[self._cause]
        let_arrive = np.where(self._cause >= 0, self._times[source], np.iinfo(np.int64).min)
        ended = take_or(self._graph.event_table.end, take_or(members.row, behind))
        return np.where((behind >= 0) & (ended >= let_arrive), behind, -1).astype(np.int32)

    def _spans_into(self, walk: Ints, target: Ids, edge: Ids) -> WalkSpans:
        edges = self._graph.edge_table
        source = edges.source[edge]
        # A clock fault may stamp a cause after its effect.
        start = np.minimum(self._times[source], self._times[target])
        return WalkSpans.of(
            walk=walk, start=start, end=self._times[target], source=source, target=target, edge=edge,
            kind=edges.kind[edge], lane=self._graph.event_table.lane[event_of(target)], pending=False,
        )  # fmt: skip


def _queue_predecessor(job: DependencyGraph) -> Ids:
    """Return the member that each member's stream ran just before it (a place among the members); -1 for none."""
    behind, place = (np.full(len(job.event_table), -1, np.int32) for _ in range(2))
    place[job.members.row] = np.arange(len(job.members), dtype=np.int32)
    queue = np.flatnonzero(is_queue(job))
    behind[event_of(job.edge_table.target[queue])] = place[event_of(job.edge_table.source[queue])]
    return behind[job.members.row]


def _last_walk_end(stops: _WalkEnds, place: Ids) -> Ints:
    """Return the last stop at or before each place, whatever run that is in; -1 where there is none."""
    return np.searchsorted(stops.place, place, side="right") - 1
