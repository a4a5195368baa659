"""Attention of inference engines, counted by hand: the batch is in the annotation, or all sequences are alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from analyses.declare.scope import whole
from analyses.questions.roofline import ScopeLimits, limits_of, roofline
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Demand, Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall
from tests.roofline.recorded_inputs import Case, recorded
from tests.support.trace_builder import TraceBuilder

BATCH = "execute_8_context_2(sq6sk9sqsq20sqsk26)_generation_2(sq2sk12sqsq2sqsk12)"
"""Prefills of 4 tokens (4 keys) and of 2 (5 keys: 3 cached), decodes with 5 and 7 keys."""
PAIRS = (1 + 2 + 3 + 4) + (4 + 5) + 5 + 7


def wrapper(*inputs: str, name: str = "vllm::unified_attention_with_output", kernel: str = "") -> OperatorCall:
    return replace(recorded(name, *inputs, "", "", kernel=kernel), annotation=BATCH)


def prefill(tokens: int, longest: str, keys: str) -> OperatorCall:
    shapes = (f"half[{tokens}, 4, 8]", "half[99, 2, 8]", "half[99, 2, 8]", "int[4]", "int[4]", "int[30]")
    return recorded("aiter::mha_batch_prefill", *shapes, longest, keys, "0.", "0.3", "0.", "False", "True", "-1", "-1")


SHAPES = ("half[8, 4, 16]", "half[8, 2, 16]", "half[8, 2, 16]", "half[8, 4, 16]")
WRAPPERS = ["vllm::unified_attention", *(f"{engine}::unified_attention_with_output" for engine in ("vllm", "sglang"))]
CASES = [
    *(
        Case(wrapper(*SHAPES, name=name), 2 * PAIRS * 4 * 32, 2 * 8 * 4 * 32 + 2 * 21 * 2 * 32, "half", Unit.MATRIX)
        for name in WRAPPERS
    ),
    Case(prefill(18, "6", "6"), 2 * 3 * 21 * 4 * 16, 2 * 18 * 4 * 16 + 2 * 18 * 2 * 16, "half", Unit.MATRIX),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.call.name)
def test_served_attention(case: Case) -> None:
    assert demand_of(case.call) == Demand(case.flops, case.bytes, case.dtype, case.unit)


@pytest.mark.parametrize(
    ("annotation", "queries", "keys", "pairs"),
    [
        ("execute_4_context_1(sq4sk4sqsq16sqsk16)_generation_0(sq0sk0sqsq0sqsk0)", 4, 4, 1 + 2 + 3 + 4),
        ("execute_2_context_1(sq2sk5sqsq4sqsk10)_generation_0(sq0sk0sqsq0sqsk0)", 2, 5, 4 + 5),
        ("execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk12sqsq2sqsk12)", 2, 12, 5 + 7),
        ("execute_3_context_1(sq2sk5sqsq4sqsk10)_generation_1(sq1sk7sqsq1sqsk7)", 3, 12, 4 + 5 + 7),
    ],
    ids=["prefill", "later chunk", "decode", "mixed"],
)
def test_each_new_token_attends_to_all_before_it(annotation: str, queries: int, keys: int, pairs: int) -> None:
    inputs = ("half[4, 6, 16]", "half[4, 2, 16]", "half[4, 2, 8]", "half[4, 6, 8]")
    demand = demand_of(replace(wrapper(*inputs), annotation=annotation))
    assert demand is not None
    assert demand.flops == 2 * pairs * 6 * (16 + 8)
    assert demand.bytes == 2 * queries * 6 * (16 + 8) + 2 * keys * 2 * (16 + 8)


def test_flat_tensors_and_a_cache_of_one_byte() -> None:
    annotation = "execute_1_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq1sk7sqsq1sqsk7)"
    call = wrapper("half[2, 96]", "half[2, 32]", "half[2, 32]", kernel="paged_attention<Fp8KVCacheDataType>")
    demand = demand_of(replace(call, annotation=annotation))
    assert demand is not None
    assert (demand.flops, demand.bytes) == (2 * 7 * (96 + 96), 2 * (96 + 96) + 7 * (32 + 32))


@pytest.mark.parametrize(
    "annotation",
    [
        "",
        "execute_context_1(4)_generation_0(0)",
        "x_context_1(sq9sk4sqsq16sqsk16)",
        "x_context_1(sq99sk99sqsq99sqsk99)",
    ],
)
def test_without_a_batch_that_fits_the_work_is_not_known(annotation: str) -> None:
    call = replace(wrapper("half[4, 6, 16]", "half[4, 2, 16]", "half[4, 2, 16]"), annotation=annotation)
    with pytest.raises(NotRecordedError):
        demand_of(call)


@pytest.mark.parametrize(("tokens", "longest", "keys"), [(17, "6", "6"), (18, "6", "9"), (18, "", "6")])
def test_other_lengths_are_not_known(tokens: int, longest: str, keys: str) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(prefill(tokens, longest, keys))


def test_the_annotation_around_the_operator_counts(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    trace.annotation(BATCH, 0, 90)
    trace.annotation("inner", 1, 80)
    shapes = [[8, 4, 16], [8, 2, 16], [8, 2, 16], []]
    types = ["c10::Half"] * 3 + [""]
    trace.op("vllm::unified_attention_with_output", 2, 20, **{"Input Dims": shapes, "Input type": types})
    trace.launch("flash_fwd", (3, 5), (30, 40), 1)
    trace.op("aten::copy_", 22, 30, **{"Input Dims": [[8], [8]], "Input type": ["float", "float"]})
    trace.launch("copy", (23, 25), (50, 60), 2)
    looked = [ScopeLimits.of(whole(0, trace.graph(tmp_path)))]
    found = json.loads(roofline(looked).set_index("operator").to_json(orient="index"))
    rate = found["vllm::unified_attention_with_output"]["achieved_tflops"]
    assert rate == pytest.approx(2 * PAIRS * 4 * 32 / 1e7, rel=1e-3)
    assert found["aten::copy_"]["achieved_tflops"] is None
    assert found["aten::copy_"]["achieved_gbps"] > 0


def test_matrix_work_that_may_be_in_what_is_unknown_is_not_zero(tmp_path: Path) -> None:
    trace = TraceBuilder(deviceProperties=[{"id": 0, "name": "NVIDIA H100 80GB HBM3"}])
    trace.op("acme::secret_gemm", 0, 10, **{"Input Dims": [[8, 8]], "Input type": ["float"]})
    trace.launch("k", (2, 5), (30, 40), 1)
    (row,) = limits_of([ScopeLimits.of(whole(0, trace.graph(tmp_path)))]).to_dict("records")
    assert row["unknown_share"] == 1
    assert pd.isna(row["matrix_flops"])
    assert pd.isna(row["mfu_share"])
