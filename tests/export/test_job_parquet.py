"""A saved job is loaded as it was, rank by rank too; damaged and foreign folders are refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.base.errors import OutputError, TraceError
from tests.support.command_line import folder_contents
from tests.support.deep_tests import deep
from tests.support.random_jobs import random_job
from tests.support.shared_traces import SHARED
from tests.support.two_rank_job import small_job

pytest.importorskip("pyarrow")


@pytest.fixture
def job(tmp_path: Path) -> hg.JobGraph:
    return random_job(tmp_path, 7)


def assert_equal_jobs(loaded: hg.DependencyGraph, saved: hg.JobGraph) -> None:
    assert isinstance(loaded, hg.JobGraph)
    for name in ("events", "edges", "ranks", "clocks", "collectives", "rendezvous"):
        pd.testing.assert_frame_equal(getattr(loaded, name), getattr(saved, name))
    assert loaded.doubtful_edges.tolist() == saved.doubtful_edges.tolist()
    assert (loaded.diagnostics, loaded.lanes.labels) == (saved.diagnostics, saved.lanes.labels)
    assert loaded.lanes.is_communication.tolist() == saved.lanes.is_communication.tolist()
    for rank in saved.ranks["rank"]:
        pd.testing.assert_frame_equal(loaded.graph(rank).events, saved.graph(rank).events)
        pd.testing.assert_frame_equal(loaded.graph(rank).edges, saved.graph(rank).edges)
    paths = [hg.critical_path(graph, hg.whole()) for graph in (loaded, saved)]
    pd.testing.assert_frame_equal(paths[0].segments, paths[1].segments)
    assert paths[0].by_rank_ns == paths[1].by_rank_ns


def test_a_loaded_job_equals_the_saved_one(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)
    hg.save_graph(hg.load_graph(tmp_path / "g"), tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)


@pytest.mark.slow
def test_a_job_of_gpus_and_a_part_of_it_survive(tmp_path: Path) -> None:
    job = hg.read_job(small_job(tmp_path))
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)
    part = job.filter(kind=["kernel", "runtime"])
    assert isinstance(part, hg.JobGraph)
    hg.save_graph(part, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), part)


def test_each_rank_is_a_saved_graph_of_its_own(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.save_graph(job, tmp_path / "g")
    alone = hg.load_graph(tmp_path / "g" / "rank1")
    assert alone.rank == 1
    pd.testing.assert_frame_equal(alone.edges, job.graph(1).edges)


def test_tables_say_whose_each_row_is(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.save_graph(job, tmp_path / "g")
    events, edges, meetings = (
        pd.read_parquet(tmp_path / "g" / f"{name}.parquet") for name in ("events", "edges", "rendezvous")
    )
    assert events["rank"].tolist() == job.events["rank"].tolist()
    assert meetings[["number", "kind", "time_ns"]].to_dict() == job.rendezvous.to_dict()
    meets = edges.rendezvous.notna()
    assert meets.sum() == (job.edges.kind == "collective").sum() > 0
    assert (edges.source.isna() ^ edges.target.isna())[meets].all()
    assert not edges[~meets][["source", "target", "source_rank", "target_rank"]].isna().any(axis=None)


def drop(name: str) -> Callable[[Path], Any]:
    return lambda folder: (folder / name).unlink()


def edit(name: str, change: Callable[[pd.DataFrame], pd.DataFrame]) -> Callable[[Path], Any]:
    return lambda folder: change(pd.read_parquet(folder / name)).to_parquet(folder / name, index=False)


def edit_header(**changes: Any) -> Callable[[Path], Any]:
    def change(folder: Path) -> None:
        path = folder / "graph.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "a rank is missing": lambda folder: shutil.rmtree(folder / "rank1"),
    "a rank's table is missing": drop("rank1/edges.parquet"),
    "members are missing": drop("members.parquet"),
    "rendezvous are missing": drop("rendezvous.parquet"),
    "rendezvous are fewer": edit("rendezvous.parquet", lambda table: table.iloc[1:]),
    "ranks exchanged": lambda folder: shutil.copytree(folder / "rank0", folder / "rank1", dirs_exist_ok=True),
    "a rank too few": edit_header(ranks=[0]),
    "a rank too many": edit_header(ranks=[0, 1, 2, 3, 4]),
    "ranks a number": edit_header(ranks=7),
    "events cut off": edit("events.parquet", lambda table: table.iloc[:-3]),
    "a member of nothing": edit("members.parquet", lambda table: table.assign(row=10_000)),
    "a member of no rank": edit("members.parquet", lambda table: table.assign(part=9)),
    "an edge from nowhere": edit("edges.parquet", lambda table: table.assign(source=None)),
    "an edge beyond the end": edit("edges.parquet", lambda table: table.assign(target=1_000_000)),
    "a number of no rendezvous": edit("edges.parquet", lambda table: table.assign(rendezvous=99)),
    "doubt with holes": edit("edges.parquet", lambda table: table.assign(doubtful=None)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_job_is_one_clear_error(job: hg.JobGraph, tmp_path: Path, case: str) -> None:
    hg.save_graph(job, tmp_path / "g")
    DAMAGE[case](tmp_path / "g")
    with pytest.raises(TraceError) as caught:
        hg.load_graph(tmp_path / "g")
    assert "\n" not in str(caught.value)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["notes.txt", "rank0/notes.txt", "rank9"])
def test_what_lies_beside_an_earlier_job_is_never_deleted(job: hg.JobGraph, tmp_path: Path, name: str) -> None:
    hg.save_graph(job, tmp_path / "g")
    (tmp_path / "g" / name).write_text("mine")
    before = folder_contents(tmp_path)
    with pytest.raises(OutputError, match="holds other files"):
        hg.save_graph(job, tmp_path / "g")
    assert folder_contents(tmp_path) == before


@pytest.mark.shared
@pytest.mark.parametrize(
    "folder", ["gloo/ddp_4r_slowfwd_1_skew", deep("gloo/pipeline_2r_slowfwd_1"), deep("traces/dlrm_8xv100")]
)
@pytest.mark.slow
def test_recorded_jobs_survive(tmp_path: Path, folder: str) -> None:
    job = hg.read_job(SHARED / folder)
    hg.save_graph(job, tmp_path / "g")
    assert_equal_jobs(hg.load_graph(tmp_path / "g"), job)
