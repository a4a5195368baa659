"""A recorded pipelined training job as columns: one row per step and data-parallel rank, one column per operation."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from hta_graph.model import Bools, Floats, Ints
from tests.support.straggler_rules import COMPUTE, Operation, Rules, rules_of

__all__ = ["StragglerJob", "read_straggler_job"]

KEY = ["stage", "optype", "seq_id"]
COLUMNS = ["step", "dp_rank", *KEY, "rank", "mc", "gmc", "start_ts", "duration"]
NS_PER_S = 1e9
NOT_BEFORE_NS = -10e6
"""A delay or transfer so far below zero is a fault of the clocks: it counts as none."""

Table = np.ndarray[Any, Any]


@dataclass(frozen=True)
class StragglerJob:
    """Operations of a template, and when each was in every step on every data-parallel rank.

    ``start`` and ``end`` (ns) have a row per step and data-parallel rank, step by step, and a column per operation;
    ``rank`` says whose each is.
    """

    operations: tuple[Operation, ...]
    steps: tuple[int, ...]
    dp: int
    rules: Rules
    start: Floats
    end: Floats
    rank: Ints

    @property
    def step_start(self) -> Floats:
        """When the first operation of each step started."""
        return self.by_step(self.start).min(axis=(1, 2))

    def by_step(self, values: Table) -> Table:
        """Give values their axes: step, data-parallel rank, operation."""
        return values.reshape(len(self.steps), self.dp, len(self.operations))

    @cached_property
    def types(self) -> Table:
        """The type of each operation."""
        return np.array([operation.type for operation in self.operations])

    @cached_property
    def stages(self) -> Ints:
        """The stage of each operation."""
        return np.array([operation.stage for operation in self.operations])

    @cached_property
    def is_grouped(self) -> Bools:
        """Mark the operations that wait for a group, be it one of their own."""
        members = {member for group in self.rules.groups for member in group.members}
        return np.isin(np.arange(len(self.operations)), list(members))

    @cached_property
    def transfer(self) -> Floats:
        """How long each operation took after all of its group had started; of one without a group how long it took."""
        transfer, ends = self.by_step(self.end - self.start), self.by_step(self.end)
        for group in self.rules.groups:
            members = list(group.members)
            axes = (1, 2) if group.on_all else 2
            met = self.by_step(self.start)[:, :, members].max(axis=axes, keepdims=True)
            transfer[:, :, members] = ends[:, :, members] - met
        transfer[:, :, self.is_grouped] *= transfer[:, :, self.is_grouped] > NOT_BEFORE_NS
        return transfer.reshape(self.start.shape)

    @cached_property
    def ideal(self) -> Floats:
        """What each operation takes if all of its type take the same: the mean of work, the median of communication."""
        ideal, took = np.empty(len(self.operations)), self.end - self.start
        for kind in dict.fromkeys(self.types.tolist()):
            usual, mine = np.mean if kind in COMPUTE else np.median, self.types == kind
            ideal[mine] = usual(took[:, mine])
            grouped = mine & self.is_grouped
            if grouped.any():
                ideal[grouped] = usual(self.transfer[:, grouped])
        return np.broadcast_to(ideal, self.start.shape)


def read_straggler_job(trace: Path, meta: Path) -> StragglerJob:
    """Read a job from its table of operations (StragglerAnalysis: times in seconds) and the file of its sizes."""
    rows = _ordered(pd.read_parquet(trace))
    steps, dp = rows["step"].unique(), int(rows["dp_rank"].max()) + 1
    size = len(rows) // (len(steps) * dp)
    template = rows[:size].reset_index(drop=True)
    start, end = (rows[name].to_numpy().reshape(-1, size) * NS_PER_S for name in ("start_ts", "end_ts"))
    operations = tuple(_operations_of(template))
    return StragglerJob(
        operations, tuple(steps.tolist()), dp, rules_of(operations, dp, _data_shards(meta)),
        start, end, rows["rank"].to_numpy().reshape(-1, size),
    )  # fmt: skip


def _data_shards(meta: Path) -> int:
    lines = (line.partition(":") for line in meta.read_text(encoding="utf-8").splitlines())
    return int({key.strip(): value for key, _, value in lines}["dsp_size"])


def _ordered(frame: pd.DataFrame) -> pd.DataFrame:
    """Order the operations by step, data-parallel rank, stage, type and number."""
    rows = frame[COLUMNS].astype({"optype": str, "start_ts": np.float64, "duration": np.float64})
    rows["end_ts"] = rows["start_ts"] + rows["duration"]
    return rows.sort_values(["step", "dp_rank", *KEY], ignore_index=True)


def _operations_of(template: pd.DataFrame) -> list[Operation]:
    columns = [template[name].tolist() for name in (*KEY, "start_ts", "end_ts", "mc", "gmc")]
    return [
        Operation(number, stage, kind, seq, start, end, chunk, whole_chunk)
        for number, (stage, kind, seq, start, end, chunk, whole_chunk) in enumerate(zip(*columns, strict=True))
    ]
