"""Convolutions: a product of K = input channels of a group × the kernel's sides, for each output element."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor, bytes_of

__all__ = ["CONVOLUTIONS"]


@dataclass(frozen=True)
class Places:
    """Where a convolution's parameters stand among its inputs; ``None``: it has none of that kind."""

    padding: int
    stride: int
    dilation: int
    groups: int | None = None
    transposed: int | None = None
    output_padding: int | None = None
    bias: int | None = None
    is_transposed: bool = False


def _forward(at: Places) -> Callable[[OperatorCall], Demand]:
    def demand(call: OperatorCall) -> Demand:
        given, weight = call.tensor(0), call.tensor(1)
        transposed = at.is_transposed if at.transposed is None else call.switch(at.transposed)
        if transposed is None:
            raise NotToldError("whether it is transposed")
        groups = call.integer(at.groups) if at.groups is not None else 1
        output = _output(call, at, given, weight, transposed=transposed, groups=groups)
        bias = call.tensor_or_none(at.bias) if at.bias is not None else None
        return _counted(given, weight, output, bytes_of(given, weight, bias, output), transposed=transposed)

    return demand


def _counted(
    given: Tensor, weight: Tensor, output: Tensor, moved: int, *, transposed: bool, products: int = 1
) -> Demand:
    """Return the work of some products that all pair each output element with the weights of one filter."""
    # A transposed one is the backward pass of another: each element that is given meets the weights of its filter.
    paired = given.elements if transposed else output.elements
    taps = math.prod(weight.shape[1:])
    sizes = {"M": paired // max(weight.shape[0], 1), "N": weight.shape[0], "K": taps}
    return Demand(2 * products * paired * taps, moved, given.dtype, Unit.MATRIX, sizes=sizes)


def _output(call: OperatorCall, at: Places, given: Tensor, weight: Tensor, *, transposed: bool, groups: int) -> Tensor:
    """Return the shape of the result, from that of the input and the parameters."""
    rank = len(given.shape) - 2
    if rank < 1 or len(weight.shape) != len(given.shape) or groups < 1:
        raise NotToldError("shapes that fit each other")
    padding, stride, dilation = (_sides(call.integers(place), rank) for place in (at.padding, at.stride, at.dilation))
    more = (
        _sides(call.integers(at.output_padding), rank) if transposed and at.output_padding is not None else (0,) * rank
    )
    of_sides = zip(given.shape[2:], weight.shape[2:], padding, stride, dilation, more, strict=True)
    sides = [_side_after(*one, transposed=transposed) for one in of_sides]
    channels = weight.shape[1] * groups if transposed else weight.shape[0]
    return Tensor((given.shape[0], channels, *sides), given.dtype)


def _sides(found: Sequence[int], rank: int) -> Sequence[int]:
    """Return one number per dimension: a single one counts for all."""
    if len(found) not in {1, rank}:
        raise NotToldError("parameters that fit the shapes")
    return found if len(found) == rank else tuple(found) * rank


def _side_after(side: int, taps: int, padding: int, stride: int, dilation: int, more: int, *, transposed: bool) -> int:
    """Return a side of the result."""
    if stride < 1 or dilation < 1 or padding < 0:
        raise NotToldError("parameters that fit the shapes")
    reach = dilation * (taps - 1) + 1
    if transposed:
        return max((side - 1) * stride - 2 * padding + reach + more, 0)
    return max((side + 2 * padding - reach) // stride + 1, 0)


def _backward(call: OperatorCall) -> Demand:
    """Count what the mask asks for: the gradient of the input and that of the weight, a product each."""
    gradient, given, weight = call.tensor(0), call.tensor(1), call.tensor(2)
    transposed, mask = call.switch(7), call.text(10)
    wanted = [word.strip() == "True" for word in mask.strip("[]()").split(",")]
    if transposed is None or len(wanted) != 3:
        raise NotToldError("which gradients are asked for")
    of_input, of_weight, of_bias = wanted
    # Each reads the gradient; that of the weight reads the input, that of the input the weight; each writes its own.
    moved = bytes_of(gradient) + bytes_of(given, weight) * (of_input or of_weight)
    moved += of_input * given.bytes + of_weight * weight.bytes if of_input and of_weight else 0
    bias = gradient.shape[1] * gradient.width if of_bias and len(gradient.shape) > 1 else 0
    found = _counted(given, weight, gradient, moved + bias, transposed=transposed, products=of_input + of_weight)
    return found if of_input or of_weight else Demand(gradient.elements, gradient.bytes + bias, gradient.dtype)


def _older_backward(of_input: bool) -> Callable[[OperatorCall], Demand]:  # noqa: FBT001 - said once, in the table
    """Count one gradient of PyTorch before 1.11, whose own shape is given as a list of numbers."""

    def demand(call: OperatorCall) -> Demand:
        if of_input:
            gradient, weight = call.tensor(1), call.tensor(2)
            given = Tensor(call.integers(0), gradient.dtype)
        else:
            gradient, given = call.tensor(1), call.tensor(2)
            weight = Tensor(call.integers(0), gradient.dtype)
        return _counted(given, weight, gradient, bytes_of(given, weight, gradient), transposed=False)

    return demand


CUDNN = Places(padding=2, stride=3, dilation=4, groups=5)
CUDNN_TRANSPOSED = Places(padding=2, output_padding=3, stride=4, dilation=5, groups=6, is_transposed=True)
MIOPEN = Places(bias=2, padding=3, stride=4, dilation=5, groups=6)
MIOPEN_TRANSPOSED = Places(
    bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7, is_transposed=True
)  # fmt: skip
GENERAL = Places(bias=2, stride=3, padding=4, dilation=5, transposed=6, output_padding=7, groups=8)
RELU = Places(bias=2, stride=3, padding=4, dilation=5, groups=6)
DEPTHWISE = Places(bias=3, stride=4, padding=5, dilation=6)
FORWARD = "2 · output elements · input channels of a group · the kernel's sides"
READ = "input + weight + bias + output"

CONVOLUTIONS = (
    Model(("aten::cudnn_convolution",), FORWARD, READ, _forward(CUDNN)),
    Model(("aten::cudnn_convolution_transpose",), "the same with input elements", READ, _forward(CUDNN_TRANSPOSED)),
    Model(
        ("aten::miopen_convolution", "aten::miopen_depthwise_convolution", "aten::mkldnn_convolution"),
        FORWARD, READ, _forward(MIOPEN),
    ),
    Model(("aten::miopen_convolution_transpose",), "the same with input elements", READ, _forward(MIOPEN_TRANSPOSED)),
    Model(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"), FORWARD, READ, _forward(GENERAL)
    ),
    Model(("aten::cudnn_convolution_relu",), FORWARD, READ, _forward(RELU)),
    Model(("aten::_conv_depthwise2d", "aten::conv_depthwise3d"), FORWARD, READ, _forward(DEPTHWISE)),
    Model(
        ("aten::convolution_backward",), "the forward pass's, for each of the gradients of input and weight",
        "gradient + input + weight + the gradients that are asked for", _backward,
    ),
    Model(("aten::cudnn_convolution_backward_input",), "the forward pass's", READ, _older_backward(of_input=True)),
    Model(("aten::cudnn_convolution_backward_weight",), "the forward pass's", READ, _older_backward(of_input=False)),
)  # fmt: skip
