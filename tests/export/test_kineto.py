"""A graph's trace as Kineto JSON: read again, it gives an equal graph, whatever dialect the first file was in."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.base.errors import OutputError, TraceError, UsageError
from hta_graph.export.kineto import BASE_STEP_NS, write_kineto
from tests.support.command_line import one_error, run_command, two_steps
from tests.support.compare_traces import differences_but_places
from tests.support.foreign_traces import FOREIGN
from tests.support.kineto_output import rewritten
from tests.support.shared_traces import shared_traces
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job


def rich_trace(**header: Any) -> TraceBuilder:
    """Steps, waits, arrows, frames, a copy, memory, shapes, odd names."""
    trace = two_steps()
    trace.header = header
    trace.copy("Memcpy DtoH (Device -> Pinned)", 172, 173.5, 31, bytes=4096, **{"memory bandwidth (GB/s)": 2.73})
    trace.call("cudaStreamWaitEvent", 121, 122, 9)
    trace.sync_row("Stream Wait Event", 160, 160, 9, stream=8, wait_on_stream=7, record=4)
    trace.call("cuLaunchKernel", 123, 124, 12)
    trace.kernel("né <\x01> \U0001f600", 173.501, 174, 12, stream=8, grid=[1, 2, 3])
    trace.row(ph="s", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=10)
    trace.row(ph="f", cat="fwdbwd", name="fwdbwd", id=1, pid=100, tid=1, ts=110)
    trace.op("aten::mm", 180, 185.001, **{"Sequence number": 3, "External id": 17, "Input Dims": [[2, 3], []]})
    trace.frame("train.py(3): step", 170, 190)
    trace.row(ph="i", s="t", name="[memory]", pid=100, tid=1, ts=181, args={"Bytes": 512, "Device Type": 1})
    trace.row(ph="M", name="thread_name", pid=100, tid=1, args={"name": "thread 1 (python)"})
    trace.row(ph="X", cat="nobody knows", name="odd", pid="Spans", tid="a b", ts=3, dur=1)
    return trace


def document(path: Path) -> dict[str, Any]:
    data = path.read_bytes()
    found: dict[str, Any] = json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)
    return found


@pytest.mark.parametrize("base", [0, 1_719_853_884_000_000_000])
def test_a_trace_written_and_read_again_gives_an_equal_graph(tmp_path: Path, base: int) -> None:
    header = {"baseTimeNanoseconds": base, "distributedInfo": {"rank": 3, "world_size": 8, "backend": "nccl"}}
    graph = rich_trace(**header, deviceProperties=[{"id": 0, "name": "A100"}], with_stack=1).graph(tmp_path)
    again = rewritten(graph, tmp_path)
    assert not list(differences_but_places(graph, again))
    assert again.trace.settings == graph.trace.settings
    kinds = [row["cat"] for row in document(tmp_path / "out.json")["traceEvents"] if row["name"] == "cuLaunchKernel"]
    assert kinds == ["cuda_runtime"]  # as its file says


def test_arguments_that_no_column_has_are_kept(tmp_path: Path) -> None:
    rewritten(rich_trace().graph(tmp_path), tmp_path)
    rows = {row["name"]: row for row in document(tmp_path / "out.json")["traceEvents"]}
    assert rows["aten::mm"]["args"] == {"Input Dims": [[2, 3], []], "Sequence number": 3, "External id": 17}
    assert rows["né <\x01> \U0001f600"]["args"]["grid"] == [1, 2, 3]
    assert rows["[memory]"] | {"ts": 0} == {
        "ph": "i", "s": "t", "cat": "cpu_instant_event", "name": "[memory]", "pid": 100, "tid": 1, "ts": 0,
        "args": {"Bytes": 512, "Device Type": 1},
    }  # fmt: skip
    assert rows["thread_name"]["args"] == {"name": "thread 1 (python)"}


def test_times_are_printed_exactly_from_a_base_of_a_quarter_of_a_year(tmp_path: Path) -> None:
    trace = TraceBuilder(baseTimeNanoseconds=1_719_853_884_000_000_001)
    trace.op("aten::add", 6_322_354_305_173.787, 6_322_354_305_173.788)
    graph = trace.graph(tmp_path)
    rewritten(graph, tmp_path)
    found = document(tmp_path / "out.json")
    (row,) = [row for row in found["traceEvents"] if row["name"] == "aten::add"]
    base = found["baseTimeNanoseconds"]
    assert base % BASE_STEP_NS == 0
    assert base + round(row["ts"] * 1000) == 1_719_853_884_000_000_001 + 6_322_354_305_173_787
    assert (row["dur"], found["displayTimeUnit"]) == (0.001, "ms")


def test_launches_and_forward_operators_have_their_arrows(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (1, 3), (5, 9), 7)
    trace.kernel("of the same graph", 9, 10, 7, stream=8)
    trace.kernel("without a call", 11, 12, 9)
    rewritten(trace.graph(tmp_path), tmp_path)
    arrows = [row for row in document(tmp_path / "out.json")["traceEvents"] if row.get("cat") == "ac2g"]
    assert [(row["ph"], row["id"], row["pid"], row["tid"], row["ts"]) for row in arrows] == [
        ("s", 7, 100, 1, 1), ("f", 7, 0, 7, 5), ("s", 7, 100, 1, 1), ("f", 7, 0, 8, 9),
    ]  # fmt: skip


def test_processes_and_streams_without_names_get_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (1, 3), (5, 9), 7)
    rewritten(trace.graph(tmp_path), tmp_path)
    rows = [row for row in document(tmp_path / "out.json")["traceEvents"] if row["ph"] == "M"]
    assert [(row["name"], row["pid"], *row["args"].values()) for row in rows] == [
        ("process_name", 100, "python"), ("process_labels", 100, "CPU"), ("thread_name", 100, "thread 100:1"),
        ("process_name", 0, "python"), ("process_labels", 0, "GPU 0"), ("thread_name", 0, "stream 7"),
    ]  # fmt: skip


def test_events_of_a_moved_clock_keep_the_times_of_their_file(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(0, 3000, 100):
        trace.launch("gemm", (at + 50, at + 53), (at, at + 20), at + 1)  # every kernel 50 µs before its launch
    graph = trace.graph(tmp_path)
    assert graph.trace.moved_from is not None
    assert not list(differences_but_places(graph, rewritten(graph, tmp_path)))
    (first, *_) = [row for row in document(tmp_path / "out.json")["traceEvents"] if row["name"] == "gemm"]
    assert first["ts"] == 0


READABLE = r"merged by (?!joined_by_time)|old array"
ODD_TRACES = [name for name in FOREIGN if re.match(READABLE, name)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ODD_TRACES)
def test_foreign_dialects_and_merged_ranks_become_traces_of_kineto(tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.json"
    path.write_bytes(FOREIGN[name]())
    for graph in hg.read_graphs([path]):
        assert not list(differences_but_places(graph, rewritten(graph, tmp_path)))


@pytest.mark.slow
@pytest.mark.parametrize("path", shared_traces(), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_real_trace_written_and_read_again_gives_an_equal_graph(tmp_path: Path, path: Path) -> None:
    for graph in hg.read_graphs([path]):
        assert not list(differences_but_places(graph, rewritten(graph, tmp_path)))


def test_the_command_writes_one_rank_or_a_folder_of_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    job = tmp_path / "job"
    job.mkdir()
    small_job(job)
    assert run_command(capsys, "graph", job, "--rank", 1, "--kineto", tmp_path / "one.json.gz") == (0, "", "")
    assert document(tmp_path / "one.json.gz")["distributedInfo"]["rank"] == 1
    error = one_error(capsys, tmp_path, "graph", job, "--kineto", tmp_path / "all.json", status=2)
    assert error.endswith("all.json: cannot hold 2 ranks; name an existing folder, or one rank with --rank\n")
    (tmp_path / "folder").mkdir()
    assert run_command(capsys, "graph", job, "--kineto", tmp_path / "folder") == (0, "", "")
    assert [path.name for path in sorted((tmp_path / "folder").iterdir())] == ["rank_0.json.gz", "rank_1.json.gz"]
    assert (
        hg.critical_path(hg.read_job(tmp_path / "folder")).by_rank_ns == hg.critical_path(hg.read_job(job)).by_rank_ns
    )


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    job = hg.read_job(small_job(tmp_path)[0].parent)
    with pytest.raises(UsageError, match="holds one rank"):
        write_kineto(job, tmp_path / "out.json")
    path = rich_trace().write(tmp_path / "trace.json")
    graph = hg.build_graph(hg.read_trace(path))
    with pytest.raises(OutputError, match="is an input"):
        write_kineto(graph, path)
    TraceBuilder().write(path)
    with pytest.raises(TraceError, match="has changed since it was read"):
        write_kineto(graph, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()
