"""Advice about kernels far from their limits: true of simulated programs, silent where nothing is known or gained."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hta_graph as hg
from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import advice_of
from analyses.judgement.pricing import with_savings
from hta_graph.graph.dependency_graph import DependencyGraph
from tests import fusion_accuracy
from tests.roofline_accuracy import proved
from tests.support.deep_tests import deep
from tests.support.trace_builder import TraceBuilder

A100 = {"deviceProperties": [{"id": 0, "name": "NVIDIA A100-SXM4-40GB"}]}
HALF = "c10::Half"


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(3), *map(deep, range(3, 40))])
def test_advice_and_savings_are_those_of_a_second_run(seed: int) -> None:
    found = proved(seed)
    assert found.spoke == found.should
    assert all(abs(told - true) <= 0.001 * found.window_ns for told, true in found.savings)


def shaped(*shapes: list[int], kind: str = HALF) -> dict[str, Any]:
    return {"Input Dims": list(shapes), "Input type": [kind] * len(shapes)}


def advised(graph: DependencyGraph) -> dict[str, PathFinding]:
    facts = PathFacts(hg.critical_path(graph, hg.whole()))
    return {one.rule: one for one in with_savings(facts, advice_of(facts))}


def one_product(
    tmp_path: Path, *shapes: list[int], us: float, kernel: str = "gemm", kind: str = HALF
) -> DependencyGraph:
    trace = TraceBuilder(**A100)
    trace.op("aten::mm", 0, 8, **shaped(*shapes, kind=kind))
    trace.launch(kernel, (2, 6), (10, 10 + us), 1)
    return trace.graph(tmp_path)


def test_a_small_side_is_named(tmp_path: Path) -> None:
    found = advised(one_product(tmp_path, [8192, 3], [3, 8192], us=2_000))["far_from_limit"]
    assert found.text == (
        "aten::mm (half[8192×3, 3×8192]) takes 2.00 ms (>99%) of the path in 1 call and reaches 4% of the memory limit "
        "of A100 SXM 40 GB: K = 3 leaves most of the GPU's matrix units unused."
    )
    assert found.action == "Batch more of aten::mm, or merge the products"
    assert (found.saves_ns, found.saves_at_most_ns) == (1_892_029, 1_892_029)


def test_a_side_that_is_no_multiple_of_eight_is_named(tmp_path: Path) -> None:
    found = advised(one_product(tmp_path, [4096, 4096], [4096, 4099], us=2_000))["far_from_limit"]
    assert "N = 4099 is not a multiple of 8" in found.text
    assert found.action == "Pad N of aten::mm to a multiple of 8"


def test_a_product_near_its_limit_is_no_advice(tmp_path: Path) -> None:
    assert not advised(one_product(tmp_path, [4096, 4096], [4096, 4096], us=600))


def test_kernels_that_are_hardly_longer_than_their_start_are_not_called_far(tmp_path: Path) -> None:
    def many(us: float) -> DependencyGraph:
        trace = TraceBuilder(**A100)
        for at in range(20):
            trace.op("aten::mm", 10 * at, 10 * at + 8, **shaped([256, 64], [64, 256]))
            trace.launch("gemm", (10 * at + 2, 10 * at + 6), (300 + us * at, 300 + us * (at + 1)), at + 1)
        return trace.graph(tmp_path)

    assert "far_from_limit" in advised(many(40))
    assert "far_from_limit" not in advised(many(9))


def test_products_of_floats_that_are_not_rounded_are_told_and_those_that_are_not(tmp_path: Path) -> None:
    shapes = ([4096, 4096], [4096, 4096])
    plain = advised(one_product(tmp_path, *shapes, us=8_000, kernel="ampere_sgemm_128x64_tn", kind="float"))
    assert plain["float32_products"].evidence["times_as_fast"] == 8
    assert "8 times as fast" in plain["float32_products"].text
    rounded = one_product(tmp_path, *shapes, us=1_000, kernel="ampere_s1688gemm_tf32_128x64_tn", kind="float")
    assert "float32_products" not in advised(rounded)


def test_of_products_whose_kernel_does_not_tell_its_precision_nothing_is_said(tmp_path: Path) -> None:
    untold = one_product(tmp_path, [4096, 4096], [4096, 4096], us=8_000, kernel="nvjet_hsh_128x64", kind="float")
    assert "float32_products" not in advised(untold)


@pytest.mark.parametrize("name", ["Accelerator 9", ""])
def test_of_a_device_that_is_not_known_nothing_is_said(name: str, tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[{"id": 0, "name": name}])
    trace.op("aten::mm", 0, 8, **shaped([8192, 3], [3, 8192]))
    trace.launch("gemm", (2, 6), (10, 2_010), 1)
    assert "far_from_limit" not in advised(trace.graph(tmp_path))


def test_rows_that_an_index_names_are_not_called_slow(tmp_path: Path) -> None:
    trace = TraceBuilder(**A100)
    trace.op("aten::index_select", 0, 8, **{
        "Input Dims": [[50_000, 512], [], [8192]], "Input type": ["float", "Scalar", "long int"],
        "Concrete Inputs": ["", "0", ""],
    })  # fmt: skip
    trace.launch("index_select_kernel", (2, 6), (10, 2_010), 1)
    assert "far_from_limit" not in advised(trace.graph(tmp_path))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", [*range(3), *map(deep, range(3, 40))])
def test_what_fusing_saves_is_between_promise_and_bound(seed: int) -> None:
    found = fusion_accuracy.proved(seed)
    assert found.is_kept() or not found.spoke
    assert found.spoke or found.true_ns < 0.1 * found.window_ns


def test_chains_without_shapes_are_told_by_their_kernels_and_at_most(tmp_path: Path) -> None:
    trace = TraceBuilder()
    name = "void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_kernel_cuda(at::TensorIteratorBase&)>"
    for at, kernel in enumerate(("gemm", name, name, name)):
        trace.launch(kernel, (10 * at, 10 * at + 5), (50 + 100 * at, 150 + 100 * at), at + 1)
    found = advised(trace.graph(tmp_path))["unfused_chains"]
    assert (found.saves_ns, found.saves_at_most_ns, found.confidence) == (None, 200_000, "low")
    assert "record_shapes=True" in found.text
