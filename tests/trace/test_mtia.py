"""MTIA writes the copies and waits of its streams among the kernels: neither computes."""

from __future__ import annotations

from pathlib import Path

import pytest

import hta_graph as hg
from analyses.declare.scope import whole
from analyses.questions.idle_time import idle_time, idle_waits
from analyses.questions.kernel_breakdown import kernel_breakdown
from analyses.questions.memory_bandwidth import memory_bandwidth
from analyses.questions.temporal_breakdown import temporal_breakdown
from hta_graph.graph.dependency_graph import DependencyGraph
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder

PARTS = ["window_ns", "compute_ns", "exposed_communication_ns", "exposed_memory_ns", "idle_ns"]


def device(tmp_path: Path, *rows: tuple[str, float, float, int]) -> DependencyGraph:
    trace = TraceBuilder()
    for name, start, end, stream in rows:
        span = {"ts": start, "dur": end - start, "args": {"stream": stream}}
        trace.row(ph="X", cat="mtia_ccp_events", name=name, pid=0, tid=stream, **span)
    return trace.graph(tmp_path)


def one_inference(tmp_path: Path) -> DependencyGraph:
    """A copy in, a stream that waits for it, the model, which another copy overlaps."""
    return device(
        tmp_path,
        ("dma_request", 0, 10, 1),
        ("event_record", 10, 11, 1),
        ("event_wait", 2, 14, 2),
        ("merge", 20, 40, 2),
        ("dma_request", 35, 50, 1),
    )


def test_copies_are_memory_and_waits_are_idle(tmp_path: Path) -> None:
    found = temporal_breakdown([whole(0, one_inference(tmp_path))])
    assert found[PARTS].to_numpy().tolist() == [[50_000, 20_000, 0, 20_000, 10_000]]


def test_waits_are_no_kernels(tmp_path: Path) -> None:
    found = kernel_breakdown([whole(0, one_inference(tmp_path))])
    assert sorted(zip(found["kernel_type"], found["kernel"], found["count"], strict=True)) == [
        ("computation", "merge", 1),
        ("memory", "dma_request", 2),
    ]


def test_copies_without_recorded_bytes_count_their_time(tmp_path: Path) -> None:
    found = memory_bandwidth([whole(0, one_inference(tmp_path))])
    assert found[["events", "without_bytes", "duration_ns"]].to_numpy().tolist() == [[2, 2, 25_000]]


def test_the_path_names_copies_and_waits_for_what_they_are(tmp_path: Path) -> None:
    graph = device(tmp_path, ("dma_request", 0, 10, 1), ("event_wait", 10, 30, 1), ("merge", 30, 70, 1))
    found = hg.critical_path(graph, hg.whole()).by_bound()
    times = dict(zip(found["bound_by"], found["time_ns"], strict=True))
    assert {name: ns for name, ns in times.items() if ns} == {
        "gpu_memory_bound": 10_000,
        "gpu_kernel_kernel_overhead": 20_000,
        "gpu_compute_bound": 40_000,
    }


@pytest.mark.shared
def test_a_real_trace_equals_the_union_of_its_rows() -> None:
    scope = whole(0, hg.build_graph(hg.read_trace(SHARED / "traces/mtia_inference/rank0.json.gz")))
    found = temporal_breakdown([scope])
    assert found[PARTS].to_numpy().tolist() == [[442_646_618, 414_085_123, 0, 7_576_701, 20_984_794]]
    assert idle_time([scope])["idle_ns"].sum() == 20_984_794
    assert "event_wait" in set(idle_waits([scope])["cause"])
