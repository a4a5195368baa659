"""Launch statistics: every launch, delays divided exactly, equal to the exact recomputation and to HTA."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from analyses.declare.scope import Scope, in_window, whole
from analyses.hta.frame import hta_scopes
from analyses.hta.queues_and_launches import hta_cuda_kernel_launch_stats
from analyses.questions import operator_kernels
from analyses.questions.launch_stats import answer, figure, launch_stats, launches
from hta_graph.paths.windows import between, step
from tests.simulator import Dialect, random_program, simulate, to_bytes, write
from tests.support.deep_tests import deep
from tests.support.golden_graphs import NANOSECONDS, TRACES, answered, exact_scopes, graphs, kept_as_documented
from tests.support.reference_percentile import percentile
from tests.support.shared_traces import graph_of_file
from tests.support.trace_builder import TraceBuilder

PARTS = ["behind_stream_ns", "behind_event_ns", "overhead_ns"]


def busy(tmp_path: Path) -> Scope:
    """A launch on an idle stream, one behind it, one whose kernel starts before its call returns."""
    trace = TraceBuilder()
    trace.launch("first", (0, 2), (7, 20), 1)
    trace.launch("behind", (3, 5), (22, 30), 2)
    trace.launch("early", (40, 60), (45, 46), 3)
    return whole(0, trace.graph(tmp_path))


def test_a_delay_is_waiting_behind_the_stream_and_overhead(tmp_path: Path) -> None:
    frame = launches([busy(tmp_path)])
    assert frame[["launch_delay_ns", *PARTS]].to_numpy().tolist() == [
        [5_000, 0, 0, 5_000],
        [17_000, 15_000, 0, 2_000],
        [0, 0, 0, 0],
    ]
    assert frame[["cpu_duration_ns", "gpu_duration_ns"]].to_numpy().tolist() == [
        [2_000, 13_000],
        [2_000, 8_000],
        [20_000, 1_000],
    ]
    assert frame[["event_index", "call_index", "correlation"]].to_numpy().tolist() == [[1, 0, 1], [3, 2, 2], [5, 4, 3]]


def test_waiting_for_another_stream_is_apart_from_waiting_behind_its_own(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("other", (0, 1), (2, 50), 1, stream=9)
    trace.call("cudaEventRecord", 2, 3, 2)
    trace.launch("own", (4, 5), (6, 20), 3)
    trace.call("cudaStreamWaitEvent", 6, 7, 4)
    trace.sync_row("Stream Wait Event", 6, 7, 4, stream=7, wait_on_stream=9, record=2)
    trace.launch("after both", (8, 10), (53, 60), 5)
    row = launches([whole(0, trace.graph(tmp_path))]).iloc[-1]
    assert row[["launch_delay_ns", *PARTS]].tolist() == [43_000, 10_000, 30_000, 3_000]


def test_every_call_that_launches_counts_a_graph_once_for_each_activity(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("hipGraphLaunch", 0, 10, 1)
    for at in (20, 30, 40):
        trace.kernel("k", at, at + 5, 1)
    trace.call("hipMemcpyAsync", 12, 14, 2)
    trace.copy("Memcpy HtoD (Host -> Device)", 50, 51, 2)
    scope = whole(0, trace.graph(tmp_path))
    frame = launch_stats(launches([scope]), runtime_cutoff=9, launch_delay_cutoff=25)
    assert frame[["call", "calls", "launches", "cpu_ns"]].to_numpy().tolist() == [
        ["hipGraphLaunch", 1, 3, 10_000],
        ["hipMemcpyAsync", 1, 1, 2_000],
    ]
    counts = ["short_kernels", "runtime_outliers", "launch_delay_outliers"]
    assert frame[counts].to_numpy().tolist() == [[0, 3, 1], [1, 0, 1]]
    assert launches([scope], include_memory_events=False)["call"].tolist() == ["hipGraphLaunch"] * 3
    assert len(answer([scope], no_memory_events=True).main) == 1


def test_a_window_asks_about_what_starts_in_it(tmp_path: Path) -> None:
    graph = busy(tmp_path).graph
    assert launches([in_window(0, graph, between(21_000, 44_000))])["name"].tolist() == ["behind"]


def test_a_window_of_copies_only_is_said_without_them(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("cudaMemcpyAsync", 0, 2, 1)
    trace.copy("Memcpy HtoD (Host -> Device)", 5, 9, 1)
    scope = whole(0, trace.graph(tmp_path))
    assert answer([scope]).notes == []
    assert answer([scope], no_memory_events=True).notes == [
        "rank 0: only copies and memsets were launched in the whole trace, and these are left out"
    ]


def test_a_window_in_which_nothing_starts_is_said(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("long", (0, 1), (2, 90), 1)
    graph = trace.graph(tmp_path)
    begins = int(graph.timeline.times.min())
    scope = in_window(0, graph, between(begins + 10_000, begins + 20_000))
    assert answer([scope]).notes == [f"rank 0: no GPU activity starts in {begins + 10_000}:{begins + 20_000}"]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("a", (0, 1), (2, 3), 1)
    trace.kernel("orphan", 5, 6, 77)
    found = answer([whole(0, trace.graph(tmp_path))])
    assert found.notes == ["rank 0: 1 of 2 GPU activities in the whole trace left out: no launch call in the trace"]
    trace = TraceBuilder()
    trace.op("aten::add", 0, 1)
    scopes = [whole(0, trace.graph(tmp_path))]
    found = answer(scopes)
    assert found.main.empty
    assert "overhead_ns" in found.main
    assert "no GPU activity" in found.notes[0]
    assert not figure(found).data
    assert hta_cuda_kernel_launch_stats(
        scopes, visualize=False, runtime_cutoff=50, launch_delay_cutoff=100, include_memory_events=True
    )[0].empty
    assert answer([]).main.empty


def test_a_figure_counts_short_kernels_long_calls_and_long_delays(tmp_path: Path) -> None:
    drawn = figure(answer([busy(tmp_path)], runtime_cutoff=10, launch_delay_cutoff=4)).data
    assert [sum(bars.y) for bars in drawn] == [0, 1, 2]


def test_hta_shape(tmp_path: Path) -> None:
    frame = hta_cuda_kernel_launch_stats(
        [busy(tmp_path)], runtime_cutoff=50, launch_delay_cutoff=100, include_memory_events=True, visualize=True
    )[0]
    assert frame.to_dict("list") == {
        "correlation": [1, 2, 3],
        "cpu_duration": [2.0, 2.0, 20.0],
        "gpu_duration": [13.0, 8.0, 1.0],
        "launch_delay": [5.0, 17.0, 0.0],
    }


def assert_delays_add_up(scopes: list[Scope]) -> None:
    frame = launches(scopes)
    assert (frame[PARTS] >= 0).all(axis=None)
    assert (frame[PARTS].sum(axis=1) == frame["launch_delay_ns"]).all()
    assert len(frame) == sum(int(np.count_nonzero(scope.work.call >= 0)) for scope in scopes)
    summary = launch_stats(frame)
    assert summary["launches"].sum() == len(frame)
    assert (summary[PARTS].sum(axis=1) == summary["launch_delay_ns"]).all()


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(4), *map(deep, range(4, 12))])
def test_delays_add_up_on_simulated_programs(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(to_bytes(write(simulate(random_program(seed, "pytorch", 300)), Dialect()).document))
    assert_delays_add_up([whole(0, hg.build_graph(hg.read_trace(path)))])


@pytest.mark.slow
@pytest.mark.shared
def test_delays_add_up_on_real_traces(real_traces: list[Path]) -> None:
    for path in real_traces:
        graph = graph_of_file(path)
        assert_delays_add_up([whole(0, graph)])
        if graph.trace.steps():
            assert_delays_add_up([in_window(0, graph, step(graph.trace.steps()[0].number))])


@pytest.fixture(scope="module", params=TRACES)
def name(request: pytest.FixtureRequest) -> str:
    """All tests of one trace together, so that it is read once."""
    return str(request.param)


@pytest.mark.shared
def test_the_exact_recomputation_is_met(name: str) -> None:
    for scope, numbers in exact_scopes(name, "launch_stats"):
        frame = launches([scope])
        counts = launch_stats(frame)[["short_kernels", "runtime_outliers", "launch_delay_outliers"]].sum()
        sums = frame[["cpu_duration_ns", "gpu_duration_ns", "launch_delay_ns"]].sum()
        expected = numbers["every_launch"]
        assert [len(frame), *sums.tolist(), *counts.tolist()] == list(expected.values())


@pytest.mark.sampled(3)
@pytest.mark.shared
@pytest.mark.parametrize("memory", [True, False])
def test_hta_is_met_for_the_calls_that_it_knows(name: str, memory: bool) -> None:
    """In the same order, without its rounding, and without the steps that it keeps by mistake (nanogpt)."""
    method = "get_cuda_kernel_launch_stats" if memory else "get_cuda_kernel_launch_stats__nomem"
    kind = f"{name}__ns_rounding_off" if name in NANOSECONDS and name != "nanogpt_ab_hook" else name
    mine = hta_cuda_kernel_launch_stats(
        hta_scopes(graphs(name)),
        include_memory_events=memory,
        visualize=False,
        runtime_cutoff=50,
        launch_delay_cutoff=100,
    )
    for rank, theirs in answered(kind, method)["items"].items():
        own = {int(row[0]): row for row in mine[int(rank)].to_numpy().tolist()}
        rows = [row for row in theirs.get("rows") or theirs.get("head", []) if row[0] in own]
        listed = {row[0] for row in rows}
        assert [row[0] for row in rows] == [row for row in own if row in listed]
        tolerance = 2.0 if name in NANOSECONDS else 0.0
        assert np.allclose(np.array([own[row[0]] for row in rows]), np.array(rows), rtol=0, atol=tolerance)
        if kept_as_documented(name, int(rank)):
            assert len(rows) == len(theirs.get("rows") or theirs.get("head", []))
            assert len(own) >= theirs.get("rows_total", len(rows))


def test_a_median_and_95_percent_tell_of_single_launches(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(37):
        trace.launch("kernel", (at * 100, at * 100 + 2), (at * 100 + 3 + at * at % 31, at * 100 + 60), at + 1)
    frame = launches([whole(0, trace.graph(tmp_path))])
    row = launch_stats(frame).iloc[0]
    delays = frame["launch_delay_ns"].tolist()
    assert len(set(delays)) > 9
    assert row["median_launch_delay_ns"] == percentile(delays, 50)
    assert row["p95_launch_delay_ns"] == percentile(delays, 95)
    assert row["median_overhead_ns"] == percentile(frame["overhead_ns"], 50)


@pytest.mark.parametrize("late", [3, -20])
def test_a_gpu_clock_that_is_behind_is_said(tmp_path: Path, late: int) -> None:
    trace = TraceBuilder()
    for at in range(100, 4_100, 100):
        trace.op("aten::mm", at, at + 5)
        trace.launch("gemm", (at + 1, at + 3), (at + late, at + late + 9), at)
    scopes = [whole(0, trace.graph(tmp_path))]
    for found in (answer(scopes), operator_kernels.answer(scopes)):
        said = [note for note in map(str, found.notes) if note.startswith("Rank 0: the GPU clock is")]
        assert len(said) == (late < 0)


def test_it_concludes_what_launching_costs_and_what_work_waits_for(tmp_path: Path) -> None:
    # Delays of 5 and 17 µs, 15 of them behind the stream: 68%.
    held = "68% of the launch delay is waiting for earlier work on the same stream"
    said = answer([busy(tmp_path)]).conclusion
    assert said == [f"3 launch calls take 24.0 µs of CPU time, for 22.0 µs of GPU work; {held}"]
    assert answer([]).conclusion == []
