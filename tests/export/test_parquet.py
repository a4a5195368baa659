"""A saved graph is loaded as it was; a folder is written whole or not at all, and never over something else."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import analyses
import hta_graph as hg
from hta_graph.base.errors import OutputError, TraceError
from tests.support.command_line import folder_contents, one_error, run_command, two_steps
from tests.support.shared_traces import shared_traces
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


def assert_equal(loaded: hg.DependencyGraph, saved: hg.DependencyGraph) -> None:
    pd.testing.assert_frame_equal(loaded.events, saved.events)
    pd.testing.assert_frame_equal(loaded.edges, saved.edges)
    assert loaded.diagnostics == saved.diagnostics
    assert list(loaded.diagnostics) == list(saved.diagnostics)
    assert (loaded.trace.rank, loaded.trace.world_size) == (saved.trace.rank, saved.trace.world_size)
    assert (loaded.trace.gpu_names, loaded.trace.path) == (saved.trace.gpu_names, saved.trace.path)
    assert loaded.trace.settings == saved.trace.settings
    assert loaded.trace.steps() == saved.trace.steps()
    assert loaded.edge_counts() == saved.edge_counts()
    pd.testing.assert_frame_equal(*(pd.DataFrame(vars(graph.wait_calls)) for graph in (loaded, saved)))


def test_a_loaded_graph_equals_the_saved_one(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    assert {path.name for path in (tmp_path / "g").iterdir()} == FILES
    assert graph.diagnostics["rows_dropped_no_name"] == 1
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


def test_a_graph_saved_before_there_were_wait_calls_can_be_loaded_and_replaced(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(SAMPLE))
    hg.save_graph(graph, tmp_path / "g")
    assert len(graph.wait_calls)
    (tmp_path / "g" / "wait_calls.parquet").unlink()
    loaded = hg.load_graph(tmp_path / "g")
    pd.testing.assert_frame_equal(loaded.edges, graph.edges)
    assert len(loaded.wait_calls) == 0
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("window", [None, hg.whole(), hg.step(2), hg.annotation("block"), hg.between(20_000, 165_000)])
def test_a_loaded_graph_has_the_same_critical_path(graph: hg.DependencyGraph, tmp_path: Path, window: Any) -> None:
    hg.save_graph(graph, tmp_path / "g")
    loaded, saved = (hg.critical_path(item, window) for item in (hg.load_graph(tmp_path / "g"), graph))
    pd.testing.assert_frame_equal(loaded.segments, saved.segments)
    assert loaded.by_bound_ns == saved.by_bound_ns
    loaded.self_check()


def test_an_empty_graph_can_be_saved(tmp_path: Path) -> None:
    graph = TraceBuilder().graph(tmp_path)
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


def test_a_filtered_graph_can_be_saved(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    part = graph.filter(kind=["kernel", "runtime"])
    hg.save_graph(part, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), part)


def test_a_loaded_graph_can_be_saved_and_filtered(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    loaded = hg.load_graph(tmp_path / "g")
    hg.save_graph(loaded, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)
    assert_equal(loaded.filter(kind="kernel"), graph.filter(kind="kernel"))


def test_tables_have_the_columns_of_the_contract(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
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
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


def test_a_surrogate_in_a_name_survives(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("a\ud800b", 0, 1)
    graph = trace.graph(tmp_path)
    hg.save_graph(graph, tmp_path / "g")
    assert hg.load_graph(tmp_path / "g").trace.names == graph.trace.names


# -- written whole or not at all --------------------------------------------------------------------------------------


def test_an_earlier_graph_is_replaced_whole(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    hg.save_graph(graph, tmp_path / "g")
    hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
    assert len(hg.load_graph(tmp_path / "g").events) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g", "trace.json"]


def test_an_empty_folder_is_filled(graph: hg.DependencyGraph, tmp_path: Path) -> None:
    (tmp_path / "g").mkdir()
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)


@pytest.mark.parametrize("fails_at", range(4))
def test_a_failure_leaves_the_earlier_graph_and_nothing_else(
    graph: hg.DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    import pyarrow.parquet

    hg.save_graph(graph, tmp_path / "g")
    before = folder_contents(tmp_path)
    write, calls = pyarrow.parquet.write_table, []

    def fail(*arguments: Any, **options: Any) -> None:
        calls.append(1)
        if len(calls) > fails_at:
            raise OSError(28, "No space left on device")
        write(*arguments, **options)

    monkeypatch.setattr(pyarrow.parquet, "write_table", fail)
    with pytest.raises(OutputError, match="No space left on device"):
        hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
    assert folder_contents(tmp_path) == before


@pytest.mark.parametrize("fails_at", [0, 1, 2])
def test_a_failed_rename_leaves_the_earlier_graph(
    graph: hg.DependencyGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails_at: int
) -> None:
    """Where the system cannot exchange two folders: the new one does not fit, the old one moves, the new one does."""
    monkeypatch.setattr("hta_graph.base.storage.atomic_write._exchange", lambda *_: False)
    hg.save_graph(graph, tmp_path / "g")
    before = folder_contents(tmp_path)
    rename, calls = Path.rename, []

    def fail(path: Path, target: Any) -> Path:
        calls.append(1)
        if len(calls) == fails_at + 1:
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(OutputError, match="Input/output error"):
        hg.save_graph(graph.filter(kind="kernel"), tmp_path / "g")
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
        hg.save_graph(graph, tmp_path / "g")
    assert folder_contents(tmp_path) == before


@pytest.mark.parametrize("name", ["notes.txt", "sub/notes.txt", "rank0.json"])
def test_a_file_beside_an_earlier_graph_is_never_deleted(graph: hg.DependencyGraph, tmp_path: Path, name: str) -> None:
    hg.save_graph(graph, tmp_path / "g")
    mine = tmp_path / "g" / name
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    with contextlib.suppress(OutputError):
        hg.save_graph(graph, tmp_path / "g")
    assert mine.is_file()
    assert mine.read_text() == "mine"


def test_the_input_inside_the_output_folder_is_never_deleted(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.save_graph(graph, tmp_path / "g")
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
        hg.save_graph(graph, tmp_path / target)
    assert (tmp_path / "trace.json").is_file()
    status, out, err = run_command(capsys, "graph", graph.trace.path, "--parquet", tmp_path / target)
    assert (status, out, message in err.splitlines()[-1]) == (1, "", True)


# -- folders that are no graphs ---------------------------------------------------------------------------------------


def edit_header(folder: Path, **changes: Any) -> None:
    path = folder / "graph.json"
    header = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({key: value for key, value in header.items() if value != "gone"}))


def edit_table(folder: Path, name: str, change: Any) -> None:
    path = folder / f"{name}.parquet"
    change(pd.read_parquet(path)).to_parquet(path, index=False)


def cut_file(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


DAMAGE: dict[str, Any] = {
    "no header": lambda g: (g / "graph.json").unlink(),
    "empty header": lambda g: (g / "graph.json").write_text(""),
    "truncated header": lambda g: cut_file(g / "graph.json", 50),
    "header not UTF-8": lambda g: (g / "graph.json").write_bytes(b"\xff\xfe"),
    "header a list": lambda g: (g / "graph.json").write_text("[]"),
    "header a number": lambda g: (g / "graph.json").write_text("7"),
    "header nested deeply": lambda g: (g / "graph.json").write_text("[" * 100_000),
    "another schema": lambda g: edit_header(g, schema="hta-graph/parquet/9"),
    "no schema": lambda g: edit_header(g, schema="gone"),
    "no names": lambda g: edit_header(g, names="gone"),
    "too few names": lambda g: edit_header(g, names=["one"]),
    "names a number": lambda g: edit_header(g, names=7),
    "lanes a list": lambda g: edit_header(g, lanes=[]),
    "too few lanes": lambda g: edit_header(
        g, lanes={"labels": [], "is_stream": [], "device": [], "context": [], "stream": []}
    ),
    "path a number": lambda g: edit_header(g, path=7),
    "no diagnostics": lambda g: edit_header(g, reading="gone"),
    "diagnostics a list": lambda g: edit_header(g, building=[1]),
    "a table is missing": lambda g: (g / "edges.parquet").unlink(),
    "a table is empty": lambda g: (g / "events.parquet").write_bytes(b""),
    "a table is truncated": lambda g: cut_file(g / "events.parquet", 300),
    "a table is a folder": lambda g: ((g / "flows.parquet").unlink(), (g / "flows.parquet").mkdir()),
    "a table is text": lambda g: (g / "syncs.parquet").write_text("PAR1 hello"),
    "a column is missing": lambda g: edit_table(g, "events", lambda t: t.drop(columns="start")),
    "rows are missing": lambda g: edit_table(g, "events", lambda t: t.iloc[:3]),
    "an edge from nowhere": lambda g: edit_table(g, "edges", lambda t: t.assign(source=-5)),
    "an edge beyond the end": lambda g: edit_table(g, "edges", lambda t: t.assign(target=10_000)),
    "an unknown edge kind": lambda g: edit_table(g, "edges", lambda t: t.assign(kind=99)),
    "an unknown event kind": lambda g: edit_table(g, "events", lambda t: t.assign(kind=99)),
    "an unknown lane": lambda g: edit_table(g, "events", lambda t: t.assign(lane=99)),
    "a column of text": lambda g: edit_table(g, "events", lambda t: t.assign(start="x")),
    "a column with holes": lambda g: edit_table(
        g, "events", lambda t: t.assign(start=t["start"].astype("Int64").where(t["start"] > 50_000))
    ),
}


@pytest.mark.sampled(9)
@pytest.mark.parametrize("case", DAMAGE)
def test_a_damaged_folder_is_one_clear_error(graph: hg.DependencyGraph, tmp_path: Path, case: str) -> None:
    hg.save_graph(graph, tmp_path / "g")
    DAMAGE[case](tmp_path / "g")
    with pytest.raises(TraceError, match=r"/g(/\w+\.(json|parquet))?: .*write it again with hg\.save_graph") as caught:
        hg.load_graph(tmp_path / "g")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("target", ["absent", "empty", "trace.json"])
def test_what_is_no_saved_graph_is_one_clear_error(graph: hg.DependencyGraph, tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(TraceError, match=r"is not a saved graph: it has no graph\.json"):
        hg.load_graph(tmp_path / target)


def test_a_saved_graph_is_no_trace_folder(
    capsys: pytest.CaptureFixture[str], graph: hg.DependencyGraph, tmp_path: Path
) -> None:
    hg.save_graph(graph, tmp_path / "g")
    one_error(capsys, tmp_path, "info", tmp_path / "g")


@pytest.mark.shared
def test_real_graphs_survive(tmp_path: Path) -> None:
    path = next(path for path in shared_traces() if path.parent.name == "sync_alexnet_a100")
    graph = hg.build_graph(hg.read_trace(path))
    hg.save_graph(graph, tmp_path / "g")
    assert_equal(hg.load_graph(tmp_path / "g"), graph)
