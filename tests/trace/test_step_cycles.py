"""A profiler that runs again counts its steps from the beginning: both cycles are read, and told apart."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.command_line import command_json, run_command
from tests.support.trace_builder import TraceBuilder


def steps_of(folder: Path, *numbers: int) -> Path:
    """Write a trace of steps of 100 µs, each of which launches a kernel of its place's length."""
    trace = TraceBuilder()
    for at, number in enumerate(numbers):
        trace.annotation(f"ProfilerStep#{number}", 100 * at, 100 * at + 90)
        trace.op("aten::mm", 100 * at + 1, 100 * at + 20)
        trace.launch("gemm", (100 * at + 5, 100 * at + 10), (100 * at + 12, 100 * at + 40 + at), at + 1)
    return trace.write(folder / "t.json")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ((3, 4, 5), (3, 4, 5)),
        ((3, 4, 5, 3, 4, 5), (3, 4, 5, 6, 7, 8)),
        ((3, 4, 3, 4, 3, 4), (3, 4, 5, 6, 7, 8)),
        ((0, 0), (0, 1)),
        # Other numbers are nobody else's.
        ((10, 11, 3, 4), (10, 11, 3, 4)),
        ((3, 4, 4, 5), (3, 4, 5, 6)),
    ],
)
def test_a_second_cycle_is_numbered_on(tmp_path: Path, numbers: tuple[int, ...], found: tuple[int, ...]) -> None:
    trace = hg.read_trace(steps_of(tmp_path, *numbers))
    assert [(step.number, step.start_ns) for step in trace.steps()] == [
        (number, 100_000 * at) for at, number in enumerate(found)
    ]


def test_both_cycles_are_asked_for_by_their_numbers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = steps_of(tmp_path, 3, 4, 3, 4)
    said = f"{path}: ProfilerStep#3 to #4 occur again in another cycle of the profiler; there they are steps 5 to 6\n"
    for number in (3, 4, 5, 6):
        found = command_json(capsys, "critical-path", path, "--step", number)
        assert found["window"]["label"] == f"ProfilerStep#{number}"
        assert found["window"]["start_ns"] == 100_000 * (number - 3)
    status, _, err = run_command(capsys, "info", path)
    assert (status, err) == (0, said)


def test_a_single_step_occurs_again(tmp_path: Path) -> None:
    said = "ProfilerStep#3 occurs again in another cycle of the profiler; there it is step 5"
    assert hg.read_trace(steps_of(tmp_path, 3, 4, 3)).repeated_steps == [said]


def test_a_step_that_is_written_twice_is_one(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 90)
    trace.op("ProfilerStep#1", 1, 89)
    trace.annotation("ProfilerStep#1", 5, 95, tid=2)
    trace.annotation("ProfilerStep#2", 100, 190)
    assert [step.number for step in hg.read_trace(trace.write(tmp_path / "t.json")).steps()] == [1, 2]


def test_of_very_many_cycles_some_are_named(tmp_path: Path) -> None:
    lines = hg.read_trace(steps_of(tmp_path, *[1] * 40)).repeated_steps
    assert len(lines) == 11
    assert lines[-1] == "… and 29 more cycles"
