"""Files without correlations: launches by a unique External id and the kernel's name (times in µs)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

import hta_graph as hg
from hta_graph import DependencyGraph
from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
from tests.support.shared_traces import SHARED
from tests.support.trace_builder import TraceBuilder, edges


def launch(
    trace: TraceBuilder, at: float, number: int, named: str | None, kernel: str = "gemm", *, spelled: str = "kernel"
) -> tuple[int, int]:
    """Add a call and a kernel without correlations, with one External id."""
    named_kernel: dict[str, Any] = {} if named is None else {spelled: named}
    call = trace.row(
        ph="X", cat="cuda_runtime", name="hipLaunchKernel", pid=100, tid=1, ts=at, dur=4,
        args={"External id": number, **named_kernel},
    )  # fmt: skip
    place = {"device": 0, "stream": 0, "External id": number}
    row = trace.row(ph="X", cat="kernel", name=kernel, pid=0, tid=0, ts=at + 10, dur=5, args=place)
    return call, row


def launches(trace: TraceBuilder, tmp_path: Path) -> tuple[DependencyGraph, set[tuple[int, int]]]:
    graph = trace.graph(tmp_path)
    return graph, {(source, target) for _, source, _, target, _ in edges(graph, "launch")}


def test_a_unique_id_and_the_kernels_name_show_a_launch(tmp_path: Path) -> None:
    trace = TraceBuilder()
    pairs = {launch(trace, 20 * number, 5 + number, "gemm") for number in range(3)}
    graph, found = launches(trace, tmp_path)
    assert found == pairs
    assert set(graph.edges[graph.edges.kind == "launch"].rule) == {"same_external_id"}
    assert set(graph.edges[graph.edges.kind == "launch"].evidence) == {"inferred"}
    assert graph.diagnostics["launches_by_external_id"] == 3
    assert graph.diagnostics["activities_without_launch"] == 0


def test_older_rocm_names_the_kernel_with_a_capital_letter(tmp_path: Path) -> None:
    trace = TraceBuilder()
    pairs = {launch(trace, 0, 5, "gemm", spelled="Kernel"), launch(trace, 20, 6, "gemm")}
    launch(trace, 40, 7, "add", spelled="Kernel")
    assert launches(trace, tmp_path)[1] == pairs


def test_an_anonymized_trace_keeps_such_launches(tmp_path: Path) -> None:
    trace = TraceBuilder()
    for at, spelled in ((0, "kernel"), (20, "Kernel")):
        launch(trace, at, 5 + at, "gemm", spelled=spelled)
    TraceAnonymizer().write(hg.read_trace(trace.write(tmp_path / "trace.json")), tmp_path / "stripped.json")
    assert hg.read_trace(tmp_path / "stripped.json").diagnostics["launches_by_external_id"] == 2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("spelled", ["kernel", "Kernel"])
@pytest.mark.parametrize("named", ["add", None, ""])
def test_another_name_or_none_is_no_launch(named: str | None, spelled: str, tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch(trace, 0, 5, named, spelled=spelled)
    pair = launch(trace, 20, 6, "gemm")
    assert launches(trace, tmp_path)[1] == {pair}


def test_an_id_that_several_have_is_no_launch(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch(trace, 0, 5, "gemm")
    launch(trace, 20, 5, "gemm")
    trace.row(ph="X", cat="cuda_runtime", name="hipFree", pid=100, tid=1, ts=40, dur=4, args={"External id": 6})
    pair = launch(trace, 50, 6, "gemm")
    assert launches(trace, tmp_path)[1] == {pair}


def test_one_correlation_in_the_file_is_enough_to_trust_no_other_id(tmp_path: Path) -> None:
    trace = TraceBuilder()
    launch(trace, 0, 5, "gemm")
    pair = trace.launch("add", (20, 24), (30, 35), 9)
    graph, found = launches(trace, tmp_path)
    assert found == {pair}
    assert graph.diagnostics["launches_by_external_id"] == 0
    assert set(graph.edges[graph.edges.kind == "launch"].evidence) == {"recorded"}


@pytest.mark.slow
@pytest.mark.shared
def test_hidden_correlations_of_an_amd_trace_are_found_again(tmp_path: Path) -> None:
    source = SHARED / "traces_more" / "rccl_ddp_mi300x" / "rank0.json.gz"
    document = orjson.loads(gzip.decompress(source.read_bytes()))
    recorded = edges(hg.build_graph(hg.read_trace(source)), "launch")
    for row in document["traceEvents"]:
        row.get("args", {}).pop("correlation", None)
    hidden = tmp_path / "hidden.json"
    hidden.write_bytes(orjson.dumps(document))
    found = edges(hg.build_graph(hg.read_trace(hidden)), "launch")
    assert found <= recorded
    assert len(found) > 600
