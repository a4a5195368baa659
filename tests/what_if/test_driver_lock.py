"""Driver calls of several threads wait for each other anew after changes: predictions beside runs with the change."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.what_if.bounds import Bounds
from hta_graph.what_if.driver_lock import locked_calls, waits_in_turn, with_lock_waits
from hta_graph.what_if.reliability import reliability_after
from hta_graph.what_if.replay import replay_graph
from tests.advice_accuracy import CHANGES, changed, graph_of_run
from tests.simulator import Program
from tests.simulator.program import Call, Gap, Launch, Op, SyncDevice, ThreadProgram
from tests.simulator.pytorch_idioms import COMPUTE, load_data, step
from tests.support.trace_builder import TraceBuilder

FREE = hg.scenario("data_loading_free")


def beside_allocations(allocation_ns: int, period_ns: int, kernel_ns: int) -> Program:
    """Steps that load data and launch kernels, while another thread allocates now and then."""
    layer = (Op("aten::mm", (Launch(COMPUTE, kernel_ns, "gemm"),)), Gap(20_000))
    steps = (step(number, (*load_data(400_000), *layer * 8)) for number in range(5))
    pins = (Gap(period_ns), Call("cudaHostAlloc", allocation_ns, locked=True)) * 20
    return Program((ThreadProgram((*steps, SyncDevice())), ThreadProgram(pins, "pin_memory")))


def saved_by_run(program: Program, graph: DependencyGraph, number: int) -> int:
    after = graph_of_run(changed(program, CHANGES["data_loading_exposed"]))
    window = hg.step(number, gpu_window=True)
    return hg.critical_path(graph, window).length_ns - hg.critical_path(after, window).length_ns


@pytest.mark.sampled(24)
@pytest.mark.parametrize("allocation_ns", [10_000, 30_000, 60_000, 90_000])
@pytest.mark.parametrize("period_ns", [40_000, 90_000, 130_000])
@pytest.mark.parametrize("kernel_ns", [10_000, 60_000])
def test_with_the_lock_each_iteration_gains_what_a_run_gains(
    allocation_ns: int, period_ns: int, kernel_ns: int
) -> None:
    program = beside_allocations(allocation_ns, period_ns, kernel_ns)
    graph = graph_of_run(program)
    for number in range(1, 5):
        found = hg.replay(graph, FREE, hg.step(number, gpu_window=True))
        truth = saved_by_run(program, graph, number)
        # The loader's own operator takes 600 ns more than its loading.
        assert abs(found.saved_ns - truth) <= 600
        moved = abs(found.saved_ns - found.saved_without_lock_ns) / found.measured_ns
        assert reliability_after(found).contended_share == (moved if moved >= 0.03 else 0)


def test_without_changes_nothing_changes() -> None:
    graph = graph_of_run(beside_allocations(60_000, 40_000, 10_000))
    same = hg.replay(graph, (), hg.step(3, gpu_window=True))
    assert locked_calls(same.draft.base) is not None
    assert same.saved_ns == same.saved_without_lock_ns == 0
    assert not with_lock_waits(same.draft).waits.any()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [2, 4])
def test_opportunities_curves_and_paths_wait_for_the_lock_as_replay_does(number: int) -> None:
    graph, window = graph_of_run(beside_allocations(60_000, 40_000, 10_000)), hg.step(number, gpu_window=True)
    for factor, key in ((0.5, "saved_half_ns"), (0.0, "saved_free_ns")):
        found = hg.replay(graph, hg.scale("class:data_loading", factor), window)
        listed = hg.opportunities(graph, window).set_index(["kind", "name"])
        assert found.saved_ns == listed.loc[("class", "data_loading"), key]
        assert found.predicted_ns == hg.sensitivity(graph, "class:data_loading", window).at(factor)
    assert found.draft.waits.any()
    assert found.saved_ns != found.saved_without_lock_ns
    assert sum(found.path_after.by_bound_ns.values()) == found.predicted_ns


def test_nothing_is_saved_beyond_what_waits_for_the_lock_are_gone_too() -> None:
    """Loading that is gone lets calls come before the other thread's: their waits are bounded besides."""
    graph = graph_of_run(beside_allocations(60_000, 40_000, 10_000))
    found = hg.replay(graph, FREE, hg.step(2, gpu_window=True))
    bounds = Bounds.of(graph, found.window)
    loading_ns = graph.event_flags.loads_data()
    without = int((graph.event_table.end - graph.event_table.start)[loading_ns].max())
    assert bounds.lock_waits_ns > 0
    assert found.saved_ns <= bounds.data_loading_ns() <= without + bounds.lock_waits_ns


def test_reads_and_edges_that_are_left_out_change_nothing_about_the_lock() -> None:
    graph = graph_of_run(beside_allocations(60_000, 40_000, 10_000))
    found = hg.replay(graph, hg.scenario("no_host_syncs"), hg.whole())
    assert found.draft.dropped.any()
    assert 0 <= found.saved_ns <= found.measured_ns


@pytest.mark.parametrize(("allocation_ns", "pins"), [(100, "pin_memory"), (0, "")], ids=["hardly any", "no thread"])
def test_short_calls_of_other_threads_do_not_matter(allocation_ns: int, pins: str) -> None:
    program = beside_allocations(allocation_ns, 90_000, 10_000)
    graph = graph_of_run(program if pins else Program(program.threads[:1]))
    assert locked_calls(replay_graph(graph, hg.step(2, gpu_window=True))) is None


def test_calls_that_run_at_the_same_time_share_no_lock(tmp_path: Path) -> None:
    """Each launch returns while the other thread's allocation goes on: nothing waits, and so nothing will."""
    trace = TraceBuilder()
    trace.annotation("ProfilerStep#1", 0, 500)
    for number in range(20):
        at = 25 * number
        trace.launch("gemm", (at + 1, at + 5), (at + 8, at + 12), number + 1)
        trace.call("cudaHostAlloc", at, at + 20, tid=2)
        trace.op("aten::mm", at + 6, at + 24)
    graph = trace.graph(tmp_path)
    assert locked_calls(replay_graph(graph, hg.whole())) is None
    assert hg.replay(graph, hg.scale("operator:aten::mm", 0.5), hg.whole()).saved_ns


def test_the_first_to_start_holds_the_lock_first() -> None:
    start = np.array([50, 0, 3, 4, 60])
    takes = np.array([10, 20, 5, 1, 10])
    assert waits_in_turn(start, takes).tolist() == [0, 0, 17, 21, 0]
