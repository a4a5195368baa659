"""Steps of optimizers over lists, each counted by hand on two tensors of 12 and 8 elements."""

from __future__ import annotations

import pytest

from hta_graph.roofline.cost_models.optimizers import element_type_of_lists
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, operator_call
from tests.roofline.recorded_inputs import Case, recorded

LIST = ("float[3, 4]", "float[8]")  # of 20 elements; their type is not recorded
FLOAT = "multi_tensor_apply_kernel<TensorListMetadata<1>, BinaryOpScalarFunctor<float, 1, 1, 0>, std::plus<float> >"
BF16 = (
    "void multi_tensor_apply_kernel<TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>,"
    " std::plus<float>, float>(TensorListMetadata<2>, BinaryOpListAlphaFunctor<c10::BFloat16, 2, 2, 0>)"
)
OF_ONE = {
    0: "clone",
    1: "abs neg sign ceil floor round trunc sqrt rsqrt reciprocal exp expm1 log log10 log1p log2 sin cos tan asin acos"
    " atan sinh cosh tanh erf erfc lgamma",
    2: "frac",
    4: "sigmoid",
}
OF_TWO = "mul div pow maximum minimum clamp_min clamp_max"
ADAM = (LIST, LIST, LIST, LIST, "", ("float[]", "float[]"), "0.001", "0.9", "0.99")


def fused(name: str, *inputs: str | tuple[str, ...]) -> OperatorCall:
    return recorded(f"aten::_fused_{name}_", *inputs, kernel=FLOAT)


CASES = [
    *(
        Case(recorded(f"aten::_foreach_{name}", LIST, kernel=FLOAT), flops * 20, 80 + 80, "float")
        for flops, names in OF_ONE.items()
        for name in names.split()
    ),
    # two lists are read and one is written; with a number only one is read
    *(
        Case(recorded(f"aten::_foreach_{name}", LIST, LIST, kernel=FLOAT), 20, 80 + 80 + 80, "float")
        for name in OF_TWO.split()
    ),
    Case(recorded("aten::_foreach_mul_", LIST, "2.", kernel=FLOAT), 20, 80 + 80, "float"),
    Case(recorded("aten::_foreach_zero", LIST, kernel=FLOAT), 0, 80, "float"),
    Case(recorded("aten::_foreach_add", LIST, "1", kernel=FLOAT), 20, 80 + 80, "float"),
    Case(recorded("aten::_foreach_add_", LIST, LIST, "1", kernel=BF16), 20, 40 + 40 + 40, "bfloat16"),
    Case(recorded("aten::_foreach_add_", LIST, LIST, "-0.1", kernel=BF16), 2 * 20, 40 + 40 + 40, "bfloat16"),
    Case(recorded("aten::_foreach_sub", LIST, LIST, "1", kernel=FLOAT), 20, 80 + 80 + 80, "float"),
    Case(recorded("aten::_foreach_addcmul", LIST, LIST, LIST, "0.1", kernel=FLOAT), 3 * 20, 4 * 80, "float"),
    Case(recorded("aten::_foreach_addcdiv", LIST, LIST, LIST, "1", kernel=FLOAT), 2 * 20, 4 * 80, "float"),
    Case(recorded("aten::_foreach_lerp", LIST, LIST, "0.1", kernel=FLOAT), 3 * 20, 80 + 80 + 80, "float"),
    Case(recorded("aten::_foreach_lerp", LIST, LIST, LIST, kernel=FLOAT), 3 * 20, 4 * 80, "float"),
    Case(recorded("aten::_foreach_copy_", LIST, LIST, kernel="UnaryOpFunctor<float, 2, 1, 1>"), 0, 80 + 80, "float"),
    Case(recorded("aten::_foreach_copy_", LIST, LIST, kernel="CopyFunctor<float, c10::Half, 2>"), 0, None, ""),
    # a number for each of two tensors
    Case(recorded("aten::_foreach_norm", LIST, "2", "", kernel="LpNormFunctor<float, 1>"), 2 * 20, 80 + 8, "float"),
    # no type is named: the arithmetic is known, the bytes are not
    Case(recorded("aten::_foreach_mul_", LIST, "2."), 20, None, ""),
    Case(
        recorded("aten::_amp_foreach_non_finite_check_and_unscale_", LIST, "float[1]", "float[]", kernel=FLOAT),
        2 * 20, 80 + 80, "float",
    ),
    Case(recorded("aten::_amp_update_scale_", "float[]", "int[]", "float[]", "2", ".5", "9"), 3, 8 + 8 + 4, "float"),
    # parameters, gradients and two averages are read, all but the gradients written
    Case(fused("adam", *ADAM, "0.", "1e-8", "False", "False", "", ""), 13 * 20, (4 + 3) * 80, "float"),
    Case(fused("adam", *ADAM, "0.1", "1e-8", "True", "False", "", ""), (13 + 2 + 1) * 20, (5 + 4) * 80, "float"),
    Case(fused("adamw", *ADAM, "0.1", "1e-8", "False", "False", "", ""), 15 * 20, (4 + 3) * 80, "float"),
    Case(fused("adamw", *ADAM, "0.1", "1e-8", "False", "False", "float[]", "float[]"), 16 * 20, (4 + 4) * 80, "float"),
    Case(fused("adam", *ADAM), 13 * 20, (4 + 3) * 80, "float", is_least=True),
    # parameters and gradients are read, parameters written; the buffer of momentum is read but in the first step
    Case(fused("sgd", LIST, LIST, "", "0.", "0.", "0.1", "0.", "False", "False", "False"), 2 * 20, 3 * 80, "float"),
    Case(fused("sgd", LIST, LIST, LIST, "0.", "0.9", "0.1", "0.", "False", "False", "True"), 2 * 20, 4 * 80, "float"),
    Case(
        fused("sgd", LIST, LIST, LIST, "0.1", "0.9", "0.1", "0.", "True", "False", "False"),
        (2 + 2 + 3 + 2) * 20, (3 + 2) * 80, "float",
    ),
    Case(
        fused("adagrad", LIST, LIST, LIST, ("float[]", "float[]"), "0.1", "0.", "0.1", "1e-10", "False"),
        (7 + 2) * 20, (3 + 2) * 80, "float",
    ),
]  # fmt: skip


def test_lists_that_were_not_recorded_are_not_guessed() -> None:
    kinds = ["TensorList", "TensorList", "Scalar"]
    with pytest.raises(NotRecordedError):
        demand_of(operator_call("aten::_foreach_add_", [[], [], []], kinds, ["", "", "1"], kernel=FLOAT))


def test_lists_of_different_lengths_are_not_of_one_step() -> None:
    with pytest.raises(NotRecordedError):
        demand_of(recorded("aten::_foreach_mul", LIST, (*LIST, "float[2]")))


def test_a_kernel_of_several_storage_types_tells_none() -> None:
    assert not element_type_of_lists(OperatorCall("", (), kernel="AFunctor<float, 1>, BFunctor<double, 2>"))
