"""Of very many steps pages and terminals list those that show most, and say how many they leave out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import hta_graph as hg
from analyses.questions import critical_path
from analyses.report import report
from hta_graph.paths.critical_path import critical_paths
from hta_graph.paths.step_table import neighbouring_steps, notable_steps, step_rows
from tests.support.command_line import run_command
from tests.support.html_tables import page_sections, page_tables
from tests.support.trace_builder import TraceBuilder


def steps_with_a_slow_one(tmp_path: Path, count: int = 9, slow: int = 6) -> Path:
    """Steps of 100 µs that launch a kernel each; one of them takes five times as long."""
    trace, at = TraceBuilder(), 0
    for number in range(count):
        length = 500 if number == slow else 100
        trace.annotation(f"ProfilerStep#{number}", at, at + length - 1)
        trace.op("aten::mm", at + 1, at + length - 50)
        trace.launch("gemm", (at + length - 40, at + length - 30), (at + length - 20, at + length - 5), number + 1)
        at += length
    return trace.write(tmp_path / "steps.json")


def test_the_chosen_one_the_outliers_and_the_first_others_tell_most(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(steps_with_a_slow_one(tmp_path)))
    assert notable_steps(graph, 4, 9) == set(range(9))
    assert notable_steps(graph, 4, 3) == {4, 6, 0}
    assert neighbouring_steps(graph, 4, 2) == {2, 3, 4, 5, 6}
    assert neighbouring_steps(graph, 40, 2) == set()
    every = {row.step: row for row in step_rows(graph)}
    assert step_rows(graph, (), {6, 2}) == [every[2], every[6]]
    path = hg.critical_path(graph)
    rows = step_rows(graph, known=path)
    assert rows == list(every.values())
    assert [row.path for row in rows if row.path is path] == [row.path for row in rows if row.step == path.window.step]


def test_paths_of_many_windows_are_those_of_each_alone(tmp_path: Path) -> None:
    graph = hg.build_graph(hg.read_trace(steps_with_a_slow_one(tmp_path)))
    windows = [hg.step(3), hg.whole(), hg.step(6, gpu_window=True), hg.step(3, cpu_window=True)]
    for window, path in zip(windows, critical_paths(graph, windows), strict=True):
        alone = hg.critical_path(graph, window)
        assert path.window == alone.window
        assert path.segments.equals(alone.segments)


def test_what_is_printed_is_folded_and_json_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(critical_path, "STEPS_LISTED", 3)
    trace = steps_with_a_slow_one(tmp_path)
    _, out, _ = run_command(capsys, "critical-path", trace, "--per-step")
    assert "… and 6 more usual steps; --json FILE lists all" in out
    assert "aten::mm" in out  # what the slow one has more of
    found = json.loads(run_command(capsys, "critical-path", trace, "--per-step", "--json", "-")[1])
    assert [row["step"] for row in found["steps"]] == list(range(9))


@pytest.mark.slow
def test_a_report_says_how_many_steps_it_leaves_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "STEPS", 2)
    monkeypatch.setattr("analyses.report.timeline.STEPS", 1)
    page = tmp_path / "report.html"
    assert run_command(capsys, "report", steps_with_a_slow_one(tmp_path), "-o", page)[0] == 0
    text = page.read_text(encoding="utf-8")
    assert "typical steps not listed" in text
    assert page_tables(page_sections(page)["Steps"])["Length of each step"][1:]
