"""Convolutions forward, plain and transposed.

Each element of the weight meets each place of the output (of the input, if transposed) of each image once, which is a
multiplication and an addition; places where it meets the rim of zeros count as others do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hta_graph.roofline.cost_models.sliding_windows import (
    SlidingWindow,
    filter_windows,
    per_dimension,
    shape_after,
    shape_before,
    touched_part,
)
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand, Unit
from hta_graph.roofline.tensor_types import known_bytes

__all__ = ["CONVOLUTIONS", "CONVOLUTION_FLOPS", "ConvolutionArgs", "convolution", "image_and_weight"]


@dataclass(frozen=True)
class ConvolutionArgs:
    """At which positions an operator has its parameters; ``None`` where it has none.

    ``output_padding`` is what a transposed one writes beyond the last window, ``addend`` a tensor that the result is
    added to.
    """

    stride: int
    padding: int
    dilation: int | None = None
    bias: int | None = None
    output_padding: int | None = None
    groups: int | None = None
    addend: int | None = None

    def windows(self, call: OperatorCall, weight: Tensor) -> list[SlidingWindow]:
        """Return the windows of a call.

        Raises:
            NotRecordedError: its parameters were not recorded.
        """
        dilation = (1,) if self.dilation is None else call.integers(self.dilation)
        return filter_windows(weight, call.integers(self.stride), call.integers(self.padding), dilation)

    def other_inputs(self, call: OperatorCall) -> list[Tensor | None]:
        """Return what is read besides input and weight."""
        return [None if at is None else call.tensor_or_none(at) for at in (self.bias, self.addend)]


def convolution(image: Tensor, weight: Tensor, outside: int, sides: Sequence[int], moved: int | None) -> Demand:
    """Return the work of one convolution, as a product of matrices for each group.

    ``image`` is what the weight's second side goes with: of a convolution the input, of a transposed one the output;
    the other has ``outside`` channels and such ``sides``.

    Raises:
        NotRecordedError: the shapes are not those of a convolution.
    """
    groups = _groups(image, weight, outside)
    rows, window = image.shape[0] * math.prod(sides), math.prod(weight.shape[2:])
    return Demand(
        flops=2 * rows * weight.elements,
        bytes=moved,
        dtype=weight.dtype,
        unit=Unit.MATRIX,
        sizes={"M": rows, "N": outside // groups, "K": weight.shape[1] * window, "groups": groups},
    )


def _groups(image: Tensor, weight: Tensor, outside: int) -> int:
    """Return into how many groups the channels are divided."""
    if len(image.shape) != len(weight.shape) or not weight.shape[1] or weight.shape[0] != outside:
        raise NotRecordedError("shapes that fit each other")
    groups, rest = divmod(image.shape[1], weight.shape[1])
    if rest or not groups or outside % groups:
        raise NotRecordedError("shapes that fit each other")
    return groups


def image_and_weight(call: OperatorCall, left: int, right: int) -> tuple[Tensor, Tensor]:
    """Return two tensors of as many sides: images and channels, and one of a window at least.

    Raises:
        NotRecordedError: they are not.
    """
    found = call.tensor(left), call.tensor(right)
    if not len(found[0].shape) == len(found[1].shape) > 2:
        raise NotRecordedError("shapes that fit each other")
    return found


def _forward(call: OperatorCall, arguments: ConvolutionArgs) -> Demand:
    image, weight = image_and_weight(call, 0, 1)
    windows = arguments.windows(call, weight)
    sides = shape_after(image.shape[2:], windows)
    written = Tensor((image.shape[0], weight.shape[0], *sides), image.dtype)
    moved = known_bytes(touched_part(image, sides, windows), weight, *arguments.other_inputs(call), written)
    return convolution(image, weight, weight.shape[0], sides, moved if image.shape[0] else 0)


def _transposed(call: OperatorCall, arguments: ConvolutionArgs) -> Demand:
    image, weight = image_and_weight(call, 0, 1)
    groups = 1 if arguments.groups is None else call.integer(arguments.groups)
    output_padding = (0,) if arguments.output_padding is None else call.integers(arguments.output_padding)
    if groups < 1 or min(output_padding, default=0) < 0:
        raise NotRecordedError("shapes that fit each other")
    windows = arguments.windows(call, weight)
    sides = shape_before(image.shape[2:], windows, per_dimension(output_padding, len(windows)))
    written = Tensor((image.shape[0], weight.shape[1] * groups, *sides), image.dtype)
    moved = known_bytes(image, weight, *arguments.other_inputs(call), written)
    return convolution(written, weight, image.shape[1], image.shape[2:], moved if image.shape[0] else 0)


def _forward_or_transposed(call: OperatorCall) -> Demand:
    image_and_weight(call, 0, 1)
    transposed = call.boolean(6)
    if transposed is None:
        raise NotRecordedError("whether the convolution is transposed")
    return (_transposed if transposed else _forward)(call, ATEN_CONVOLUTION)


def _forward_model(arguments: ConvolutionArgs, *operators: str) -> CostModel:
    return CostModel(operators, CONVOLUTION_FLOPS, CONVOLUTION_BYTES, partial(_forward, arguments=arguments))


def _transposed_model(arguments: ConvolutionArgs, *operators: str) -> CostModel:
    return CostModel(
        operators, TRANSPOSED_FLOPS, "input + weight + bias + output", partial(_transposed, arguments=arguments)
    )


CONVOLUTION_FLOPS = "2·N·|weight|·places of the output, rim included"
TRANSPOSED_FLOPS = "2·N·|weight|·places of the input"
CONVOLUTION_BYTES = "input as far as windows lie on it + weight + bias + output"
ATEN_CONVOLUTION = ConvolutionArgs(stride=3, padding=4, dilation=5, bias=2, output_padding=7, groups=8)
CONVOLUTIONS = (
    CostModel(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        f"{CONVOLUTION_FLOPS}; transposed: of the input", CONVOLUTION_BYTES, _forward_or_transposed,
    ),
    _forward_model(ConvolutionArgs(padding=2, stride=3, dilation=4), "aten::cudnn_convolution"),
    _forward_model(
        ConvolutionArgs(bias=2, padding=3, stride=4, dilation=5),
        "aten::miopen_convolution", "aten::miopen_depthwise_convolution", "aten::mkldnn_convolution",
    ),
    _forward_model(
        ConvolutionArgs(bias=3, stride=4, padding=5, dilation=6),
        "aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d",
    ),
    _forward_model(
        ConvolutionArgs(bias=3, stride=4, padding=5),
        "aten::thnn_conv2d", "aten::_slow_conv2d_forward", "aten::slow_conv3d", "aten::slow_conv3d_forward",
    ),
    _forward_model(
        ConvolutionArgs(bias=2, stride=3, padding=4, dilation=5),
        "aten::cudnn_convolution_relu", "aten::miopen_convolution_relu",
    ),
    _forward_model(
        ConvolutionArgs(addend=2, bias=4, stride=5, padding=6, dilation=7),
        "aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu",
    ),
    _transposed_model(
        ConvolutionArgs(padding=2, output_padding=3, stride=4, dilation=5, groups=6),
        "aten::cudnn_convolution_transpose",
    ),
    _transposed_model(
        ConvolutionArgs(
            bias=2, padding=3, output_padding=4, stride=5, dilation=6, groups=7,
        ),
        "aten::miopen_convolution_transpose"
    ),
    _transposed_model(
        ConvolutionArgs(bias=3, stride=4, padding=5, output_padding=6, dilation=7),
        "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
    ),
)  # fmt: skip
