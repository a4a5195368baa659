"""Small jobs from the generator of large ones, and what the command line says of them with and without skeletons."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.simulator.large import LargeShape, job_times, large_job, write_large_job
from tests.support.command_line import run_command

__all__ = ["Said", "asked_with", "comparable", "generated_job", "only_difference"]

Said = tuple[int, str, str]
"""Exit status, standard output and standard error."""
RULES_OF_ALL_ROWS = ("slow_gpu", "slow_host")
"""Findings that compare all rows of all ranks, which a job of skeletons does not hold."""


def generated_job(folder: Path, mesh: str = "fsdp", **given: Any) -> Path:
    """Write a job of eight ranks on two hosts with few rows; return its folder."""
    shape = LargeShape(**{"ranks": 8, "collectives": 8, "rows": 150, "mesh": mesh, "ranks_per_host": 4, **given})
    job = large_job(shape)
    write_large_job(job, job_times(job), folder, processes=1)
    return folder


def asked_with(capsys: pytest.CaptureFixture[str], skeletons: str, job: Path, *words: object) -> Said:
    """Ask for JSON of a job; what Dask says of itself is left out."""
    command, *options = words
    status, out, err = run_command(capsys, command, job, *options, "--skeletons", skeletons, "--json", "-")
    told = [line for line in err.splitlines() if not line.startswith("Dask's dashboard: ")]
    return status, out, "\n".join(told)


def comparable(said: Said) -> Said:
    """Return an answer without the findings that compare all rows; every other byte stays."""
    status, out, err = said
    document = json.loads(out) if out else {}
    if not any(one["rule"] in RULES_OF_ALL_ROWS for one in document.get("verdict", ())):
        return said
    kept = [one for one in document["verdict"] if one["rule"] not in RULES_OF_ALL_ROWS]
    return status, json.dumps({**document, "verdict": kept}), err


def only_difference(one: Any, other: Any) -> Iterator[str]:
    """Yield the keys of two documents' first level that differ."""
    yield from (key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key))
