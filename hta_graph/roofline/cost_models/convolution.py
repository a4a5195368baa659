"""Pools and unfoldings, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from hta_graph.roofline.cost_models.sliding_windows import SlidingWindow, recorded_windows, sides_of, touched_elements
from hta_graph.roofline.demand import memory_bound_demand, partial_bytes
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand

__all__ = ["POOLING"]

INDEX_TYPE = "long int"


def _volume(windows: Sequence[SlidingWindow]) -> int:
    return math.prod(window.size for window in windows)


def _pooling_result(data: Tensor, windows: Sequence[SlidingWindow], *, ceil: bool | None) -> tuple[Tensor, int]:
    """Return a pool's result, and the bytes of the data that it reads."""
    if ceil is None:
        raise NotRecordedError("whether sizes are rounded up")
    outer, sides = sides_of(data, len(windows))
    counts = tuple(window.count(side, ceil=ceil) for window, side in zip(windows, sides, strict=True))
    read = math.prod(outer) * touched_elements(windows, sides, counts)
    return Tensor((*outer, *counts), data.dtype), partial_bytes(data, read)


def _max_pool(call: OperatorCall, dimensions: int) -> Demand:
    windows = recorded_windows(call, dimensions, 1, 2, 3, 4)
    result, read = _pooling_result(call.tensor(0), windows, ceil=call.boolean(5))
    flops = result.elements * _volume(windows)
    return memory_bound_demand(result.dtype, flops, (), (result, Tensor(result.shape, INDEX_TYPE)), parts=read)


def _average_pool(call: OperatorCall, dimensions: int) -> Demand:
    windows = recorded_windows(call, dimensions, 1, 2, 3)
    result, read = _pooling_result(call.tensor(0), windows, ceil=call.boolean(4))
    return memory_bound_demand(result.dtype, result.elements * (_volume(windows) + 1), (), (result,), parts=read)


def _average_pool_backward(call: OperatorCall, dimensions: int) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    windows = recorded_windows(call, dimensions, 2, 3, 4)
    flops = grad.elements * (_volume(windows) + 1)
    return memory_bound_demand(grad.dtype, flops, (grad,), (Tensor(data.shape, grad.dtype),))


def _max_pool_backward(call: OperatorCall, indices: int) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    return memory_bound_demand(
        grad.dtype, grad.elements, (grad, call.tensor(indices)), (Tensor(data.shape, grad.dtype),)
    )


def _adaptive_windows(data: Tensor, counts: tuple[int, ...]) -> tuple[Tensor, int]:
    """Return the result of a pool to a given size, and how many elements all of its windows have together.

    The windows along a side cover it; where two meet inside of an element, both have it.
    """
    outer, sides = sides_of(data, len(counts))
    if min(counts) < 0 or not all(sides):
        raise NotRecordedError("windows that fit their data")
    along = [side + count - math.gcd(side, count) if count else 0 for side, count in zip(sides, counts, strict=True)]
    return Tensor((*outer, *counts), data.dtype), math.prod(outer) * math.prod(along)


def _output_size(call: OperatorCall, dimensions: int) -> tuple[int, ...]:
    found = call.integers(1)
    if len(found) != dimensions:
        raise NotRecordedError("the size of the result")
    return found


def _adaptive_average_pool(call: OperatorCall, dimensions: int) -> Demand:
    data = call.tensor(0)
    result, summed = _adaptive_windows(data, _output_size(call, dimensions))
    return memory_bound_demand(data.dtype, summed + result.elements, (data,) if result.elements else (), (result,))


def _adaptive_average_pool_backward(call: OperatorCall, dimensions: int) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    _, summed = _adaptive_windows(data, sides_of(grad, dimensions)[1])
    return memory_bound_demand(grad.dtype, summed + grad.elements, (grad,), (Tensor(data.shape, grad.dtype),))


def _adaptive_max_pool(call: OperatorCall, dimensions: int) -> Demand:
    data = call.tensor(0)
    result, compared = _adaptive_windows(data, _output_size(call, dimensions))
    return memory_bound_demand(
        data.dtype, compared, (data,) if result.elements else (), (result, Tensor(result.shape, INDEX_TYPE))
    )


def _im2col(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    windows = recorded_windows(call, 2, 1, 4, 3, 2)
    outer, sides = sides_of(data, 2)
    counts = tuple(window.count(side) for window, side in zip(windows, sides, strict=True))
    result = Tensor((*outer, _volume(windows), *counts), data.dtype)
    read = partial_bytes(data, math.prod(outer) * touched_elements(windows, sides, counts))
    return memory_bound_demand(data.dtype, 0, (), (result,), parts=read)


def _col2im(call: OperatorCall) -> Demand:
    data, sides = call.tensor(0), _output_size(call, 2)
    windows = recorded_windows(call, 2, 2, 5, 4, 3)
    counts = tuple(window.count(side) for window, side in zip(windows, sides, strict=True))
    if min(sides) < 0 or data.elements % max(1, _volume(windows) * math.prod(counts)):
        raise NotRecordedError("windows that fit their data")
    outer = data.elements // (_volume(windows) * math.prod(counts))
    inside = math.prod(window.inside(*one) for window, *one in zip(windows, sides, counts, strict=True))
    summed = outer * _volume(windows) * inside
    # Only what lies in the padding is not read.
    read = partial_bytes(data, summed if any(window.padding for window in windows) else data.elements)
    return memory_bound_demand(data.dtype, data.elements, (), (Tensor((outer, *sides), data.dtype),), parts=read)


def _with_number(count: Callable[..., Demand], number: int) -> Callable[[OperatorCall], Demand]:
    return partial(count, **{"indices" if count is _max_pool_backward else "dimensions": number})


POOLING_BYTES = "what the windows touch of the data + result"
POOLING_GRADIENT_BYTES = "gradient + data's gradient"

POOLING = (
    CostModel(
        ("aten::max_pool2d_with_indices",), "results · window", POOLING_BYTES + " + indices", _with_number(_max_pool,
        2),
    ),
    CostModel(
        ("aten::max_pool3d_with_indices",), "results · window", POOLING_BYTES + " + indices", _with_number(_max_pool,
        3),
    ),
    CostModel(
        ("aten::max_pool2d_with_indices_backward", "aten::max_pool3d_with_indices_backward"), "results",
        POOLING_GRADIENT_BYTES + " + indices", _with_number(_max_pool_backward, 7),
    ),
    CostModel(("aten::avg_pool2d",), "results · (window + 1)", POOLING_BYTES, _with_number(_average_pool, 2)),
    CostModel(("aten::avg_pool3d",), "results · (window + 1)", POOLING_BYTES, _with_number(_average_pool, 3)),
    CostModel(
        ("aten::avg_pool2d_backward",), "results · (window + 1)", POOLING_GRADIENT_BYTES,
        _with_number(_average_pool_backward, 2),
    ),
    CostModel(
        ("aten::avg_pool3d_backward",), "results · (window + 1)", POOLING_GRADIENT_BYTES,
        _with_number(_average_pool_backward, 3),
    ),
    CostModel(
        ("aten::_adaptive_avg_pool2d",), "all windows + results", "data + result",
        _with_number(_adaptive_average_pool, 2),
    ),
    CostModel(
        ("aten::_adaptive_avg_pool3d",), "all windows + results", "data + result",
        _with_number(_adaptive_average_pool, 3),
    ),
    CostModel(
        ("aten::_adaptive_avg_pool2d_backward",), "all windows + results", POOLING_GRADIENT_BYTES,
        _with_number(_adaptive_average_pool_backward, 2),
    ),
    CostModel(
        ("aten::_adaptive_avg_pool3d_backward",), "all windows + results", POOLING_GRADIENT_BYTES,
        _with_number(_adaptive_average_pool_backward, 3),
    ),
    CostModel(
        ("aten::adaptive_max_pool2d",), "all windows", "data + result + indices", _with_number(_adaptive_max_pool, 2),
    ),
    CostModel(
        ("aten::adaptive_max_pool3d",), "all windows", "data + result + indices", _with_number(_adaptive_max_pool, 3),
    ),
    CostModel(
        ("aten::adaptive_max_pool2d_backward", "aten::adaptive_max_pool3d_backward"), "results",
        POOLING_GRADIENT_BYTES + " + indices", _with_number(_max_pool_backward, 2),
    ),
    CostModel(("aten::im2col",), "0", POOLING_BYTES, _im2col),
    CostModel(("aten::col2im",), "elements of the windows", "what lies inside of the images + result", _col2im),
)  # fmt: skip
