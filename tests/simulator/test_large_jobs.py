"""Jobs of thousands of ranks are those of the simulator of events, and the product finds in them what is true."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from analyses.cli.main import main
from tests.simulator.large import (
    LargeJob,
    LargeShape,
    job_times,
    large_job,
    read_truth,
    recording_of,
    unrolled,
    write_large_job,
)
from tests.simulator.ranks import JobRun, record_job, simulate_job
from tests.support.deep_tests import deep

SMALL = LargeShape(ranks=8, collectives=20, rows=700)
SHAPES = {
    "fsdp": SMALL,
    "3d": replace(SMALL, mesh="3d"),
    "ids and clocks": replace(SMALL, mesh="3d", ids=True, clock_spread_ns=1_000_000, ranks_per_host=4, seed=3),
    "on the host": replace(SMALL, delay_on="host", seed=7),
    "many ranks": replace(SMALL, ranks=64, collectives=40, rows=2_000),
    "many stages": replace(SMALL, ranks=128, collectives=130, rows=3_000, mesh="3d", ids=True),
}
QUICK = ("3d",)
EACH = [deep(name) if name not in QUICK else name for name in SHAPES]
Member = tuple[int, int, int, int]


def job_of(name: str) -> LargeJob:
    return large_job(SHAPES[name])


def written(job: LargeJob, folder: Path) -> Path:
    write_large_job(job, job_times(job), folder, processes=1)
    return folder


def read_rows(path: Path) -> dict[str, Any]:
    return json.loads(gzip.decompress(path.read_bytes()))


def members_by_event(run: JobRun) -> Counter[Member]:
    return Counter(
        (own.rank, own.arrival_ns, one.true_wait(own), own.row.end_ns)
        for one in run.rendezvous
        for own in one.members.values()
    )


# -- the same job by the simulator of events --------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_members_have_the_times_of_the_simulator_of_events(name: str) -> None:
    job = job_of(name)
    found = Counter(
        member
        for one in job_times(job).met
        for member in zip(*(part.tolist() for part in (one.rank, one.start, one.wait, one.end)), strict=True)
    )
    assert found == members_by_event(simulate_job(unrolled(job)))


@pytest.mark.slow
@pytest.mark.parametrize("name", EACH)
def test_files_are_those_of_the_simulator_of_events(name: str, tmp_path: Path) -> None:
    job = job_of(name)
    folder = written(job, tmp_path / "large")
    recorded = record_job(simulate_job(unrolled(job)), recording_of(job), tmp_path / "events")
    for rank, path in enumerate(recorded.paths):
        assert read_rows(folder / f"rank_{rank}.json.gz") == json.loads(path.read_bytes())


# -- what the product finds -------------------------------------------------------------------------------------------


def answered(question: str, folder: Path, out: Path) -> dict[str, list[dict[str, Any]]]:
    assert main([question, str(folder), "--jobs", "1", "--json", str(out)]) == 0
    return json.loads(out.read_text(encoding="utf-8"))["tables"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [deep("fsdp"), "3d", deep("many ranks"), deep("many stages")])
def test_all_collectives_are_matched_and_waits_are_exact(name: str, tmp_path: Path) -> None:
    """With all ranks on one host, whose clocks are one."""
    job = large_job(replace(SHAPES[name], ranks_per_host=SHAPES[name].ranks))
    folder = written(job, tmp_path / "job")
    tables, truth = answered("collectives", folder, tmp_path / "out.json"), read_truth(folder)
    assert len(tables["collectives"]) == sum(len(one["groups"]) for one in truth["collectives"])
    waits: Counter[int] = Counter()
    for member in tables["members"]:
        assert member["number"] is not None
        waits[member["rank"]] += member["wait_ns"]
    assert [waits[rank] for rank in range(job.shape.ranks)] == truth["waits_ns"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["3d", *map(deep, ["on the host", "fsdp", "many ranks", "many stages"])])
def test_the_injected_straggler_is_the_first_cause(name: str, tmp_path: Path) -> None:
    job = job_of(name)
    first = answered("stragglers", written(job, tmp_path / "job"), tmp_path / "out.json")["causes"][0]
    slow = job.injected.kernel if job.injected.on == "gpu" else job.injected.operator
    assert (first["rank"], first["name"]) == (job.injected.rank, slow)


@pytest.mark.slow
def test_files_are_read_without_repairs(tmp_path: Path) -> None:
    job = job_of("3d")
    for graph in hg.read_graphs(written(job, tmp_path / "job"), jobs=1):
        assert {name for name, count in graph.diagnostics.items() if count} == {"event_waits", "sync_records"}


# -- the generator ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_job_is_the_same_bytes_again(tmp_path: Path) -> None:
    job = large_job(replace(SMALL, ranks=8, mesh="3d", rows=200))
    write_large_job(job, job_times(job), tmp_path / "one", processes=2)
    write_large_job(job, job_times(job), tmp_path / "two", processes=1)
    names = [path.name for path in sorted((tmp_path / "one").iterdir())]
    assert len(names) == 8
    assert all((tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes() for name in names)
    assert read_truth(tmp_path / "one") == read_truth(tmp_path / "two")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mesh", "collectives", "rows"),
    [("fsdp", 20, 600), deep("3d", 20, 1_000), deep("fsdp", 60, 4_000), deep("3d", 60, 4_000)],
)
def test_ranks_have_about_what_is_asked_for(mesh: str, collectives: int, rows: int, tmp_path: Path) -> None:
    job = large_job(LargeShape(8, collectives, rows, mesh))
    times = job_times(job)
    write_large_job(job, times, tmp_path / "job", processes=1)
    assert len(read_rows(tmp_path / "job" / "rank_5.json.gz")["traceEvents"]) == pytest.approx(rows, rel=0.05)
    assert len(times.ends[0]) == pytest.approx(collectives, rel=0.5)


def test_times_of_many_ranks_take_little_time() -> None:
    """As many as the largest jobs have: every rank's own waits add up over the groups."""
    job = large_job(LargeShape(ranks=16_384, collectives=10, rows=300))
    times = job_times(job)
    waits = times.waits(job.shape.ranks)
    assert int(waits.sum()) == sum(int(one.wait.sum()) for one in times.met)
    last = np.concatenate([one.rank[one.wait == 0] for one in times.met])
    assert job.injected.rank in last


def test_ranks_have_to_fill_the_mesh() -> None:
    with pytest.raises(ValueError, match="12 ranks are not 1 × 8"):
        large_job(LargeShape(ranks=12, mesh="fsdp"))
