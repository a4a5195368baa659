r"""A rank's binding edges between few of its points: what lies between is passed over, the walk back is the same.

points    a ── b ── c ── d ── e        a, c and e are kept
kept      a ─────── c ─────── e        each has one edge, from where the walk back comes by next
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import freeze, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import Bools, EdgeKind, Ids, Ints, Rule
from hta_graph.paths.binding_edges import LaneRuns, binding_edges, lane_runs

__all__ = ["Contraction", "contract_edges"]

UNREACHED_NS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Contraction:
    """The edges that bind kept points, in points of the rows that are kept, and what is passed over on their way.

    ``clock_dip`` is, for each kept point, by how much (ns) the way to it was stamped before where it comes from: clocks that
    go wrong in between hide there. It is 0 nearly everywhere.
    """

    edges: EdgeTable
    clock_dip: Ints


def contract_edges(graph: DependencyGraph, rows: Ids) -> Contraction:
    """Keep some rows of a graph and contract what binds their points; edges between kept points stay as they are."""
    kept = np.zeros(len(graph.timeline.times), np.bool_)
    kept[start_point(rows)] = kept[end_point(rows)] = True
    number = np.cumsum(kept) - 1
    points = np.flatnonzero(kept)
    binding = binding_edges(graph)
    before = take_or(graph.edge_table.source, binding)
    source, lowest = _next_kept_points(graph, kept, before, points)
    bound = np.flatnonzero(source >= 0)
    is_direct = source[bound] == before[points[bound]]
    edge = binding[points[bound]]
    edges = EdgeTable(
        freeze(number[source[bound]].astype(np.int32)),
        freeze(number[points[bound]].astype(np.int32)),
        freeze(np.where(is_direct, graph.edge_table.kind[edge], EdgeKind.THREAD_ORDER).astype(np.int8)),
        freeze(np.where(is_direct, graph.edge_table.rule[edge], Rule.RECORDED).astype(np.int8)),
    )
    clock_dip, since = np.zeros(len(points), np.int64), graph.timeline.times[source[bound]]
    clock_dip[bound] = since - np.minimum(lowest[bound], since)
    return Contraction(edges, freeze(clock_dip))


def _next_kept_points(graph: DependencyGraph, kept: Bools, before: Ids, points: Ints) -> tuple[Ids, Ints]:
    """Return for each kept point the next one on the walk back (-1: none), and the earliest time on the way there."""
    runs, every = lane_runs(graph), np.arange(len(kept), dtype=np.int32)
    begins = runs.first == every
    known = _RunWalk(runs, np.maximum.accumulate(np.where(kept[runs.points], every, -1)), graph.timeline.times)
    # From where a run begins the way goes on in another one: it leads as far as is known, twice as far in each round.
    number, entered = np.cumsum(begins) - 1, take_or(runs.place, before[runs.points[begins]])
    met, lowest = known.back_from(entered)
    goes_on = (entered >= 0) & (met < 0)
    leads = np.where(goes_on, number[entered], np.arange(len(entered)))
    while (leads != (further := leads[leads])).any():
        lowest, leads = np.minimum(lowest, lowest[leads]), further
    met = met[leads]
    place = take_or(runs.place, before[points])
    own, passed = known.back_from(place)
    is_open, run = (place >= 0) & (own < 0), number[place]
    next_kept = np.where(is_open, met[run], own)
    return next_kept, np.where(is_open, np.minimum(passed, lowest[run]), passed)


@dataclass(frozen=True)
class _RunWalk:
    """Which kept point the walk back along a run meets; ``last`` is the place of the last one up to each place."""

    runs: LaneRuns
    last: Ids
    times: Ints

    def back_from(self, places: Ids) -> tuple[Ids, Ints]:
        """Return what is met from places (-1: none) on, -1 where nothing is; and the earliest time before that."""
        first = take_or(self.runs.first, places)
        last = take_or(self.last, places)
        meets = (places >= 0) & (last >= first)
        # A lane's points are in order of time: the earliest is passed last.
        until = np.where(meets, last + 1, first)
        time = np.where(until <= places, self.times[self.runs.points[until.clip(max=len(self.last) - 1)]], UNREACHED_NS)
        return np.where(meets, take_or(self.runs.points, last), -1), np.where(places >= 0, time, UNREACHED_NS)
