"""Two runs of one generated job: with other seeds, without a delay or with one in each step."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import hta_graph as hg
from analyses.compare.diff.job_diff import JobComparison, between_jobs, common_rank
from analyses.compare.diff.job_side import side_of_job
from analyses.compare.diff.run_diff import between_runs
from tests.support.large_jobs import generated_job

__all__ = ["DELAY_NS", "compared_jobs", "job_of_steps"]

DELAY_NS = 1_000_000


def job_of_steps(folder: Path, seed: int, delay_ns: int = 0, **given: Any) -> Path:
    """Write a job of eight ranks on two hosts and five steps, one rank of which is slow in each; return its folder."""
    shape = {"steps": 5, "collectives": 20, "rows": 250, **given}
    return generated_job(folder, seed=seed, delay_ns=delay_ns, delays_each_step=True, **shape)


def compared_jobs(control: Iterable[Path], test: Iterable[Path], **given: Any) -> JobComparison:
    """Compare the jobs of some files, as the command does."""
    jobs = [hg.read_job(list(files)) for files in (control, test)]
    sides = [side_of_job(job, **given) for job in jobs]
    rank = common_rank(*sides)
    return between_jobs(*sides, between_runs(*(job.graph(rank) for job in jobs)))
