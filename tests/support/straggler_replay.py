"""A pipelined job as a graph of this package, and the lengths of its steps in replay.

operation  |------|             start → end: what it takes
next           |----|           end → start: nothing (no launch delays)
group      |---~~|              start of each → meeting: nothing; meeting → end of each: its own transfer
             |-~~|
step       |                    start of the step → start of what waits for nothing
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import hta_graph as hg
from hta_graph.model import Bools, Floats, Ints
from tests.support.longest_ways import LongestWays
from tests.support.straggler_job import StragglerJob
from tests.support.straggler_rules import OPTIMIZER

__all__ = ["StepLengths", "StragglerReplay"]

POINTS = ["start", "end"]
START, END = 0, 1
NOTHING = -1
"""Instead of an operation: an edge that takes no time."""
AT_ONCE = 2**24
"""So many weights of edges are replayed at once."""
ANY_TIME_NS = 2**62
"""Clocks of ranks may disagree by anything: the rules say what waits, not the times."""


@dataclass(frozen=True)
class StepLengths:
    """Mean lengths of a step (ns), one per scenario: to the last end of all, and to the last end of an optimizer."""

    whole: Floats
    to_optimizer: Floats


@dataclass(frozen=True)
class _Edges:
    """Edges between points of events, and whose duration or transfer each takes."""

    source: Ints
    source_point: int
    target: Ints
    target_point: int
    takes: Ints


@dataclass(frozen=True)
class StragglerReplay:
    """A job's graph; its events are its operations, then the meetings of groups, then the starts of steps."""

    job: StragglerJob
    graph: hg.DependencyGraph
    takes: Ints
    """The operation whose duration or transfer each edge takes."""

    @classmethod
    def of(cls, job: StragglerJob) -> StragglerReplay:
        """Build the graph of a job."""
        meetings = list(_meetings(job))
        met = np.concatenate([np.empty(0, np.int64), *(job.start.ravel()[members].max(axis=1) for members in meetings)])
        parts = [*_edges_between(job, met.size), *_edges_of_meetings(job, meetings)]
        graph = hg.graph_from(
            _events_of(job, met), _frame_of(parts), name="job", add_order=False, clock_fault_ns=ANY_TIME_NS
        )
        return cls(job, graph, np.concatenate([part.takes for part in parts]))

    def steps(self, real: Sequence[Bools]) -> StepLengths:
        """Replay all steps without launch delays.

        Args:
            real: per scenario the operations with their real durations and transfers; all others have ideal ones.
        """
        each = max(1, AT_ONCE // len(self.takes))
        parts = [self._lengths(real[at : at + each]) for at in range(0, len(real), each)]
        return StepLengths(*(np.concatenate(lengths) for lengths in zip(*parts, strict=True)))

    def _lengths(self, real: Sequence[Bools]) -> tuple[Floats, Floats]:
        """Return the mean lengths of steps, whole and to the optimizer's end, for each scenario."""
        times, job = self._times(real), self.job
        rows = np.empty(len(self.graph.event_table), np.int64)
        rows[self.graph.event_table.index] = np.arange(len(rows))
        operations = rows[: job.start.size].reshape(len(job.steps), -1)
        starts, ends = times[2 * operations], times[2 * operations + 1]
        last = np.tile(job.types == OPTIMIZER, job.dp)
        whole = ends.max(axis=1) - starts.min(axis=1)
        to_optimizer = ends[:, last].max(axis=1) - job.step_start[:, None]
        return whole.mean(axis=0), to_optimizer.mean(axis=0)

    def _times(self, real: Sequence[Bools]) -> Ints:
        """Return the time of each point (row) in each scenario (column)."""
        took = [np.append(np.where(mask, self.job.transfer, self.job.ideal), 0) for mask in real]
        weights = np.stack(took, axis=1)[self.takes]
        return self._ways.times(self.graph.timeline.times, weights)

    @property
    def _ways(self) -> LongestWays:
        return LongestWays(self.graph.edge_table, len(self.graph.timeline.times))


def _all_rows(job: StragglerJob) -> Ints:
    """Return the event of each operation, as a table like ``job.start``."""
    return np.arange(job.start.size).reshape(job.start.shape)


def _meetings(job: StragglerJob) -> Iterator[Ints]:
    """Yield for each group that is not alone the events that meet: a row per meeting."""
    rows = _all_rows(job)
    for group in job.rules.groups:
        members = rows[:, list(group.members)]
        together = members.reshape(len(job.steps), -1) if group.on_all else members
        if together.shape[1] > 1:
            yield together


def _edges_between(job: StragglerJob, meetings: int) -> Iterator[_Edges]:
    """Yield the edges of operations, between them, and from the starts of steps."""
    rows = _all_rows(job)
    waits = np.array(job.rules.waits, np.int64).reshape(-1, 2)
    first = np.setdiff1d(np.arange(len(job.operations)), waits[:, 1])
    step = np.repeat(rows.size + meetings + np.arange(len(job.steps)), job.dp)
    yield _Edges(rows.ravel(), START, rows.ravel(), END, rows.ravel())
    yield _free(rows[:, waits[:, 0]], END, rows[:, waits[:, 1]], START)
    yield _free(np.broadcast_to(step[:, None], (len(rows), len(first))), START, rows[:, first], START)


def _edges_of_meetings(job: StragglerJob, meetings: Sequence[Ints]) -> Iterator[_Edges]:
    number = job.start.size
    for members in meetings:
        meeting = np.broadcast_to(np.arange(number, number + len(members))[:, None], members.shape)
        number += len(members)
        yield _free(members, START, meeting, START)
        yield _Edges(meeting.ravel(), START, members.ravel(), END, members.ravel())


def _free(source: Ints, source_point: int, target: Ints, target_point: int) -> _Edges:
    return _Edges(source.ravel(), source_point, target.ravel(), target_point, np.full(source.size, NOTHING))


def _events_of(job: StragglerJob, met: Ints) -> pd.DataFrame:
    """Return the events: a lane for each type of operation of each worker."""
    dp = np.repeat(np.tile(np.arange(job.dp), len(job.steps)), len(job.operations))
    copies = len(job.start)
    lanes = [f"stream {rank}:{one.stage}:{one.type}" for rank in range(job.dp) for one in job.operations]
    lane = np.array(lanes, object).reshape(job.dp, -1)
    other = ["stream meetings"] * len(met) + ["stream steps"] * len(job.steps)
    instants = np.concatenate([met, job.step_start])
    assert len(dp) == job.start.size
    return pd.DataFrame({
        "name": [*np.tile(job.types, copies).tolist(), *["meeting"] * len(met), *["step"] * len(job.steps)],
        "lane": [*np.tile(lane, (len(job.steps), 1)).ravel().tolist(), *other],
        "start_ns": np.concatenate([job.start.ravel(), instants]),
        "end_ns": np.concatenate([job.end.ravel(), instants]),
    })  # fmt: skip


def _frame_of(parts: Sequence[_Edges]) -> pd.DataFrame:
    points = {
        side: np.concatenate([np.full(len(part.takes), getattr(part, side)) for part in parts])
        for side in ("source_point", "target_point")
    }
    columns: dict[str, Any] = {side: pd.Categorical.from_codes(codes, POINTS) for side, codes in points.items()}
    for side, name in (("source", "source_index"), ("target", "target_index")):
        columns[name] = np.concatenate([getattr(part, side) for part in parts])
    return pd.DataFrame(columns)
