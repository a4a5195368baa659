"""Kernels that roctracer leaves without a correlation: launches by the kernel's name and the order of calls (µs)."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.trace_builder import TraceBuilder, edges

RCCL = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)"


def call(trace: TraceBuilder, at: float, corr: int, kernel: str = RCCL, *, tid: int = 1) -> int:
    """Add a call that names the kernel that it launches."""
    return trace.row(
        ph="X", cat="cuda_runtime", name="hipExtLaunchKernel", pid=100, tid=tid, ts=at, dur=2,
        args={"correlation": corr, "kernel": kernel},
    )  # fmt: skip


def launches(trace: TraceBuilder, tmp_path: Path) -> set[tuple[int, int]]:
    """Return the launch edges; those by order are counted, and inferred."""
    graph = trace.graph(tmp_path)
    frame = graph.edges[graph.edges.kind == "launch"]
    assert graph.diagnostics["launches_by_order"] == (frame.rule == "kernel_name_in_order").sum()
    assert set(frame.evidence[frame.rule == "kernel_name_in_order"]) <= {"inferred"}
    assert set(frame.evidence[frame.rule == "recorded"]) <= {"recorded"}
    return {(source, target) for _, source, _, target, _ in edges(graph, "launch")}


def test_calls_and_kernels_of_one_name_pair_in_order(tmp_path: Path) -> None:
    """The host runs ahead, so that several are issued before the first one starts."""
    trace = TraceBuilder()
    first = trace.launch("gemm", (0, 2), (5, 9), 1)
    calls = [call(trace, 10 + 3 * at, 2 + at) for at in range(4)]
    kernels = [trace.kernel(RCCL, 30 + 20 * at, 45 + 20 * at, 0, stream=2) for at in range(4)]
    assert launches(trace, tmp_path) == {first, *zip(calls, kernels, strict=True)}


def test_each_name_has_an_order_of_its_own_and_recorded_launches_stay(tmp_path: Path) -> None:
    trace = TraceBuilder()
    a, b = call(trace, 0, 1, "a"), call(trace, 3, 2, "b")
    known = call(trace, 6, 3, "a"), trace.kernel("a", 50, 60, 3, stream=2)
    pairs = {(b, trace.kernel("b", 10, 20, 0, stream=3)), (a, trace.kernel("a", 30, 40, 0, stream=2)), known}
    assert launches(trace, tmp_path) == pairs


def test_what_began_before_the_recording_and_what_it_does_not_reach_is_left_out(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.kernel(RCCL, 0, 4, 0, stream=2)
    pair = call(trace, 10, 1), trace.kernel(RCCL, 20, 30, 0, stream=2)
    call(trace, 40, 2)
    assert launches(trace, tmp_path) == {pair}


@pytest.mark.parametrize("lost", ["call", "kernel"])
def test_where_one_is_lost_in_between_nothing_is_guessed(lost: str, tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(3):
        if (lost, at) != ("call", 1):
            call(trace, 20 * at, 1 + at)
        if (lost, at) != ("kernel", 1):
            trace.kernel(RCCL, 20 * at + 10, 20 * at + 15, 0, stream=2)
    assert launches(trace, tmp_path) == set()


def test_a_kernel_before_its_call_shows_another_order(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, start in ((0, 5), (30, 20)):
        call(trace, at, 1 + at)
        trace.kernel(RCCL, start, start + 5, 0, stream=2)
    assert launches(trace, tmp_path) == set()


def test_of_two_streams_only_what_waits_for_no_other_is_paired(tmp_path: Path) -> None:
    """Two communicators: the calls name no stream, and of two that are issued together either may start first."""
    trace = TraceBuilder()
    sure = [
        (call(trace, at, 1 + at), trace.kernel(RCCL, at + 5, at + 9, 0, stream=stream))
        for at, stream in ((0, 2), (20, 3))
    ]
    for at in (40, 42):
        call(trace, at, 1 + at)
    for at, stream in ((50, 3), (51, 2)):
        trace.kernel(RCCL, at, at + 10, 0, stream=stream)
    sure.append((call(trace, 80, 81), trace.kernel(RCCL, 85, 90, 0, stream=2)))
    assert launches(trace, tmp_path) == set(sure)


def test_calls_that_name_no_kernel_or_another_launch_none(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.call("hipFree", 0, 2, 1)
    call(trace, 4, 2, "another")
    trace.kernel(RCCL, 20, 30, 0, stream=2)
    assert launches(trace, tmp_path) == set()


def test_a_part_of_such_a_trace_keeps_the_evidence(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(3):
        call(trace, 20 * at, 1 + at)
        trace.kernel(RCCL, 20 * at + 10, 20 * at + 15, 0, stream=2)
    found = hg.read_trace(trace.write(tmp_path / "trace.json"))
    graph = hg.build_graph(found.select(list(range(2, 6))))
    assert set(graph.edges[graph.edges.kind == "launch"].rule) == {"kernel_name_in_order"}
