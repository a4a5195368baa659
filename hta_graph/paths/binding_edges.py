"""Which edge binds each point, and the walk back along these: at each point to the predecessor that ended last."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, first_of_runs, freeze, last_of_runs, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Bools, Codes, EdgeRole, EdgeRule, Ids, Ints, edge_kinds

RELEASES = edge_kinds(lambda meaning: meaning.role == EdgeRole.RELEASE)


@dataclass(frozen=True, eq=False)
class WalkSpans(Columns):
    """Times [start, end) that walks pass between two points, in no order; those of one walk tile what it passes.

    ``edge`` led from the point ``source`` to the point ``target``, and is of ``kind``; -1 where none is known. ``lane``
    is where the walk was. Where ``pending`` is set, the span lies before the edge's source, GPU work that had yet to
    get there.
    """

    walk: Ints
    start: Ints
    end: Ints
    source: Ids
    target: Ids
    edge: Ids
    kind: Codes
    lane: Ids
    pending: Bools


@memoized
def binding_edges(graph: DependencyGraph) -> Ids:
    """For each point, the incoming edge whose source finished last (-1: none).

    A source stamped after its target by a clock fault counts as finished at the target, and so does an activity that
    runs until it releases the target, and one whose end a thread polled for: its queries until then were the wait. What
    lies below the error of clocks (``doubtful_edges``) binds nothing. Ties go to the kind that comes first in
    ``EdgeKind``, then to the source that comes later in the global order of points.
    """
    edges, target = graph.edge_table, graph.edge_table.target
    binding, may_bind = np.full(len(graph.timeline.times), -1, np.int32), np.ones(len(edges), np.bool_)
    may_bind[graph.doubtful_edges] = False
    rows = np.flatnonzero(may_bind).astype(np.int32)
    # Most points have one edge alone: whichever was written last is all there are.
    binding[target[rows]] = rows
    is_rival = np.zeros(len(binding), np.bool_)
    is_rival[target[rows[binding[target[rows]] != rows]]] = True
    rivals = rows[is_rival[target[rows]]]
    binding[target[rivals]] = -1
    last = _last_to_finish(graph, rivals)
    binding[target[last]] = last
    return freeze(binding)


def _last_to_finish(graph: DependencyGraph, rows: Ids) -> Ids:
    """Keep of the edges into one point the one that binds it."""
    edges, times = graph.edge_table.take(rows), graph.timeline.times
    releases = np.isin(edges.kind, RELEASES) | (edges.rule == EdgeRule.POLLED_UNTIL_WORK_END)
    finished = np.where(releases, times[edges.target], np.minimum(times[edges.source], times[edges.target]))
    # Of equal ends the kind that comes first, so it stands last.
    order = np.lexsort((graph.timeline.position[edges.source], -edges.kind, finished, edges.target))
    last: Ids = rows[order[last_of_runs(edges.target[order])]]
    return last


def run_starts(follows: Bools) -> Ids:
    """Return where the run of each begins, where ``follows`` marks those of one run with the one before it.

    >>> run_starts(np.array([False, True, False])).tolist()
    [0, 0, 2]
    """
    found: Ids = np.maximum.accumulate(np.where(follows, 0, np.arange(len(follows), dtype=np.int32)))
    return found


class LaneRuns:
    """Points lane by lane in order of time, and runs of them in which each binds the next.

    points    a ── b ── c    d ── e      (c does not bind d: d waited for another lane)
    first     0    0    0    3    3
    """

    def __init__(self, timeline: Timeline, follows: Bools) -> None:
        """Make runs of all points; ``follows`` marks, lane by lane, those that the one before binds."""
        self.points = timeline.by_lane
        self.place = timeline.position_by_lane
        """Where each point of the trace stands in ``points``."""
        self.first = freeze(run_starts(follows))
        """Where each point's run begins."""

    @cached_property
    def oldest(self) -> Ids:
        """For each point of the trace the one at which its run begins."""
        return freeze(self.points[self.first[self.place]])


@memoized
def lane_runs(graph: DependencyGraph) -> LaneRuns:
    """Return the runs on all lanes: threads first, then streams, then the points that are not walked, alone each."""
    timeline, points = graph.timeline, graph.timeline.by_lane
    source = take_or(graph.edge_table.source, binding_edges(graph)[points])
    follows = np.zeros(len(points), np.bool_)
    # Bound by its neighbor, and on one lane with it: a hand-over between lanes may be next to it here by chance.
    follows[1:] = (source[1:] == points[:-1]) & ~first_of_runs(graph.event_table.lane[event_of(points)])[1:]
    return LaneRuns(timeline, follows)


@dataclass(frozen=True)
class Chain:
    """A walk back in time: ``edges[i]`` leads from ``points[i + 1]`` to ``points[i]``; ``times`` never increase."""

    points: Ids
    edges: Ids
    times: Ints


def walk_back(graph: DependencyGraph, sink: int, until_ns: int) -> Chain:
    """Follow binding edges from a point until a point at or before ``until_ns`` or without a predecessor.

    A point that is not walked has no predecessor; of point -1 the chain is empty.
    """
    if sink < 0:
        none = np.empty(0, np.int32)
        return Chain(none, none, np.empty(0, np.int64))
    runs, binding, times = lane_runs(graph), binding_edges(graph), graph.timeline.times
    # Plain memory views: looking up one number at a time is several times faster than in an array.
    oldest = runs.oldest.data
    edge_of, source_of, time_of = binding.data, graph.edge_table.source.data, times.data
    entered = [sink]
    # One round per change of lane, however many points a lane's run has in between.
    while True:
        left = oldest[entered[-1]]
        edge = edge_of[left]
        if edge < 0 or time_of[left] <= until_ns:
            break
        entered.append(source_of[edge])
    # From each point that was entered back to its run's oldest one, as one column; of the last run no more than asked.
    place = runs.place[np.array(entered, np.int32)]
    first = runs.first[place]
    oldest_place = int(first[-1])
    later = bisect_right(runs.points.data, until_ns, oldest_place, int(place[-1]) + 1, key=time_of.__getitem__)
    first[-1] = max(later - 1, oldest_place)
    count = place - first + 1
    run, nth = expand_ranges(np.zeros_like(count), count)
    walked: Ids = runs.points[place[run] - nth]
    # A clock fault may stamp a cause after its effect; on a walk back time never rises.
    return Chain(walked, binding[walked[:-1]], np.minimum.accumulate(times[walked]))


def walk_back_from_end(graph: DependencyGraph, row: int) -> Chain:
    """Follow binding edges from the end of an event (canonical row) as far as causes are known."""
    return walk_back(graph, int(end_point(np.array([row]))[0]), int(graph.event_table.start.min()))
