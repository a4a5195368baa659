"""Frames whose return was lost end with the frame that called them; all others keep what is recorded."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.trace.event_times import _cross
from tests.support.command_line import run_command
from tests.support.trace_builder import TraceBuilder


class Frames(TraceBuilder):
    """Frames with the ids that the profiler records."""

    def call_frame(self, name: str, start: float, end: float, own: int, caller: int | None, *, tid: int = 1) -> int:
        """Add a frame and its caller."""
        ids = {"Python id": own, "Python parent id": caller}
        return self._cpu("python_function", name, start, end, tid, **ids)


def ends(trace: hg.Trace) -> dict[str, int]:
    """Return when each frame ends (µs)."""
    return {trace.name_of(at): int(trace.events.end[at]) // 1000 for at in range(len(trace.events))}


def nested() -> Frames:
    """Three calls inside each other, and another one behind."""
    frames = Frames()
    frames.call_frame("main", 0, 1000, 1, None)
    frames.call_frame("forward", 10, 200, 2, 1)
    frames.call_frame("mask", 20, 1000, 3, 2)
    frames.call_frame("where", 30, 40, 4, 3)
    frames.call_frame("backward", 300, 900, 5, 1)
    return frames


def test_a_frame_ends_with_its_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = nested().write(tmp_path / "t.json")
    trace = hg.read_trace(path)
    assert ends(trace) == {"main": 1000, "forward": 200, "mask": 200, "where": 40, "backward": 900}
    assert trace.diagnostics["rows_ended_with_caller"] == 1
    err = run_command(capsys, "info", path)[2]
    assert err == f"{path}: Python frames that outlived the frame that called them: 1 (rows_ended_with_caller)\n"
    assert trace.events.index.tolist() == [0, 1, 2, 3, 4]
    hg.build_graph(trace)


def test_lost_returns_inside_each_other(tmp_path: Path) -> None:
    """The caller's return was lost, too: both end with what called the first of them."""
    frames = nested()
    frames.call_frame("deepest", 35, 1000, 6, 4)
    frames.rows[3]["dur"] = 970
    trace = hg.read_trace(frames.write(tmp_path / "t.json"))
    assert ends(trace) == {"main": 1000, "forward": 200, "mask": 200, "where": 200, "deepest": 200, "backward": 900}
    assert trace.diagnostics["rows_ended_with_caller"] == 3


def test_frames_of_two_threads_do_not_cross(tmp_path: Path) -> None:
    frames = nested()
    del frames.rows[2]
    frames.call_frame("other", 100, 5000, 2, 1, tid=2)
    assert hg.read_trace(frames.write(tmp_path / "t.json")).diagnostics["rows_ended_with_caller"] == 0


def test_without_recorded_callers_nothing_is_moved(tmp_path: Path) -> None:
    frames = Frames()
    frames.frame("forward", 10, 200)
    frames.frame("mask", 20, 1000)
    trace = hg.read_trace(frames.write(tmp_path / "t.json"))
    assert ends(trace) == {"forward": 200, "mask": 1000}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(40))
def test_crossing_is_what_brute_force_says(seed: int) -> None:
    rng = random.Random(seed)
    intervals = []
    for _ in range(rng.randrange(1, 9)):
        start = rng.randrange(12)
        intervals.append((start, start + rng.randrange(8)))
    intervals.sort(key=lambda item: (item[0], -item[1]))
    start, end = (np.array(column, np.int64) for column in zip(*intervals, strict=True))
    crosses = any(a < c < b < d for a, b in intervals for c, d in intervals)
    assert _cross(np.zeros(len(start), np.int32), start, end) == crosses
