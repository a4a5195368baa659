"""Bounds from rows: counted nanosecond by nanosecond on drawn rows, and by hand on traces that are drawn here."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import hta_graph as hg
from hta_graph.paths.host_pauses import device_launches, time_in_pauses
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.bounds import Bounds
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.selectors import Selector, selected_parts
from tests.support.deep_tests import for_all
from tests.support.gloo_builder import late_ranks
from tests.support.samples import ONE_RANK
from tests.support.trace_builder import TraceBuilder

NAMES = ("gemm", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "Memcpy HtoD (Pinned -> Device)")
Row = tuple[int, int, int, int]
ROWS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 30), st.integers(1, 9), st.integers(7, 8)), min_size=1, max_size=9
)


def bounds_of(graph: hg.DependencyGraph, window: WindowQuery | None = None) -> Bounds:
    return Bounds.of(graph, (window or hg.whole())(graph))


def gpu_rows(rows: Sequence[Row]) -> TraceBuilder:
    """Draw GPU activities (kind, start, length in µs, stream) behind a launching call each."""
    trace = TraceBuilder()
    trace.op("aten::begin", 0, 50)
    for number, (kind, start, length, stream) in enumerate(rows):
        trace.call("cudaLaunchKernel", 0.01 * number, 0.01 * number + 0.005, number + 1)
        draw = trace.copy if kind == 2 else trace.kernel
        draw(NAMES[kind], 1 + start, 1 + start + length, number + 1, stream=stream)
    return trace


@for_all(ROWS, examples=60)
def test_times_of_the_gpu_are_those_of_a_count_of_microseconds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row]
) -> None:
    graph = gpu_rows(rows).graph(tmp_path_factory.mktemp("rows"))
    running = np.zeros((3, 51), np.int64)
    for kind, start, length, _ in rows:
        running[kind, 1 + start : 1 + start + length] += 1
    computes, talks, copies = running > 0
    window = hg.between(int(graph.event_table.start.min()), int(graph.event_table.start.min()) + 50_000)
    found = bounds_of(graph, window)
    assert found.gpu_idle_ns == 1_000 * np.count_nonzero(~(computes | talks | copies)[:50])
    assert found.communication_ns == 1_000 * np.count_nonzero(talks & ~computes)
    assert found.copies_ns == 1_000 * np.count_nonzero(copies & ~computes & ~talks)
    assert found.not_computing_ns == 1_000 * np.count_nonzero(~computes[:50])
    every = np.flatnonzero(graph.is_gpu)
    kernels = every[[graph.name_of(int(row)) == NAMES[0] for row in every]]
    alone, half = found.of_work(kernels), found.of_work(kernels, 0.5)
    assert alone == 1_000 * np.count_nonzero(computes)
    assert alone / 2 <= half <= min(alone, 500 * running[0].sum())
    assert max(found.host_ns, found.faster_launches_ns, found.of_work(every)) <= found.length_ns


def pausing() -> TraceBuilder:
    """Two threads that launch in turn, then pauses: Python in pieces, a wait for the GPU, an operator on the host.

    µs        0        20       40 .......... 2040     2060 ........ 4060    4100 ......... 6100
    thread 1  [launch]          | frames of 0.5 ms |[launch][sync ~~~~~~~~~~]|[aten::topk    ][launch]
    thread 2           [launch]
    """
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 30), 1)
    trace.launch("gemm", (20, 25), (40, 60), 2, tid=2)
    for piece in range(4):
        trace.frame(f"decode.py({piece}): part", 40 + 500 * piece, 540 + 500 * piece)
    trace.launch("gemm", (2040, 2045), (2050, 4050), 3)
    trace.call("cudaStreamSynchronize", 2060, 4060, 4)
    trace.op("aten::topk", 4100, 6090)
    trace.launch("gemm", (6100, 6105), (6110, 6130), 5)
    return trace


def test_a_pause_lasts_from_one_launching_call_to_the_next_whatever_divides_it(tmp_path: Path) -> None:
    graph = pausing().graph(tmp_path)
    (found,) = device_launches(graph)
    base = int(graph.event_table.start.min())
    # The wait of 2,000 µs is no host time: 1 ms and more of the last pause are the operator's.
    assert (found.pauses.start - base).tolist() == [25_000, 2_045_000]
    assert (found.pauses.end - base).tolist() == [2_040_000, 6_100_000]
    lanes = found.lanes
    inside = time_in_pauses(graph, lanes, np.full(2, base + 30_000), np.full(2, base + 2_042_000))
    assert inside.tolist() == [2_010_000, 2_010_000]
    assert bounds_of(graph).pauses_ns == 2_015_000 + 4_055_000


def test_cuda_graphs_leave_pauses_of_the_host_as_they_are(tmp_path: Path) -> None:
    """Pieces of 0.5 ms by Python frames are one pause of 2 ms, which no graph removes."""
    graph = pausing().graph(tmp_path)
    found = hg.replay(graph, hg.scenario("cuda_graphs"), hg.whole())
    assert found.saved_ns < 100_000
    assert found.saved_ns <= bounds_of(graph).faster_launches_ns


def test_a_wait_for_the_gpu_is_no_pause(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.launch("gemm", (0, 5), (10, 3000), 1)
    trace.call("cudaStreamSynchronize", 10, 3005, 2)
    trace.launch("gemm", (3020, 3025), (3030, 3040), 3)
    assert bounds_of(trace.graph(tmp_path)).pauses_ns == 0


def test_devices_that_no_thread_shares_pause_alone(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for number in range(10):
        trace.launch("gemm", (500 * number, 500 * number + 5), (500 * number + 10, 500 * number + 20), number + 1)
    for number, at in enumerate((0, 4000)):
        trace.launch("gemm", (at + 1, at + 6), (at + 10, at + 20), 100 + number, tid=2, device=1)
    found = {len(of.calls.start): of for of in device_launches(trace.graph(tmp_path))}
    assert found[10].pauses.total == 0
    assert found[2].pauses.total == 3_995_000


def test_without_rows_of_a_gpu_the_host_bounds_itself(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 40)
    trace.op("aten::mm", 60, 100)
    found = bounds_of(trace.graph(tmp_path))
    assert (found.length_ns, found.host_ns) == (100_000, 80_000)


def test_without_rows_of_a_gpu_loading_counts_that_only_an_annotation_shows(tmp_path: Path) -> None:
    """PyTorch's loader is an annotation, and a data set that reads files records nothing inside.

    µs        0      10             60   70      100
    thread    [mm   ][load ~~~~~~~~~]    [mm     ]
    """
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10)
    trace.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 60)
    trace.op("aten::mm", 70, 100)
    graph = trace.graph(tmp_path)
    assert (bounds_of(graph).host_ns, bounds_of(graph).data_loading_ns()) == (90_000, 50_000)
    base = replay_graph(graph, hg.whole())
    loads = selected_parts(base, Selector.of("class:data_loading"))
    assert bounds_of(graph).of_scaling(base, loads, (0.0,)) == [90_000]


def test_a_rank_saves_no_more_than_each_other_one_waits(tmp_path: Path) -> None:
    late_ranks(tmp_path, 10, 35)
    job = hg.read_job(tmp_path)
    found, saved = bounds_of(job, hg.step(1)), hg.replay(job, hg.scenario("rank_like_others", 1), hg.step(1)).saved_ns
    assert 0 < saved <= found.of_rank(1)
    assert found.of_rank(0) < saved


def test_what_the_host_does_ahead_of_an_iteration_is_of_its_step(tmp_path: Path) -> None:
    """Step 2 loads while the work of step 1 still runs: without that its first kernel would start sooner.

    µs        0      20         50    55      95 100    130        200
    thread    [step 1 launch   ][step 2 [load ][launch  ~~~~]
    stream            [gemm ~~~~~~~~~~~~~~~~~~]         [gemm ~~~~~]
    iteration                                  |-------------------|
    """
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 50)
    trace.launch("gemm", (10, 15), (20, 100), 1)
    trace.annotation("ProfilerStep#2", 50, 150)
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 55, 95)
    trace.launch("gemm", (100, 105), (130, 200), 2)
    found = bounds_of(trace.graph(tmp_path), hg.step(2, gpu_window=True))
    assert (found.length_ns, found.gpu_idle_ns, found.data_loading_ns()) == (100_000, 30_000, 30_000)


def test_a_host_saves_more_than_idle_time_where_the_gpu_only_communicates(tmp_path: Path) -> None:
    """The next kernel waits for the host and for nothing else: launched sooner, it runs next to the all-reduce.

    µs          0         10           60        100  110 115       160
    thread      [launches ][load ~~~~~~~~~~~~~~~~][launch]
    stream 7         [gemm ]                             [gemm ~~~~~]
    stream 20              [all-reduce ~~~~~~~~~~~~~~~~~~]
    """
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 160)
    trace.launch("gemm", (0, 4), (6, 20), 1)
    trace.launch(NAMES[1], (5, 9), (20, 115), 2, stream=20)
    trace.op("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 10, 100)
    trace.launch("gemm", (100, 110), (115, 160), 3)
    graph = trace.graph(tmp_path)
    found = bounds_of(graph, hg.step(1))
    assert (found.gpu_idle_ns, found.not_computing_ns, found.host_ns) == (6_000, 101_000, 101_000)
    assert (found.data_loading_ns(), found.copies_ns, found.communication_ns) == (90_000, 0, 95_000)
    saved = hg.replay(graph, hg.scenario("data_loading_free"), hg.step(1)).saved_ns
    assert found.gpu_idle_ns < saved <= found.data_loading_ns()


@pytest.mark.parametrize("what", ["kernel:.", "operator:aten::addmm", "class:cpu_bound"])
def test_scaling_by_several_factors_is_bound_as_one_draft_after_the_other(what: str) -> None:
    base = replay_graph(hg.build_graph(ONE_RANK), hg.step(2))
    meant, bounds = selected_parts(base, Selector.of(what)), Bounds.of(base.graph, base.window)
    expected = []
    for factor in (0.9, 0.5, 0.0):
        draft = ModifiedWindow(base)
        draft.factor[meant] = factor
        expected.append(bounds.of_draft(draft))
    assert bounds.of_scaling(base, meant, (0.9, 0.5, 0.0)) == expected
    assert expected[0] > 0
