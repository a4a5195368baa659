"""Operations element by element, a row for those that do the same.

An addition, multiplication, division, comparison, choice between two, rounding, or a function such as ``exp`` counts
as one, of whole numbers and truths too; what is made of these, such as ``silu``, counts as its formula says. A result
has the shape that the operands are broadcast to, and their promoted type.
"""

from __future__ import annotations

import math
from dataclasses import replace

from hta_graph.roofline.cost_models.element_by_element import (
    Pointwise,
    Result,
    operands_of,
    pointwise_demand,
    pointwise_model,
)
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, total_bytes
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.roofline.tensor_types import broadcast, output_bytes, promoted_type

__all__ = ["POINTWISE"]

FLOAT, BOOL = Result.REAL, Result.TRUTH
TWO, THREE = (0, 1), (0, 1, 2)

POINTWISE_ROWS = (
    # one operand
    Pointwise("neg sign sgn floor ceil round trunc bitwise_not conj_physical _conj_physical", 1, ""),
    Pointwise("abs", 1, "", result=Result.MAGNITUDE),
    Pointwise("logical_not signbit isposinf isneginf isnan isinf", 1, "", result=BOOL),
    Pointwise(
        "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh"
        " acosh atanh erf erfc erfinv lgamma digamma", 1, "", result=FLOAT,
    ),
    Pointwise("frac", 2, "x − trunc(x)"),
    Pointwise("sinc", 3, "sin(π·x) ÷ (π·x)", result=FLOAT),
    Pointwise("logit", 3, "log(x ÷ (1 − x))", result=FLOAT),
    Pointwise("nan_to_num", 3, "three choices"),
    # activations
    Pointwise("relu threshold", 1, "max(x, 0)"),
    Pointwise("leaky_relu", 2, "x > 0 ? x : α·x"),
    Pointwise("_prelu_kernel", 2, "x > 0 ? x : w·x", TWO),
    Pointwise("hardtanh hardshrink", 2, "two comparisons"),
    Pointwise("softshrink", 3, "two comparisons, a subtraction"),
    Pointwise("sigmoid", 4, "1 ÷ (1 + exp(−x))", result=FLOAT),
    Pointwise("hardsigmoid", 4, "min(max(x + 3, 0), 6) ÷ 6"),
    Pointwise("hardswish", 5, "x · min(max(x + 3, 0), 6) ÷ 6"),
    Pointwise("silu", 4, "x ÷ (1 + exp(−x))"),
    Pointwise("elu", 4, "x > 0 ? x : α·(exp(x) − 1)"),
    Pointwise("gelu", 5, "½·x·(1 + erf(x·√½)), tanh's form has 9", is_least=True),
    Pointwise("softplus", 5, "x·β > limit ? x : log1p(exp(x·β)) ÷ β"),
    Pointwise("mish", 4, "x · tanh(log1p(exp(x)))"),
    Pointwise("log_sigmoid_forward", 6, "min(x, 0) − log1p(exp(−|x|))"),
    # two operands
    Pointwise("add sub", 1, "", TWO, factor=2),
    Pointwise("rsub", 1, "", TWO, factor=2),
    Pointwise("mul floor_divide remainder fmod pow maximum minimum fmax fmin clamp_min clamp_max gcd lcm", 1, "", TWO),
    Pointwise("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift", 1, "", TWO),
    Pointwise("heaviside nextafter", 1, "", TWO),
    Pointwise("atan2 copysign", 1, "", TWO, FLOAT),
    Pointwise("eq ne lt le gt ge logical_and logical_or logical_xor", 1, "", TWO, BOOL),
    Pointwise("xlogy", 2, "x · log(y)", TWO, FLOAT),
    Pointwise("hypot", 4, "√(x² + y²)", TWO, FLOAT),
    Pointwise("logaddexp logaddexp2", 7, "max(x, y) + log1p(exp(−|x − y|))", TWO, FLOAT),
    # three operands
    Pointwise("addcmul", 2, "x + y·z", THREE, factor=3),
    Pointwise("addcdiv", 2, "x + y ÷ z", THREE, factor=3),
    Pointwise("lerp", 3, "x + w·(y − x)", THREE),
    Pointwise("where", 1, "a choice", THREE),
    Pointwise("masked_fill", 1, "a choice", TWO),
    # gradients
    Pointwise("threshold_backward", 1, "x > limit ? g : 0", TWO),
    Pointwise("hardtanh_backward hardshrink_backward softshrink_backward", 2, "two comparisons", TWO),
    Pointwise("leaky_relu_backward", 2, "x > 0 ? g : α·g", TWO),
    Pointwise("hardsigmoid_backward", 3, "two comparisons, g ÷ 6", TWO),
    Pointwise("elu_backward", 3, "y > 0 ? g : g·(y + α), of x instead of y 4", (0, 5), is_least=True),
    Pointwise("sigmoid_backward", 3, "g·(1 − y)·y", TWO),
    Pointwise("tanh_backward", 3, "g·(1 − y·y)", TWO),
    Pointwise("logit_backward", 3, "g ÷ (x·(1 − x))", TWO),
    Pointwise("hardswish_backward", 5, "two comparisons, g·(x ÷ 3 + ½)", TWO),
    Pointwise("softplus_backward", 6, "x·β > limit ? g : g·e ÷ (1 + e), e = exp(x·β)", TWO),
    Pointwise("log_sigmoid_backward", 8, "g·((x < 0) ∓ e ÷ (1 + e)), e = exp(−|x|)", TWO),
    Pointwise("silu_backward", 9, "g·s·(1 + x·(1 − s)), s = sigmoid(x)", TWO),
    Pointwise("mish_backward", 13, "g·(t + x·s·(1 − t·t)), s = sigmoid(x), t = tanh(log1p(exp(x)))", TWO),
    Pointwise(
        "gelu_backward", 11, "g·(½·(1 + erf(x·√½)) + x·exp(−½·x·x)·c), tanh's form has more", TWO, is_least=True
    ),
    Pointwise("native_dropout_backward _masked_scale", 2, "g · mask · scale", TWO),
)  # fmt: skip


DIVISION = Pointwise("div", 1, "", TWO, FLOAT)


def _div(call: OperatorCall) -> Demand:
    """Count a division; that it may be rounded is told by an argument more, how it is not recorded."""
    found = pointwise_demand(DIVISION, call)
    if len(call.inputs) <= 2 or call.tensor_or_none(2):
        return found
    is_told = call.name.endswith("_") or call.tensor_or_none(len(call.inputs) - 1) is not None
    if not is_told and promoted_type(*operands_of(call, TWO)) != found.dtype:
        raise NotRecordedError("how the quotient is rounded")
    return replace(found, is_least=True)


def _clamp(call: OperatorCall) -> Demand:
    """Count a comparison with each bound that was given; where none is told, there is one at least."""
    bounds = [at for at in (1, 2) if call.tensor_or_none(at) or call.text(at)]
    operands = (0, *bounds) if call.values else (0, *range(1, min(3, len(call.inputs))))
    return pointwise_demand(Pointwise("clamp", max(1, len(bounds)), "", operands, is_least=not bounds), call)


def _native_dropout(call: OperatorCall) -> Demand:
    """Count a comparison with the probability and two multiplications; a mask of a byte per element is written too."""
    given = call.tensor(0)
    count = given.elements
    written = output_bytes(given.shape, given.dtype) + output_bytes(given.shape, "bool")
    return Demand(3 * count, given.bytes + written, given.dtype)


def _glu(call: OperatorCall) -> Demand:
    """Count a·sigmoid(b), with a and b the halves of what is given."""
    given = call.tensor(0)
    return Demand(5 * (given.elements // 2), given.bytes + given.elements // 2 * given.width, given.dtype)


def _glu_backward(call: OperatorCall) -> Demand:
    """Count s·g and a·g·s·(1 − s), with s = sigmoid(b)."""
    grad, given = call.tensor(0), call.tensor(1)
    return Demand(8 * grad.elements, total_bytes(grad, given) + output_bytes(given.shape, given.dtype), given.dtype)


def _prelu_backward(call: OperatorCall) -> Demand:
    """Count x > 0 ? g : w·g and x > 0 ? 0 : x·g; both are written."""
    tensors, _ = operands_of(call, THREE)
    shape, kind = broadcast(tensor.shape for tensor in tensors), promoted_type(tensors)
    return Demand(3 * math.prod(shape), total_bytes(*tensors) + 2 * output_bytes(shape, kind), kind)


POINTWISE = (
    *(pointwise_model(row) for row in POINTWISE_ROWS),
    CostModel(("aten::div",), "1 per element", "operands + result", _div),
    CostModel(("aten::clamp",), "1 per element and bound", "operands + result", _clamp),
    CostModel(
        ("aten::native_dropout", "aten::_fused_dropout"), "3 per element", "input + result + a byte per element",
        _native_dropout,
    ),
    CostModel(("aten::glu",), "a·sigmoid(b): 5 per element of the result", "input + result", _glu),
    CostModel(("aten::glu_backward",), "8 per element of g", "g + input + result", _glu_backward),
    CostModel(("aten::_prelu_kernel_backward",), "3 per element", "operands + two results", _prelu_backward),
)  # fmt: skip
