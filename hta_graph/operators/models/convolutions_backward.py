"""Convolutions backward: the gradients of input and weight are a convolution's work each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import partial

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.models.convolutions import PRODUCT, ConvPlaces, convolution, pair
from hta_graph.operators.models.sliding_windows import part_of_images
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor
from hta_graph.operators.tensor_types import known_bytes

__all__ = ["CONVOLUTIONS_BACKWARD"]


@dataclass(frozen=True)
class Backward:
    """At which positions an operator has the output's gradient and the input, and which gradients are asked for.

    The weight is third in all. Where ``transposed`` is ``None``, none is.
    """

    asked: int
    places: ConvPlaces
    grad: int = 0
    image: int = 1
    transposed: int | None = None

    def is_transposed(self, call: OperatorCall) -> bool:
        """Tell whether a call is of a transposed convolution.

        Raises:
            NotToldError: it was not recorded.
        """
        found = False if self.transposed is None else call.switch(self.transposed)
        if found is None:
            raise NotToldError("whether the convolution is transposed")
        return found


def _backward(call: OperatorCall, at: Backward) -> Demand:
    grad, image = pair(call, at.grad, at.image)
    weight, asked, transposed = call.tensor(2), _asked(call, at.asked), at.is_transposed(call)
    if grad.shape[0] != image.shape[0]:
        raise NotToldError("shapes that fit each other")
    wide, narrow = (grad, image) if transposed else (image, grad)
    once = convolution(wide, weight, narrow.shape[1], narrow.shape[2:], None)
    read = image if transposed else part_of_images(image, grad.shape[2:], at.places.windows(call, weight))
    moved = _moved(grad, (image, read), weight, asked)
    if any(asked[:2]):
        return replace(once, flops=once.flops * sum(asked[:2]), bytes=moved)
    return Demand(grad.elements if asked[2] else 0, moved, grad.dtype)


def _moved(grad: Tensor, image: tuple[Tensor, Tensor], weight: Tensor, asked: tuple[bool, bool, bool]) -> int | None:
    """Return the memory of what is read and written for what is asked; of the image, all and what is read of it."""
    parts: list[Tensor] = [grad] if any(asked) else []
    if asked[0]:
        parts += [weight, _written(image[0])]
    if asked[1]:
        parts += [image[1], _written(weight)]
    if asked[2]:
        parts += [Tensor((grad.shape[1],), grad.dtype)]
    return known_bytes(*parts)


def _written(tensor: Tensor) -> Tensor:
    """Return the gradient of a tensor as it is written: nothing of it is repeated."""
    return Tensor(tensor.shape, tensor.dtype)


def _asked(call: OperatorCall, at: int) -> tuple[bool, bool, bool]:
    """Return which gradients are asked for: of input, weight and bias; not of a bias where there are two."""
    words = call.text(at).strip("[]").replace(" ", "").split(",")
    if len(words) not in {2, 3} or not set(words) <= {"True", "False"}:
        raise NotToldError("which gradients are asked for")
    of_input, of_weight, of_bias = (word == "True" for word in [*words, "False"][:3])
    return of_input, of_weight, of_bias


def _for_input(call: OperatorCall) -> Demand:
    grad, weight = pair(call, 1, 2)
    if weight.shape[0] != grad.shape[1]:
        raise NotToldError("shapes that fit each other")
    rows = grad.shape[0] * math.prod(grad.shape[2:])
    written = _of_sizes(call, grad)
    moved = known_bytes(grad, weight, written) if written else None
    return Demand(2 * rows * weight.elements, moved, weight.dtype, Unit.MATRIX, sizes={"M": rows})


def _for_weight(call: OperatorCall) -> Demand:
    grad, image = pair(call, 1, 2)
    weight = _of_sizes(call, grad)
    if weight is None or grad.shape[0] != image.shape[0]:
        raise NotToldError("the sizes of the weight")
    windows = ConvPlaces(padding=3, stride=4, dilation=5).windows(call, weight)
    moved = known_bytes(grad, part_of_images(image, grad.shape[2:], windows), weight)
    return convolution(image, weight, grad.shape[1], grad.shape[2:], moved)


def _of_sizes(call: OperatorCall, like: Tensor) -> Tensor | None:
    """Return the tensor whose sizes an operator is given first; ``None`` where they were not recorded."""
    try:
        sizes = call.integers(0)
    except NotToldError:
        return None
    return Tensor(sizes, like.dtype) if len(sizes) == len(like.shape) and min(sizes) >= 0 else None


def _back(at: Backward, operator: str) -> Model:
    return Model((operator,), GRADIENTS, MOVED, partial(_backward, at=at))


GRADIENTS = "the forward's, for each gradient of input and weight that is asked for; of a bias alone: additions"
MOVED = "gradient of the output + what each asked for reads and writes"
CONVOLUTIONS_BACKWARD = (
    _back(
        Backward(asked=10, places=ConvPlaces(stride=4, padding=5, dilation=6), transposed=7),
        "aten::convolution_backward",
    ),
    _back(
        Backward(asked=9, places=ConvPlaces(stride=3, padding=4, dilation=5), transposed=6),
        "aten::convolution_backward_overrideable",
    ),
    _back(Backward(asked=6, places=ConvPlaces(stride=4, padding=5)), "aten::_slow_conv2d_backward"),
    _back(
        Backward(asked=10, places=ConvPlaces(padding=3, stride=4, dilation=5), grad=1, image=0),
        "aten::cudnn_convolution_backward",
    ),
    _back(
        Backward(asked=9, places=ConvPlaces(padding=3, stride=4, dilation=5), grad=1, image=0),
        "aten::miopen_convolution_backward",
    ),
    Model(
        ("aten::cudnn_convolution_backward_input", "aten::miopen_convolution_backward_input"),
        PRODUCT, "gradient of the output + weight + that of the input", _for_input,
    ),
    Model(
        ("aten::cudnn_convolution_backward_weight", "aten::miopen_convolution_backward_weight"),
        PRODUCT, "gradient of the output + input as far as windows lie on it + that of the weight", _for_weight,
    ),
)  # fmt: skip
