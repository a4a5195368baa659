"""Normalisations and softmax, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
HALF = "c10::Half"
ALL = "[True, True, True]"

CASES = [
    # 4 for mean and variance, 2 for the normalised value, weight, bias; two statistics for each of 5185 rows
    Case(
        recorded(
            "aten::native_layer_norm", f"{BF16}[1, 5185, 1024]", "[1024]", f"{BF16}[1024]", f"{BF16}[1024]", "1e-05"
        ),
        5185 * 1024 * 8, 2 * 5185 * 1024 + 2 * 2 * 1024 + 2 * 5185 * 1024 + 4 * 2 * 5185, "bfloat16",
    ),
    Case(
        recorded("aten::native_layer_norm", "float[6, 4, 5]", "[4, 5]", "", "", "1e-05"),
        6 * 20 * 6, 4 * (6 * 20 + 6 * 20 + 2 * 6), "float",
    ),
    # 2 normalised, 7 and the weight for the data's gradient, 2 for the weight's, 1 for the bias's
    Case(
        recorded(
            "aten::native_layer_norm_backward", "float[10, 8]", "float[10, 8]", "[8]", "float[10, 1]", "float[10, 1]",
            "float[8]", "float[8]", ALL,
        ),
        80 * (2 + 7 + 1 + 2 + 1), 4 * (80 + 80 + 10 + 10 + 8) + 4 * (80 + 8 + 8), "float",
    ),
    Case(
        recorded(
            "aten::native_layer_norm_backward", "float[10, 8]", "float[10, 8]", "[8]", "float[10, 1]", "float[10, 1]",
            "float[8]", "float[8]", "[False, False, True]",
        ),
        80, 4 * (80 + 8), "float",
    ),
    Case(
        recorded(
            "aten::native_group_norm", "float[2, 6, 4, 4]", "float[6]", "float[6]", "2", "6", "16", "3", "1e-05"
        ),
        192 * 8, 4 * (192 + 6 + 6 + 192 + 2 * 2 * 3), "float",
    ),
    Case(
        recorded(
            "aten::native_group_norm_backward", "float[2, 6, 4, 4]", "float[2, 6, 4, 4]", "float[2, 3]", "float[2, 3]",
            "float[6]", "2", "6", "16", "3", ALL,
        ),
        192 * 13, 4 * (192 + 192 + 6 + 6 + 6) + 4 * (192 + 6 + 6), "float",
    ),
    # square and sum, product, weight
    Case(
        recorded("aten::_fused_rms_norm", f"{BF16}[4, 7, 16]", "[16]", f"{BF16}[16]", "1e-06"),
        28 * 16 * 4, 2 * (28 * 16 + 16 + 28 * 16) + 4 * 28, "bfloat16",
    ),
    Case(
        recorded(
            "aten::_fused_rms_norm_backward", f"{BF16}[28, 16]", f"{BF16}[28, 16]", "[16]", "float[28, 1]",
            f"{BF16}[16]", "[True, True]",
        ),
        28 * 16 * (1 + 5 + 1 + 2), 2 * (28 * 16 * 2 + 16) + 4 * 28 + 2 * (28 * 16 + 16), "bfloat16",
    ),
    Case(recorded("aten::_softmax", "float[3, 100]", "-1", "False"), 5 * 300, 4 * (300 + 300), "float"),
    Case(recorded("aten::_softmax", f"{HALF}[3, 100]", "-1", "True"), 5 * 300, 2 * 300 + 4 * 300, "half"),
    Case(recorded("aten::_log_softmax", f"{BF16}[3, 100]", "1", "False"), 5 * 300, 2 * (300 + 300), "bfloat16"),
    # a gradient that is the same for all, as of a sum, is one number
    Case(
        recorded("aten::_softmax_backward_data", "float[3, 100]@0,0", "float[3, 100]", "-1", "6"),
        4 * 300, 4 * (1 + 300 + 300), "float",
    ),
    Case(
        recorded("aten::_softmax_backward_data", "float[3, 100]", "float[3, 100]", "-1", "5"),
        4 * 300, 4 * (300 + 300) + 2 * 300, "float",
    ),
    Case(
        recorded("aten::_log_softmax_backward_data", "float[3, 100]", "float[3, 100]", "-1", ""),
        4 * 300, 4 * (300 + 300) + 2 * 300, "float",
    ),
    Case(
        recorded("aten::_weight_norm_interface", f"{BF16}[6, 8]", f"{BF16}[6, 1]", "0"),
        3 * 48, 2 * (48 + 6 + 48) + 4 * 6, "bfloat16",
    ),
    Case(
        recorded(
            "aten::_weight_norm_interface_backward", "float[6, 8]", "float[6, 8]", "float[6, 1]", "float[6, 1]", "0"
        ),
        5 * 48, 4 * (48 + 48 + 6 + 6) + 4 * (48 + 6), "float",
    ),
    Case(
        recorded("aten::_masked_softmax", "float[2, 4, 4]", "bool[2, 4, 4]", "-1", "1"),
        5 * 32, 4 * 32 + 32 + 4 * 32, "float",
    ),
    Case(
        recorded("aten::_masked_softmax_backward", "float[2, 4, 4]", "float[2, 4, 4]", "bool[2, 4, 4]", "-1"),
        4 * 32, 4 * 32 + 4 * 32 + 32 + 4 * 32, "float",
    ),
]  # fmt: skip


def test_which_gradients_were_asked_for_must_be_known() -> None:
    inputs = ("float[10, 8]", "float[10, 8]", "[8]", "float[10, 1]", "float[10, 1]", "float[8]", "float[8]")
    for mask in ("", "[True, True]", "[1, 1, 1]", "True"):
        with pytest.raises(NotRecordedError):
            demand_of(recorded("aten::native_layer_norm_backward", *inputs, mask))


def test_a_row_must_be_the_end_of_the_datas_shape() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::native_layer_norm", "float[6, 4, 5]", "[4]", "", "", "1e-05"))


def test_data_without_elements_demand_nothing_but_what_they_are_given() -> None:
    found = demand_of(recorded("aten::native_layer_norm", "float[0, 8]", "[8]", "float[8]", "", "1e-05"))
    assert found is not None
    assert (found.flops, found.bytes) == (0, 4 * 8)
