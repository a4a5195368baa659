"""Matrix products, each counted by hand."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Unit
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall
from tests.roofline.recorded_inputs import Case, recorded

BF16 = "c10::BFloat16"
E4M3, E5M2 = "c10::Float8_e4m3fn", "c10::Float8_e5m2"
MATRIX = Unit.MATRIX

CASES = [
    # 8192 × 7168 times 7168 × 8, two bytes each
    Case(
        recorded("aten::mm", f"{BF16}[8192, 7168]", f"{BF16}[7168, 8]"),
        2 * 8192 * 8 * 7168, 2 * (8192 * 7168 + 7168 * 8 + 8192 * 8), "bfloat16", MATRIX,
    ),
    # the result is given, of four bytes
    Case(
        recorded("aten::mm", f"{BF16}[6, 5]", f"{BF16}[5, 8]", "float[6, 8]"),
        2 * 6 * 5 * 8, 2 * (6 * 5 + 5 * 8) + 4 * 6 * 8, "bfloat16", MATRIX,
    ),
    # the type of the result is given by its number: 6 is float
    Case(
        recorded("aten::mm", f"{BF16}[6, 5]", f"{BF16}[5, 8]", "6"),
        2 * 6 * 5 * 8, 2 * (6 * 5 + 5 * 8) + 4 * 6 * 8, "bfloat16", MATRIX,
    ),
    # nothing is summed: zeros are written, nothing is read
    Case(recorded("aten::mm", "float[6, 0]", "float[0, 8]"), 0, 4 * 6 * 8, "float", MATRIX),
    # one row that is expanded to six takes the memory of one
    Case(
        recorded("aten::mm", "float[6, 5]@0,1", "float[5, 8]@8,1"),
        2 * 6 * 5 * 8, 4 * (5 + 5 * 8 + 6 * 8), "float", MATRIX,
    ),
    Case(
        recorded("aten::bmm", "float[16, 100, 80]", "float[16, 80, 60]"),
        16 * 2 * 100 * 60 * 80, 4 * 16 * (100 * 80 + 80 * 60 + 100 * 60), "float", MATRIX,
    ),
    Case(
        recorded("aten::addmm", "float[7]", "float[5, 3]", "float[3, 7]", "1", "1"),
        2 * 5 * 7 * 3, 4 * (7 + 5 * 3 + 3 * 7 + 5 * 7), "float", MATRIX,
    ),
    # times zero: what would be added is not read
    Case(
        recorded("aten::addmm", "float[7]", "float[5, 3]", "float[3, 7]", "0", "1"),
        2 * 5 * 7 * 3, 4 * (5 * 3 + 3 * 7 + 5 * 7), "float", MATRIX,
    ),
    Case(
        recorded("aten::addmm", "float[7]", f"{BF16}[5, 3]", f"{BF16}[3, 7]", "6", "1", "1"),
        2 * 5 * 7 * 3, 2 * (5 * 3 + 3 * 7) + 4 * (7 + 5 * 7), "bfloat16", MATRIX,
    ),
    Case(
        recorded("aten::baddbmm", "float[2, 5, 7]", "float[2, 5, 3]", "float[2, 3, 7]", "1", "1"),
        2 * 2 * 5 * 7 * 3, 4 * 2 * (5 * 7 + 5 * 3 + 3 * 7 + 5 * 7), "float", MATRIX,
    ),
    Case(
        recorded("aten::baddbmm", *[f"{BF16}[1, 1, {n}]" for n in (12, 1, 12)], "8.15", "1", f"{BF16}[1, 1, 12]"),
        2 * 12, 2 * (12 + 1 + 12 + 12), "bfloat16", MATRIX,
    ),
    Case(
        recorded("aten::_addmm_activation", "half[7]", "half[5, 3]", "half[3, 7]", "1", "1", "True"),
        2 * 5 * 7 * 3, 2 * (7 + 5 * 3 + 3 * 7 + 5 * 7), "half", MATRIX,
    ),
    Case(
        recorded("aten::addbmm", "float[5, 7]", "float[2, 5, 3]", "float[2, 3, 7]", "1", "1"),
        2 * 2 * 5 * 7 * 3, 4 * (5 * 7 + 2 * 5 * 3 + 2 * 3 * 7 + 5 * 7), "float", MATRIX,
    ),
    # 4 × 2 batches of 5 × 3 times 3 × 7, the right side the same for each of four
    Case(
        recorded("aten::matmul", "float[4, 2, 5, 3]", "float[2, 3, 7]"),
        8 * 2 * 5 * 3 * 7, 4 * (8 * 5 * 3 + 2 * 3 * 7 + 8 * 5 * 7), "float", MATRIX,
    ),
    Case(recorded("aten::matmul", "float[5, 3]", "float[3]"), 2 * 5 * 3, 4 * (15 + 3 + 5), "float", MATRIX),
    Case(recorded("aten::matmul", "float[3]", "float[3]"), 2 * 3, 4 * (3 + 3 + 1), "float", MATRIX),
    Case(
        recorded("aten::linear", f"{BF16}[2, 3, 4]", f"{BF16}[5, 4]", f"{BF16}[5]"),
        2 * 6 * 5 * 4, 2 * (6 * 4 + 5 * 4 + 5 + 6 * 5), "bfloat16", MATRIX,
    ),
    Case(recorded("aten::mv", "float[9, 4]", "float[4]"), 2 * 9 * 4, 4 * (9 * 4 + 4 + 9), "float"),
    Case(
        recorded("aten::addmv", "float[9]", "float[9, 4]", "float[4]", "1", "1"),
        2 * 9 * 4, 4 * (9 + 9 * 4 + 4 + 9), "float",
    ),
    Case(recorded("aten::dot", "half[1000]", "half[1000]"), 2 * 1000, 2 * (1000 + 1000 + 1), "half"),
    Case(recorded("aten::vdot", "double[3]", "double[3]"), 2 * 3, 8 * 7, "double"),
    Case(
        recorded("aten::addr", "float[3, 4]", "float[3]", "float[4]", "1", "1"),
        2 * 3 * 4, 4 * (12 + 3 + 4 + 12), "float",
    ),
    Case(
        recorded("aten::_int_mm", "signed char[32, 16]", "signed char[16, 8]"),
        2 * 32 * 16 * 8, 32 * 16 + 16 * 8 + 4 * 32 * 8, "signed char", MATRIX,
    ),
    # two scales, 15 is bfloat16, the result given last: as nanogpt's trace has it
    Case(
        recorded("aten::_scaled_mm", f"{E5M2}[64, 48]", f"{E4M3}[48, 16]", "float[]", "float[]", "", "", "15", "False",
                 f"{BF16}[64, 16]"),
        2 * 64 * 48 * 16, 64 * 48 + 48 * 16 + 4 + 4 + 2 * 64 * 16, "float8_e5m2", MATRIX,
    ),
    Case(
        recorded("aten::_scaled_mm", f"{E4M3}[64, 48]", f"{E4M3}[48, 16]", "float[64, 1]", "float[1, 16]",
                 f"{BF16}[16]", "", "15", "True"),
        2 * 64 * 48 * 16, 64 * 48 + 48 * 16 + 4 * (64 + 16) + 2 * 16 + 2 * 64 * 16, "float8_e4m3fn", MATRIX,
    ),
    # PyTorch 2.3: bias and type before the scales
    Case(
        recorded("aten::_scaled_mm", f"{E4M3}[64, 48]", f"{E4M3}[48, 16]", "", "15", "float[]", "float[]", "", "True"),
        2 * 64 * 48 * 16, 64 * 48 + 48 * 16 + 4 + 4 + 2 * 64 * 16, "float8_e4m3fn", MATRIX,
    ),
    # 24 stored elements are 48 of four bits
    Case(
        recorded("aten::_scaled_mm", "c10::Float4_e2m1fn_x2[64, 24]", "c10::Float4_e2m1fn_x2[24, 16]",
                 f"{E4M3}[192]", f"{E4M3}[48]", "", "", "15", "False"),
        2 * 64 * 48 * 16, 64 * 24 + 24 * 16 + 192 + 48 + 2 * 64 * 16, "float4_e2m1fn_x2", MATRIX,
    ),
    Case(
        recorded("aten::_scaled_mm_v2", f"{E4M3}[64, 48]", f"{E4M3}[48, 16]", ["float[]"], "[0]", "[0]", ["float[]"],
                 "[0]", "[0]", "", "15", "[]", "False"),
        2 * 64 * 48 * 16, 64 * 48 + 48 * 16 + 2 * 64 * 16, "float8_e4m3fn", MATRIX,
    ),
    # 100 rows in 4 groups, each of its own 8 × 6 matrix, of which one is read at least
    Case(
        recorded("aten::_grouped_mm", f"{BF16}[100, 8]", f"{BF16}[4, 8, 6]", "int[4]", "", ""),
        2 * 100 * 8 * 6, 2 * (100 * 8 + 8 * 6 + 100 * 6), "bfloat16", MATRIX,
    ),
    # 60 columns in 4 groups
    Case(
        recorded("aten::_grouped_mm", f"{BF16}[4, 10, 8]", f"{BF16}[8, 60]", "int[4]", "", ""),
        2 * 10 * 8 * 60, 2 * (10 * 8 + 8 * 60 + 10 * 60), "bfloat16", MATRIX,
    ),
    # 80 inner elements in 4 groups: four results of 10 × 6
    Case(
        recorded("aten::_grouped_mm", f"{BF16}[10, 80]", f"{BF16}[80, 6]", "int[4]", "", ""),
        2 * 10 * 80 * 6, 2 * (10 * 80 + 80 * 6 + 4 * 10 * 6), "bfloat16", MATRIX,
    ),
    Case(
        recorded("aten::_grouped_mm", f"{BF16}[4, 10, 8]", f"{BF16}[4, 8, 6]", "", "", ""),
        2 * 4 * 10 * 8 * 6, 2 * 4 * (10 * 8 + 8 * 6 + 10 * 6), "bfloat16", MATRIX,
    ),
    Case(
        recorded("aten::_scaled_grouped_mm", f"{E4M3}[100, 8]", f"{E4M3}[4, 8, 6]", "float[100]", "float[4, 6]",
                 "int[4]", "", "", "15", "True"),
        2 * 100 * 8 * 6, 100 * 8 + 8 * 6 + 2 * 100 * 6, "float8_e4m3fn", MATRIX,
    ),
    Case(
        recorded("aten::_scaled_grouped_mm_v2", f"{E4M3}[100, 8]", f"{E4M3}[4, 8, 6]", ["float[100]"], "[0]", "[0]",
                 ["float[4, 6]"], "[0]", "[0]", "int[4]", "", "15", "[]", "True"),
        2 * 100 * 8 * 6, 100 * 8 + 8 * 6 + 2 * 100 * 6, "float8_e4m3fn", MATRIX,
    ),
    Case(
        recorded("aten::_weight_int8pack_mm", f"{BF16}[3, 64]", "signed char[32, 64]", f"{BF16}[32]"),
        2 * 3 * 32 * 64, 2 * 3 * 64 + 32 * 64 + 2 * 32 + 2 * 3 * 32, "bfloat16", MATRIX,
    ),
    # 32 outputs of 64 weights of four bits, in groups of 32: 32 · 64 / 2 bytes as 4 · 1 · 32 · 2 numbers of 4
    Case(
        recorded("aten::_weight_int4pack_mm", f"{BF16}[3, 64]", "int[4, 1, 32, 4]", "32", f"{BF16}[2, 32, 2]"),
        2 * 3 * 32 * 64, 2 * 3 * 64 + 4 * 4 * 32 * 4 + 2 * 2 * 32 * 2 + 2 * 3 * 32, "bfloat16", MATRIX,
    ),
]  # fmt: skip


def test_the_sizes_of_a_product_are_told() -> None:
    found = demand_of(recorded("aten::bmm", "float[16, 100, 80]", "float[16, 80, 60]"))
    assert found is not None
    assert dict(found.sizes) == {"M": 100, "N": 60, "K": 80, "batch": 16}


def test_a_product_in_groups_tells_how_many_they_are() -> None:
    found = demand_of(recorded("aten::_grouped_mm", "half[100, 8]", "half[4, 8, 6]", "int[4]", "", ""))
    assert found is not None
    assert dict(found.sizes) == {"M": 100, "N": 6, "K": 8, "groups": 4}


def test_the_bytes_of_a_type_that_is_not_known_are_not_known() -> None:
    found = demand_of(recorded("aten::mm", "quint3[6, 5]", "quint3[5, 8]"))
    assert found is not None
    assert (found.flops, found.bytes) == (480, None)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "call",
    [
        recorded("aten::mm", "float[6, 5]", "float[4, 8]"),
        recorded("aten::mm", "float[6]", "float[6]"),
        recorded("aten::mm"),
        recorded("aten::bmm", "float[3, 6, 5]", "float[2, 5, 8]"),
        recorded("aten::matmul", "float[]", "float[3]"),
        # two matrices that were on the interpreter's stack before the operator's own
        recorded("aten::matmul", "float[5, 4]", "float[4, 3]", "float[2, 3]", "float[3, 4]"),
        recorded("aten::linear", "float[2, 3]", "float[3, 4]", ""),
        recorded("aten::mv", "float[9, 4]", "float[5]"),
        recorded("aten::dot", "float[4]", "float[5]"),
        recorded("aten::_grouped_mm", "float[10, 80]", "float[80, 6]", "", "", ""),
    ],
    ids=lambda call: call.name,
)
def test_shapes_that_do_not_fit_tell_nothing(call: OperatorCall) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(call)
