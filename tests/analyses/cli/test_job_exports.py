"""Commands that write files, asked about a folder of ranks: each takes the job."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from tests.support.command_line import command_json, one_error, run_command
from tests.support.gloo_builder import late_ranks
from tests.support.two_rank_job import small_job


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    late_ranks(ranks, 10, 35)
    return ranks


def test_the_graph_of_a_job_as_json(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = command_json(capsys, "graph", folder)
    assert (found["schema"], found["rank"], found["ranks"]) == ("hta-graph/graph/1", None, [0, 1])
    assert found["rendezvous"] == [{"number": 0, "kind": "all_reduce", "time_ns": 38_000}]
    assert [(event["rank"], event["event_index"]) for event in found["events"]] == [
        (rank, index) for rank in (0, 1) for index in range(5)
    ]
    meeting = [edge for edge in found["edges"] if edge["kind"] == "collective"]
    into = [edge for edge in meeting if edge["target_index"] is None]
    assert {(edge["source_rank"], edge["source_index"], edge["source_point"]) for edge in into} == {
        (0, 3, "start"), (1, 3, "start"),
    }  # fmt: skip
    assert {(edge["target_rank"], edge["target_point"], edge["rendezvous"]) for edge in into} == {(None, None, 0)}
    out_of = [edge for edge in meeting if edge["source_index"] is None]
    assert {(edge["source_rank"], edge["target_rank"], edge["rendezvous"]) for edge in out_of} == {
        (None, 0, 0), (None, 1, 0),
    }  # fmt: skip
    others = [edge for edge in found["edges"] if edge["kind"] != "collective"]
    assert {edge["rendezvous"] for edge in others} == {None}
    assert all(edge["source_rank"] == edge["target_rank"] for edge in others)


def test_the_graph_of_one_rank_as_json_has_no_keys_of_a_job(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    found = command_json(capsys, "graph", folder, "--rank", 1)
    assert (found["rank"], "rendezvous" in found) == (1, False)
    assert "rank" not in found["events"][0]


def test_the_graph_of_a_job_as_parquet(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    assert run_command(capsys, "graph", folder, "--parquet", tmp_path / "g")[0] == 0
    events = pd.read_parquet(tmp_path / "g" / "events.parquet")
    assert events["rank"].tolist() == hg.read_job(folder).events["rank"].tolist()


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("what", "title"),
    [
        (["--path"], "Critical path of ProfilerStep#1"),
        (["--around", "1:3", "--depth", "1"], "Around event 3 of rank 1"),
        (["--between", "1:1", "0:4"], "From event 1 of rank 1 (aten::mul) to event 4 of rank 0 (aten::add)"),
    ],
)
def test_pictures_of_a_job(
    capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path, what: list[str], title: str
) -> None:
    status, _, err = run_command(capsys, "render", folder, *what, "-o", tmp_path / "picture.dot")
    assert status == 0, err
    assert title in (tmp_path / "picture.dot").read_text()


def test_an_event_of_a_job_needs_its_rank(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    error = one_error(capsys, tmp_path, "render", folder, "--around", "3", "-o", tmp_path / "picture.dot")
    assert "such as 0:3" in error
    assert "no rank 9" in one_error(capsys, tmp_path, "render", folder, "--around", "9:3", "-o", tmp_path / "x.dot")


def test_overlay_and_source_of_a_picture(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    outputs = ["--overlay", tmp_path / "overlay.json", "--dot", tmp_path / "path.dot"]
    assert run_command(capsys, "critical-path", folder, *outputs)[0] == 0
    rows = json.loads((tmp_path / "overlay.json").read_text())["traceEvents"]
    names = {row["args"]["name"] for row in rows if row.get("name") == "thread_name"}
    assert names == {"Path of ProfilerStep#1, rank 0", "Path of ProfilerStep#1, rank 1"}
    assert "rank 0 waited 25 µs for rank 1" in (tmp_path / "path.dot").read_text()


def test_an_overlay_never_replaces_a_rank(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    error = one_error(capsys, tmp_path, "critical-path", folder, "--overlay", folder / "rank1.json")
    assert "is an input" in error


def test_the_timeline_of_a_job(capsys: pytest.CaptureFixture[str], folder: Path, tmp_path: Path) -> None:
    assert run_command(capsys, "timeline", folder, "-o", tmp_path / "timeline.html")[0] == 0
    assert "Timeline of ProfilerStep#1, 2 ranks" in (tmp_path / "timeline.html").read_text()


def test_sync_deps_of_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ranks = small_job(tmp_path)
    found = command_json(capsys, "sync-deps", *ranks)
    assert (found["rank"], found["ranks"]) == (None, [0, 1])
    alone = [command_json(capsys, "sync-deps", path) for path in ranks]
    for key in ("dependencies", "gpu_dependencies"):
        assert len(found[key]) == sum(len(own[key]) for own in alone)
        assert [row["rank"] for row in found[key]].count(1) == len(alone[1][key])
    status, out, _ = run_command(capsys, "sync-deps", *ranks, "--csv", "-")
    rows = list(csv.DictReader(out.splitlines()))
    assert (status, {row["rank"] for row in rows} <= {"0", "1"}) == (0, True)
    assert "--rank N" in one_error(capsys, tmp_path, "sync-deps", *ranks, "--external-ids", tmp_path / "ids.json")
