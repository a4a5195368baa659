"""The command line: its exit statuses, its one-line errors, its JSON contracts, its speed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import hta_graph as hg
from tests.support.command_line import (
    BOUND_BY,
    COMMANDS,
    command_json,
    one_error,
    run_command,
    run_program,
    time_by_class,
    two_steps,
)
from tests.support.deep_tests import deep
from tests.support.make_samples import SAMPLE
from tests.support.samples import FOUR_RANKS
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job

EVENT_KINDS = {
    "cpu_op", "annotation", "python_function", "runtime", "kernel", "memcpy", "memset", "gpu_annotation",
    "sync_record", "memory", "overhead", "other", "os_call", "graph_host_node", "graph_event_node",
}  # fmt: skip
SEGMENT_KEYS = {
    "start_ns", "end_ns", "edge", "evidence", "bound_by", "event_index", "name", "lane", "carried_over", "rank",
    "reason",
}  # fmt: skip
EDGE_KEYS = {
    "kind", "evidence", "clamped", "source_index", "source_point", "target_index", "target_point", "lag_ns",
}  # fmt: skip


@pytest.fixture
def trace_file(tmp_path: Path) -> Path:
    return two_steps().write(tmp_path / "trace.json")


@pytest.mark.slow
def test_an_answer_about_one_rank_says_that_there_are_more_files(capsys: pytest.CaptureFixture[str]) -> None:
    folder = FOUR_RANKS
    said = "analyzing rank 0 of 4 files; use --rank N for another one\n"
    assert run_command(capsys, "diff", folder / "rank_0.json.gz", folder)[2] == said
    for arguments in ((folder, "--rank", 1), (folder,)):
        assert run_command(capsys, "diff", *arguments, folder)[2] == ""


def test_several_files_are_a_job_and_one_is_a_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small_job(tmp_path)
    job = command_json(capsys, "critical-path", tmp_path, "--annotation", "forward")
    alone = command_json(capsys, "critical-path", tmp_path, "--rank", 1)
    assert {segment["rank"] for segment in job["segments"]} == {0, 1}
    assert alone == command_json(capsys, "critical-path", tmp_path / "rank1.json")


def test_what_cannot_be_read_is_told_and_the_job_is_that_of_the_others(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    small_job(tmp_path)
    expected = run_command(capsys, "critical-path", tmp_path, "--whole")[1]
    (tmp_path / "rank2.json").write_text('{"traceEvents": [')
    status, out, err = run_command(capsys, "critical-path", tmp_path, "--whole")
    assert (status, out) == (1, expected)
    assert err.count("\n") == 1
    assert "rank2.json" in err
    (tmp_path / "rank1.json").write_text('{"traceEvents": [')
    _, out, err = run_command(capsys, "critical-path", tmp_path, "--whole")
    assert "rank0.json, rank 0" in out
    assert err.endswith("rank0.json, rank 0, alone\n")


def test_an_event_of_a_job_is_named_with_its_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small_job(tmp_path)
    told = one_error(capsys, tmp_path, "render", tmp_path, "--around", 3, "-o", tmp_path / "x.dot")
    assert told.endswith(
        "are identified by rank and number; give RANK:3, such as 0:3, or choose a rank with --rank N\n"
    )
    told = one_error(capsys, tmp_path, "render", tmp_path, "--rank", 0, "--around", "0:3", "-o", tmp_path / "x.dot")
    assert told.endswith("are identified by number alone; give 3, not 0:3\n")


# -- usage ------------------------------------------------------------------------------------------------------------


def test_version_is_the_package_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(capsys, "--version") == (0, f"hta-graph {hg.__version__}\n", "")
    assert run_command(capsys, "info", "--version") == (0, f"hta-graph {hg.__version__}\n", "")


def test_program_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys, "--help")
    assert (status, err) == (0, "")
    assert all(command in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, out, err = run_command(capsys, command, "--help-all")
    assert (status, err) == (0, "")
    assert out.startswith(f"usage: hta-graph {command}")
    assert {"--json", "--rank", "--salvage", "INPUT"} <= set(re.findall(r"--[a-z-]+|INPUT", out))


def test_critical_path_help_names_the_options_of_the_contract(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run_command(capsys, "critical-path", "--help-all")
    options = [
        "--step",
        "--annotation",
        "--regex",
        "--instance",
        "--window",
        "--whole",
        "--cpu-window",
        "--gpu-window",
        "--data-load",
    ]
    assert set(options) <= set(re.findall(r"--[a-z-]+", out))


def test_without_arguments_the_usage_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run_command(capsys)
    assert (status, out) == (2, "")
    assert err.startswith("usage: hta-graph")


@pytest.mark.parametrize("command", COMMANDS)
def test_without_an_input_one_line_shows_an_example(capsys: pytest.CaptureFixture[str], command: str) -> None:
    status, out, err = run_command(capsys, command)
    assert (status, out) == (2, "")
    assert err.startswith(f"hta-graph {command}: missing INPUT")
    assert f"for example: hta-graph {command} " in err
    assert len(err.splitlines()) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--step", "1", "--whole"],
        ["--step", "1", "--annotation", "block"],
        ["--annotation", "block", "--window", "0:10"],
        ["--window", "0:10", "--whole"],
        ["--cpu-window", "--gpu-window"],
        ["--regex"],
        ["--instance", "0"],
        ["--step", "1", "--regex"],
        ["--whole", "--instance", "1"],
        ["--gpu-window", "--annotation", "block"],
        ["--gpu-window", "--whole"],
        ["--gpu-window", "--window", "0:10"],
        ["--cpu-window", "--whole"],
        ["--cpu-window", "--window", "0:10"],
        ["--annotation", "block", "--instance", "x"],
        ["--annotation", "block", "--instance", "1:"],
        ["--annotation", "block", "--instance", "-1"],
        ["--annotation", "block", "--instance", "1:2:3"],
        ["--window", "10"],
        ["--window", "10:"],
        ["--window", "a:b"],
        ["--window=--5:10"],
        ["--window", "10:10"],
        ["--window", "20:10"],
        ["--step", "one"],
        ["--rank", "one"],
        ["--no-such-option"],
        ["--st", "1"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_contradictory_or_malformed_options_are_usage_errors(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path, arguments: list[str]
) -> None:
    one_error(capsys, tmp_path, "critical-path", trace_file, *arguments, status=2)


def test_an_unknown_command_is_a_usage_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert "analyse" in one_error(capsys, tmp_path, "analyse", status=2)


# -- info -------------------------------------------------------------------------------------------------------------


def test_info_counts_what_is_in_the_trace(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    found = command_json(capsys, "info", trace_file)
    assert found["schema"] == "hta-graph/info/1"
    (rank,) = found["ranks"]
    assert (rank["rank"], rank["world_size"], rank["events"], rank["gpus"]) == (3, 8, 8, ["A100"])
    assert (rank["start_ns"], rank["end_ns"]) == (0, 200_000)
    assert rank["steps"] == [
        {"step": 1, "start_ns": 0, "end_ns": 100_000},
        {"step": 2, "start_ns": 100_000, "end_ns": 200_000},
    ]
    assert set(rank["kinds"]) == EVENT_KINDS
    assert {kind: n for kind, n in rank["kinds"].items() if n} == {
        "annotation": 4, "cpu_op": 2, "runtime": 1, "kernel": 1,
    }  # fmt: skip
    assert sorted(map(str, rank["lanes"])) == sorted(
        map(str, [{"lane": "thread 100:1", "events": 7}, {"lane": "stream 0:1:7", "events": 1}])
    )
    assert rank["edges"]["launch"] == {"recorded": 1, "inferred": 0}
    assert rank["edges"]["execution"] == {"recorded": 1, "inferred": 0}
    assert rank["edges"]["thread_order"] == {"recorded": 5, "inferred": 0}


def test_info_documents_its_diagnostics(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    from hta_graph.graph.dependency_graph import DIAGNOSTICS

    diagnostics = command_json(capsys, "info", trace_file)["ranks"][0]["diagnostics"]
    assert set(diagnostics) == {*DIAGNOSTICS, "gpu_clock"}
    assert not any(diagnostics[key] for key in DIAGNOSTICS)


def test_info_table_names_the_essentials(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    status, out, err = run_command(capsys, "info", trace_file)
    assert (status, err) == (0, "")
    assert "8 events in 0.200 ms" in out
    assert all(text in out for text in ("rank 3 of 8", "A100", "steps: 2 (1, 2)", "thread_order", "stream 0:1:7"))


# -- critical-path ----------------------------------------------------------------------------------------------------


def test_critical_path_json_has_all_keys_of_the_contract(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    found = command_json(capsys, "critical-path", trace_file)
    assert {"schema", "file", "rank", "window", "coverage", "by_bound_ns", "segments", "diagnostics"} <= set(found)
    assert (found["schema"], found["file"], found["rank"]) == ("hta-graph/critical-path/1", str(trace_file), 3)
    assert set(found["window"]) == {"start_ns", "end_ns", "label", "cpu_ns", "gpu_ns", "rows_after"}
    assert set(found["by_bound_ns"]) == BOUND_BY
    assert all(set(segment) == SEGMENT_KEYS for segment in found["segments"])


def test_merged_runs_list_a_run_as_one_segment_on_request(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaStreamSynchronize", 0, 200, 1)
    trace.frame("forward", 200, 9_000)
    for at in (500, 700):
        trace.frame("isinstance", at, at + 2)
    trace.op("last", 9_000, 9_100)
    file = trace.write(tmp_path / "stacks.json")
    usual, merged = (command_json(capsys, "critical-path", file, *flag) for flag in ([], ["--merge-runs"]))
    assert [len(found["segments"]) for found in (usual, merged)] == [7, 3]
    assert (merged["segments_merged"], "segments_merged" in usual) == (7, False)
    assert set(merged["segments"][1]) == SEGMENT_KEYS | {"segments", "inside"}
    assert (merged["segments"][1]["segments"], merged["segments"][1]["inside"]) == (5, "forward")
    assert [found["unexplained"][0]["segment"] for found in (usual, merged)] == [0, 0]
    assert all(usual[key] == merged[key] for key in usual if key not in ("segments", "unexplained"))


def test_an_unexplained_segment_is_found_among_merged_runs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("first", 0, 10)
    trace.frame("forward", 10, 9_000)
    trace.frame("isinstance", 500, 502)
    trace.call("cudaStreamSynchronize", 9_000, 9_200, 1)
    trace.op("last", 9_200, 9_300)
    found = command_json(capsys, "critical-path", trace.write(tmp_path / "wait.json"), "--merge-runs")
    (unexplained,) = found["unexplained"]
    assert found["segments"][unexplained["segment"]]["reason"] == unexplained["reason"] == "wait_without_record"


@pytest.mark.parametrize("others", [[], ["--per-step", "--json", "-"]])
def test_merged_runs_are_for_json_of_one_path(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path, others: list[str]
) -> None:
    assert "--merge-runs needs --json" in one_error(
        capsys, tmp_path, "critical-path", trace_file, "--merge-runs", *others, status=2
    )


def test_default_window_is_the_only_step_that_launched_gpu_work(
    capsys: pytest.CaptureFixture[str], trace_file: Path
) -> None:
    found = command_json(capsys, "critical-path", trace_file)
    assert found["window"] == {
        "start_ns": 0, "end_ns": 150_000, "label": "ProfilerStep#1", "cpu_ns": 100_000, "gpu_ns": 150_000,
        "rows_after": 0,
    }  # fmt: skip
    assert found["coverage"] == 1.0
    assert time_by_class(found) == {
        "cpu_gap": 10_000, "cpu_bound": 20_000, "gpu_kernel_launch_overhead": 20_000, "gpu_compute_bound": 100_000,
    }  # fmt: skip
    assert found["segments"][-1] == {
        "start_ns": 50_000, "end_ns": 150_000, "edge": "execution", "evidence": "recorded",
        "bound_by": "gpu_compute_bound", "event_index": 3, "name": "gemm", "lane": "stream 0:1:7",
        "carried_over": False,
        "rank": 3,
        "reason": None,
    }  # fmt: skip


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("arguments", "start", "end", "classes"),
    [
        (["--step", "1", "--cpu-window"], 0, 100, {"cpu_gap": 70, "cpu_bound": 30}),
        (["--cpu-window"], 0, 100, {"cpu_gap": 70, "cpu_bound": 30}),
        (["--step", "2"], 100, 200, {"cpu_gap": 90, "cpu_bound": 10}),
        (["--step", "2", "--gpu-window"], 150, 200, {"cpu_gap": 50}),
        (["--annotation", "block"], 110, 120, {"cpu_bound": 10}),
        (["--annotation", "block", "--instance", "1"], 130, 160, {"cpu_gap": 30}),
        (["--annotation", "block", "--instance", "0:1"], 110, 160, {"cpu_bound": 10, "cpu_gap": 40}),
        (["--annotation", "bl.*", "--regex", "--cpu-window"], 110, 120, {"cpu_bound": 10}),
        (["--annotation", "ProfilerStep#1", "--cpu-window"], 0, 100, {"cpu_gap": 70, "cpu_bound": 30}),
        (["--window", "60000:140000"], 60, 140, {"gpu_compute_bound": 80}),
        (["--window", "40000:60000"], 40, 60, {"gpu_kernel_launch_overhead": 10, "gpu_compute_bound": 10}),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_each_window_option_tiles_its_window(
    capsys: pytest.CaptureFixture[str], trace_file: Path, arguments: list[str], start: int, end: int,
    classes: dict[str, int],
) -> None:  # fmt: skip
    found = command_json(capsys, "critical-path", trace_file, *arguments)
    assert (found["window"]["start_ns"], found["window"]["end_ns"]) == (start * 1000, end * 1000)
    assert time_by_class(found) == {bound: us * 1000 for bound, us in classes.items()}


def test_gpu_windows_tile_the_run(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    first, second = (
        command_json(capsys, "critical-path", trace_file, "--step", n, "--gpu-window")["window"] for n in (1, 2)
    )
    assert (first["start_ns"], first["end_ns"]) == (0, second["start_ns"])
    assert second["end_ns"] == 200_000


def test_whole_runs_from_the_first_point_to_the_end_of_the_work(
    capsys: pytest.CaptureFixture[str], trace_file: Path
) -> None:
    found = command_json(capsys, "critical-path", trace_file, "--whole")
    assert (found["window"]["start_ns"], found["window"]["end_ns"]) == (10_000, 150_000)
    assert found["coverage"] == 1.0
    assert not any(segment["carried_over"] for segment in found["segments"])


@pytest.mark.slow
def test_what_begins_after_the_work_is_counted_and_said(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def with_late_calls(kernel: str) -> Path:
        trace = TraceBuilder()
        trace.launch(kernel, (0, 4), (10, 100), 1)
        for at in (20, 200, 300):
            trace.call("cudaEventQuery", at, at + 5, tid=2)
        return trace.write(tmp_path / f"{kernel}.json")

    written, other = with_late_calls("gemm"), with_late_calls("sgemm")
    window = command_json(capsys, "critical-path", written, "--whole")["window"]
    assert (window["start_ns"], window["end_ns"], window["rows_after"]) == (0, 100_000, 2)
    said = "The window ends with its last work; 2 events begin later, up to 0.205 ms after it."
    assert said in run_command(capsys, "critical-path", written, "--whole")[1].splitlines()
    page = tmp_path / "report.html"
    assert run_command(capsys, "report", written, "--whole", "-o", page)[0] == 0
    assert f"Rank 0: {said}" in page.read_text(encoding="utf-8")
    assert f"After: {said}" in run_command(capsys, "diff", written, other, "--whole")[1].splitlines()


def test_work_from_before_the_window_is_carried_over(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    (segment,) = command_json(capsys, "critical-path", trace_file, "--window", "60000:140000")["segments"]
    assert (segment["name"], segment["carried_over"]) == ("gemm", True)


def test_data_load_patterns_name_operators_and_what_is_inside(
    capsys: pytest.CaptureFixture[str], trace_file: Path
) -> None:
    found = command_json(capsys, "critical-path", trace_file, "--data-load", "nothing", r"^aten::mm$")
    assert time_by_class(found)["data_loading"] == 20_000
    assert "cpu_bound" not in time_by_class(found)


def test_an_annotation_is_an_exact_name_unless_regex_is_asked(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path
) -> None:
    assert "'bl.*'" in one_error(capsys, tmp_path, "critical-path", trace_file, "--annotation", "bl.*")


def test_table_says_in_a_few_lines_what_bounds_the_step(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    status, out, err = run_command(capsys, "critical-path", trace_file)
    assert (status, err) == (0, "")
    head = "\n".join(out.splitlines()[:7])
    first = "largest single operator at 2x: aten::mm, 60.0 µs (40%), high confidence"
    assert out.startswith(f"step 1: bound by GPU compute (67% of the critical path); {first}; latency 150.0 µs")
    assert "trace.json, rank 3" in head
    assert "ProfilerStep#1: latency 0.150 ms, from its start to the end of its last work" in head
    assert "iteration: not recorded (no previous step); 0.100 ms" in head
    assert "Unexplained: 0 ms" in head


def test_table_says_what_is_unexplained_as_plainly(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaStreamSynchronize", 0, 150)
    trace.op("next", 150, 200)
    _, out, _ = run_command(capsys, "critical-path", trace.write(tmp_path / "trace.json"))
    assert "Unexplained: 0.150 ms (75.0%)" in "\n".join(out.splitlines()[:7])


def test_names_cannot_break_or_colour_the_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("two\nlines \x1b[31mred\x07", 0, 10)
    status, out, err = run_command(capsys, "critical-path", trace.write(tmp_path / "t.json"))
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "two lines" in out


# -- graph ------------------------------------------------------------------------------------------------------------


def test_graph_json_is_the_contract(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    found = command_json(capsys, "graph", trace_file)
    assert found["schema"] == "hta-graph/graph/1"
    assert [event["event_index"] for event in found["events"]] == list(range(8))
    assert found["events"][3] == {
        "event_index": 3, "kind": "kernel", "name": "gemm", "lane": "stream 0:1:7", "start_ns": 50_000,
        "end_ns": 150_000,
    }  # fmt: skip
    assert all(set(edge) == EDGE_KEYS for edge in found["edges"])
    (launch,) = (edge for edge in found["edges"] if edge["kind"] == "launch")
    assert launch == {
        "kind": "launch", "evidence": "recorded", "clamped": False, "source_index": 2, "source_point": "start",
        "target_index": 3, "target_point": "start", "lag_ns": 30_000,
    }  # fmt: skip


def test_graph_without_an_output_counts_edges(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    status, out, err = run_command(capsys, "graph", trace_file)
    assert (status, err) == (0, "")
    assert re.search(r"5 +0 +thread_order", out)


def test_graph_writes_parquet_and_json_together(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path
) -> None:
    target, folder = tmp_path / "g.json", tmp_path / "g"
    done = run_command(capsys, "graph", trace_file, "--json", target, "--parquet", folder)
    assert done == (0, f"{trace_file}, rank 3 of 8: 8 events in 0.200 ms\n", "")
    assert len(json.loads(target.read_bytes())["events"]) == len(pd.read_parquet(folder / "events.parquet")) == 8


# -- outputs ----------------------------------------------------------------------------------------------------------


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_json_to_a_file_equals_json_to_stdout(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path, command: str
) -> None:
    target = tmp_path / "out.json"
    first = run_command(capsys, command, trace_file)[1].splitlines()[0]
    assert run_command(capsys, command, trace_file, "--json", target) == (0, f"{first}\n", "")
    assert json.loads(target.read_bytes()) == command_json(capsys, command, trace_file)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.json", "trace.json"]


def test_an_earlier_output_is_replaced_and_keeps_its_mode(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, trace_file: Path
) -> None:
    target = tmp_path / "out.json"
    target.write_text('{"schema":"hta-graph/info/1"}')
    target.chmod(0o640)
    assert run_command(capsys, "info", trace_file, "--json", target)[0] == 0
    assert json.loads(target.read_bytes())["schema"] == "hta-graph/info/1"
    assert target.stat().st_mode & 0o777 == 0o640


@pytest.mark.sampled(3)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_same_bytes_give_the_same_bytes(capsys: pytest.CaptureFixture[str], trace_file: Path, command: str) -> None:
    first, second = (run_command(capsys, command, trace_file, "--json", "-") for _ in range(2))
    assert first == second


def test_output_to_a_device_is_written(capsys: pytest.CaptureFixture[str], trace_file: Path) -> None:
    assert run_command(capsys, "info", trace_file, "--json", os.devnull) == (0, "", "")


# -- as a process -----------------------------------------------------------------------------------------------------


def installed_program() -> Path:
    """Return the console script beside this interpreter; a session without it fails, since the package is installed."""
    return Path(sys.executable).parent / "hta-graph"


@pytest.mark.parametrize(
    ("arguments", "starts", "status"),
    [
        (["--help"], 6, 0),
        (["critical-pth"], 5, 2),
        (["critical-path", "nowhere.json"], 5, 1),
        (["critical-path", "x", "--overaly"], 5, 2),
    ],
    ids=str,
)
def test_help_and_errors_are_immediate(arguments: list[str], starts: int, status: int) -> None:
    """Processor time in starts of Python itself, which a slow or busy machine lengthens as it does the command's."""

    def seconds(expected: int, *command: str) -> float:
        before = os.times()
        done = subprocess.run(command, check=False, capture_output=True)
        after = os.times()
        assert done.returncode == expected
        return after.children_user + after.children_system - before.children_user - before.children_system

    python = [sys.executable, "-c", "import argparse, dataclasses, typing"]
    start = min(seconds(0, *python) for _ in range(3))
    assert any(seconds(status, installed_program(), *arguments) < starts * start for _ in range(5))


@pytest.mark.parametrize(
    ("arguments", "absent"),
    [
        (["--help"], {"rich", "numpy", "pandas", "msgspec", "orjson", "networkx", "rustworkx", "pyarrow"}),
        (["critical-path", "TRACE"], {"pandas", "networkx", "rustworkx", "pyarrow", "graphviz"}),
        deep(
            ["critical-path", "TRACE", "--json", "-"],
            {"rich", "pandas", "networkx", "rustworkx", "pyarrow", "graphviz"},
        ),
        deep(["info", "TRACE"], {"pandas", "networkx", "rustworkx", "pyarrow", "graphviz"}),
        deep(["graph", "TRACE", "--json", "-"], {"rich", "pandas", "networkx", "rustworkx", "pyarrow", "graphviz"}),
    ],
    ids=lambda item: " ".join(item) if isinstance(item, list) else "",
)
def test_commands_import_late(trace_file: Path, arguments: list[str], absent: set[str]) -> None:
    code = (
        "import sys\nfrom analyses.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit:\n    pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    given = [str(trace_file) if item == "TRACE" else item for item in arguments]
    done = subprocess.run([sys.executable, "-c", code, *given], check=True, capture_output=True, text=True)
    assert absent & set(done.stderr.split()) == set()
    assert "analyses.cli.main" in done.stderr.split()


@pytest.mark.slow
def test_a_closed_pipe_is_no_error(trace_file: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = run_program("graph", trace_file, "--json", "-", stdout=writer)
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.sampled(2)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--json", "-"], deep(["--json", "/dev/full"]), []], ids=" ".join)
def test_a_full_disk_is_one_error(trace_file: Path, arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = run_program("info", trace_file, *arguments, stdout=full)
    assert done.returncode == 1
    assert re.fullmatch(r"hta-graph: .*No space left on device.*\n", done.stderr), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", [deep("info"), "critical-path"])
def test_a_terminal_that_knows_only_ascii_gets_the_table(tmp_path: Path, command: str) -> None:
    trace = TraceBuilder(deviceProperties=[{"name": "A100"}])
    trace.op("opération 数", 0, 10)
    done = run_program(command, trace.write(tmp_path / "t.json"), env={"PYTHONIOENCODING": "ascii"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "0.010 ms" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["--json", "-"], deep([])], ids=" ".join)
def test_a_file_name_that_is_not_utf8_can_be_read(tmp_path: Path, arguments: list[str]) -> None:
    path = os.fsencode(tmp_path) + b"/tr\xff.json"
    two_steps().write(Path(os.fsdecode(path)))
    done = run_program("info", path, *arguments)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A100" in done.stdout


@pytest.mark.parametrize("command", ["report", "timeline"])
def test_a_page_under_another_name_is_refused(command: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    status, _, err = run_command(capsys, command, SAMPLE, "-o", page)
    assert (status, page.exists()) == (2, False)
    assert err == f"hta-graph: {page}: not an HTML file; name one that ends in .html\n"


@pytest.mark.slow
def test_it_says_where_a_figure_went(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    figure = tmp_path / "figure.html"
    assert run_command(capsys, "temporal-breakdown", SAMPLE, "--plot", figure) == (
        0,
        "",
        f"{figure}: open it in a browser\n",
    )
