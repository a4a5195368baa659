"""Small jobs from the generator of large ones, and what the command line says of them with and without skeletons."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hta_graph.what_if.scenarios import COMPARES_RANKS
from tests.simulator.large import LargeShape, job_times, large_job, write_large_job
from tests.support.command_line import run_command

__all__ = ["JOBS", "JobOf", "Said", "asked_with", "comparable", "generated_job", "jobs_written_once", "only_difference"]

JOBS: dict[str, dict[str, Any]] = {
    "fsdp": {},
    "clocks": {"clock_spread_ns": 300_000},
    "3d": {"mesh": "3d"},
    "host": {"delay_on": "host", "ids": True},
    "cut": {"ranks": 40, "cuts_groups": True, "collectives": 4, "rows": 60},
    "small": {"ranks": 4, "ranks_per_host": 2, "collectives": 4, "rows": 60},
}
"""Shapes of jobs that several tests look at."""
JobOf = Callable[[str], Path]
"""Gives the folder of one of :data:`JOBS`."""

Said = tuple[int, str, str]
"""Exit status, standard output and standard error."""
RULES_OF_ALL_ROWS = ("slow_gpu", "slow_host")
"""Findings that compare all rows of all ranks, which a job of skeletons does not hold; so do some scenarios."""


def generated_job(folder: Path, mesh: str = "fsdp", **given: Any) -> Path:
    """Write a job of eight ranks on two hosts with few rows; return its folder."""
    shape = LargeShape(**{"ranks": 8, "collectives": 8, "rows": 150, "mesh": mesh, "ranks_per_host": 4, **given})
    job = large_job(shape)
    write_large_job(job, job_times(job), folder, processes=1)
    return folder


def jobs_written_once(factory: pytest.TempPathFactory) -> JobOf:
    """Return who writes each of :data:`JOBS` the first time that it is asked for."""
    return cache(lambda name: generated_job(factory.mktemp("jobs") / name, **JOBS[name]))


def asked_with(capsys: pytest.CaptureFixture[str], skeletons: str, job: Path, *words: object) -> Said:
    """Ask for JSON of a job; what Dask says of itself is left out."""
    command, *options = words
    status, out, err = run_command(capsys, command, job, *options, "--skeletons", skeletons, "--json", "-")
    told = [line for line in err.splitlines() if not line.startswith("Dask's dashboard: ")]
    return status, out, "\n".join(told)


def comparable(said: Said) -> Said:
    """Return an answer without what compares all rows; all else stays in its order."""
    status, out, err = said
    if not out:
        return said
    document = json.loads(out)
    kept = {
        "verdict": [one for one in document.get("verdict", ()) if one["rule"] not in RULES_OF_ALL_ROWS],
        "scenarios": [one for one in document.get("scenarios", ()) if one["name"] not in COMPARES_RANKS],
    }
    less = {key: value for key, value in document.items() if key not in ("curve", "judgement")}
    less |= {key: value for key, value in kept.items() if key in document}
    return status, json.dumps(less), err


def only_difference(one: Any, other: Any) -> Iterator[str]:
    """Yield the keys of two documents' first level that differ."""
    yield from (key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key))
