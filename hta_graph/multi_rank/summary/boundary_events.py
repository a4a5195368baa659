"""The boundary events of a rank, where a job's path may enter or leave it, and the edges that bind them.

What lies between is passed over, the walk back is the same:

points    a ── b ── c ── d ── e        a, c and e are kept
kept      a ─────── c ─────── e        each has one edge, from where the walk back comes by next
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct, freeze, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import Bools, EdgeKind, EdgeRule, EventKind, Ids, Ints
from hta_graph.multi_rank.summary.path_legs import LegSegments
from hta_graph.paths.binding_edges import LaneRuns, binding_edges, lane_runs
from hta_graph.paths.gpu_activity import activities
from hta_graph.paths.intervals import Intervals
from hta_graph.paths.windows import Window

UNREACHED_NS = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Contraction:
    """The edges that bind kept points, in points of the rows that are kept, and what is passed over on their way.

    ``clock_dip`` is, for each kept point, by how much (ns) the way to it was stamped before where it comes from: clocks
    that go wrong in between hide there. It is 0 nearly everywhere.
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
        freeze(np.where(is_direct, graph.edge_table.rule[edge], EdgeRule.RECORDED).astype(np.int8)),
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


FRAME_KINDS = (EventKind.CPU_OP, EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION, EventKind.OS_CALL)


def boundary_rows(graph: DependencyGraph, met: Ints, windows: Sequence[Window]) -> Ids:
    """Choose what a job may come by: rows that met others (and their calls), ends of windows and of the recording.

    Args:
        graph: the rank's, with its communication on the CPU.
        met: rows of what the rank did with others, of their calls and of what let them arrive; -1 is nothing.
        windows: those that can be requested.
    """
    if not len(graph.event_table):
        return np.empty(0, np.int32)
    sinks = [window.sink for window in windows if window.sink.point >= 0]
    points = np.array([sink.point for sink in sinks], np.int32)
    following = _next_points(graph, points, [sink.lane for sink in sinks])
    steps = np.array([item.event for item in graph.steps()], np.int64)
    launched = take_or(graph.launching_call, met)
    found = [met, launched, event_of(points), event_of(following), steps, _recording_ends(graph)]
    rows = distinct(np.concatenate(found).astype(np.int64))
    return _with_binding_rows(graph, rows[rows >= 0])


def _with_binding_rows(graph: DependencyGraph, rows: Ints) -> Ids:
    """Add to rows what binds points of theirs that communication would have let go on earlier.

    main      [allreduce_]                      [allreduce_]
    worker      [== gloo:all_reduce ==]────────▶│                does not bind
    autograd        [evaluate_function        ]▶│                binds, and so is to be compared with that

    So is what a thread did last before the end of a message, which it or the other rank decides.
    """
    edges = graph.edge_table
    on_cpu = np.flatnonzero(graph.lanes.is_communication[graph.event_table.lane])
    target = np.append(edges.target[edges.kind == EdgeKind.COLLECTIVE_WAIT], end_point(on_cpu))
    goes_on, binds = event_of(target), event_of(take_or(edges.source, binding_edges(graph)[target]))
    kept = np.zeros(len(graph.event_table), np.bool_)
    kept[rows] = True
    while len(fresh := binds[kept[goes_on] & ~kept[binds] & (binds >= 0)]):
        kept[fresh] = True
    return freeze(np.flatnonzero(kept).astype(np.int32))


def _next_points(graph: DependencyGraph, points: Ids, lanes: Sequence[int]) -> Ids:
    """Return the next point on the thread of each sink that is on one."""
    calls, position, found = graph.calls, graph.timeline.position, list[int]()
    for point, lane in zip(points.tolist(), lanes, strict=True):
        if lane >= 0:
            on_lane = calls.points[calls.lane_slice(lane)]
            at = int(np.searchsorted(position[on_lane], position[point], side="right"))
            found += on_lane[at : at + 1].tolist()
    return np.array(found, np.int32)


def _recording_ends(graph: DependencyGraph) -> Ints:
    """Return the first and last rows, of all and of each device's work."""
    events, work = graph.event_table, activities(graph)
    found = [int(events.start.argmin()), int(events.end.argmax())]
    device = graph.lanes.device[work.lane]
    for number in distinct(device).tolist():
        own = work.take(device == number)
        found += [int(own.row[own.start.argmin()]), int(own.row[own.end.argmax()])]
    return np.array(found, np.int64)


def wake_up_edges(graph: DependencyGraph, rows: Ids) -> EdgeTable:
    """Return the edges by which a thread may go on when its communication ends, but for those that bind."""
    number = np.full(len(graph.event_table), -1, np.int32)
    number[rows] = np.arange(len(rows))
    row = np.flatnonzero(graph.edge_table.kind == EdgeKind.COLLECTIVE_WAIT)
    edges = graph.edge_table.take(row)
    source, target = number[event_of(edges.source)], number[event_of(edges.target)]
    further = np.flatnonzero((source >= 0) & (target >= 0) & (binding_edges(graph)[edges.target] != row))
    return EdgeTable(
        freeze(2 * source[further] + (edges.source[further] & 1)),
        freeze(2 * target[further] + (edges.target[further] & 1)),
        edges.kind[further],
        edges.rule[further],
    )


def excerpt_rows(graph: DependencyGraph, on_path: Intervals, passed: LegSegments) -> Ids:
    """Choose what describes pieces of a path: their owners, all that runs meanwhile, and what is around and before it.

    Args:
        graph: the rank's.
        on_path: when the path is on the rank.
        passed: what the path passes there.
    """
    events = graph.event_table
    meanwhile = np.flatnonzero(on_path.covered_until(events.end) > on_path.covered_until(events.start))
    found = np.concatenate([passed.segments.event, passed.segments.open_call, passed.rows, meanwhile]).astype(np.int64)
    found = np.concatenate([found, take_or(graph.launching_call, found)])
    around = [take_or(graph.calls.parent, found)]
    for kinds in ((EventKind.PYTHON_FUNCTION,), (EventKind.ANNOTATION,)):
        on_cpu = found[(found >= 0) & ~take_or(graph.is_activity, found, otherwise=True)]
        around.append(graph.enclosing(on_cpu, *kinds))
    return _with_enclosing_rows(graph, np.concatenate([found, *around]))


def _with_enclosing_rows(graph: DependencyGraph, rows: Ints) -> Ids:
    """Add to rows what is around them, outwards to the last."""
    inside = np.zeros(len(graph.event_table), np.bool_)
    parents = [graph.calls.parent, *(graph.nesting(kind).parent for kind in FRAME_KINDS[1:])]
    fresh = distinct(rows[rows >= 0])
    while len(fresh):
        inside[fresh] = True
        outer = distinct(np.concatenate([parent[fresh] for parent in parents]).astype(np.int64))
        fresh = outer[(outer >= 0) & ~inside[outer]]
    return np.flatnonzero(inside).astype(np.int32)
