"""What a walk back through a graph passes: the stretches of time between its points, and runs of points on lanes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.columns import Columns, first_of_runs, freeze, last_of_runs
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import event_of
from hta_graph.graph.remembered import remembered
from hta_graph.model import Bools, Codes, EdgeKind, EdgeRole, Ids, Ints, edge_kinds

__all__ = ["LaneRuns", "Stretches", "binding_edges", "lane_runs"]

RELEASES = edge_kinds(lambda meaning: meaning.role == EdgeRole.RELEASE)


@dataclass(frozen=True, eq=False)
class Stretches(Columns):
    """Times [start, end) that walks pass between two points, in no order; those of one walk tile what it passes.

    ``edge`` led from the point ``source`` to the point ``target``, and is of ``kind``; -1 where none is known. ``lane``
    is where the walk was. Where ``pending`` is set, the stretch lies before the edge's source, GPU work that had yet to
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


@remembered
def binding_edges(graph: DependencyGraph) -> Ids:
    """For each point, the incoming edge whose source finished last (-1: none).

    A source stamped after its target by a clock fault counts as finished at the target, and so does an activity that
    runs until it releases the target. What lies below the error of clocks (``doubtful_edges``) binds nothing. Ties go
    to the kind that comes first in ``EdgeKind``, then to the source that comes later in the global order of points.
    """
    edges, times, place = graph.edge_table, graph.timeline.times, graph.timeline.position
    finished = np.minimum(times[edges.source], times[edges.target])
    releases = np.isin(edges.kind, RELEASES)
    finished[releases] = times[edges.target[releases]]
    finished[graph.doubtful_edges] = np.iinfo(np.int64).min
    binding = np.full(len(times), -1, np.int32)
    best = np.full(len(times), np.iinfo(np.int64).min)
    for kind in EdgeKind:
        rows = np.flatnonzero(edges.kind == kind).astype(np.int32)
        rows = _one_per_target(rows, edges.source, edges.target, finished, place)
        # Strictly later: of equal ends the kind that came first in this loop keeps the target.
        rows = rows[finished[rows] > best[edges.target[rows]]]
        binding[edges.target[rows]] = rows
        best[edges.target[rows]] = finished[rows]
    return freeze(binding)


def _one_per_target(rows: Ids, source: Ids, target: Ids, finished: Ints, place: Ids) -> Ids:
    """Keep of the edges into one point the one whose source finished last."""
    targets = target[rows]
    chosen = np.full(int(targets.max(initial=-1)) + 1, -1, np.int32)
    chosen[targets] = rows
    if (chosen[targets] == rows).all():  # most kinds lead into each point once: no need to sort
        return rows
    order = np.lexsort((place[source[rows]], finished[rows], targets))
    last = last_of_runs(targets[order])
    unique: Ids = rows[order[last]]
    return unique


class LaneRuns:
    """Points lane by lane in order of time, and runs of them in which each binds the next.

    points    a ── b ── c    d ── e      (c does not bind d: d waited for another lane)
    first     0    0    0    3    3
    """

    def __init__(self, points: Ids, follows: Bools, point_times: Ints) -> None:
        """Make runs.

        Args:
            points: points, lane by lane.
            follows: whether each is bound by the one before it.
            point_times: the times (ns) of all points of the trace.
        """
        places = np.arange(len(points), dtype=np.int32)
        self.points = points
        self.time = freeze(point_times[points])
        """When each of ``points`` is (ns)."""
        self.place = np.full(len(point_times), -1, np.int32)
        """Where each point of the trace stands in ``points``; -1 for those that do not."""
        self.place[points] = places
        self.first = np.maximum.accumulate(np.where(follows, 0, places))
        """Where each point's run begins."""

    @cached_property
    def oldest(self) -> Ids:
        """For each point of the trace the one at which its run begins."""
        return freeze(self.points[self.first[self.place]])


@remembered
def lane_runs(graph: DependencyGraph) -> LaneRuns:
    """Return the runs on all lanes: threads first, then streams, then the points that are not walked, alone each."""
    timeline, lane = graph.timeline, graph.event_table.lane
    on_stream = timeline.order[graph.is_activity[event_of(timeline.order)]]
    by_stream = on_stream[np.argsort(lane[event_of(on_stream)], kind="stable")]
    not_walked = np.flatnonzero(timeline.position < 0).astype(np.int32)
    # Also points that are not walked get a place, so that a walk may ask for any point's.
    points = np.concatenate([timeline.calls.points, by_stream, not_walked])
    source = np.append(graph.edge_table.source, -1)[binding_edges(graph)[points]]
    follows = np.zeros(len(points), np.bool_)
    # Bound by its neighbour, and on one lane with it: a hand-over between lanes may be next to it here by chance.
    follows[1:] = (source[1:] == points[:-1]) & ~first_of_runs(lane[event_of(points)])[1:]
    return LaneRuns(points, follows, timeline.times)
