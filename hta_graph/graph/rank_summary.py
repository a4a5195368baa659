"""What is known of a rank's whole graph where a graph holds its boundary events alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of, is_end, start_point
from hta_graph.model import Bools, Ids, Ints

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
class RankSummary:
    """What a graph of few rows knows of the rank's whole graph.

    ``rows`` are the rows that are kept, of ``size``; ``content`` is the whole graph's :func:`fingerprint`.
    ``clock_dip`` is that of :class:`Contraction`, by point. ``limits`` are the longest lags (ns) that count as
    explained, by kind of edge. ``windows`` are those that can be requested, with points of the kept rows.
    ``is_in_job_time``: all times are the job's already, whatever those of the graph are.
    """

    rows: Ids
    size: int
    content: str
    clock_dip: Ints
    limits: Ints
    steps: StepColumns
    windows: tuple[WindowRecord, ...]
    is_in_job_time: bool = False

    def with_rows(self, rows: Ids) -> RankSummary:
        """Return the same for a graph that keeps more rows."""
        number = np.searchsorted(rows, self.rows)
        return replace(
            self,
            rows=rows,
            clock_dip=self.clock_dip[:0],
            windows=tuple(_with_new_points(item, number) for item in self.windows),
        )

    def moved(self, ahead: int) -> RankSummary:
        """Return the same in the job's time, where all times here are so much (ns) ahead of that."""
        if not ahead or self.is_in_job_time:
            return self
        steps = replace(self.steps, end=freeze(self.steps.end - ahead))
        return replace(self, steps=steps, windows=tuple(_shifted_window(item, ahead) for item in self.windows))


@dataclass(frozen=True)
class JobLimits:
    """The longest lags (ns) that count as explained, where ranks of a job have few rows: a row per rank."""

    limits: Ints


def fingerprint(graph: DependencyGraph) -> str:
    """Return the fingerprint that shows whether a file has changed since it was read."""
    found, events = blake2b(digest_size=16), graph.event_table
    for column in (events.start, events.end, events.name):
        found.update(np.ascontiguousarray(column).data)
    found.update("\0".join(graph.names).encode(errors="surrogatepass"))
    return found.hexdigest()


def summary_rows(graph: DependencyGraph) -> Ids:
    """Return the rows of the whole graph that a graph has; of one that is whole all."""
    known = graph.attached(RankSummary)
    return np.arange(len(graph.event_table), dtype=np.int32) if known is None else known.rows


def _with_new_points(record: WindowRecord, number: Ints) -> WindowRecord:
    if "error" in record or record["sink"][0] < 0:
        return record
    point, *rest = record["sink"]
    own = np.array([point], np.int32)
    return {**record, "sink": [int(start_point(number[event_of(own)])[0] + is_end(own)[0]), *rest]}


def _shifted_window(record: WindowRecord, ahead: int) -> WindowRecord:
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
