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
