"""Inputs made after public reports, whose rows do not mean what they say: each answers with the known value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.declare.scope import Scope, whole
from analyses.questions.annotation_times import annotation_times
from analyses.questions.attribution import attribution
from analyses.questions.collectives import collectives
from analyses.questions.kernel_breakdown import kernel_breakdown, kernel_types
from analyses.questions.memory_bandwidth import memory_bandwidth
from analyses.questions.temporal_breakdown import temporal_breakdown
from analyses.source.matched_collectives import matched_collectives
from tests.support.shared_traces import SHARED

pytestmark = pytest.mark.shared
REPORTED = SHARED / "reported"


def graph_of(name: str) -> hg.DependencyGraph:
    return hg.build_graph(hg.read_trace(REPORTED / f"{name}.json"))


def scope_of(name: str) -> Scope:
    return whole(0, graph_of(name))


def rows_of(frame: Any, key: str, *columns: str) -> dict[str, Any]:
    found = frame.set_index(key)[list(columns)]
    return {name: tuple(row) if len(columns) > 1 else row[0] for name, *row in found.itertuples()}


def test_amd_copies_among_the_kernels() -> None:
    scope = scope_of("amd_copies_as_kernels")
    assert rows_of(kernel_types([scope]), "kernel_type", "time_ns") == {"memory": 590_000, "computation": 200_000}
    kinds = {"Memcpy HtoD": 200_000, "Memset": 50_000, "Memcpy DtoH": 340_000}
    assert rows_of(memory_bandwidth([scope]), "kind", "duration_ns") == kinds
    path = hg.critical_path(scope.graph)
    assert path.by_bound_ns["gpu_memory_bound"] == 590_000
    assert path.by_bound_ns["cpu_bound"] < 100_000  # the copying call of 680 µs waits


def test_a_late_end() -> None:
    scope = scope_of("overflow_kernel")
    found = rows_of(kernel_breakdown([scope]), "kernel", "count", "sum_ns", "max_ns")
    assert found["Cijk_gemm_1"] == (7, 350_000, 50_000)
    (row,) = temporal_breakdown([scope]).to_dict("records")
    assert (row["window_ns"], row["compute_ns"]) == (1_190_000, 1_000_000)


def test_calls_stamped_before_their_operators() -> None:
    found = attribution([scope_of("skew_300ns")])
    assert rows_of(found, "name", "gpu_self_ns") == dict.fromkeys(("aten::mm", "aten::add", "aten::mul"), 100_000)


def test_a_wait_of_intels_runtime() -> None:
    path = hg.critical_path(graph_of("xpu_sync"))
    assert path.by_bound_ns["gpu_compute_bound"] == 700_000


def test_launches_that_only_arrows_show() -> None:
    graph = graph_of("links_by_arrows_only")
    assert graph.edge_counts()["launch"] == {"recorded": 6, "inferred": 0}
    assert hg.critical_path(graph).coverage == 1


def test_modules_recorded_on_kernels_of_graphs() -> None:
    found = rows_of(attribution([scope_of("graph_annotated")], "module"), "name", "activities")
    assert found == {f"layers.{layer}.{part}": count for layer, part, count in MODULES}


MODULES = ((0, "attention", 6), (0, "feed_forward", 3), (1, "attention", 6), (1, "feed_forward", 3))


def test_communication_of_userbuffers() -> None:
    found = rows_of(kernel_types([scope_of("userbuffers")]), "kernel_type", "time_ns")
    assert found == {"computation": 400_000, "communication": 500_000}


def test_annotations_that_differ_in_numbers() -> None:
    (row,) = annotation_times([scope_of("vllm_ann")]).to_dict("records")
    assert (row["annotation"], row["count"]) == ("execute_context_#(#)_generation_#(#)", 200)
    assert row["gpu_ns"] == 10_000_000


def test_an_uneven_all_to_all() -> None:
    files = sorted(Path(REPORTED / "a2av").iterdir())
    graphs = [hg.build_graph(hg.read_trace(file)) for file in files]
    scopes = [whole(graph.rank or 0, graph) for graph in graphs]
    assert collectives(matched_collectives(scopes))["bus_gbps"].tolist() == pytest.approx([92.0] * 3)
