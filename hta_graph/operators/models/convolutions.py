"""Convolutions forward, plain and transposed.

Each element of the weight meets each place of the output (of the input, if transposed) of each image once, which is a
multiplication and an addition; places where it meets the rim of zeros count as others do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from hta_graph.operators.demand import Demand, Model, Unit
from hta_graph.operators.models.sliding_windows import (
    SlidingWindow,
    filter_windows,
    for_each,
    part_of_images,
    shape_after,
    shape_before,
)
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor
from hta_graph.operators.tensor_types import known_bytes

__all__ = ["CONVOLUTIONS", "PRODUCT", "ConvPlaces", "convolution", "pair"]


@dataclass(frozen=True)
class ConvPlaces:
    """At which positions an operator has its parameters; ``None`` where it has none.

    ``beyond`` is what a transposed one writes beyond the last window, ``added`` a tensor that the result is added to.
    """

    stride: int
    padding: int
    dilation: int | None = None
    bias: int | None = None
    beyond: int | None = None
    groups: int | None = None
    added: int | None = None

    def windows(self, call: OperatorCall, weight: Tensor) -> list[SlidingWindow]:
        """Return the windows of a call.

        Raises:
            NotToldError: its parameters were not recorded.
        """
        dilation = (1,) if self.dilation is None else call.integers(self.dilation)
        return filter_windows(weight, call.integers(self.stride), call.integers(self.padding), dilation)

    def besides(self, call: OperatorCall) -> list[Tensor | None]:
        """Return what is read besides input and weight."""
        return [None if at is None else call.tensor_or_none(at) for at in (self.bias, self.added)]


def convolution(image: Tensor, weight: Tensor, outside: int, sides: Sequence[int], moved: int | None) -> Demand:
    """Return the work of one convolution, as a product of matrices for each group.

    ``image`` is what the weight's second side goes with: of a convolution the input, of a transposed one the output;
    the other has ``outside`` channels and such ``sides``.

    Raises:
        NotToldError: the shapes are not those of a convolution.
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
        raise NotToldError("shapes that fit each other")
    groups, rest = divmod(image.shape[1], weight.shape[1])
    if rest or not groups or outside % groups:
        raise NotToldError("shapes that fit each other")
    return groups


def pair(call: OperatorCall, left: int, right: int) -> tuple[Tensor, Tensor]:
    """Return two tensors of as many sides: images and channels, and one of a window at least.

    Raises:
        NotToldError: they are not.
    """
    found = call.tensor(left), call.tensor(right)
    if not len(found[0].shape) == len(found[1].shape) > 2:
        raise NotToldError("shapes that fit each other")
    return found


def _forward(call: OperatorCall, places: ConvPlaces) -> Demand:
    image, weight = pair(call, 0, 1)
    windows = places.windows(call, weight)
    sides = shape_after(image.shape[2:], windows)
    written = Tensor((image.shape[0], weight.shape[0], *sides), image.dtype)
    moved = known_bytes(part_of_images(image, sides, windows), weight, *places.besides(call), written)
    return convolution(image, weight, weight.shape[0], sides, moved if image.shape[0] else 0)


def _transposed(call: OperatorCall, places: ConvPlaces) -> Demand:
    image, weight = pair(call, 0, 1)
    groups = 1 if places.groups is None else call.integer(places.groups)
    beyond = (0,) if places.beyond is None else call.integers(places.beyond)
    if groups < 1 or min(beyond, default=0) < 0:
        raise NotToldError("shapes that fit each other")
    windows = places.windows(call, weight)
    sides = shape_before(image.shape[2:], windows, for_each(beyond, len(windows)))
    written = Tensor((image.shape[0], weight.shape[1] * groups, *sides), image.dtype)
    moved = known_bytes(image, weight, *places.besides(call), written)
    return convolution(written, weight, image.shape[1], image.shape[2:], moved if image.shape[0] else 0)


def _either(call: OperatorCall) -> Demand:
    pair(call, 0, 1)
    transposed = call.switch(6)
    if transposed is None:
        raise NotToldError("whether the convolution is transposed")
    return (_transposed if transposed else _forward)(call, EITHER)


def _ahead(places: ConvPlaces, *operators: str) -> Model:
    return Model(operators, PRODUCT, INPUT, partial(_forward, places=places))


def _opposite(places: ConvPlaces, *operators: str) -> Model:
    return Model(operators, TRANSPOSED, "input + weight + bias + output", partial(_transposed, places=places))


PRODUCT = "2·N·|weight|·places of the output, rim included"
TRANSPOSED = "2·N·|weight|·places of the input"
INPUT = "input as far as windows lie on it + weight + bias + output"
EITHER = ConvPlaces(stride=3, padding=4, dilation=5, bias=2, beyond=7, groups=8)
CONVOLUTIONS = (
    Model(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        f"{PRODUCT}; transposed: of the input", INPUT, _either,
    ),
    _ahead(ConvPlaces(padding=2, stride=3, dilation=4), "aten::cudnn_convolution"),
    _ahead(
        ConvPlaces(bias=2, padding=3, stride=4, dilation=5),
        "aten::miopen_convolution", "aten::miopen_depthwise_convolution", "aten::mkldnn_convolution",
    ),
    _ahead(
        ConvPlaces(bias=3, stride=4, padding=5, dilation=6),
        "aten::_conv_depthwise2d", "aten::conv_depthwise3d", "aten::slow_conv_dilated2d", "aten::slow_conv_dilated3d",
    ),
    _ahead(
        ConvPlaces(bias=3, stride=4, padding=5),
        "aten::thnn_conv2d", "aten::_slow_conv2d_forward", "aten::slow_conv3d", "aten::slow_conv3d_forward",
    ),
    _ahead(
        ConvPlaces(bias=2, stride=3, padding=4, dilation=5),
        "aten::cudnn_convolution_relu", "aten::miopen_convolution_relu",
    ),
    _ahead(
        ConvPlaces(added=2, bias=4, stride=5, padding=6, dilation=7),
        "aten::cudnn_convolution_add_relu", "aten::miopen_convolution_add_relu",
    ),
    _opposite(ConvPlaces(padding=2, beyond=3, stride=4, dilation=5, groups=6), "aten::cudnn_convolution_transpose"),
    _opposite(
        ConvPlaces(bias=2, padding=3, beyond=4, stride=5, dilation=6, groups=7), "aten::miopen_convolution_transpose"
    ),
    _opposite(
        ConvPlaces(bias=3, stride=4, padding=5, beyond=6, dilation=7),
        "aten::slow_conv_transpose2d", "aten::slow_conv_transpose3d",
    ),
)  # fmt: skip
