"""Images made larger or smaller: interpolation, padding, sampling at given places; forward and backward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain

from hta_graph.roofline.cost_models.convolution import sides_of
from hta_graph.roofline.demand import CostModel, Demand, memory_bound_demand, output_mask, partial_bytes
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor

NEAREST, LINEAR, CUBIC = "nearest", "linear", "cubic"


def _per_result(kind: str, dimensions: int) -> int:
    """Return the arithmetic for an element: along one side linear takes 3 (w·a + v·b), cubic 7 (four products)."""
    if kind == LINEAR:
        return 3 * ((1 << dimensions) - 1)
    return 7 * sum(4**side for side in range(dimensions)) if kind == CUBIC else 0


def _per_gradient(kind: str, dimensions: int) -> int:
    """Return the arithmetic for a gradient: it is added to a neighbor, or to each with a weight."""
    neighbours = {NEAREST: 1, LINEAR: 2, CUBIC: 4}[kind] ** dimensions
    return 1 if kind == NEAREST else 2 * neighbours


def _overlapping_elements(first: Sequence[int], second: Sequence[int]) -> int:
    """Return how many elements of one image another of other sides needs at least: along each side the fewer."""
    return math.prod(map(min, first, second))


def _not_negative(shape: Sequence[int]) -> tuple[int, ...]:
    if any(side < 0 for side in shape):
        raise NotRecordedError("the size of the result")
    return tuple(shape)


def _interpolated(call: OperatorCall, kind: str, dimensions: int, *, is_least: bool = False) -> Demand:
    data, size = call.tensor(0), _not_negative(call.integers(1))
    outer, sides = sides_of(data, dimensions)
    if len(size) != dimensions:
        raise NotRecordedError("the size of the result")
    result = Tensor((*outer, *size), data.dtype)
    read = partial_bytes(data, math.prod(outer) * _overlapping_elements(sides, size))
    flops = result.elements * _per_result(kind, dimensions)
    return memory_bound_demand(data.dtype, flops, (), (result,), parts=read, is_least=is_least)


def _interpolated_backward(call: OperatorCall, kind: str, dimensions: int, *, is_least: bool = False) -> Demand:
    grad, size = call.tensor(0), _not_negative(call.integers(2))
    outer, sides = sides_of(grad, dimensions)
    if size[:-dimensions] != outer:
        raise NotRecordedError("the size of the result")
    written = partial_bytes(
        Tensor(size, grad.dtype), math.prod(outer) * _overlapping_elements(sides, size[-dimensions:])
    )
    return memory_bound_demand(
        grad.dtype, grad.elements * _per_gradient(kind, dimensions), (grad,), (), written, is_least=is_least
    )


def _padded(call: OperatorCall, data: Tensor, at: int) -> tuple[tuple[int, ...], int]:
    """Return the shape of a padded tensor, and how many elements of the data are in it; a padding may cut off."""
    pads = call.integers(at)
    dimensions = len(pads) // 2
    if len(pads) % 2 or not 0 < dimensions <= len(data.shape):
        raise NotRecordedError("a padding for the last dimensions")
    outer, sides = data.shape[:-dimensions], data.shape[-dimensions:]
    # The last dimension comes first.
    both = [sum(pads[at : at + 2]) for at in range(len(pads) - 2, -1, -2)]
    shape = _not_negative([side + more for side, more in zip(sides, both, strict=True)])
    return (*outer, *shape), math.prod(outer) * _overlapping_elements(sides, shape)


def _pad(call: OperatorCall) -> Demand:
    data = call.tensor(0)
    shape, kept = _padded(call, data, 1)
    # Cut off at one side and padded at the other, fewer may be kept.
    read = partial_bytes(data, 0 if any(pad < 0 for pad in call.integers(1)) else kept)
    return memory_bound_demand(data.dtype, 0, (), (Tensor(shape, data.dtype),), parts=read)


def _pad_backward(call: OperatorCall) -> Demand:
    grad, data = call.tensor(0), call.tensor(1)
    shape, kept = _padded(call, data, 2)
    if shape != grad.shape:
        raise NotRecordedError("shapes that fit each other")
    written = partial_bytes(Tensor(data.shape, grad.dtype), 0 if any(pad < 0 for pad in call.integers(2)) else kept)
    return memory_bound_demand(grad.dtype, grad.elements, (grad,), (), parts=written)


def _sampled_result(data: Tensor, grid: Tensor) -> Tensor:
    """Return the result of taking an image's values at places: one for each of its channels."""
    if len(data.shape) != len(grid.shape) or len(grid.shape) < 3 or grid.shape[-1] != len(data.shape) - 2:
        raise NotRecordedError("shapes that fit each other")
    return Tensor((*data.shape[:2], *grid.shape[1:-1]), data.dtype)


def _kind_of_sampling(call: OperatorCall, at: int) -> str:
    kinds = (LINEAR, NEAREST, CUBIC)
    if not 0 <= (found := call.integer(at)) < len(kinds):
        raise NotRecordedError("how it is interpolated")
    return kinds[found]


def _sampled(call: OperatorCall) -> Demand:
    data, grid = call.tensor(0), call.tensor(1)
    result, kind = _sampled_result(data, grid), _kind_of_sampling(call, 2)
    return memory_bound_demand(data.dtype, result.elements * _per_result(kind, len(data.shape) - 2), (grid,), (result,))


def _linearly_sampled(call: OperatorCall) -> Demand:
    data, grid = call.tensor(0), call.tensor(1)
    result = _sampled_result(data, grid)
    return memory_bound_demand(
        data.dtype, result.elements * _per_result(LINEAR, len(data.shape) - 2), (grid,), (result,)
    )


def _sampled_backward(call: OperatorCall) -> Demand:
    grad, data, grid = call.tensor(0), call.tensor(1), call.tensor(2)
    if _sampled_result(data, grid).shape != grad.shape:
        raise NotRecordedError("shapes that fit each other")
    of_data, _ = output_mask(call, 6, 2)
    flops = grad.elements * _per_gradient(_kind_of_sampling(call, 3), len(data.shape) - 2) * of_data
    # The kernel writes the gradient of the places in any case; its arithmetic is not counted.
    return memory_bound_demand(grad.dtype, flops, (grad, grid), (Tensor(grid.shape, grid.dtype),), is_least=True)


INTERPOLATION_BYTES = "the data, at most as many elements along each side as the result has, + result"
GRADIENT_BYTES = "gradient + the data's gradient, at most as many elements along each side as the gradient has"


def _models(names: Sequence[str], kind: str, dimensions: int, *, is_least: bool = False) -> tuple[CostModel, CostModel]:
    """Return the rows of an interpolation and of its gradient."""
    chosen: dict[str, object] = {"kind": kind, "dimensions": dimensions, "is_least": is_least}
    forward: Callable[[OperatorCall], Demand] = partial(_interpolated, **chosen)  # type: ignore[arg-type]
    backward: Callable[[OperatorCall], Demand] = partial(_interpolated_backward, **chosen)  # type: ignore[arg-type]
    least = " at least" if is_least else ""
    return (
        CostModel(tuple(names), f"{_per_result(kind, dimensions)} · results{least}", INTERPOLATION_BYTES, forward),
        CostModel(
            tuple(f"{name}_backward" for name in names),
            f"{_per_gradient(kind, dimensions)} · gradients{least}",
            GRADIENT_BYTES,
            backward,
        ),
    )


INTERPOLATION = (
    *chain.from_iterable(
        _models((f"aten::upsample_nearest{sides}d", f"aten::_upsample_nearest_exact{sides}d"), NEAREST, sides)
        for sides in (1, 2, 3)
    ),
    *_models(("aten::upsample_linear1d",), LINEAR, 1),
    *_models(("aten::upsample_bilinear2d",), LINEAR, 2),
    *_models(("aten::upsample_trilinear3d",), LINEAR, 3),
    *_models(("aten::upsample_bicubic2d",), CUBIC, 2),
    *_models(("aten::_upsample_bilinear2d_aa",), LINEAR, 2, is_least=True),
    *_models(("aten::_upsample_bicubic2d_aa",), CUBIC, 2, is_least=True),
    CostModel(
        (
            "aten::constant_pad_nd",
            *(f"aten::{kind}_pad{sides}d" for kind in ("reflection", "replication") for sides in (1, 2, 3)),
        ),
        "0", "data + result", _pad,
    ),
    CostModel(
        tuple(f"aten::{kind}_pad{sides}d_backward" for kind in ("reflection", "replication") for sides in (1, 2, 3)),
        "1 · gradients", "gradient + data's gradient", _pad_backward,
    ),
    CostModel(
        ("aten::grid_sampler_2d", "aten::grid_sampler_3d"), "as interpolation at as many results",
        "sampling positions + result; the part of the data that is read is not recorded", _sampled,
    ),
    CostModel(("aten::cudnn_grid_sampler",), "9 · results", "sampling positions + result", _linearly_sampled),
    CostModel(
        ("aten::grid_sampler_2d_backward", "aten::grid_sampler_3d_backward"),
        "at least as interpolation's gradient; the gradient of the sampling positions is not counted",
        "gradient + sampling positions + their gradient; the written part of the data's gradient is not recorded",
        _sampled_backward,
    ),
)  # fmt: skip
