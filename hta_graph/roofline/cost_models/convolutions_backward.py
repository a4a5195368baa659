"""Convolutions backward: the gradients of input and weight are a convolution's work each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from hta_graph.roofline.cost_models.convolutions import (
    CONVOLUTION_FLOPS,
    ConvolutionArgs,
    convolution,
    image_and_weight,
)
from hta_graph.roofline.cost_models.sliding_windows import touched_part
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand, Unit
from hta_graph.roofline.tensor_types import known_bytes

__all__ = ["CONVOLUTIONS_BACKWARD"]


@dataclass(frozen=True)
class BackwardArgs:
    """At which positions an operator has the output's gradient and the input, and which gradients are asked for.

    The weight is third in all. Where ``transposed`` is ``None``, none is.
    """

    output_mask: int
    arguments: ConvolutionArgs
    grad: int = 0
    image: int = 1
    transposed: int | None = None

    def is_transposed(self, call: OperatorCall) -> bool:
        """Tell whether a call is of a transposed convolution.

        Raises:
            NotRecordedError: it was not recorded.
        """
        found = False if self.transposed is None else call.boolean(self.transposed)
        if found is None:
            raise NotRecordedError("whether the convolution is transposed")
        return found


def _convolution_backward(call: OperatorCall, at: BackwardArgs) -> Demand:
    grad, image = image_and_weight(call, at.grad, at.image)
    weight, output_mask, transposed = call.tensor(2), _gradients_asked_for(call, at.output_mask), at.is_transposed(call)
    if grad.shape[0] != image.shape[0]:
        raise NotRecordedError("shapes that fit each other")
    wide, narrow = (grad, image) if transposed else (image, grad)
    once = convolution(wide, weight, narrow.shape[1], narrow.shape[2:], None)
    read = image if transposed else touched_part(image, grad.shape[2:], at.arguments.windows(call, weight))
    moved = _gradient_bytes(grad, (image, read), weight, output_mask)
    if any(output_mask[:2]):
        return replace(once, flops=once.flops * sum(output_mask[:2]), bytes=moved)
    return Demand(grad.elements if output_mask[2] else 0, moved, grad.dtype)


def _gradient_bytes(
    grad: Tensor, image: tuple[Tensor, Tensor], weight: Tensor, output_mask: tuple[bool, bool, bool]
) -> int | None:
    """Return the memory of what is read and written for what is asked; of the image, all and what is read of it."""
    parts: list[Tensor] = [grad] if any(output_mask) else []
    if output_mask[0]:
        parts += [weight, _gradient_of(image[0])]
    if output_mask[1]:
        parts += [image[1], _gradient_of(weight)]
    if output_mask[2]:
        parts += [Tensor((grad.shape[1],), grad.dtype)]
    return known_bytes(*parts)


def _gradient_of(tensor: Tensor) -> Tensor:
    """Return the gradient of a tensor as it is written: nothing of it is repeated."""
    return Tensor(tensor.shape, tensor.dtype)


def _gradients_asked_for(call: OperatorCall, at: int) -> tuple[bool, bool, bool]:
    """Return which gradients are asked for: of input, weight and bias; not of a bias where there are two."""
    words = call.text(at).strip("[]").replace(" ", "").split(",")
    if len(words) not in {2, 3} or not set(words) <= {"True", "False"}:
        raise NotRecordedError("which gradients are asked for")
    of_input, of_weight, of_bias = (word == "True" for word in [*words, "False"][:3])
    return of_input, of_weight, of_bias


def _input_gradient(call: OperatorCall) -> Demand:
    grad, weight = image_and_weight(call, 1, 2)
    if weight.shape[0] != grad.shape[1]:
        raise NotRecordedError("shapes that fit each other")
    rows = grad.shape[0] * math.prod(grad.shape[2:])
    written = _tensor_of_sizes(call, grad)
    moved = known_bytes(grad, weight, written) if written else None
    return Demand(2 * rows * weight.elements, moved, weight.dtype, Unit.MATRIX, sizes={"M": rows})


def _weight_gradient(call: OperatorCall) -> Demand:
    grad, image = image_and_weight(call, 1, 2)
    weight = _tensor_of_sizes(call, grad)
    if weight is None or grad.shape[0] != image.shape[0]:
        raise NotRecordedError("the sizes of the weight")
    windows = ConvolutionArgs(padding=3, stride=4, dilation=5).windows(call, weight)
    moved = known_bytes(grad, touched_part(image, grad.shape[2:], windows), weight)
    return convolution(image, weight, grad.shape[1], grad.shape[2:], moved)


def _tensor_of_sizes(call: OperatorCall, like: Tensor) -> Tensor | None:
    """Return the tensor whose sizes an operator is given first; ``None`` where they were not recorded."""
    try:
        sizes = call.integers(0)
    except NotRecordedError:
        return None
    return Tensor(sizes, like.dtype) if len(sizes) == len(like.shape) and min(sizes) >= 0 else None


def _backward_model(at: BackwardArgs, operator: str) -> CostModel:
    return CostModel(
        (operator,), CONVOLUTION_GRADIENT_FLOPS, CONVOLUTION_GRADIENT_BYTES, partial(_convolution_backward, at=at)
    )


CONVOLUTION_GRADIENT_FLOPS = (
    "the forward's, for each gradient of input and weight that is asked for; of a bias alone: additions"
)
CONVOLUTION_GRADIENT_BYTES = "gradient of the output + what each asked for reads and writes"
CONVOLUTIONS_BACKWARD = (
    _backward_model(
        BackwardArgs(output_mask=10, arguments=ConvolutionArgs(stride=4, padding=5, dilation=6), transposed=7),
        "aten::convolution_backward",
    ),
    _backward_model(
        BackwardArgs(output_mask=9, arguments=ConvolutionArgs(stride=3, padding=4, dilation=5), transposed=6),
        "aten::convolution_backward_overrideable",
    ),
    _backward_model(
        BackwardArgs(output_mask=6, arguments=ConvolutionArgs(stride=4, padding=5)), "aten::_slow_conv2d_backward",
    ),
    _backward_model(
        BackwardArgs(output_mask=10, arguments=ConvolutionArgs(padding=3, stride=4, dilation=5), grad=1, image=0),
        "aten::cudnn_convolution_backward",
    ),
    _backward_model(
        BackwardArgs(output_mask=9, arguments=ConvolutionArgs(padding=3, stride=4, dilation=5), grad=1, image=0),
        "aten::miopen_convolution_backward",
    ),
    CostModel(
        ("aten::cudnn_convolution_backward_input", "aten::miopen_convolution_backward_input"),
        CONVOLUTION_FLOPS, "gradient of the output + weight + that of the input", _input_gradient,
    ),
    CostModel(
        ("aten::cudnn_convolution_backward_weight", "aten::miopen_convolution_backward_weight"),
        CONVOLUTION_FLOPS, "gradient of the output + input as far as windows lie on it + that of the weight",
        _weight_gradient,
    ),
)  # fmt: skip
