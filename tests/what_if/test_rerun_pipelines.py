"""A rank like the others, on pipelines: what replay predicts is what the job takes that runs without the fault.

Sends and receives of CPUs leave no row where a thread waits for them. What the others wait must not count as what they
take, and where it cannot be told from that, as where a stage has no file, the prediction is not trusted.
"""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

import hta_graph as hg
from hta_graph.what_if.reliability import Reliability
from tests.simulator.ranks import Fault, JobProgram, JobShape, Recording, gpipe, pipeline, record_job, simulate_job
from tests.support.deep_tests import cases, deep

STEP = hg.step(2)
SCHEDULES: dict[str, Callable[[JobShape], JobProgram]] = {
    "waits at the end": gpipe,
    "silent": partial(gpipe, silent=True),
    "waits at once": pipeline,
    "buffered": partial(pipeline, buffered=True),
}
MEDIAN, NEARLY_ALL = 0.03, 0.1
"""Layers take up to 10% longer or shorter on each rank, which a rank like the others no longer does."""
MISS = 0.25


@dataclass(frozen=True)
class Rerun:
    """A step with a fault: as long as it is, as predicted, and as it is without (ns); how far that is trusted."""

    measured_ns: int
    predicted_ns: int
    true_ns: int
    reason: str | None

    @property
    def error(self) -> float:
        """By what share of the true length the prediction is wrong."""
        return abs(self.predicted_ns - self.true_ns) / self.true_ns


def rerun(folder: Path, schedule: str, seed: int, *, one_is_missing: bool = False) -> Rerun:
    """Slow down one stage in every micro-batch, predict that it is like the others, and run the job without."""
    rng = random.Random(f"{schedule} {seed}")
    ranks = 4 if one_is_missing else rng.choice((2, 4))
    late, phase = rng.randrange(ranks), "forward" if schedule == "silent" else rng.choice(("forward", "backward"))
    fault = [Fault(late, step, phase, rng.choice((500_000, 10_000_000))) for step in range(4)]
    shape = JobShape(ranks, steps=4, backend="gloo", seed=seed, compute_ns=rng.choice((300_000, 2_000_000)))
    slow = JobShape(ranks, 4, compute_ns=shape.compute_ns, seed=seed, backend="gloo", faults=fault * 2 * ranks)
    gone = frozenset({(late + 1 + rng.randrange(3)) % 4}) if one_is_missing else frozenset[int]()
    jobs = [
        hg.read_job(
            record_job(
                simulate_job(SCHEDULES[schedule](own)), Recording(missing=gone), folder / f"{schedule} {seed} {name}"
            ).paths
        )
        for name, own in (("slow", slow), ("usual", shape))
    ]
    assert hg.replay(jobs[0], [], STEP).predicted_ns == hg.replay(jobs[0], [], STEP).measured_ns
    found = hg.replay(jobs[0], hg.scenario("rank_like_others", late), STEP)
    usual = STEP(jobs[1])
    trusted = Reliability(found.frozen_share, waiting_share=found.waiting_share)
    return Rerun(found.measured_ns, found.predicted_ns, usual.end_ns - usual.start_ns, trusted.reason)


@pytest.mark.slow
@pytest.mark.parametrize("schedule", ["waits at the end", deep("silent"), deep("waits at once"), deep("buffered")])
def test_a_stage_like_the_others_takes_what_it_takes_without_its_fault(tmp_path: Path, schedule: str) -> None:
    found = [rerun(tmp_path, schedule, seed) for seed in range(cases(20))]
    errors = sorted(one.error for one in found)
    assert statistics.median(errors) <= MEDIAN
    assert errors[-1] <= NEARLY_ALL
    assert [one.reason for one in found] == [None] * len(found)
    assert statistics.mean(one.measured_ns / one.true_ns for one in found) > 1.2


@pytest.mark.slow
@pytest.mark.parametrize("schedule", [deep("waits at the end"), "waits at once"])
def test_where_a_stage_has_no_file_no_miss_is_trusted(tmp_path: Path, schedule: str) -> None:
    found = [rerun(tmp_path, schedule, seed, one_is_missing=True) for seed in range(cases(20))]
    misses = [one for one in found if one.error > MISS]
    assert [one.reason for one in misses if one.reason is None] == []
    trusted = [one for one in found if one.reason is None]
    assert all(one.error <= NEARLY_ALL for one in trusted)
