"""A job as Parquet tables: whose each row is, and each rank alone; other folders are never replaced."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from hta_graph.base.errors import OutputError
from tests.support.command_line import folder_contents
from tests.support.random_jobs import random_job

pytest.importorskip("pyarrow")


@pytest.fixture
def job(tmp_path: Path) -> hg.JobGraph:
    return random_job(tmp_path, 7)


def test_each_rank_has_tables_of_its_own(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.write_parquet(job, tmp_path / "g")
    alone = pd.read_parquet(tmp_path / "g" / "rank1" / "edges.parquet")
    assert json.loads((tmp_path / "g" / "rank1" / "graph.json").read_text())["rank"] == 1
    assert alone["source"].tolist() == job.graph(1).edge_table.source.tolist()


def test_tables_say_whose_each_row_is(job: hg.JobGraph, tmp_path: Path) -> None:
    hg.write_parquet(job, tmp_path / "g")
    events, edges, meetings = (
        pd.read_parquet(tmp_path / "g" / f"{name}.parquet") for name in ("events", "edges", "rendezvous")
    )
    assert events["rank"].tolist() == job.events["rank"].tolist()
    assert meetings[["number", "kind", "time_ns"]].to_dict() == job.rendezvous.to_dict()
    meets = edges.rendezvous.notna()
    assert meets.sum() == (job.edges.kind == "collective").sum() > 0
    assert (edges.source.isna() ^ edges.target.isna())[meets].all()
    assert not edges[~meets][["source", "target", "source_rank", "target_rank"]].isna().any(axis=None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["notes.txt", "rank0/notes.txt", "rank9"])
def test_what_lies_beside_an_earlier_job_is_never_deleted(job: hg.JobGraph, tmp_path: Path, name: str) -> None:
    hg.write_parquet(job, tmp_path / "g")
    (tmp_path / "g" / name).write_text("mine")
    before = folder_contents(tmp_path)
    with pytest.raises(OutputError, match="holds other files"):
        hg.write_parquet(job, tmp_path / "g")
    assert folder_contents(tmp_path) == before
