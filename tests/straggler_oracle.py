"""ByteDance's what-if of pipelined training jobs on this package's replay: ``python -m tests.straggler_oracle``.

An external oracle: an analysis that others published, with its results for public jobs (StragglerAnalysis, OSDI'25).
Operations become events of a graph, its dependencies edges, and every number below is the length of a replayed step.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.model import Bools, Floats
from tests.support.pipeline_job import StragglerJob, read_straggler_job
from tests.support.pipeline_step_replay import StragglerReplay

WORTH_ASKING = 1.03
"""Of a job that is slower than ideal by less than this, nobody is asked why."""
WORST_PERCENT = 3
"""How many of the workers are the worst ones."""

ROUNDING = 1e-9
"""Steps that differ by less than this share are of one length."""

Masks = dict[Any, Bools]


@dataclass(frozen=True)
class StragglerAnswers:
    """What-if questions to one job; a scenario marks the operations that keep their real values; others are ideal."""

    job: StragglerJob
    replay: StragglerReplay

    @classmethod
    def of(cls, job: StragglerJob) -> StragglerAnswers:
        """Build the job's graph."""
        return cls(job, StragglerReplay.of(job))

    @cached_property
    def _nobody(self) -> Bools:
        return np.zeros(self.job.start.shape, np.bool_)

    @cached_property
    def _real_and_ideal(self) -> tuple[float, float, float]:
        """Return the mean step without delays, the ideal one, and that until its optimizer has ended."""
        steps = self.replay.steps([~self._nobody, self._nobody])
        return float(steps.whole[0]), float(steps.whole[1]), float(steps.to_optimizer[1])

    @cached_property
    def slowdown(self) -> float:
        """How much slower the job is than an ideal one, launch delays aside."""
        real, _, ideal = self._real_and_ideal
        return real / ideal

    def slowdowns(self, masks: Masks) -> dict[str, float] | None:
        """Return how much slower an ideal job becomes by some operations alone; None where nobody asks."""
        if self.slowdown < WORTH_ASKING or not masks:
            return None
        lengths = self.replay.steps(list(masks.values())).to_optimizer
        return dict(zip(map(str, masks), (lengths / self._real_and_ideal[2]).tolist(), strict=True))

    @cached_property
    def by_type(self) -> dict[str, float] | None:
        """Slow-down by each type of operation; sends and receives of one direction are one."""
        types = np.array([_merged_type(kind) for kind in self.job.types.tolist()])
        return self.slowdowns({kind: self._nobody | (types == kind) for kind in np.unique(types).tolist()})

    @cached_property
    def by_stage(self) -> dict[str, float] | None:
        """Slow-down by each stage."""
        stages = self.job.stages
        return self.slowdowns({stage: self._nobody | (stages == stage) for stage in np.unique(stages).tolist()})

    @cached_property
    def by_dp(self) -> dict[str, float] | None:
        """Slow-down by each data-parallel rank."""
        of_row = np.tile(np.arange(self.job.dp), len(self.job.steps))[:, None]
        return self.slowdowns({dp: self._nobody | (of_row == dp) for dp in range(self.job.dp)})

    def explained(self, mask: Bools) -> dict[str, float] | None:
        """Return the share of the slow-down that goes if operations become ideal, and that comes by them alone."""
        real, ideal, _ = self._real_and_ideal
        if math.isclose(real, ideal, rel_tol=ROUNDING):
            return None
        removed, added = self.replay.steps([~mask, mask]).whole.tolist()
        return {"removed": (real - removed) / (real - ideal), "added": (added - ideal) / (real - ideal)}

    def worst_workers(self) -> Bools | None:
        """Mark the operations of the workers whose stage and data-parallel rank both slow the job most."""
        if self.by_stage is None or self.by_dp is None:
            return None
        workers: dict[int, float] = {}
        for (row, column), rank in np.ndenumerate(self.job.rank[: self.job.dp]):
            workers[int(rank)] = min(self.by_dp[str(row)], self.by_stage[str(self.job.stages[column])])
        worst = sorted(workers, key=lambda rank: (-workers[rank], rank))[: -(-WORST_PERCENT * len(workers) // 100)]
        return np.isin(self.job.rank, worst)

    def report(self) -> dict[str, Any]:
        """Answer all questions; times in seconds."""
        real, ideal, _ = self._real_and_ideal
        measured, worst = float(measured_steps(self.job).mean()), self.worst_workers()
        return {
            "step_measured": measured / 1e9,
            "step_no_delay": real / 1e9,
            "step_ideal": ideal / 1e9,
            "launch_slowdown": measured / real,
            "S": self.slowdown,
            "S_by_type": self.by_type,
            "S_by_stage": self.by_stage,
            "S_by_dp": self.by_dp,
            "M_W": None if worst is None else self.explained(worst),
            "M_S": self.explained(self._nobody | (self.job.stages == self.job.stages.max())),
        }


def _merged_type(kind: str) -> str:
    direction, _, way = kind.partition("-")
    return f"{direction}-pp-comm" if way in ("send", "recv") else kind


def measured_steps(job: StragglerJob) -> Floats:
    """Return how long each step took as recorded (ns)."""
    ends: Floats = job.by_step(job.end).max(axis=(1, 2))
    return ends - job.step_start


def main(arguments: list[str] | None = None) -> None:
    """Print the answers for one job as JSON."""
    parser = argparse.ArgumentParser(
        prog="straggler_oracle", description="What would a pipelined job gain without stragglers?"
    )
    parser.add_argument("trace", type=Path, help="the operations, a Parquet table")
    parser.add_argument("meta", type=Path, help="the sizes of the job, lines of key: value")
    options = parser.parse_args(arguments)
    report = StragglerAnswers.of(read_straggler_job(options.trace, options.meta)).report()
    sys.stdout.write(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
