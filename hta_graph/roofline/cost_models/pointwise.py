"""Operations element by element, a row for those that do the same; and losses.

An addition, multiplication, division, comparison, choice between two, rounding, or a function such as ``exp`` counts
as one, of whole numbers and truths too; what is made of these, such as ``silu``, counts as its formula says. A result
has the shape that the operands are broadcast to, and their promoted type. What a loss's mean or sum over the elements
does is the work of another operator.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial

from hta_graph.roofline.demand import CostModel, Demand, memory_bound_demand
from hta_graph.roofline.operator_call import (
    NotRecordedError,
    OperatorCall,
    Tensor,
    broadcast,
    magnitude_type,
    output_bytes,
    promoted_type,
    real_type,
    result_type,
    total_bytes,
)


def _bool_type(_: str) -> str:
    return "bool"


class Result(Enum):
    """Which type a result has, of the one that the operands are promoted to."""

    SAME = "same"
    REAL = "real"
    TRUTH = "truth"
    MAGNITUDE = "magnitude"


RESULT_TYPE: dict[Result, Callable[[str], str]] = {
    Result.SAME: str, Result.REAL: real_type, Result.TRUTH: _bool_type, Result.MAGNITUDE: magnitude_type,
}  # fmt: skip


@dataclass(frozen=True)
class Pointwise:
    """A row of the table of operations: ``operators`` without ``aten::``, FLOPs of an element, and what these are.

    ``operands`` are the positions of what is computed with, tensors or numbers. ``factor`` is the position of a number
    that multiplies besides, unless it is one. ``is_least``: an option, which is not recorded, may need more.
    """

    operators: str
    flops: int
    formula: str
    operands: tuple[int, ...] = (0,)
    result: Result = Result.SAME
    factor: int | None = None
    is_least: bool = False


def pointwise_model(row: Pointwise) -> CostModel:
    """Return the model of a row of the table."""
    names = tuple(f"aten::{name}" for name in row.operators.split())
    count = f"{row.flops} per element" + (", 1 more where scaled" if row.factor is not None else "")
    text = f"{row.formula}: {count}" if row.formula else count
    return CostModel(names, text, "operands + result", lambda call: pointwise_demand(row, call))


def pointwise_demand(row: Pointwise, call: OperatorCall) -> Demand:
    """Return the work of a call of a row's operators.

    Raises:
        NotRecordedError: an operand was not recorded, or its type is not known.
    """
    tensors, numbers = operands_of(call, row.operands)
    shape = broadcast(tensor.shape for tensor in tensors)
    kind = promoted_type(tensors, numbers)
    computed = real_type(kind) if row.result is Result.REAL else kind
    flops, is_least = _flops_of_an_element(row, call)
    return Demand(
        flops=flops * math.prod(shape),
        bytes=bytes_read(call, tensors)
        + written_bytes(call, shape, RESULT_TYPE[row.result](computed), first=row.operands[0], last=max(row.operands)),
        dtype=computed,
        is_least=is_least or computed.startswith("complex"),
    )


def _flops_of_an_element(row: Pointwise, call: OperatorCall) -> tuple[int, bool]:
    """Return how many there are, and whether they may be more."""
    factor = "1" if row.factor is None else call.text(row.factor)
    return row.flops + (factor not in {"", "1", "1.", "1.0"}), row.is_least or not factor


def operands_of(call: OperatorCall, positions: Sequence[int]) -> tuple[list[Tensor], list[str]]:
    """Return what is computed with: the tensors, and the numbers as recorded.

    Raises:
        NotRecordedError: one was not recorded, or none is a tensor.
    """
    found = {at: call.tensor_or_none(at) for at in positions}
    tensors = [tensor for tensor in found.values() if tensor is not None]
    numbers = {at: call.text(at) for at, tensor in found.items() if tensor is None}
    missing = [at for at, number in numbers.items() if at >= len(call.inputs) or (call.values and not number)]
    if missing or not tensors:
        raise NotRecordedError(f"the shape of input {[*missing, *positions][0]}")
    return tensors, list(numbers.values())


def bytes_read(call: OperatorCall, tensors: Sequence[Tensor]) -> int:
    """Return the memory of operands.

    One without dimensions among others may be a number in the host's memory, so that it counts nothing; that which is
    written in place is on the GPU.
    """
    sure = [tensor for tensor in tensors if tensor.shape] or list(tensors[: len(tensors) == 1 or _is_in_place(call)])
    return total_bytes(*sure)


def written_bytes(call: OperatorCall, shape: Sequence[int], dtype: str, *, first: int, last: int) -> int:
    """Return the memory of a result of some shape: that of operand ``first`` in place, else of an output if given.

    An output that is given stands last, behind operand ``last``; it is made to fit, so that its shape says nothing.

    Raises:
        NotRecordedError: its type is not known, or it cannot have that shape.
    """
    if _is_in_place(call):
        written = call.tensor(first)
        if written.shape != tuple(shape):
            raise NotRecordedError("shapes that fit each other")
        return written.bytes
    given = call.tensor_or_none(len(call.inputs) - 1) if len(call.inputs) - 1 > last else None
    return output_bytes(shape, given.dtype if given else dtype)


def _is_in_place(call: OperatorCall) -> bool:
    return call.name.endswith("_")


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
    Pointwise("gelu", 5, "½·x·(1 + erf(x·√½)); the tanh form has 9", is_least=True),
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
        "gelu_backward", 11, "g·(½·(1 + erf(x·√½)) + x·exp(−½·x·x)·c); the tanh form has more", TWO, is_least=True
    ),
    Pointwise("native_dropout_backward _masked_scale", 2, "g · mask · scale", TWO),
)  # fmt: skip


DIVISION = Pointwise("div", 1, "", TWO, FLOAT)


def _div(call: OperatorCall) -> Demand:
    """Count a division; an additional argument shows that it is rounded, but not how."""
    found = pointwise_demand(DIVISION, call)
    if len(call.inputs) <= 2 or call.tensor_or_none(2):
        return found
    is_told = call.name.endswith("_") or call.tensor_or_none(len(call.inputs) - 1) is not None
    if not is_told and promoted_type(*operands_of(call, TWO)) != found.dtype:
        raise NotRecordedError("how the quotient is rounded")
    return replace(found, is_least=True)


def _clamp(call: OperatorCall) -> Demand:
    """Count a comparison with each bound that was given; where none is recorded, there is at least one."""
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


def _is_reduced(call: OperatorCall, at: int) -> bool:
    """Return whether one number is wanted: at least that is written where it was not recorded."""
    return call.text(at) != "0"


def _loss(call: OperatorCall, flops: int, reduction: int, *, is_least: bool = False) -> Demand:
    """Return the work of a loss of two tensors, element by element."""
    pair = call.tensor(0), call.tensor(1)
    shape, kind = broadcast(one.shape for one in pair), result_type(pair)
    result = Tensor(() if _is_reduced(call, reduction) else shape, kind)
    return memory_bound_demand(kind, flops * Tensor(shape, kind).elements, pair, (result,), is_least=is_least)


def _loss_backward(call: OperatorCall, flops: int, *, is_least: bool = False) -> Demand:
    """Return the work of a loss's gradient, element by element."""
    grad, pair = call.tensor(0), (call.tensor(1), call.tensor(2))
    shape, kind = broadcast(one.shape for one in (grad, *pair)), result_type((grad, *pair))
    result = Tensor(shape, kind)
    return memory_bound_demand(kind, flops * result.elements, (grad, *pair), (result,), is_least=is_least)


def _nll(call: OperatorCall) -> Demand:
    data, target = call.tensor(0), call.tensor(1)
    reduced = _is_reduced(call, 3)
    if not data.shape or target.elements > data.elements:
        raise NotRecordedError("shapes that fit each other")
    written = (Tensor((2,) if reduced else target.shape, data.dtype),)
    flops = target.elements * (2 if reduced else 1)
    return memory_bound_demand(data.dtype, flops, (target,), written, is_least=not call.text(3))


def _nll_backward(call: OperatorCall) -> Demand:
    data, target = call.tensor(1), call.tensor(2)
    return memory_bound_demand(data.dtype, target.elements, (target,), ())


def _with_flops(count: Callable[..., Demand], flops: int, **kind: object) -> Callable[[OperatorCall], Demand]:
    return partial(count, flops=flops, **kind)


LOSS_BYTES = "both tensors + result"
LOSS_GRADIENT_BYTES = "gradient + both tensors + result"
NLL_BYTES = "targets + result; which scores they name is not recorded, and ignored ones are not read"

LOSSES = (
    CostModel(("aten::mse_loss",), "2 · elements", LOSS_BYTES, _with_flops(_loss, 2, reduction=2)),
    CostModel(("aten::mse_loss_backward",), "3 · elements", LOSS_GRADIENT_BYTES, _with_flops(_loss_backward, 3)),
    CostModel(
        ("aten::smooth_l1_loss",), "4 · elements at least: 2 more where the difference is small", LOSS_BYTES,
        _with_flops(_loss, 4, reduction=2, is_least=True),
    ),
    CostModel(
        ("aten::smooth_l1_loss_backward",), "3 · elements at least: 1 more where the difference is small",
        LOSS_GRADIENT_BYTES,
        _with_flops(_loss_backward, 3, is_least=True),
    ),
    CostModel(
        ("aten::huber_loss",), "5 · elements: difference, magnitude, comparison, two of the branch", LOSS_BYTES,
        _with_flops(_loss, 5, reduction=2),
    ),
    CostModel(
        ("aten::huber_loss_backward",), "3 · elements at least: 1 more where the difference is large",
        LOSS_GRADIENT_BYTES,
        _with_flops(_loss_backward, 3, is_least=True),
    ),
    CostModel(
        ("aten::binary_cross_entropy",),
        "9 · elements: two logarithms, two bounds, two complements, two products, a sum",
        "both tensors + result; a weight belongs to another operator", _with_flops(_loss, 9, reduction=3),
    ),
    CostModel(
        ("aten::binary_cross_entropy_backward",), "6 · elements",
        "gradient + both tensors + result; a weight belongs to another operator",
        _with_flops(_loss_backward, 6),
    ),
    CostModel(
        ("aten::nll_loss_forward", "aten::nll_loss2d_forward"), "1 · targets; 2 · targets where they are summed",
        NLL_BYTES, _nll,
    ),
    CostModel(
        ("aten::nll_loss_backward", "aten::nll_loss2d_backward"), "1 · targets",
        "targets; the zeros around the gradients are another operator's", _nll_backward,
    ),
)  # fmt: skip
