"""Launches that only arrows record (times in µs)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from tests.support.trace_builder import TraceBuilder, edges


def arrow(
    trace: TraceBuilder, category: str, number: Any, source: tuple[int, int, float], *ends: tuple[int, int, float]
) -> None:
    for ph, (pid, tid, ts) in (("s", source), *(("f", end) for end in ends)):
        trace.row(ph=ph, id=number, pid=pid, tid=tid, ts=ts, cat=category, name=category, bp="e" if ph == "f" else None)


def call(trace: TraceBuilder, name: str, at: float, **args: Any) -> int:
    return trace.row(ph="X", cat="cuda_runtime", name=name, pid=100, tid=1, ts=at, dur=4, args=args)


def kernel(trace: TraceBuilder, at: float, *, pid: int = 2, tid: int = 0, **args: Any) -> int:
    return trace.row(ph="X", cat="kernel", name="gemm", pid=pid, tid=tid, ts=at, dur=5, args=args)


def launches(graph: hg.DependencyGraph) -> set[tuple[int, int]]:
    return {(source, target) for _, source, _, target, _ in edges(graph, "launch")}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("category", ["ac2g", "async_cpu_to_gpu", "async_gpu"])
def test_an_arrow_is_a_launch(category: str, tmp_path: Path) -> None:
    trace, pairs = TraceBuilder(baseTimeNanoseconds=1_700_000_000_000_000_000), set()
    for at in range(3):
        pairs.add((call(trace, "hipLaunchKernel", 20.5 * at, correlation=100 + at), kernel(trace, 20.5 * at + 10)))
        arrow(trace, category, str(100 + at), (100, 1, 20.5 * at), (2, 0, 20.5 * at + 10))
    graph = trace.graph(tmp_path)
    assert launches(graph) == pairs
    assert graph.diagnostics["launches_by_arrow"] == 3
    assert set(graph.edges.query("kind == 'launch'").evidence) == {"recorded"}


def test_calls_without_a_correlation_are_found_where_the_arrow_starts(tmp_path: Path) -> None:
    trace = TraceBuilder()
    pair = call(trace, "hipLaunchKernel", 0), kernel(trace, 10, device=0, stream=3)
    arrow(trace, "ac2g", 5, (100, 1, 0), (0, 3, 10))
    assert launches(trace.graph(tmp_path)) == {pair}


def test_one_call_launches_many(tmp_path: Path) -> None:
    trace = TraceBuilder()
    source = call(trace, "hipGraphLaunch", 0, correlation=1)
    nodes = [kernel(trace, 10 + 10 * at) for at in range(3)]
    arrow(trace, "ac2g", 1, (100, 1, 0), *((2, 0, 10 + 10 * at) for at in range(3)))
    assert launches(trace.graph(tmp_path)) == {(source, node) for node in nodes}


def test_arrows_that_end_on_the_call_or_nowhere_launch_nothing(tmp_path: Path) -> None:
    trace = TraceBuilder()
    call(trace, "hipLaunchKernel", 0, correlation=1)
    kernel(trace, 10)
    arrow(trace, "ac2g", 1, (100, 1, 0), (100, 1, 0), (2, 0, 11))
    assert launches(trace.graph(tmp_path)) == set()


def test_of_two_kernels_at_one_time_the_arrows_stream_tells(tmp_path: Path) -> None:
    trace = TraceBuilder()
    one = call(trace, "hipLaunchKernel", 0, correlation=1), kernel(trace, 20, tid=1)
    other = call(trace, "hipLaunchKernel", 5, correlation=2), kernel(trace, 20, tid=2)
    arrow(trace, "ac2g", 1, (100, 1, 0), (2, 1, 20))
    arrow(trace, "ac2g", 2, (100, 1, 5), (2, 2, 20))
    assert launches(trace.graph(tmp_path)) == {one, other}


def test_an_anonymized_trace_keeps_its_arrows(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at in range(2):
        call(trace, "hipLaunchKernel", 20 * at, correlation=100 + at)
        kernel(trace, 20 * at + 10)
        arrow(trace, "async_cpu_to_gpu", 100 + at, (100, 1, 20 * at), (2, 0, 20 * at + 10))
    before = trace.graph(tmp_path)
    TraceAnonymizer().write(before.trace, tmp_path / "stripped.json")
    after = hg.build_graph(hg.read_trace(tmp_path / "stripped.json"))
    assert launches(after) == launches(before) != set()
