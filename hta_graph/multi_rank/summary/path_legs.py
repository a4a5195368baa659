r"""The legs of a job's critical path: on which rank it is from when to when, found among boundary events.

rank 0   a ═══════ b                        ═ leg: on one rank, from kept point to kept point
\\                     \\ crossing: known to the job itself
rank 1              c ═══════ d ═══ end

What a leg passes is read from the rank's whole graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, distinct, freeze, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.points import end_point, event_of, is_end, start_point
from hta_graph.graph.rank_summary import RankSummary, summary_rows
from hta_graph.model import EdgeKind, Ids, Ints
from hta_graph.paths.binding_edges import Chain, walk_back
from hta_graph.paths.segments import SegmentTable, segments_of_paths
from hta_graph.paths.time_accounting import TimeAccounting
from hta_graph.paths.window_ends import Sink
from hta_graph.paths.windows import Window


@dataclass(frozen=True, eq=False)
class PathLegs(Columns):
    """Ways back on one rank: from ``point`` to ``stop`` (-1: as far as causes are known), in [start, end] (ns).

    ``lane`` is the thread on which a window continues behind its last point (-1: none).
    """

    point: Ids
    stop: Ids
    start: Ints
    end: Ints
    lane: Ids


@dataclass(frozen=True)
class LegSegments:
    """The pieces of legs, each with the number of its leg, and the rows that the ways back came by."""

    leg: Ints
    segments: SegmentTable
    rows: Ids


def segments_of_legs(graph: DependencyGraph, legs: PathLegs, data_load: Sequence[str]) -> LegSegments:
    """Return what each leg passes: pieces that tile it.

    Args:
        graph: the rank's whole graph, in the time of the legs.
        legs: ways back, with points of that graph.
        data_load: expressions of what loads data, PyTorch's if none are given.
    """
    columns = (legs.point, legs.stop, legs.start, legs.end)
    chains = [_walk_leg(graph, *of) for of in zip(*(column.tolist() for column in columns), strict=True)]
    windows = [
        Window(start, end, "hop", 0, 0, Sink(point, int(chain.times[0]), lane))
        for start, end, point, lane, chain in zip(
            legs.start.tolist(), legs.end.tolist(), legs.point.tolist(), legs.lane.tolist(), chains, strict=True
        )
    ]
    found = segments_of_paths(graph, chains, windows, TimeAccounting(graph, data_load)) if chains else []
    rows = distinct(np.concatenate([np.empty(0, np.int32), *(event_of(chain.points) for chain in chains)]))
    numbers = np.repeat(np.arange(len(found)), np.array([len(segments) for segments in found], np.int64))
    return LegSegments(numbers, SegmentTable.join([SegmentTable.empty(), *found]), rows)


def _walk_leg(graph: DependencyGraph, point: int, stop: int, start: int, end: int) -> Chain:
    """Walk back from a point at the time at which the job's path has come there."""
    chain = walk_back(graph, point, start)
    times = np.minimum(chain.times, end)
    if stop < 0:
        return replace(chain, times=freeze(times))
    last = np.flatnonzero(chain.points == stop)
    until = int(last[0]) + 1 if len(last) else len(chain.points)
    times = times[:until].copy()
    # A clock fault on the way may have pulled the time back further than where the way ends is stamped.
    times[-1] = min(int(times[-1]), start)
    return Chain(chain.points[:until], chain.edges[: until - 1], freeze(times))


BETWEEN_RANKS = (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT)


@dataclass(frozen=True, eq=False)
class WindowLegs(Columns):
    """The legs of some windows' paths: the window, the place of the rank, and how :class:`PathLegs` has them.

    Points are those of the rank's whole graph.
    """

    window: Ints
    rank_index: Ids
    point: Ids
    stop: Ids
    start: Ints
    end: Ints
    lane: Ids

    def legs_of_rank(self, rank_index: int) -> PathLegs:
        """Return the legs on one rank."""
        own = self.take(self.rank_index == rank_index)
        return PathLegs(own.point, own.stop, own.start, own.end, own.lane)


@dataclass(frozen=True)
class JobLegs:
    """What the paths of windows consist of: legs on ranks, and pieces (with their windows) between ranks."""

    legs: WindowLegs
    crossings: SegmentTable
    crossing_window: Ints


def job_path_legs(job: JobGraph, windows: Sequence[Window], data_load: Sequence[str]) -> JobLegs:
    """Walk back from the sinks of windows through a job of few rows."""
    legs, crossings = [WindowLegs.empty()], list[tuple[int, Chain, Window]]()
    for number, window in enumerate(windows):
        chain = _with_clock_faults(job, walk_back(job, window.sink.point, window.start_ns))
        legs.append(_legs_of_path(job, number, chain, window))
        crossings += [(number, *crossed) for crossed in _rank_crossings(job, chain, window)]
    found = [SegmentTable.empty()]
    if crossings:
        chains, own = [chain for _, chain, _ in crossings], [window for *_, window in crossings]
        found = segments_of_paths(job, chains, own, TimeAccounting(job, data_load))
    numbers = np.repeat(
        [number for number, *_ in crossings], [len(segments) for segments in found] if crossings else []
    )
    return JobLegs(WindowLegs.join(legs), SegmentTable.join(found), numbers.astype(np.int64))


def _with_clock_faults(job: JobGraph, chain: Chain) -> Chain:
    """Let time fall to where what is passed over falls: on a walk back it never rises."""
    dips = np.zeros(len(job.timeline.times), np.int64)
    for part in job.rank_graphs:
        summary = part.graph.attached(RankSummary)
        if summary is not None and len(summary.clock_dip):
            dips[2 * part.first_row : 2 * part.first_row + len(summary.clock_dip)] = summary.clock_dip
    if not dips.any() or len(chain.points) < 2:
        return chain
    times = chain.times.copy()
    own = job.timeline.times[chain.points[1:]]
    on_rank = ~np.isin(job.edge_table.kind[chain.edges], BETWEEN_RANKS)
    times[1:] = np.minimum(times[1:], own - np.where(on_rank, dips[chain.points[:-1]], 0))
    return replace(chain, times=freeze(np.minimum.accumulate(times)))


def _legs_of_path(job: JobGraph, number: int, chain: Chain, window: Window) -> WindowLegs:
    """Return the legs of one path; from its last point a leg leads as far back as causes are known."""
    if not len(chain.points):
        return WindowLegs.empty()
    kind = np.append(job.edge_table.kind[chain.edges], np.int8(-1))
    reached = np.append(chain.times[1:], window.start_ns).clip(min=window.start_ns)
    is_leg = ~np.isin(kind, BETWEEN_RANKS) & (chain.times > reached)
    rank_index = job.rank_index_of(event_of(chain.points))
    points = _points_in_ranks(job, chain.points, rank_index)
    back = WindowLegs.of(
        window=number, rank_index=rank_index, point=points, stop=np.append(points[1:], np.int32(-1)), start=reached,
        end=chain.times, lane=-1,
    ).take(is_leg)  # fmt: skip
    # Behind the last point the window may go on, on a thread: a lane is the rank's own, as the point is.
    lane = window.sink.lane - job.rank_graphs[int(rank_index[0])].first_lane if window.sink.lane >= 0 else -1
    behind = WindowLegs.of(
        window=number, rank_index=rank_index[:1], point=points[:1], stop=points[:1], start=chain.times[:1],
        end=window.end_ns, lane=lane,
    )  # fmt: skip
    return WindowLegs.join([behind.take(behind.end > behind.start), back])


def _points_in_ranks(job: JobGraph, points: Ids, rank_index: Ids) -> Ids:
    """Return points of a job of few rows as those of its ranks' whole graphs; -1 for rendezvous."""
    found = np.full(len(points), -1, np.int32)
    rows = event_of(points)
    for index in np.unique(rank_index[rank_index >= 0]).tolist():
        here = np.flatnonzero(rank_index == index)
        own = summary_rows(job.rank_graphs[index].graph)[job.rank_graphs[index].of_rank(rows[here])]
        found[here] = np.where(is_end(points[here]), end_point(own), start_point(own))
    return found


def _rank_crossings(job: JobGraph, chain: Chain, window: Window) -> list[tuple[Chain, Window]]:
    """Return the edges of a path that lead from rank to rank, each as a path of its own, with the time it takes."""
    kind = job.edge_table.kind[chain.edges]
    found = []
    for at in np.flatnonzero(np.isin(kind, BETWEEN_RANKS)).tolist():
        start, end = max(int(chain.times[at + 1]), window.start_ns), int(chain.times[at])
        if end > start:
            own = Chain(chain.points[at : at + 2], chain.edges[at : at + 1], freeze(np.array([end, start])))
            sink = Sink(int(chain.points[at]), end)
            found.append((own, Window(start, end, window.label, 0, 0, sink)))
    return found


def window_in_job(window: Window, job: JobGraph, other: JobGraph) -> Window:
    """Return a window of one job as one of another that keeps more rows of the same ranks."""
    if window.sink.point < 0:
        return window
    row = event_of(np.array([window.sink.point], np.int32))
    moved = _rows_in_job(row.astype(np.int64), job, other)
    at_end = bool(is_end(np.array([window.sink.point], np.int32))[0])
    point = end_point(moved) if at_end else start_point(moved)
    return replace(window, sink=Sink(int(point[0]), window.sink.time_ns, window.sink.lane))


def segments_in_job(segments: SegmentTable, job: JobGraph, other: JobGraph) -> SegmentTable:
    """Return pieces of one job as those of another that keeps more rows of the same ranks; lanes are the same."""
    event, call = (_rows_in_job(column, job, other).astype(np.int32) for column in (segments.event, segments.open_call))
    return replace(segments, event=event, open_call=call)


def _rows_in_job(rows: Ids | Ints, job: JobGraph, other: JobGraph) -> Ints:
    """Return rows of one job as those of another; -1 stays."""
    number = np.full(len(job.event_table), -1, np.int64)
    for part, its in zip(job.rank_graphs, other.rank_graphs, strict=True):
        kept, more = summary_rows(part.graph), summary_rows(its.graph)
        number[part.first_row : part.first_row + len(kept)] = its.first_row + np.searchsorted(more, kept)
    meets = job.rendezvous_rows
    number[meets] = other.rendezvous_rows
    moved: Ints = take_or(number, rows)
    return moved
