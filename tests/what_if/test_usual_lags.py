"""Work back to back on a stream is bound by it, though its launches lie long before and the stream has no gaps."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hta_graph as hg
from hta_graph.model import EdgeKind
from hta_graph.what_if.replay_graph import _likeliest_causes
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


@pytest.mark.parametrize(("before", "after"), [(0, 0), (1, 1), (2, 1), (3, 1)])
def test_of_equally_likely_causes_it_is_the_one_from_before_else_the_last(before: int, after: int) -> None:
    kinds = [EdgeKind.STREAM_ORDER, EdgeKind.EVENT_WAIT, EdgeKind.LAUNCH, EdgeKind.THREAD_ORDER]
    edges = SimpleNamespace(kind=np.array(kinds, np.int8), target=np.full(4, 1, np.int32))
    graph: Any = SimpleNamespace(edge_table=edges, timeline=SimpleNamespace(times=np.zeros(2, np.int64)))
    bound_by = _likeliest_causes(graph, np.array([2.0, 2.0, 3.0, 0.5]), np.full(4, before, np.int32))
    assert bound_by.tolist() == [after] * 4


@pytest.mark.parametrize(("ahead", "saved_us"), [(12, 300), (5, 0)])
def test_where_the_host_launches_late_a_stream_is_not_usually_ready_as_late(
    tmp_path: Path, ahead: int, saved_us: int
) -> None:
    """A launch every 10 µs takes 6 µs to the GPU, a kernel 6 µs: at twice the speed kernels follow after 1 µs.

    What was launched ahead shows that. Without enough of it the 4 µs between kernels may be the stream's.

    thread     [launch  ]          [launch  ]          [launch  ]
    stream              ~~~~[add ======]........[add ======]
    """
    trace = TraceBuilder()
    for number in range(ahead):
        trace.launch("gemm", (5 * number, 5 * number + 4), (6 + 101 * number, 106 + 101 * number), number + 1)
    trace.call("cudaStreamSynchronize", 100, 8 + 101 * ahead, 50)
    for number in range(100):
        at = 10 + 101 * ahead + 10 * number
        trace.op("aten::add", at - 1, at + 8)
        trace.launch("add", (at, at + 4), (at + 6, at + 12), 100 + number)
    changes = [hg.scale(f"class:{name}", 0.5) for name in ("cpu_bound", "cpu_gap")]
    found = hg.replay(trace.graph(tmp_path), changes, hg.whole())
    assert found.saved_ns == pytest.approx(1_000 * saved_us, abs=15_000)
