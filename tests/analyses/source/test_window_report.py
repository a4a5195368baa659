"""What critical-path says of a job's ranks, in JSON and in words."""

from __future__ import annotations

from pathlib import Path

import pytest

from analyses.source.window_report import rank_names
from tests.support.command_line import command_json, run_command, time_by_class
from tests.support.gloo_builder import late_ranks
from tests.support.trace_builder import TraceBuilder
from tests.support.two_rank_job import small_job


def test_the_document_of_a_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small_job(tmp_path)
    found = command_json(capsys, "critical-path", tmp_path, "--annotation", "forward")
    assert (found["rank"], found["ranks"]) == (None, [0, 1])
    assert [clock["rank"] for clock in found["clocks"]] == [0, 1]
    assert list(found["clocks"][0]) == ["rank", "offset_ns", "gpu_offset_ns", "drift_ppm", "error_ns", "collectives"]
    assert found["by_rank_ns"] == {"0": 10_000, "1": 58_000}
    assert found["held_up_ns"] == {"0": 0, "1": 10_000}
    assert found["crossings"] == {"count": 1, "corrected_ns": 0}
    assert found["window"]["missing_ranks"] == []
    assert [segment["rank"] for segment in found["segments"]] == [1] * (len(found["segments"]) - 1) + [0]
    assert sum(time_by_class(found).values()) == 68_000


def test_one_rank_has_none_of_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = command_json(capsys, "critical-path", small_job(tmp_path)[0])
    assert not {"ranks", "clocks", "by_rank_ns", "held_up_ns", "crossings"} & set(found)
    assert "missing_ranks" not in found["window"]
    assert "held_up_by" not in found["steps"][0]


def test_runs_are_merged_within_a_rank(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    small_job(tmp_path)
    merged = command_json(capsys, "critical-path", tmp_path, "--annotation", "forward", "--merge-runs")
    assert {segment["rank"] for segment in merged["segments"]} == {0, 1}
    assert sum(segment["end_ns"] - segment["start_ns"] for segment in merged["segments"]) == 68_000


def test_the_text_opens_with_who_holds_up_the_job(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    late_ranks(tmp_path, 10, 35, met=True)
    out = run_command(capsys, "critical-path", tmp_path)[1].splitlines()
    assert out[0] == "rank 1 delays the others by 25.0 µs in step 1 (42% of a step), mostly in aten::mul (CPU work)"
    assert "63% of the path is on rank 1. At the others' speed step 1 would be 25.0 µs (42%) shorter." in out
    assert out[2].endswith(", 2 ranks")
    assert out[3] == "ProfilerStep#1: 0.060 ms, from its start (no previous step) to the end of its work"
    unknown = "2 of 4 ranks have no recorded communication; whether they delay the others is unknown."
    assert f"Matched between ranks: 1 collective. {unknown}" in out
    at = out.index("critical path by rank (1 switch between ranks)")
    assert [line.split() for line in out[at + 4 : at + 6]] == [
        ["0.038", "ms", "63.3%", "0.025", "ms", "1", "CPU", "work"],
        ["0.022", "ms", "36.7%", "0.000", "ms", "0", "CPU,", "no", "operator"],
    ]


def test_ranks_without_the_step_are_named(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    paths = late_ranks(tmp_path, 10, 30, 35)
    paths[2].write_text(paths[2].read_text().replace("ProfilerStep#1", "ProfilerStep#7"))
    paths[1].write_text(paths[1].read_text().replace("ProfilerStep#1", "ProfilerStep#7"))
    found = command_json(capsys, "critical-path", tmp_path, "--step", 1)
    assert found["window"]["missing_ranks"] == [1, 2]
    out = run_command(capsys, "critical-path", tmp_path, "--step", 1)[1]
    assert "\nRanks 1, 2 have no ProfilerStep#1 and contribute nothing.\n" in out


def test_per_step_has_the_job_in_front(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    late_ranks(tmp_path, 10, 35, met=True)
    found = command_json(capsys, "critical-path", tmp_path, "--per-step")
    (row,) = found["job_steps"]
    assert (row["step"], row["iteration_ns"], row["held_up_by"]) == (1, 60_000, 1)
    assert [of["rank"] for of in found["steps"]] == [0, 1]
    out = run_command(capsys, "critical-path", tmp_path, "--per-step")[1].splitlines()
    assert out[0] == "job"
    assert "2 ranks" in out


def test_many_ranks_are_cut() -> None:
    assert rank_names(tuple(range(12))).endswith("9 and 2 more")


def logging_steps(path: Path, longest_us: float) -> Path:
    """Seven steps of 100 µs of which every third one also writes a log."""
    trace, now = TraceBuilder(), 0.0
    for number in range(1, 8):
        length = longest_us if number in (4, 7) else 100
        trace.annotation(f"ProfilerStep#{number}", now, now + length)
        trace.op("aten::mm", now + 1, now + length - 1)
        now += length + 1
    return trace.write(path / "trace.json")


@pytest.mark.parametrize(
    ("longest_us", "behind"),
    [
        (1_000, "; steps 4 and 7 take 83% of the time of 6 steps"),
        # Of 1,200 µs, half and no more: what the median step shows is as much.
        (400, ""),
        (100, ""),
    ],
)
def test_steps_that_cost_more_than_all_usual_ones_are_named_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, longest_us: float, behind: str
) -> None:
    path = logging_steps(tmp_path, longest_us)
    _, out, _ = run_command(capsys, "critical-path", path)
    assert out.splitlines()[0].endswith(f"100.0 µs on the CPU{behind}")
    # A step that was asked for is not the run's.
    assert " of the time of " not in run_command(capsys, "critical-path", path, "--step", 2)[1]
