"""What each rank did between what it did with others: walks back that stay on the rank.

    thread   ──[call k-1]──a──b──[call k]──      back from the arrival at k: b, a, then the call of k-1
    thread   ──[call k-1]───····──a──[call k]    the thread had waited for k-1: back to where its work ended
    worker        [=== k-1 ===]──/
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.algorithms.time.stretches import LaneRuns, Stretches, binding_edges, lane_runs
from hta_graph.columns import Columns, first_of_runs, laid_out
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import Bools, EdgeKind, Ids, Ints, Rule

__all__ = ["OwnWays", "own_ways"]


@dataclass(frozen=True)
class OwnWays:
    """For each member of a job how its rank came there, by what happened on that rank alone.

    ``before`` is the member that the way back meets first (-1: none), at its end where ``went_on`` is set (the rank had
    waited for it), else at its arrival; ``before_ns`` is when. ``since`` are the stretches from there on, ``lag`` those
    from what let the member arrive to its arrival; ``walk`` counts the members.
    """

    before: Ids
    went_on: Bools
    before_ns: Ints
    since: Stretches
    lag: Stretches


@dataclass(frozen=True, eq=False)
class _Stops(Columns):
    """Where ways end, in order of their places among the runs of lanes: the end of a member, or what let it arrive."""

    place: Ids
    member: Ids
    is_end: Bools


@dataclass(frozen=True, eq=False)
class _Heads(Columns):
    """Where the ways back from some members have got to: their places among the runs, and the stop before that."""

    member: Ints
    place: Ids
    stop: Ints


def own_ways(job: JobGraph) -> OwnWays:
    """Walk back from the arrival of every member to the member before it, along what bound its own rank.

    What let a kernel arrive is the source of the edge that bound its start; on the CPU it is the point of the calling
    thread at which the rank arrived.
    """
    walk = _Walk(job.ranks_apart)
    return walk.from_members()


class _Walk:
    def __init__(self, apart: JobGraph) -> None:
        self._graph = apart
        self._runs: LaneRuns = lane_runs(apart)
        self._binding = binding_edges(apart)
        self._times = apart.timeline.times
        self._cause = self._arrival_edges()
        self._stops = self._stops_of_members()

    def _arrival_edges(self) -> Ids:
        """Return the edge by whose source each member arrived (-1: none): its call's, else what bound its start."""
        edges, start = self._graph.edge_table, start_point(self._graph.members.row)
        called = np.full(len(self._times), -1, np.int32)
        by_call = np.flatnonzero(edges.rule == Rule.CALL_OF_WORKER)
        called[edges.target[by_call]] = by_call
        return np.where(called[start] >= 0, called[start], self._binding[start]).astype(np.int32)

    def _stops_of_members(self) -> _Stops:
        members, edges = self._graph.members, self._graph.edge_table
        known = np.flatnonzero(self._cause >= 0)
        ends = self._runs.place[end_point(members.row)]
        stops = _Stops.of(
            place=np.concatenate([ends, self._runs.place[edges.source[self._cause[known]]]]),
            member=np.concatenate([np.arange(len(members)), known]),
            is_end=np.arange(len(members) + len(known)) < len(members),
        )
        # At one place the end comes first: what it let arrive comes after it.
        return stops.take(np.lexsort((members.arrival[stops.member], ~stops.is_end, stops.place)))

    def from_members(self) -> OwnWays:
        count = len(self._graph.members)
        before, went_on = np.full(count, -1, np.int32), np.zeros(count, np.bool_)
        before_ns = np.zeros(count, np.int64)
        stops, parts = self._stops, [Stretches.empty()]
        own = np.flatnonzero(~stops.is_end)
        heads = _Heads.of(member=stops.member[own], place=stops.place[own], stop=own - 1)
        # A round takes every way along its lane and over one edge: as many rounds as the longest way has hand-overs.
        while len(heads):
            first = self._runs.first[heads.place]
            ends_here = (heads.stop >= 0) & (stops.place[heads.stop] >= first)
            until = np.where(ends_here, stops.place[heads.stop], first)
            parts.append(self._along_lanes(heads, until))
            met = heads.take(ends_here)
            before[met.member], went_on[met.member] = stops.member[met.stop], stops.is_end[met.stop]
            before_ns[met.member] = self._times[self._runs.points[stops.place[met.stop]]]
            heads, across = self._across_edges(heads.take(~ends_here), first[~ends_here])
            parts.append(across)
        return OwnWays(before, went_on, before_ns, Stretches.join(parts), self._lags())

    def _along_lanes(self, heads: _Heads, until: Ids) -> Stretches:
        walk, place = laid_out(until + 1, heads.place - until)
        target = self._runs.points[place]
        return self._stretches_into(heads.member[walk], target, self._binding[target])

    def _across_edges(self, heads: _Heads, first: Ids) -> tuple[_Heads, Stretches]:
        target = self._runs.points[first]
        edge = self._binding[target]
        known = edge >= 0
        member, target, edge = heads.member[known], target[known], edge[known]
        place = self._runs.place[self._graph.edge_table.source[edge]]
        stop = np.searchsorted(self._stops.place, place, side="right") - 1
        return _Heads.of(member=member, place=place, stop=stop), self._stretches_into(member, target, edge)

    def _lags(self) -> Stretches:
        """Return the stretch from what let each kernel arrive to its start; on the CPU a call arrives at once."""
        edges, member = self._graph.edge_table, np.flatnonzero(self._cause >= 0)
        member = member[edges.rule[self._cause[member]] != Rule.CALL_OF_WORKER]
        return self._stretches_into(member, start_point(self._graph.members.row[member]), self._cause[member])

    def _stretches_into(self, walk: Ints, target: Ids, edge: Ids) -> Stretches:
        edges = self._graph.edge_table
        source, kind = edges.source[edge], edges.kind[edge]
        # A clock fault may stamp a cause after its effect.
        start = np.minimum(self._times[source], self._times[target])
        # Once what a thread waited for has ended, its time is its own: nothing else shows when wait() returned.
        waited = kind == EdgeKind.COLLECTIVE_WAIT
        source, kind = np.where(waited, self._point_before[target], source), np.where(waited, EdgeKind.THREAD_ORDER, kind)
        return Stretches.of(
            walk=walk, start=start, end=self._times[target], source=source, target=target, edge=edge, kind=kind,
            lane=self._graph.event_table.lane[event_of(target)], pending=False,
        )  # fmt: skip

    @cached_property
    def _point_before(self) -> Ids:
        """The point before each one on its thread, itself if there is none."""
        edges = self._graph.edge_table
        before = np.arange(len(self._times), dtype=np.int32)
        follows = edges.kind == EdgeKind.THREAD_ORDER
        before[edges.target[follows]] = edges.source[follows]
        return before
