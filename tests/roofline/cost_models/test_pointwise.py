"""Operations element by element, each counted by hand on a tensor or two of 3 × 5 elements."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError
from tests.roofline.recorded_inputs import Case, recorded

GRID = "float[3, 5]"

OF_ONE = {
    1: "neg sign sgn floor ceil round trunc conj_physical _conj_physical abs exp exp2 expm1 log log2 log10 log1p sqrt"
    " rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma relu"
    " threshold",
    2: "frac leaky_relu hardtanh hardshrink",
    3: "sinc logit nan_to_num softshrink",
    4: "sigmoid hardsigmoid silu elu mish",
    5: "hardswish softplus",
    6: "log_sigmoid_forward",
}
OF_TWO = {
    1: "mul div floor_divide remainder fmod pow maximum minimum fmax fmin clamp_min clamp_max heaviside nextafter atan2"
    " copysign threshold_backward",
    2: "xlogy _prelu_kernel hardtanh_backward hardshrink_backward softshrink_backward leaky_relu_backward",
    3: "hardsigmoid_backward sigmoid_backward tanh_backward logit_backward",
    4: "hypot",
    5: "hardswish_backward",
    6: "softplus_backward",
    7: "logaddexp logaddexp2",
    8: "log_sigmoid_backward",
    9: "silu_backward",
    13: "mish_backward",
}
OF_TRUTHS = "bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor"
OF_WHOLE = "gcd lcm bitwise_left_shift bitwise_right_shift"
COMPARISONS = "eq ne lt le gt ge"
TESTS = "signbit isposinf isneginf isnan isinf logical_not"


def each(counts: dict[int, str]) -> list[tuple[str, int]]:
    return [(name, flops) for flops, names in counts.items() for name in names.split()]


CASES = [
    # one is read and one is written, of 15 elements and 4 bytes
    *(Case(recorded(f"aten::{name}", GRID), flops * 15, 60 + 60, "float") for name, flops in each(OF_ONE)),
    # two are read and one is written
    *(Case(recorded(f"aten::{name}", GRID, GRID), flops * 15, 60 + 60 + 60, "float") for name, flops in each(OF_TWO)),
    *(Case(recorded(f"aten::{name}", GRID, GRID), 15, 60 + 60 + 15, "float") for name in COMPARISONS.split()),
    *(Case(recorded(f"aten::{name}", GRID), 15, 60 + 15, "float") for name in TESTS.split()),
    *(Case(recorded(f"aten::{name}", "bool[3, 5]", "bool[3, 5]"), 15, 15 * 3, "bool") for name in OF_TRUTHS.split()),
    *(Case(recorded(f"aten::{name}", "int[3, 5]", "int[3, 5]"), 15, 60 * 3, "int") for name in OF_WHOLE.split()),
    Case(recorded("aten::bitwise_not", "bool[3, 5]"), 15, 15 + 15, "bool"),
    # the form of a gelu is not recorded: that by erf is the least
    Case(recorded("aten::gelu", GRID, ""), 5 * 15, 60 + 60, "float", is_least=True),
    Case(recorded("aten::gelu_backward", GRID, GRID, ""), 11 * 15, 60 + 60 + 60, "float", is_least=True),
    Case(
        recorded("aten::elu_backward", GRID, "1", "1", "1", "True", GRID), 3 * 15, 60 + 60 + 60, "float", is_least=True
    ),
    # a sum, one that is scaled, and one of which that is not told
    Case(recorded("aten::add", GRID, GRID, "1"), 15, 60 + 60 + 60, "float"),
    Case(recorded("aten::sub", GRID, GRID, "2"), 2 * 15, 60 + 60 + 60, "float"),
    Case(recorded("aten::rsub", GRID, "1", "1"), 15, 60 + 60, "float"),
    Case(recorded("aten::add", GRID, GRID), 15, 60 + 60 + 60, "float", is_least=True),
    # in place: the second is read, the first read and written
    Case(recorded("aten::add_", GRID, "c10::BFloat16[5]", "1"), 15, 60 + 10 + 60, "float"),
    Case(recorded("aten::mul_", "c10::BFloat16[3, 5]", GRID), 15, 30 + 60 + 30, "float"),
    # into an output that is given; it may be empty until then
    Case(recorded("aten::add", GRID, GRID, "1", "c10::Half[0]"), 15, 60 + 60 + 30, "float"),
    # broadcast, and of a tensor that is expanded only what is in memory is read
    Case(recorded("aten::mul", "c10::BFloat16[8, 1, 6]", "c10::BFloat16[7, 6]"), 336, 2 * (48 + 42 + 336), "bfloat16"),
    Case(recorded("aten::mul", "float[3, 5]@0,1", "float[3, 5]@5,1"), 15, 4 * (5 + 15 + 15), "float"),
    # numbers of Python's, recorded as tensors without dimensions
    Case(recorded("aten::mul", "c10::Half[3, 5]", "double[]"), 15, 30 + 30, "half"),
    Case(recorded("aten::mul", "long int[3, 5]", "double[]"), 15, 120 + 60, "float"),
    Case(recorded("aten::add", "int[]", "long int[]", "1"), 1, 8, "long int"),
    Case(recorded("aten::sqrt", "float[]"), 1, 4 + 4, "float"),
    Case(recorded("aten::pow", "2", GRID), 15, 60 + 60, "float"),
    # whole numbers: functions and quotients are real
    Case(recorded("aten::exp", "long int[3, 5]"), 15, 120 + 60, "float"),
    Case(recorded("aten::div", "int[3, 5]", "int[3, 5]"), 15, 60 + 60 + 60, "float"),
    Case(recorded("aten::div", GRID, GRID, ""), 15, 60 + 60 + 60, "float", is_least=True),
    Case(recorded("aten::div_", "int[3, 5]", "int[3, 5]", ""), 15, 60 + 60 + 60, "float", is_least=True),
    Case(recorded("aten::pow", "int[3, 5]", "0.5"), 15, 60 + 60, "float"),
    Case(recorded("aten::maximum", "c10::Half[3, 5]", "c10::BFloat16[3, 5]"), 15, 30 + 30 + 60, "float"),
    # a complex number's operations are several
    Case(recorded("aten::mul", *["c10::complex<float>[3, 5]"] * 2), 15, 360, "complex<float>", is_least=True),
    Case(recorded("aten::abs", "c10::complex<float>[3, 5]"), 15, 120 + 60, "complex<float>", is_least=True),
    # three operands
    Case(recorded("aten::addcmul", GRID, GRID, GRID, "1"), 2 * 15, 4 * 60, "float"),
    Case(recorded("aten::addcmul_", GRID, GRID, "float[3, 1]", "0.5"), 3 * 15, 60 + 60 + 12 + 60, "float"),
    Case(recorded("aten::addcdiv", GRID, GRID, GRID, "1"), 2 * 15, 4 * 60, "float"),
    Case(recorded("aten::lerp", GRID, GRID, "0.5"), 3 * 15, 3 * 60, "float"),
    Case(recorded("aten::lerp", GRID, GRID, GRID), 3 * 15, 4 * 60, "float"),
    Case(recorded("aten::where", "bool[3, 5]", GRID, "float[]"), 15, 15 + 60 + 60, "float"),
    Case(recorded("aten::where", "bool[3, 1]", GRID, GRID), 15, 3 + 60 + 60 + 60, "float"),
    Case(recorded("aten::masked_fill", GRID, "bool[3, 5]", "-inf"), 15, 60 + 15 + 60, "float"),
    # bounds: one, two, or not told how many
    Case(recorded("aten::clamp", GRID, "0.", ""), 15, 60 + 60, "float"),
    Case(recorded("aten::clamp", GRID, "", "1."), 15, 60 + 60, "float"),
    Case(recorded("aten::clamp", GRID, GRID, "1."), 2 * 15, 60 + 60 + 60, "float"),
    Case(recorded("aten::clamp_min_", GRID, "0"), 15, 60 + 60, "float"),
    # dropout writes what was kept, a byte each
    Case(recorded("aten::native_dropout", GRID, "0.1", "True"), 3 * 15, 60 + 60 + 15, "float"),
    Case(recorded("aten::_fused_dropout", GRID, "0.9", ""), 3 * 15, 60 + 60 + 15, "float"),
    Case(recorded("aten::native_dropout_backward", GRID, "bool[3, 5]", "1.1"), 2 * 15, 60 + 15 + 60, "float"),
    Case(recorded("aten::_masked_scale", GRID, "unsigned char[3, 5]", "1.1"), 2 * 15, 60 + 15 + 60, "float"),
    # a gated half of 3 × 2
    Case(recorded("aten::glu", "float[3, 4]", "-1"), 5 * 6, 48 + 24, "float"),
    Case(recorded("aten::glu_backward", "float[3, 2]", "float[3, 4]", "-1"), 8 * 6, 24 + 48 + 48, "float"),
    Case(recorded("aten::_prelu_kernel_backward", GRID, GRID, "float[1, 5]"), 3 * 15, 60 + 60 + 20 + 120, "float"),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "inputs",
    [(), ("",), (GRID,), (GRID, ""), ("float[3, 5]", "float[4, 5]"), (GRID, "Quantized[3, 5]"), ("1", "2")],
)
def test_what_is_not_recorded_or_does_not_fit_is_not_guessed(inputs: tuple[str, ...]) -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::mul", *inputs))


def test_a_tensor_in_place_does_not_grow() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::mul_", "float[5]", GRID))


def test_a_quotient_of_whole_numbers_whose_rounding_is_not_told_has_no_type() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::div", "int[3, 5]", "int[3, 5]", ""))


def test_a_number_that_is_not_told_may_make_whole_numbers_real() -> None:
    whole, number = recorded("aten::pow", "int[3, 5]", "2"), recorded("aten::pow", "int[3, 5]", "")
    assert demand_of(whole) is not None
    with pytest.raises(NotRecordedError):
        demand_of(number)


def test_nothing_takes_nothing() -> None:
    found = demand_of(recorded("aten::mul", "float[0, 5]", "float[0, 5]"))
    assert found is not None
    assert (found.flops, found.bytes) == (0, 0)
