"""Losses, forward and backward. What a mean or sum over the elements does is the work of another operator."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hta_graph.roofline.demand import memory_bound_demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.roofline.tensor_types import broadcast, result_type

__all__ = ["LOSSES"]


def _is_reduced(call: OperatorCall, at: int) -> bool:
    """Tell whether one number is asked for: at least that is written where it was not recorded."""
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
        "both tensors + result; a weight is another operator's", _with_flops(_loss, 9, reduction=3),
    ),
    CostModel(
        ("aten::binary_cross_entropy_backward",), "6 · elements",
        "gradient + both tensors + result; a weight is another operator's",
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
