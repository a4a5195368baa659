"""Kernels that torch.compile generated: what is surely read and written, and what is not known."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
WORDS, TOKENS, WIDTH = 50304, 16384, 768

CASES = [
    Case(
        recorded("triton_poi_fused_add_mul_4", f"{BF16}[2, 768, 3072]", f"{BF16}[2, 768, 3072]", "4718592"),
        0, 2 * 2 * 2 * 768 * 3072, "bfloat16", is_least=True,
    ),
    # rows by columns, then the loops over both
    Case(
        recorded(
            "triton_red_fused__log_softmax_div_mul_prepare_softmax_online_sigmoid_view_40", f"{BF16}[1, 16384, 50304]",
            "float[16384, 1]", "float[16384, 1]", "16384", "50304",
        ),
        0, 2 * TOKENS * WORDS + 4 * 2 * TOKENS, "bfloat16", is_least=True,
    ),
    # of the scores one is read for each target
    Case(
        recorded(
            "triton_red_fused__log_softmax_mul_nll_loss_forward_sub_view_41", "long int[16384]",
            f"{BF16}[1, 16384, 50304]", "float[16384, 1]", "float[16384, 1]", "float[2]", "2", "8192",
        ),
        0, 8 * TOKENS + 2 * TOKENS + 4 * TOKENS + 4 * TOKENS + 4 * 2, "bfloat16", is_least=True,
    ),
    # which rows of the table are read is not known, the result is
    Case(
        recorded(
            "triton_poi_fused_embedding_0", "int[16384]", f"{BF16}[50304, 768]", f"{BF16}[16384, 768]", "12582912"
        ),
        0, 2 * TOKENS * WIDTH, "bfloat16", is_least=True,
    ),
    # the narrowest tensor that may be the result has one byte
    Case(
        recorded("triton_poi_fused_gt_slice_3", "float[64, 64]", "bool[64, 32]", "2048"),
        0, 64 * 32, "float", is_least=True,
    ),
    # zeros: a single tensor is the result
    Case(
        recorded("triton_poi_fused_embedding_dense_backward_21", "float[50304, 768]", "38633472"),
        0, 4 * WORDS * WIDTH, "float", is_least=True,
    ),
    # of a list of seeds one is read
    Case(
        recorded(
            "triton_poi_fused_native_dropout_7", "long int[5]", "float[8, 8]", "bool[8, 8]", "float[8, 8]", "2", "64"
        ),
        0, 4 * 64 + 64 + 4 * 64, "float", is_least=True,
    ),
    Case(
        recorded("triton_poi_fused_add_1", "float[]", "float[8, 8]@0,1", "float[8, 8]", "64"),
        0, 4 * (1 + 8 + 64), "float", is_least=True,
    ),
]  # fmt: skip

WHOLE = ("float[64, 64]", "float[64, 64]")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("name", "inputs"),
    [
        ("triton_poi_fused_add_embedding_dense_backward_3", ("long int[64]", *WHOLE, "4096")),
        ("triton_red_fused_add_slice_sum_3", (*WHOLE, "64", "64")),
        ("triton_poi_fused_add_slice_3", (*WHOLE, "64", "64")),  # a size and a loop, or two loops
        ("triton_poi_fused_slice_3", ("float[4]", "4096")),
        ("triton_poi_fused_add_mul", (*WHOLE, "4096")),  # the name was cut
        ("triton_poi_fused_add_mystery_3", (*WHOLE, "4096")),
        ("triton_poi_fused_0", (*WHOLE, "4096")),
        ("triton__0d1d2de", (*WHOLE, "4096")),
        ("triton_tem_fused_mm_3", (*WHOLE, "4096")),
        ("triton_for_fused_add_3", (*WHOLE, "4096")),
        ("triton_poi_fused_add_3", (*WHOLE,)),
        ("triton_poi_fused_add_3", ("4096",)),
        ("triton_poi_fused_add_3", ("mystery[64]", "64")),
        ("triton_poi_fused_add_3", ()),
    ],
)
def test_what_a_name_or_a_recording_leaves_open_is_not_known(name: str, inputs: tuple[str, ...]) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded(name, *inputs))


def test_no_more_of_a_tensor_is_read_than_the_loops_have_steps() -> None:
    found = demand_of(recorded("triton_poi_fused_add_3", "float[64, 64]", "float[10]", "10"))
    assert found is not None
    assert found.bytes == 4 * (10 + 10)
