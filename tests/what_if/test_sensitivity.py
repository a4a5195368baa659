"""A curve is exact: between its corners lies a straight line, and at every factor it is what a replay finds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

import analyses
import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.paths.windows import WindowQuery
from tests.support.trace_builder import TraceBuilder

US = 1_000
SAMPLES = Path(analyses.__file__).parent / "sample"


def three_streams(folder: Path) -> DependencyGraph:
    """Make three kernels side by side, awaited together: 100, 80 and 50 µs.

    thread    |l||l||l| sync ~~~~~~~~~~~~~~~~~~~~~~~~~~|
    stream 7     |=========== gemm ===================|
    stream 8        |======== conv ============|
    stream 9           |===== relu ====|
    """
    trace = TraceBuilder()
    for number, (name, length) in enumerate((("gemm", 100), ("conv", 80), ("relu", 50))):
        start = 4 * number
        trace.launch(name, (start, start + 4), (20, 20 + length), number + 1, stream=7 + number)
    trace.call("cudaDeviceSynchronize", 14, 125, 9)
    return trace.graph(folder)


def test_a_corner_lies_where_something_else_decides(tmp_path: Path) -> None:
    curve = hg.sensitivity(three_streams(tmp_path), "kernel:gemm")
    assert curve.corners == (
        (1.0, 125 * US, 100 * US, None), (0.8, 105 * US, 0, "conv"), (0.0, 105 * US, 0, None),
    )  # fmt: skip
    assert curve.at(0.9) == 115 * US
    both = hg.sensitivity(three_streams(tmp_path), "gemm|conv")
    assert [round(corner[0], 6) for corner in both.corners] == [1.0, 0.5, 0.0]
    assert both.corners[1][3] == "relu"


def test_what_is_not_on_the_path_gains_nothing(tmp_path: Path) -> None:
    curve = hg.sensitivity(three_streams(tmp_path), "kernel:relu")
    assert [(corner[0], corner[1]) for corner in curve.corners] == [(1.0, 125 * US), (0.0, 125 * US)]
    with pytest.raises(ValueError, match="from 0 to 1"):
        curve.at(1.5)


@pytest.mark.parametrize("what", ["class:cpu_bound", "class:gpu_compute_bound", "kernel:sgemm", "operator:aten::mm"])
@pytest.mark.parametrize("window", [None, hg.whole()])
@pytest.mark.slow
def test_every_factor_is_what_a_replay_predicts(what: str, window: WindowQuery | None) -> None:
    for graph in (hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz")), hg.read_job(SAMPLES / "four_ranks")):
        try:
            curve = hg.sensitivity(graph, what, window)
        except hg.HtaGraphError:
            continue
        for factor in (0.0, 0.02, 0.1, 0.33, 0.5, 0.75, 0.9, 1.0):
            predicted = hg.replay(graph, hg.scale(what, factor), window).predicted_ns
            # A replay rounds each part of time to whole nanoseconds.
            assert abs(curve.at(factor) - predicted) <= 60
        slopes = [upper[2] for upper in curve.corners[:-1]]
        assert all(later <= earlier for earlier, later in pairwise(slopes)), "convex: the slope only falls"


def test_opportunities_are_what_replays_save() -> None:
    graph = hg.build_graph(hg.read_trace(SAMPLES / "sample_trace.json.gz"))
    frame = hg.opportunities(graph)
    assert frame.columns.tolist() == ["kind", "name", "on_path_ns", "saved_half_ns", "saved_free_ns", "next"]
    assert set(frame.kind) >= {"class", "operator", "module", "kernel", "collective"}
    assert frame.saved_half_ns.is_monotonic_decreasing
    for row in frame.itertuples():
        for factor, saved in ((0.5, row.saved_half_ns), (0.0, row.saved_free_ns)):
            assert hg.replay(graph, hg.scale(f"{row.kind}:{row.name}", factor)).saved_ns == saved
        assert saved <= row.on_path_ns
    first = frame.iloc[0]
    assert (first["kind"], first["name"], first["next"]) == ("class", "gpu_compute_bound", "cudaLaunchKernel")


def test_of_a_job_ranks_are_opportunities_and_a_window_without_work_has_none(tmp_path: Path) -> None:
    frame = hg.opportunities(hg.read_job(SAMPLES / "four_ranks"))
    assert "rank" in set(frame.kind)
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 50)
    empty = hg.opportunities(trace.graph(tmp_path))
    assert empty.empty
    assert list(empty.columns) == list(frame.columns)
