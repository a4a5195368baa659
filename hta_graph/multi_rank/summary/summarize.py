"""A rank's whole graph → its summary: boundary events, edges that bind them, what the whole graph answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import freeze, take_or
from hta_graph.base.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.job_graph import shift_to_job_time
from hta_graph.graph.points import event_of, is_end, start_point
from hta_graph.graph.rank_summary import RankSummary, StepColumns, WindowRecord, fingerprint
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Ids, Ints
from hta_graph.multi_rank.communication_edges import HostCommunications, arrival_points
from hta_graph.multi_rank.join_ranks import isolated_rank_job, with_host_communications
from hta_graph.multi_rank.matching.communications import RankCommunications
from hta_graph.multi_rank.matching.job_clocks import RankClock
from hta_graph.multi_rank.matching.pair_clocks import ClockLine
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.rank_activity import RankActivity, rank_activity
from hta_graph.multi_rank.summary.boundary_events import boundary_rows, contract_edges, wake_up_edges
from hta_graph.paths.time_accounting import explained_lags
from hta_graph.paths.unrecorded_work import KnownUnrecordedWork
from hta_graph.paths.window_ends import step_work_ends
from hta_graph.paths.windows import Window, WindowQuery, annotation, step, step_lengths, whole
from hta_graph.trace.table import Flows, SyncTable, Trace


def step_columns(graph: DependencyGraph) -> StepColumns:
    """Return the steps of a rank's whole graph."""
    lengths = step_lengths(graph)
    names = ("number", "iteration_ns", "latency_ns", "is_candidate", "launches_work")
    columns = zip(("number", "iteration", "latency", "is_candidate", "launches_work"), names, strict=True)
    return StepColumns.of(
        **{column: [getattr(one, name) for one in lengths] for column, name in columns}, end=step_work_ends(graph)
    )


def window_record(asked: str, found: Window | QueryError, rows: Ids) -> WindowRecord:
    """Return a window of the whole graph, or why there is none, as JSON, with points of the rows that are kept."""
    if isinstance(found, QueryError):
        return {"asked": asked, "error": [str(found), found.on_command_line]}
    sink = found.sink
    point = summary_point(rows, sink.point)
    fields = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "rows_after", "after_ns",
              "step", "form", "is_default")  # fmt: skip
    return {
        "asked": asked,
        "sink": [point, sink.time_ns, sink.lane],
        **{name: getattr(found, name) for name in fields},
    }


def summary_point(rows: Ids, point: int) -> int:
    """Return the point among the kept rows that a point of the whole graph is; -1 for point -1."""
    if point < 0:
        return -1
    own = np.array([point], np.int32)
    return int(start_point(np.searchsorted(rows, event_of(own)))[0] + is_end(own)[0])


MAX_STEP_WINDOWS = 1_000
"""Of more steps only the first ones have windows that can be requested."""


@dataclass(frozen=True)
class SummaryRequest:
    """What a summary must answer: windows besides the steps and the whole trace, causes of waits, and in which time.

    ``annotations`` are arguments of :func:`annotation`; ``doings`` is how much that the rank did is listed for
    causes (0: no causes). ``clock`` is the rank's (:meth:`clock_record`) where its times cannot just be moved.
    """

    annotations: tuple[dict[str, Any], ...] = ()
    doings: int = 0
    clock: dict[str, Any] | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> SummaryRequest:
        """Return the question that JSON has the fields of."""
        return cls(**{**record, "annotations": tuple(record["annotations"])})

    @staticmethod
    def clock_record(clock: RankClock) -> dict[str, Any]:
        """Return what of a clock moves times, as JSON."""
        return {"line": asdict(clock.line)}

    def windows(self, graph: DependencyGraph) -> list[WindowQuery]:
        """Return all windows that can be requested of the summary."""
        numbers = [item.number for item in graph.steps()[:MAX_STEP_WINDOWS]]
        forms: list[dict[str, bool]] = [{}, {"cpu_window": True}, {"gpu_window": True}]
        steps = [step(number, **form) for number in numbers for form in forms]
        return [*steps, whole(), *(annotation(**given) for given in self.annotations)]


@dataclass(frozen=True)
class RankInJobTime:
    """A rank's whole graph in some time, and the same with its communication on the CPU, as in a job's."""

    graph: DependencyGraph
    local: DependencyGraph
    members: RankCommunications
    clock: RankClock


def rank_in_job_time(graph: DependencyGraph, clock: Mapping[str, Any] | None) -> RankInJobTime:
    """Return a rank in the time that a clock says; without one in its own."""
    members, known = read_communications(graph), RankClock()
    if clock is not None:
        known = RankClock(line=ClockLine(**clock["line"]))
        events = graph.event_table
        start, end = (known.to_job(times) for times in (events.start, events.end))
        members = replace(members, arrival=known.to_job(members.arrival))
        graph = shift_to_job_time(graph, start, end)
    return RankInJobTime(graph, with_host_communications(graph, members), members, known)


def summarize_rank(graph: DependencyGraph, question: SummaryRequest) -> DependencyGraph:
    """Return a rank's graph as one of few rows, which answers what a job asks of it as the whole one does.

    Raises:
        TraceError: the file, which is read once more for recorded arguments, is gone or has changed.
    """
    rank = rank_in_job_time(graph, question.clock)
    answers = [(window.asked, _window_or_error(rank.graph, window)) for window in question.windows(graph)]
    windows = [found for _, found in answers if isinstance(found, Window)]
    rows = boundary_rows(rank.local, _communication_rows(rank), windows)
    found = contract_edges(rank.local, rows)
    known = RankSummary(
        rows=rows,
        size=len(graph.event_table),
        content=fingerprint(graph),
        clock_dip=found.clock_dip,
        limits=freeze(explained_lags(rank.local)[0]),
        steps=step_columns(rank.graph),
        windows=tuple(window_record(asked, answer, rows) for asked, answer in answers),
        is_in_job_time=question.clock is not None,
    )
    edges = EdgeTable.join([found.edges, wake_up_edges(rank.local, rows)])
    attached = [KnownUnrecordedWork.of(graph), *_activity_for_causes(rank, question.doings)]
    return summary_graph(graph, rank, known, edges, WaitCalls.empty(), attached)


def _activity_for_causes(rank: RankInJobTime, doings: int) -> list[RankActivity]:
    """Return what causes of waits take of a rank; nothing where causes are not wanted."""
    if not doings:
        return []
    return [rank_activity(isolated_rank_job(rank.graph, rank.local, rank.members), doings)]


def summary_graph(
    graph: DependencyGraph,
    rank: RankInJobTime,
    known: RankSummary,
    edges: EdgeTable,
    calls: WaitCalls,
    attached: Iterable[object],
) -> DependencyGraph:
    """Make the graph of the rows that are kept: in the rank's own times, on its own lanes, with the edges given.

    What is known of the whole graph goes with it, and ``attached``.
    """
    chosen = replace(graph.trace.select(known.rows), flows=Flows.empty(), syncs=SyncTable.empty())
    trace = _without_unused_names(chosen)
    # What joining ranks counts of the communication on the CPU is counted here.
    notes = {key: count for key, count in rank.local.diagnostics.items() if key not in graph.trace.diagnostics}
    number = np.full(known.size, -1, np.int32)
    number[known.rows] = np.arange(len(known.rows))
    own = read_communications(graph)
    members = replace(own, row=take_or(number, own.row), call=take_or(number, own.call))
    return DependencyGraph(trace, Timeline(trace), edges, notes, calls, [members, known, *attached])


def _window_or_error(graph: DependencyGraph, window: WindowQuery) -> Window | QueryError:
    try:
        return window(graph)
    except QueryError as error:
        return error


def _communication_rows(rank: RankInJobTime) -> Ints:
    """Return the rows of what a rank did with others, of their calls, and of what they arrived with."""
    members = rank.members
    is_message = np.array(members.is_message, np.bool_)
    work = HostCommunications.of(row=members.row, call=members.call, arrival=members.arrival, is_message=is_message)
    came, _ = arrival_points(rank.graph, work.take((work.call >= 0) & ~members.on_gpu))
    return np.concatenate([members.row, members.call, came]).astype(np.int64)


def _without_unused_names(trace: Trace) -> Trace:
    """Leave out the names that no row has: a rank has thousands."""
    used, code = np.unique(trace.events.name, return_inverse=True)
    names = tuple(trace.names[at] for at in used.tolist())
    return replace(trace, names=names, events=replace(trace.events, name=freeze(code.astype(np.int32))))
