"""What the whole graph of a rank answered, for the graph of few of its rows that is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from hta_graph.algorithms.time.accounting import explained_lags
from hta_graph.algorithms.time.median_step import StepLength, step_lengths
from hta_graph.algorithms.time.sinks import Sink, ends_of_steps
from hta_graph.algorithms.time.windows import ResolvedWindow, known_windows
from hta_graph.columns import Columns, freeze
from hta_graph.errors import QueryError
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import event_of, is_end, start_point
from hta_graph.graph.remembered import remember, remembered
from hta_graph.model import Bools, Ids, Ints

__all__ = [
    "StepColumns",
    "WholeAnswers",
    "WindowRecord",
    "answer_as_whole",
    "fingerprint",
    "kept_rows_of",
    "kept_window",
    "step_columns",
    "whole_answers",
    "with_answers",
]

WindowRecord = dict[str, Any]
"""A resolved window as JSON has it, or the error that answers instead."""


@dataclass(frozen=True, eq=False)
class StepColumns(Columns):
    """The steps of a rank, in order of time: their lengths, and when their work ends (ns)."""

    number: Ints
    iteration: Ints
    latency: Ints
    is_candidate: Bools
    launches_work: Bools
    end: Ints


@dataclass(frozen=True)
class WholeAnswers:
    """What a graph of few rows knows of the rank's whole graph.

    ``rows`` are the rows that are kept, of ``size``; ``content`` is the whole graph's :func:`fingerprint`. ``dip`` is
    that of :class:`Contraction`, by point. ``limits`` are the longest lags (ns) that count as explained, by kind of
    edge. ``windows`` are those that may be asked about, with points of the kept rows. ``is_moved``: all times are the
    job's already, whatever those of the graph are.
    """

    rows: Ids
    size: int
    content: str
    dip: Ints
    limits: Ints
    steps: StepColumns
    windows: tuple[WindowRecord, ...]
    is_moved: bool = False

    def with_rows(self, rows: Ids) -> WholeAnswers:
        """Return the same for a graph that keeps more rows."""
        number = np.searchsorted(rows, self.rows)
        return replace(
            self, rows=rows, dip=self.dip[:0], windows=tuple(_renumbered(item, number) for item in self.windows)
        )

    def moved(self, ahead: int) -> WholeAnswers:
        """Return the same in the job's time, where all times here are so much (ns) ahead of that."""
        if not ahead or self.is_moved:
            return self
        steps = replace(self.steps, end=freeze(self.steps.end - ahead))
        return replace(self, steps=steps, windows=tuple(_moved(item, ahead) for item in self.windows))


@remembered
def whole_answers(graph: DependencyGraph) -> WholeAnswers | None:
    """Return what a graph of few rows knows of its rank; None of a graph that has all rows."""
    del graph
    return None


def fingerprint(graph: DependencyGraph) -> str:
    """Return what tells whether a file that is read once more holds what it held."""
    found, events = blake2b(digest_size=16), graph.event_table
    for column in (events.start, events.end, events.name):
        found.update(np.ascontiguousarray(column).data)
    found.update("\0".join(graph.names).encode(errors="surrogatepass"))
    return found.hexdigest()


def kept_rows_of(graph: DependencyGraph) -> Ids:
    """Return the rows of the whole graph that a graph has; of one that is whole all."""
    known = whole_answers(graph)
    return np.arange(len(graph.event_table), dtype=np.int32) if known is None else known.rows


def with_answers(graph: DependencyGraph, answers: WholeAnswers) -> DependencyGraph:
    """Let a graph of few rows answer as the rank's whole graph would."""
    remember(whole_answers, graph, answers)
    remember(explained_lags, graph, answers.limits.reshape(1, -1))
    steps = answers.steps
    remember(ends_of_steps, graph, steps.end)
    columns = (steps.number, steps.iteration, steps.latency, steps.is_candidate, steps.launches_work)
    remember(step_lengths, graph, tuple(StepLength(*of) for of in zip(*(c.tolist() for c in columns), strict=True)))
    remember(known_windows, graph, {record["asked"]: _restored(record) for record in answers.windows})
    return graph


def answer_as_whole(job: DependencyGraph) -> None:
    """Let a job of which ranks have few rows answer as that of whole ones would."""
    known = [whole_answers(part.graph) for part in job.parts]
    if any(answers is not None for answers in known):
        limits = [explained_lags(part.graph)[0] for part in job.parts]
        remember(explained_lags, job, np.stack(limits))
        remember(known_windows, job, {})


def step_columns(graph: DependencyGraph) -> StepColumns:
    """Return the steps of a rank's whole graph."""
    lengths = step_lengths(graph)
    names = ("number", "iteration_ns", "latency_ns", "is_candidate", "launches_work")
    columns = zip(("number", "iteration", "latency", "is_candidate", "launches_work"), names, strict=True)
    return StepColumns.of(
        **{column: [getattr(one, name) for one in lengths] for column, name in columns}, end=ends_of_steps(graph)
    )


def kept_window(asked: str, found: ResolvedWindow | QueryError, rows: Ids) -> WindowRecord:
    """Return a window of the whole graph, or why there is none, as JSON, with points of the rows that are kept."""
    if isinstance(found, QueryError):
        return {"asked": asked, "error": [str(found), found.on_command_line]}
    sink = found.sink
    point = kept_point(rows, sink.point)
    fields = ("start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "cpu_start_ns", "is_named", "rows_after", "after_ns",
              "step", "form", "is_default")  # fmt: skip
    return {
        "asked": asked,
        "sink": [point, sink.time_ns, sink.lane],
        **{name: getattr(found, name) for name in fields},
    }


def kept_point(rows: Ids, point: int) -> int:
    """Return the point among the kept rows that a point of the whole graph is; -1 for point -1."""
    if point < 0:
        return -1
    own = np.array([point], np.int32)
    return int(start_point(np.searchsorted(rows, event_of(own)))[0] + is_end(own)[0])


def _restored(record: WindowRecord) -> ResolvedWindow | QueryError:
    if "error" in record:
        error = QueryError(record["error"][0])
        error.on_command_line = record["error"][1]
        return error
    point, time_ns, lane = record["sink"]
    ends = np.array([point] if point >= 0 else [], np.int32)
    sink = Sink(point, time_ns, lane, ends, np.zeros(len(ends), np.int64))
    return ResolvedWindow(sink=sink, **{key: value for key, value in record.items() if key not in ("asked", "sink")})


def _renumbered(record: WindowRecord, number: Ints) -> WindowRecord:
    if "error" in record or record["sink"][0] < 0:
        return record
    point, *rest = record["sink"]
    own = np.array([point], np.int32)
    return {**record, "sink": [int(start_point(number[event_of(own)])[0] + is_end(own)[0]), *rest]}


def _moved(record: WindowRecord, ahead: int) -> WindowRecord:
    if "error" in record:
        return record
    point, time_ns, lane = record["sink"]
    start = record["cpu_start_ns"]
    return {
        **record,
        "sink": [point, time_ns - ahead, lane],
        "start_ns": record["start_ns"] - ahead,
        "end_ns": record["end_ns"] - ahead,
        "cpu_start_ns": None if start is None else start - ahead,
    }
