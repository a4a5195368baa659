"""A step of a pipelined job as a graph of this package, and its length in replay.

    operation  |------|             start → end: what it takes
    next           |----|           end → start: nothing (no launch delays)
    group      |---~~|              start of each → meeting: nothing; meeting → end of each: its own transfer
                 |-~~|
    step       |                    start of the step → start of what waits for nothing

All steps are bound alike: the graph is that of the first one, the others are other weights of its edges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

import hta_graph as hg
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import Bools, Floats, Ids, Ints
from hta_graph.what_if.longest_paths import LongestPaths
from tests.support.pipeline_job import StragglerJob
from tests.support.straggler_rules import OPTIMIZER

__all__ = ["StepLengths", "StragglerReplay"]

POINTS = ["start", "end"]
START, END = 0, 1
NOTHING = -1
"""Instead of an operation: an edge that takes no time."""
AT_ONCE = 2**24
"""So many weights are replayed at once."""
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
    """The graph of a step; its events are its operations, rank by rank, then the meetings of groups, then its start."""

    job: StragglerJob
    graph: hg.DependencyGraph
    takes: Ints
    """The operation whose duration or transfer each edge takes."""

    @classmethod
    def of(cls, job: StragglerJob) -> StragglerReplay:
        """Build the graph of a job's first step."""
        parts = list(_edges_of(job))
        events, edges = _events_of(job), _frame_of(parts)
        graph = hg.from_dataframes(events, edges, name="job", add_order=False, clock_fault_ns=ANY_TIME_NS)
        return cls(job, graph, np.concatenate([part.takes for part in parts]))

    def weights(self, real: Bools) -> Floats:
        """Return for each step what each edge (row of ``graph.edges``) takes.

        Args:
            real: the operations with their real durations and transfers; all others have ideal ones.
        """
        took = np.where(real, self.job.transfer, self.job.ideal).reshape(len(self.job.steps), -1)
        return np.append(took, np.zeros((len(took), 1)), axis=1)[:, self.takes]

    def steps(self, real: Sequence[Bools]) -> StepLengths:
        """Replay all steps without launch delays in scenarios, each the operations with their real values."""
        each = max(1, AT_ONCE // (len(self.takes) * len(self.job.steps)))
        parts = [self._lengths(real[at : at + each]) for at in range(0, len(real), each)]
        return StepLengths(*(np.concatenate(lengths) for lengths in zip(*parts, strict=True)))

    def _lengths(self, real: Sequence[Bools]) -> tuple[Floats, Floats]:
        """Return the mean lengths of steps, whole and to the optimizer's end, for each scenario."""
        # In floats: the mean of all work of a type is no whole number, and a path has hundreds of them.
        recorded = self.graph.timeline.times.astype(np.float64)
        weights = chain.from_iterable(map(self.weights, real))
        times = np.stack([self._paths.values(weight, recorded)[self._points] for weight in weights])
        starts, ends = times.reshape(len(real), len(self.job.steps), 2, -1).transpose(2, 0, 1, 3)
        last = np.tile(self.job.types == OPTIMIZER, self.job.dp)
        whole = ends.max(axis=2) - starts.min(axis=2)
        to_optimizer = ends[:, :, last].max(axis=2) - recorded.min()
        return whole.mean(axis=1), to_optimizer.mean(axis=1)

    @cached_property
    def _points(self) -> Ids:
        """The starts of all operations, then their ends."""
        index = self.graph.event_table.index
        rows = np.empty(len(index), np.int32)
        rows[index] = np.arange(len(index), dtype=np.int32)
        operations = rows[: self.job.dp * len(self.job.operations)]
        return np.concatenate([start_point(operations), end_point(operations)])

    @cached_property
    def _paths(self) -> LongestPaths:
        """The shape of the graph; only the step starts at a given time."""
        edges, place = self.graph.edge_table, self.graph.timeline.position
        nothing = np.zeros(len(place), np.bool_)
        # An event's end stands right behind its start, on which it most often hangs.
        return LongestPaths(
            edges.source, edges.target, np.arange(len(place), dtype=np.int32), place, nothing,
            np.zeros(len(edges), np.bool_),
        )  # fmt: skip


def _rows_of(job: StragglerJob) -> Ints:
    """Return the event of each operation: a row per data-parallel rank."""
    return np.arange(job.dp * len(job.operations)).reshape(job.dp, -1)


def _collectives(job: StragglerJob) -> Iterator[Ints]:
    """Yield the events of each group that is not alone."""
    for group in job.rules.groups:
        members = _rows_of(job)[:, list(group.members)]
        if members.size > 1 if group.on_all else len(group.members) > 1:
            yield from [members.ravel()] if group.on_all else members


def _edges_of(job: StragglerJob) -> Iterator[_Edges]:
    """Yield the edges of operations, between them, of their meetings, and from the start of the step."""
    rows, meetings = _rows_of(job), list(_collectives(job))
    waits = np.array(job.rules.waits, np.int64).reshape(-1, 2)
    first = rows[:, np.setdiff1d(np.arange(len(job.operations)), waits[:, 1])]
    yield _Edges(rows.ravel(), START, rows.ravel(), END, rows.ravel())
    yield _free(rows[:, waits[:, 0]], END, rows[:, waits[:, 1]], START)
    yield _free(np.full_like(first, rows.size + len(meetings)), START, first, START)
    if meetings:
        members = np.concatenate(meetings)
        meeting = np.repeat(rows.size + np.arange(len(meetings)), [len(those) for those in meetings])
        yield _free(members, START, meeting, START)
        yield _Edges(meeting, START, members, END, members)


def _free(source: Ints, source_point: int, target: Ints, target_point: int) -> _Edges:
    return _Edges(source.ravel(), source_point, target.ravel(), target_point, np.full(source.size, NOTHING))


def _events_of(job: StragglerJob) -> pd.DataFrame:
    """Return the events: a lane for each type of operation of each worker."""
    start, end = (np.rint(times[: job.dp]).astype(np.int64).ravel() for times in (job.start, job.end))
    met = [start[members].max() for members in _collectives(job)]
    instants = np.array([*met, start.min()], np.int64)
    lanes = [f"stream {dp}:{one.stage}:{one.type}" for dp in range(job.dp) for one in job.operations]
    return pd.DataFrame({
        "name": [*job.types.tolist() * job.dp, *["meeting"] * len(met), "step"],
        "lane": [*lanes, *["stream meetings"] * len(met), "stream steps"],
        "start_ns": np.append(start, instants),
        "end_ns": np.append(end, instants),
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
