"""Critical paths of a job of summaries: boundary events show where they lead, excerpts of ranks what they pass.

ranks     file ─▶ summary ┐                     ┌▶ legs ─▶ excerpt ┐
job                       └▶ matched, in one time ─▶ walk back      └▶ the path, with all that describes it
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import ref

import numpy as np

from hta_graph.base.arrays import column_types, distinct, freeze, take_or
from hta_graph.base.errors import QueryError, TraceError
from hta_graph.base.storage.location import Location
from hta_graph.graph.dependency_graph import DependencyGraph, MatchedRows
from hta_graph.graph.job_graph import JobGraph, full_rank_graphs
from hta_graph.graph.rank_summary import RankSummary, StepColumns, fingerprint, summary_rows
from hta_graph.model import Ids, Ints
from hta_graph.multi_rank.join_ranks import join_ranks
from hta_graph.multi_rank.matching.collectives import Collectives
from hta_graph.multi_rank.rank_activity import RankActivity
from hta_graph.multi_rank.summary.boundary_events import excerpt_rows
from hta_graph.multi_rank.summary.path_legs import (
    JobLegs,
    LegSegments,
    PathLegs,
    job_path_legs,
    segments_in_job,
    segments_of_legs,
    window_in_job,
)
from hta_graph.multi_rank.summary.summarize import RankInJobTime, SummaryRequest, rank_in_job_time, summary_graph
from hta_graph.paths.binding_edges import Chain, walk_back
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.host_pauses import pauses_of_rank
from hta_graph.paths.intervals import union
from hta_graph.paths.segments import SegmentTable
from hta_graph.paths.time_accounting import explained_lags
from hta_graph.paths.unrecorded_work import KnownUnrecordedWork
from hta_graph.paths.windows import Window, WindowQuery, step, step_lengths


@dataclass(frozen=True)
class ExcerptRequest:
    """What a rank answers about its job's paths.

    ``rows`` are kept in any case, of ``size`` that the graph had when they were chosen, and ``content`` was its
    :func:`fingerprint` then; ``legs`` are in the time that ``clock`` says, and so is ``crossed``: from when to when the
    path is on the rank outside of legs, in communication. ``matched`` are rows of what the rank did with others, as far
    as the job knows their part. ``data_load`` are expressions of what loads data.
    """

    rows: Ids
    size: int
    content: str
    legs: PathLegs
    crossed: tuple[Ints, Ints]
    matched: Ids
    clock: dict[str, Any]
    data_load: tuple[str, ...]

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON."""
        hops = {name: getattr(self.legs, name).tolist() for name in column_types(PathLegs)}
        return {
            "rows": self.rows.tolist(), "size": self.size, "content": self.content, "hops": hops, "clock": self.clock,
            "crossed": [times.tolist() for times in self.crossed], "matched": self.matched.tolist(),
            "data_load": list(self.data_load),
        }  # fmt: skip

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ExcerptRequest:
        """Undo :meth:`as_record`."""
        rows, hops = np.array(record["rows"], np.int32), PathLegs.of(**record["hops"])
        start, end = (np.array(times, np.int64) for times in record["crossed"])
        matched, data_load = np.array(record["matched"], np.int32), tuple(record["data_load"])
        return cls(rows, record["size"], record["content"], hops, (start, end), matched, record["clock"], data_load)


def file_changed_error(path: Location) -> TraceError:
    """Return the error of a file that holds something else than when it was read first."""
    return TraceError(path, "has changed while it was read", "run the analysis again")


def rank_if_unchanged(graph: DependencyGraph, content: str, clock: Mapping[str, Any] | None) -> RankInJobTime:
    """Return a rank in the time that a clock says, of a file that holds what it did when it was read first.

    Raises:
        TraceError: the file has changed since.
    """
    if fingerprint(graph) != content:
        raise file_changed_error(graph.path)
    return rank_in_job_time(graph, clock)


def make_path_excerpt(graph: DependencyGraph, request: ExcerptRequest) -> DependencyGraph:
    """Return what legs pass on a rank, given its whole graph: a graph of few rows with :class:`LegSegments`.

    Raises:
        TraceError: the file has changed since.
    """
    rank = rank_if_unchanged(graph, request.content, request.clock)
    local = rank.local.with_attached(MatchedRows(request.matched))
    found = segments_of_legs(local, request.legs, request.data_load)
    inside = np.zeros(request.size, np.bool_)
    inside[request.rows] = True
    times = [np.concatenate(of) for of in zip((request.legs.start, request.legs.end), request.crossed, strict=True)]
    inside[excerpt_rows(rank.local, union(*times), found)] = True
    kept = freeze(np.flatnonzero(inside).astype(np.int32))
    number = freeze((np.cumsum(inside) - 1).astype(np.int32))
    induced = rank.local.rows_and_edges(kept)
    summary = RankSummary(
        kept, request.size, request.content, np.empty(0, np.int64), explained_lags(rank.local)[0], StepColumns.empty(),
        (), is_in_job_time=True,
    )  # fmt: skip
    columns = {name: take_or(number, getattr(found.segments, name)) for name in ("event", "open_call")}
    segments = replace(found, segments=replace(found.segments, **columns))
    attached = [segments, pauses_of_rank(rank.local), KnownUnrecordedWork.of(graph)]
    return summary_graph(graph, rank, summary, induced.edges, induced.wait_calls, attached)


STEPS_AT_ONCE = 24
"""Of a job with at most this many steps all paths are found together: the ranks' files are read once for them."""


ReadExcerpts = Callable[[Mapping[int, ExcerptRequest]], Mapping[int, DependencyGraph]]
"""Asks the ranks' whole graphs, which reads their files once more; by rank."""


@dataclass(frozen=True)
class ExcerptSource:
    """Lets the job of summaries answer for the one that has more rows of it, those of paths."""

    job: JobGraph

    def full_rank_graphs(self, ranks: Iterable[int]) -> dict[int, DependencyGraph]:
        """Return the whole graphs of some ranks.

        Raises:
            HtaGraphError: a file cannot be read once more, or has changed.
        """
        return full_rank_graphs(self.job, ranks)

    def paths(self, _: DependencyGraph, windows: Sequence[WindowQuery], data_load: Sequence[str]) -> list[CriticalPath]:
        """Return the paths of windows.

        Raises:
            QueryError: the job has no such window.
            HtaGraphError: a file cannot be read once more.
        """
        return critical_paths(self.job, windows, data_load=data_load)


_PathKey = tuple[tuple[int, int, int], tuple[str, ...]]
"""What makes windows have one path, and the expressions of what loads data."""


@dataclass(kw_only=True)
class SummaryPaths:
    """Finds paths of a job of summaries, for which it reads the ranks' whole graphs; found ones are kept.

    Of a path its graph is not kept, which has the job: that is there as long as one of its paths is held.

    Args:
        matched: what the ranks did together.
        read_excerpts: how the whole graphs are asked.
    """

    matched: Collectives
    read_excerpts: ReadExcerpts
    _kept: dict[_PathKey, tuple[ref[DependencyGraph], Window, Chain, SegmentTable]] = field(
        init=False, default_factory=dict
    )

    def paths(self, job: JobGraph, windows: Sequence[WindowQuery], data_load: Sequence[str]) -> list[CriticalPath]:
        """Return the paths of windows.

        Raises:
            QueryError: the job has no such window.
            HtaGraphError: a file cannot be read once more.
        """
        resolved = [window(job) for window in windows]
        loads = tuple(data_load or ())
        found = self._known(resolved, loads)
        if any(_window_key(window) not in found for window in resolved):
            every = [*resolved, *_step_windows(job, resolved)]
            found |= self._known(every, loads)
            new = list({key: window for window in every if (key := _window_key(window)) not in found}.values())
            for window, path in zip(new, self._find(job, new, loads), strict=True):
                found[_window_key(window)] = path
                self._kept[_window_key(window), loads] = ref(path.graph), path.window, path.chain, path.segment_table
        return [_with_window(found[_window_key(window)], window) for window in resolved]

    def _known(self, windows: Iterable[Window], loads: tuple[str, ...]) -> dict[tuple[int, int, int], CriticalPath]:
        """Return the paths that were found and whose graph is held."""
        found = {}
        for key in map(_window_key, windows):
            if (key, loads) in self._kept and (graph := self._kept[key, loads][0]()) is not None:
                found[key] = CriticalPath(graph, *self._kept[key, loads][1:])
        return found

    def _find(self, job: JobGraph, windows: Sequence[Window], data_load: tuple[str, ...]) -> list[CriticalPath]:
        legs = job_path_legs(job, windows, data_load)
        excerpts = self.read_excerpts(self._excerpt_requests(job, legs, data_load))
        joined = self._with_excerpts(job, excerpts)
        moved = [window_in_job(window, job, joined) for window in windows]
        segments, window_number = [segments_in_job(legs.crossings, job, joined)], [legs.crossing_window]
        for part in joined.rank_graphs:
            if part.rank in excerpts:
                leg_segments = excerpts[part.rank].needed(LegSegments, "is not an excerpt")
                segments.append(_segments_of_rank_in_job(leg_segments.segments, joined, part.index))
                window_number.append(legs.legs.window[legs.legs.rank_index == part.index][leg_segments.leg])
        merged = SegmentTable.join(segments).merged(np.concatenate(window_number), len(windows))
        chains = [walk_back(joined, window.sink.point, window.start_ns) for window in moved]
        return [CriticalPath(joined, *of) for of in zip(moved, chains, merged, strict=True)]

    def _excerpt_requests(self, job: JobGraph, legs: JobLegs, data_load: tuple[str, ...]) -> dict[int, ExcerptRequest]:
        found, clocks = dict[int, ExcerptRequest](), self.matched.clocks.by_rank
        for rank_index in np.union1d(legs.legs.rank_index, legs.crossings.part).tolist():
            part = job.rank_graphs[rank_index]
            summary = part.graph.attached(RankSummary)
            whole = (len(part.graph.event_table), fingerprint(job.graph(part.rank)))
            size, content = whole if summary is None else (summary.size, summary.content)
            rows = summary_rows(part.graph)
            clock = SummaryRequest.clock_record(clocks[part.rank])
            members = job.members
            own = members.row[(members.part == rank_index) & (members.number >= 0)]
            matched = rows[part.of_rank(own)]
            crossed = legs.crossings.take(legs.crossings.part == rank_index)
            found[part.rank] = ExcerptRequest(
                rows, size, content, legs.legs.legs_of_rank(rank_index), (crossed.start, crossed.end), matched, clock,
                data_load,
            )  # fmt: skip
        return found

    def _with_excerpts(self, job: JobGraph, excerpts: Mapping[int, DependencyGraph]) -> JobGraph:
        """Join the ranks again, with more rows of those that the paths come by."""
        graphs = []
        for part in job.rank_graphs:
            own = job.graph(part.rank)
            more, summary = excerpts.get(part.rank), own.attached(RankSummary)
            if more is not None and summary is not None:
                more = more.with_attached(summary.with_rows(summary_rows(more)))
            if more is not None and (done := own.attached(RankActivity)) is not None:
                more = more.with_attached(done)
            graphs.append(own if more is None else more)
        return join_ranks(graphs, matched=self.matched, source=ExcerptSource(job))


def _step_windows(job: JobGraph, windows: Sequence[Window]) -> list[Window]:
    """Return the windows of all steps where no step was named: they are shown with the chosen one."""
    lengths = step_lengths(job)
    if not any(window.is_default for window in windows) or len(lengths) > STEPS_AT_ONCE:
        return []
    found = []
    for length in lengths:
        try:
            found.append(step(length.number)(job))
        except QueryError:  # a step within another one's work has no window of its own
            continue
    return found


def _window_key(window: Window) -> tuple[int, int, int]:
    """Return what makes two windows have one path, whatever they are called."""
    return window.start_ns, window.end_ns, window.sink.point


def _with_window(path: CriticalPath, window: Window) -> CriticalPath:
    """Return a path as that of a window that was asked for in another way."""
    if replace(path.window, sink=window.sink) == window:
        return path
    return CriticalPath(path.graph, replace(window, sink=path.window.sink), path.chain, path.segment_table)


def _segments_of_rank_in_job(segments: SegmentTable, job: JobGraph, rank_index: int) -> SegmentTable:
    """Return pieces of one rank's rows and lanes as the job's."""
    part = job.rank_graphs[rank_index]
    event, call = (part.of_job(column).astype(np.int32) for column in (segments.event, segments.open_call))
    # Lanes of communication on CPUs stand behind those of all ranks, in the same order as behind those of one.
    members = job.members.take(job.members.part == rank_index)
    further = distinct(job.event_table.lane[members.row[job.lanes.is_communication[job.event_table.lane[members.row]]]])
    own = np.arange(len(part.graph.lanes.labels)) + part.first_lane
    lane = take_or(np.concatenate([own, further]), segments.lane)
    return replace(
        segments,
        event=event,
        open_call=call,
        lane=lane.astype(np.int32),
        part=np.full(len(segments), rank_index, np.int32),
    )
