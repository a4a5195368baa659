"""Work back to back on a stream is bound by it, though its launches lie long before and the stream has no gaps."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from tests.support.trace_builder import TraceBuilder


def held_graph(gap: float) -> TraceBuilder:
    """Launch a kernel that older work holds for 9 ms, and a graph behind it whose nodes are ``gap`` µs apart.

    Every tenth gap is of 4 µs.
    """
    trace = TraceBuilder()
    trace.launch("first", (0, 5), (9_000, 9_010), 1)
    trace.call("hipGraphLaunch", 10, 20, 2)
    at = 9_010.0
    for node in range(100):
        at += 4 if node % 10 == 9 else gap
        trace.kernel("gemm", at, at + 20, 2)
        at += 20
    trace.call("hipDeviceSynchronize", 30, at + 5, 3)
    return trace


@pytest.mark.parametrize("gap", [0, 0.001, 1])
def test_nodes_of_a_graph_are_bound_by_the_nodes_before_them(tmp_path: Path, gap: float) -> None:
    graph = held_graph(gap).graph(tmp_path)
    found = hg.replay(graph, [hg.scale("kernel:gemm", 0.5)], hg.whole())
    assert found.saved_ns == pytest.approx(100 * 10_000, abs=2_000)
    assert found.frozen_share == pytest.approx(
        hg.critical_path(graph, hg.whole()).by_bound_ns["unexplained"] / found.measured_ns, abs=0.01
    )
