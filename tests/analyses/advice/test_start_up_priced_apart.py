"""Start-up is what no iteration repeats, and no part of what a faster iteration saves."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.advice_accuracy import graph_of_run
from tests.simulator import Program
from tests.simulator.program import Call, Launch, Op, Statement, Stream, SyncDevice
from tests.support.judged import advice
from tests.support.trace_builder import TraceBuilder


def allocating(annotation: str, later_us: float, calls: int = 25) -> TraceBuilder:
    """Five iterations that free and allocate memory in many short calls, with one of 12 ms in the first of them."""
    trace, at = TraceBuilder(), 0.0
    for number in range(5):
        begin = at
        for call in range(calls):
            trace.call("hipMalloc", at, at + 50)
            length = 12_000 if not call and not number else later_us
            trace.call("hipFree", at + 60, at + 60 + length)
            at += 70 + length
        for kernel in range(4):
            trace.launch("gemm", (at, at + 3), (at + 6 + kernel * 50, at + 55 + kernel * 50), 10 * number + kernel + 1)
            at += 4
        at += 200
        trace.annotation(annotation.format(number), begin if "Profiler" in annotation else at - 20, at)
    return trace


@pytest.mark.parametrize("annotation", ["ProfilerStep#{}", "Optimizer.step#SGD.step"])
def test_what_each_iteration_repeats_is_no_start_up(annotation: str, tmp_path: Path) -> None:
    found = advice(allocating(annotation, later_us=100).graph(tmp_path))
    assert "start_up_recorded" not in found
    assert "unset PYTORCH_NO_HIP_MEMORY_CACHING" in found["driver_allocations"].action


@pytest.mark.parametrize("annotation", ["ProfilerStep#{}", "Optimizer.step#SGD.step"])
def test_a_long_call_of_the_first_iteration_alone_is_start_up(annotation: str, tmp_path: Path) -> None:
    found = advice(allocating(annotation, later_us=1, calls=3).graph(tmp_path))
    assert "start_up_recorded" in found


def test_few_releases_are_those_of_a_caching_allocator(tmp_path: Path) -> None:
    found = advice(allocating("ProfilerStep#{}", later_us=400, calls=5).graph(tmp_path))
    assert found["driver_allocations"].action.startswith("Set PYTORCH_CUDA_ALLOC_CONF")


def launch_bound_run(loading_ns: int) -> hg.DependencyGraph:
    """A run of 270 short operators, of which the first 20 load code, each for less time than a pause."""
    body: list[Statement] = []
    for number in range(270):
        loads = (Call("cuLibraryLoadData", loading_ns),) if loading_ns and number < 20 else ()
        body.append(Op("aten::add", (*loads, Launch(Stream(7), 4_000, f"kernel_{min(number, 20)}")), scope_ns=20_000))
    return graph_of_run(Program.of(*body, SyncDevice()))


def test_graphs_are_promised_what_they_save_once_code_is_loaded() -> None:
    """What start-up takes is another remedy's: the promise is that of the same run without it."""
    cold, warm = launch_bound_run(900_000), launch_bound_run(0)
    found, usual = advice(cold), advice(warm)["launch_bound"]
    assert usual.saves_ns
    assert abs((found["launch_bound"].saves_ns or 0) - usual.saves_ns) < 0.1 * usual.saves_ns
    assert (found["code_loading"].saves_ns or 0) > 17_000_000
    for graph in (cold, warm):
        replayed = hg.replay(graph, [hg.scenario("cuda_graphs")])
        assert abs(replayed.saved_ns - usual.saves_ns) < 0.1 * usual.saves_ns


@pytest.mark.parametrize("loading_us", [0.0, 20_000.0])
def test_buckets_are_not_promised_what_the_first_collective_takes_to_start(loading_us: float, tmp_path: Path) -> None:
    trace, at = TraceBuilder(), 0.0
    for number in range(60):
        begin, loads = at, loading_us if number == 0 else 0.0
        trace.launch("gemm", (at + 1, at + 5), (at + 10, at + 20), 10 * number + 1)
        if loads:
            trace.call("cuLibraryLoadData", at + 11, at + 11 + loads)
        at += loads
        trace.op("c10d::allreduce_", begin + 10, at + 90)
        trace.launch("ncclDevKernel_AllReduce", (at + 80, at + 85), (at + 88, at + 96), 10 * number + 2, stream=20)
        at += 100
        trace.op("AddmmBackward0", begin, at - 5)
    found = advice(trace.graph(tmp_path))["unbucketed_collectives"]
    assert found.evidence["host_ns"] < 5_000_000
    assert 3_000_000 < (found.saves_ns or 0) < 5_000_000
