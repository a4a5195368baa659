"""The way from a command line to an analysis: no option is ignored, and one name is one stretch of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from analyses.declare.scope import in_window, per_step, whole
from analyses.questions.catalogue import CATALOGUE
from hta_graph.paths.windows import median_step
from hta_graph.paths.windows import whole as whole_trace
from tests.support.command_line import run_command
from tests.support.trace_builder import TraceBuilder


def two_steps() -> TraceBuilder:
    """Two steps whose work runs on behind their end, after a kernel that was launched before the recording."""
    trace = TraceBuilder()
    trace.kernel("gemm", 10, 15)
    for number, at in ((1, 20), (2, 120)):
        trace.annotation(f"ProfilerStep#{number}", at, at + 100)
        trace.launch("gemm", (at + 10, at + 11), (at + 80, at + 130), number)
    return trace


def rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    status, out, err = run_command(capsys, *arguments, "--json", "-")
    assert status == 0, err
    found: list[dict[str, Any]] = next(iter(json.loads(out)["tables"].values()))
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("extent", ["--cpu-window", "--gpu-window"])
def test_per_step_takes_the_extent_that_a_step_takes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, extent: str
) -> None:
    path = two_steps().write(tmp_path / "t.json")
    found = rows(capsys, "temporal-breakdown", path, "--per-step", extent)
    each = [rows(capsys, "temporal-breakdown", path, "--step", number, extent)[0] for number in (1, 2)]
    assert found == each
    assert found != rows(capsys, "temporal-breakdown", path, "--per-step")


def test_the_gpu_windows_of_all_steps_tile_the_run(tmp_path: Path) -> None:
    first, second = per_step(0, two_steps().graph(tmp_path), gpu_window=True)
    assert first.end_ns == second.start_ns == 150_000


@pytest.mark.parametrize("arguments", [["--regex"], ["--instance", "1"], ["--regex", "--per-step"]], ids=" ".join)
def test_what_goes_with_an_annotation_is_refused_without_one(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str]
) -> None:
    status, _, err = run_command(capsys, "temporal-breakdown", two_steps().write(tmp_path / "t.json"), *arguments)
    assert (status, err) == (2, "hta-graph: --regex and --instance need --annotation NAME\n")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("command", "option"),
    [
        ("queue-length", "--max-queue-length"),
        ("launch-stats", "--runtime-cutoff"),
        ("launch-stats", "--launch-delay-cutoff"),
        ("idle-time", "--launch-gap-us"),
    ],
)
@pytest.mark.parametrize("value", ["-3", "nan", "inf", "x"])
def test_a_threshold_is_a_number(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, option: str, value: str
) -> None:
    status, _, err = run_command(capsys, command, two_steps().write(tmp_path / "t.json"), f"{option}={value}")
    assert status == 2
    assert option in err
    assert value in err


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "name", [item.name for item in CATALOGUE if item.name not in ("idle-time", "kernel-sequences")]
)
def test_data_loading_patterns_are_taken_only_where_they_change_the_answer(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    status, _, err = run_command(capsys, name, two_steps().write(tmp_path / "t.json"), "--data-load", "x")
    assert status == 2
    assert "--data-load" in err


@pytest.mark.slow
def test_idle_time_takes_data_loading_patterns(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("first", (0, 1), (4, 10), 1)
    trace.annotation("my loader", 12, 30)
    trace.launch("second", (31, 32), (33, 40), 2)
    path = trace.write(tmp_path / "t.json")
    found = [
        {row["cause"]: row["idle_ns"] for row in rows(capsys, "idle-time", path, *given)}
        for given in ([], ["--data-load", "nothing", "my .*"])
    ]
    assert found[0].get("data_loading") is None
    assert found[1]["data_loading"] == 18_000
    assert sum(found[0].values()) == sum(found[1].values()) == 23_000
    assert run_command(capsys, "idle-time", path, "--data-load", "(")[0] == 2


def test_the_whole_trace_is_the_same_stretch_however_it_is_asked_for(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 200)
    trace.kernel("orphan", 10, 15)
    trace.launch("gemm", (20, 21), (30, 40), 1)
    graph = trace.graph(tmp_path)
    plain = whole(0, graph)
    for window in (whole_trace(), median_step()):
        scope = in_window(0, graph, window)
        assert (scope.label, scope.start_ns, scope.end_ns) == (plain.label, plain.start_ns, plain.end_ns)
        assert scope.work.row.tolist() == plain.work.row.tolist()
