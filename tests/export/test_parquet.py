"""Parquet tables hold what the graph does; a folder is written whole or not at all, never over something else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import analyses
import hta_graph as hg
from hta_graph.base.errors import OutputError
from tests.support.command_line import folder_contents, one_error, run_command, two_steps
from tests.support.trace_builder import TraceBuilder

pytestmark = pytest.mark.sampled(2)

pytest.importorskip("pyarrow")
SAMPLE = Path(analyses.__file__).parent / "sample" / "sample_trace.json.gz"
TABLES = ("events", "edges", "wait_calls", "syncs", "copies", "flows")
FILES = {"graph.json", *(f"{name}.parquet" for name in TABLES)}


def rich_graph() -> TraceBuilder:
    """Steps, synchronisation rows, flows, a collective, odd names and dropped rows."""
    trace = two_steps()
    collective: dict[str, Any] = {"Collective name": "allreduce"}
    trace.kernel("ncclDevKernel_AllReduce", 160, 170, 0, stream=8, **collective)
    trace.call("cudaStreamWaitEvent", 121, 122, 9)
    trace.sync_row("Stream Wait Event", 160, 160, 9, stream=8, wait_on_stream=7, record=4)
    trace.row(ph="s", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=10)
    trace.row(ph="f", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=110)
    trace.op("né\n\x00 \U0001f600", 180, 185, **{"Sequence number": 3})
    trace.op("", 0, 1)
    return trace


@pytest.fixture
def graph(tmp_path: Path) -> hg.DependencyGraph:
    return rich_graph().graph(tmp_path)


def assert_holds(folder: Path, graph: hg.DependencyGraph) -> None:
    """Compare the tables of a folder with the graph that was written."""
    events, edges = (pd.read_parquet(folder / f"{name}.parquet") for name in ("events", "edges"))
    header = json.loads((folder / "graph.json").read_text())
    assert [header["names"][code] for code in events["name"]] == graph.events["name"].tolist()
    for column, shown in (("index", "event_index"), ("start", "start_ns"), ("end", "end_ns")):
        assert events[column].tolist() == graph.events[shown].tolist()
    assert edges["source"].tolist() == graph.edge_table.source.tolist()
    assert edges["target"].tolist() == graph.edge_table.target.tolist()
    assert header["reading"] | header["building"] == graph.diagnostics
    for name in ("wait_calls", "copies", "syncs", "flows"):
        table = graph.wait_calls if name == "wait_calls" else getattr(graph.trace, name)
        found = pd.read_parquet(folder / f"{name}.parquet")
        assert all(
            found[column].tolist() == pytest.approx(getattr(table, column).tolist(), nan_ok=True) for column in found
        )


def test_tables_hold_what_the_graph_does(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    assert {path.name for path in (tmp_path / "g").iterdir()} == FILES
    assert graph.diagnostics["rows_dropped_no_name"] == 1
    assert_holds(tmp_path / "g", graph)


def test_an_empty_graph_can_be_written(tmp_path: Path) -> None:
    graph = TraceBuilder().graph(tmp_path)
    hg.write_parquet(graph, tmp_path / "g")
    assert_holds(tmp_path / "g", graph)


def test_tables_have_the_columns_of_the_contract(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    found = pd.read_parquet(tmp_path / "g" / "edges.parquet")
    assert [(name, str(kind)) for name, kind in found.dtypes.items()] == [
        ("source", "int32"), ("target", "int32"), ("kind", "int8"), ("rule", "int8"),
    ]  # fmt: skip
    events = pd.read_parquet(tmp_path / "g" / "events.parquet")
    assert len(events) == len(graph.events)
    assert events["start"].tolist() == graph.events["start_ns"].tolist()


def test_the_command_writes_what_the_library_writes(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    status, out, err = run_command(capsys, "graph", graph.trace.path, "--parquet", tmp_path / "g")
    assert (status, out) == (0, "")
    assert "(rows_dropped_no_name)" in err
    assert_holds(tmp_path / "g", graph)


# -- written whole or not at all --------------------------------------------------------------------------------------


def test_an_earlier_graph_is_replaced_whole(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    hg.write_parquet(graph.filter(kind="kernel"), tmp_path / "g")
    assert len(pd.read_parquet(tmp_path / "g" / "events.parquet")) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "trace.json"]


def test_an_empty_folder_is_filled(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    hg.write_parquet(graph, tmp_path / "g")
    assert_holds(tmp_path / "g", graph)


@pytest.mark.parametrize("fails_at", range(4))
def test_a_failure_leaves_the_earlier_graph_and_nothing_else(
    graph: hg.DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    import pyarrow.parquet

    hg.write_parquet(graph, tmp_path / "g")
    before = folder_contents(tmp_path)
    write, calls = pyarrow.parquet.write_table, []

    def fail(*arguments: Any, **options: Any) -> None:
        calls.append(1)
        if len(calls) > fails_at:
            raise OSError(28, "No space left on device")
        write(*arguments, **options)

    monkeypatch.setattr(pyarrow.parquet, "write_table", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        hg.write_parquet(graph.filter(kind="kernel"), tmp_path / "g")
    assert folder_contents(tmp_path) == before


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_failed_rename_leaves_the_earlier_graph(
    graph: hg.DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """Where the system cannot exchange two folders: the new one does not fit, the old one moves, the new one does."""
    monkeypatch.setattr("hta_graph.base.storage.atomic_write._exchange", lambda *_: False)
    hg.write_parquet(graph, tmp_path / "g")
    before = folder_contents(tmp_path)
    rename, calls = Path.rename, []

    def fail(path: Path, target: Any) -> Path:
        calls.append(1)
        if len(calls) == fails_at + 1:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match="Input/output error"):
        hg.write_parquet(graph.filter(kind="kernel"), tmp_path / "g")
    monkeypatch.undo()
    assert folder_contents(tmp_path) == before


FOREIGN: dict[str, dict[str, str]] = {
    "notes": {"notes.txt": "mine"},
    "another program's graph.json": {"graph.json": '{"nodes": []}', "data.bin": "mine"},
    "graph.json alone": {"graph.json": "my own"},
    "a parquet table": {"events.parquet": "mine"},
    "a hidden file": {".git": "mine"},
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", FOREIGN)
def test_a_folder_of_other_files_is_refused(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path, case: str
) -> None:
    (tmp_path / "g").mkdir()
    for name, text in FOREIGN[case].items():
        (tmp_path / "g" / name).write_text(text)
    before = folder_contents(tmp_path)
    with pytest.raises(OutputError):
        hg.write_parquet(graph, tmp_path / "g")
    assert folder_contents(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", "rank0.json"])
def test_a_file_beside_an_earlier_graph_is_never_deleted(graph: hg.DependencyGraph, tmp_path: Path, name: str) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    mine = tmp_path / "g" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with contextlib.suppress(OutputError):
        hg.write_parquet(graph, tmp_path / "g")
    assert mine.is_file()
    assert mine.read_text() == "mine"


def test_the_input_inside_the_output_folder_is_never_deleted(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    trace = rich_graph().write(tmp_path / "g" / "trace.json")
    before = trace.read_bytes()
    run_command(capsys, "graph", trace, "--parquet", tmp_path / "g")
    assert trace.is_file()
    assert trace.read_bytes() == before


@pytest.mark.parametrize(("target", "message"), [("trace.json", "is a file"), ("absent/g", "does not exist")])
def test_a_folder_that_cannot_be_is_refused(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path, target: str, message: str
) -> None:
    with pytest.raises(OutputError, match=message):
        hg.write_parquet(graph, tmp_path / target)
    assert (tmp_path / "trace.json").is_file()
    status, out, err = run_command(capsys, "graph", graph.trace.path, "--parquet", tmp_path / target)
    assert (status, out, message in err.splitlines()[-1]) == (1, "", True)


def test_tables_are_no_trace_folder(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.write_parquet(graph, tmp_path / "g")
    one_error(capsys, tmp_path, "info", tmp_path / "g")
