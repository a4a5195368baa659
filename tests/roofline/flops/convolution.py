"""Convolutions to compare."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry

from tests.roofline.flops.comparison import NO_DEVICE, Comparison, Run, as_recorded, like, meta, part, same, tensor

__all__ = ["backward", "forward"]

aten = torch.ops.aten
F = torch.nn.functional
SIGNATURE = "its formula expects other inputs; asked for the same work by another operator"
GROUPS = "for the gradient of the weight it does not divide by the groups"
BIAS = "the gradient of the bias: additions, which it does not count"


def forward() -> list[Comparison]:
    image, weight = tensor(2, 6, 9, 9), tensor(4, 3, 3, 3)
    plain, small = tensor(2, 3, 9, 9), tensor(2, 4, 5, 5)
    line, cube = tensor(2, 3, 20), tensor(2, 3, 7, 7, 7)
    cubes = tensor(4, 3, 3, 3, 3)
    calls = [
        lambda: F.conv2d(plain, weight),
        lambda: F.conv2d(plain, weight, tensor(4), padding=1),
        lambda: F.conv2d(plain, weight, stride=2, padding=(2, 0)),
        lambda: F.conv2d(plain, weight, dilation=2),
        lambda: F.conv2d(plain, weight, padding="same"),
        lambda: F.conv2d(image, weight, stride=2, padding=1, groups=2),
        lambda: F.conv2d(tensor(2, 8, 10, 10), tensor(8, 1, 5, 5), padding=2, groups=8),
        lambda: F.conv2d(meta(32, 3, 224, 224), meta(64, 3, 7, 7), stride=2, padding=3),
        lambda: F.conv2d(meta(8, 64, 56, 56), meta(128, 64, 1, 1), stride=2),
        lambda: F.conv1d(line, tensor(5, 3, 4), tensor(5), stride=3),
        lambda: F.conv3d(cube, cubes, padding=1, stride=2),
        lambda: F.conv_transpose2d(small, weight),
        lambda: F.conv_transpose2d(small, weight, stride=2, output_padding=1, padding=1),
        lambda: F.conv_transpose2d(small, weight, stride=3, groups=2, dilation=2),
        lambda: F.conv_transpose1d(tensor(2, 4, 9), tensor(4, 3, 5), stride=2),
        lambda: F.conv_transpose3d(tensor(1, 4, 3, 3, 3), cubes, stride=2),
    ]
    return [*(same("aten::convolution", call) for call in calls), *others(), *on_devices()]


def others() -> list[Comparison]:
    plain, weight, small = tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), tensor(2, 4, 5, 5)
    cube, cubes = tensor(2, 3, 9, 9, 9), tensor(4, 3, 3, 3, 3)
    plane, space = [3, 3], [3, 3, 3]
    once, none = [1, 1, 1], [0, 0, 0]
    return [
        same("aten::_convolution", lambda: F.conv2d(plain, weight, padding=1)),
        like("aten::mkldnn_convolution", lambda: F.conv2d(plain, weight), lambda: F.conv2d(plain, weight)),
        like(
            "aten::thnn_conv2d", lambda: aten.thnn_conv2d(plain, weight, plane, None, [2, 2], [1, 1]),
            lambda: F.conv2d(plain, weight, stride=2, padding=1), SIGNATURE,
        ),
        like(
            "aten::_slow_conv2d_forward",
            lambda: aten._slow_conv2d_forward(plain, weight, plane, None, [1, 1], [0, 0]),
            lambda: F.conv2d(plain, weight), SIGNATURE,
        ),
        *(
            like(name, partial(run, cube, cubes, space, None, once, none), lambda: F.conv3d(cube, cubes))
            for name, run in [
                ("aten::slow_conv3d", aten.slow_conv3d), ("aten::slow_conv3d_forward", aten.slow_conv3d_forward)
            ]
        ),
        like(
            "aten::slow_conv_dilated2d",
            lambda: aten.slow_conv_dilated2d(plain, weight, plane, None, [1, 1], [0, 0], [2, 2]),
            lambda: F.conv2d(plain, weight, dilation=2),
        ),
        like(
            "aten::slow_conv_dilated3d",
            lambda: aten.slow_conv_dilated3d(cube, cubes, space, None, once, none, [2, 2, 2]),
            lambda: F.conv3d(cube, cubes, dilation=2),
        ),
        like(
            "aten::slow_conv_transpose2d",
            lambda: aten.slow_conv_transpose2d(small, weight, plane, None, [2, 2], [0, 0], [1, 1], [1, 1]),
            lambda: F.conv_transpose2d(small, weight, stride=2, output_padding=1),
        ),
        like(
            "aten::slow_conv_transpose3d",
            lambda: aten.slow_conv_transpose3d(tensor(1, 4, 3, 3, 3), cubes, space, None, [2, 2, 2], none, none, once),
            lambda: F.conv_transpose3d(tensor(1, 4, 3, 3, 3), cubes, stride=2),
        ),
    ]  # fmt: skip


Named = dict[str, tuple[Any, ...]]
HALVED: tuple[Any, ...] = ([1, 1], [2, 2], [1, 1], 2)
FIRST: tuple[Any, ...] = ([2, 2], [1, 1], [1, 1], 2)
"""Padding, stride, dilation and groups; and the stride first."""


def on_devices() -> list[Comparison]:
    """Return convolutions of which only a GPU has the operator."""
    image, weight, small = meta(2, 6, 9, 9), meta(4, 3, 3, 3), meta(2, 4, 5, 5)
    plain: Named = {
        "aten::miopen_convolution": (None, *HALVED, False, False),
        "aten::cudnn_convolution_relu": (None, *FIRST),
        "aten::miopen_convolution_relu": (None, *FIRST),
        "aten::cudnn_convolution_add_relu": (small, 1, None, *FIRST),
        "aten::miopen_convolution_add_relu": (small, 1, None, *FIRST),
        "aten::convolution_overrideable": (None, *FIRST[:3], False, [0, 0], 2),
    }
    spread: Named = {
        "aten::cudnn_convolution_transpose": ([0, 0], [1, 1], [2, 2], [1, 1], 1, False, False, True),
        "aten::miopen_convolution_transpose": (None, [0, 0], [1, 1], [2, 2], [1, 1], 1, False, False),
    }
    by_channel: Named = {
        "aten::_conv_depthwise2d": ([5, 5], None, [1, 1], [2, 2], [1, 1]),
        "aten::miopen_depthwise_convolution": (None, [2, 2], [1, 1], [1, 1], 8, False, False),
    }
    once = [1, 1, 1]
    return [
        *cudnn(),
        *asked_of(image, weight, plain, {"stride": 2, "padding": 1, "groups": 2}),
        *asked_of(small, weight, spread, {"stride": 2, "output_padding": 1}, F.conv_transpose2d),
        *asked_of(meta(3, 8, 10, 10), meta(8, 1, 5, 5), by_channel, {"padding": 2, "groups": 8}),
        *asked_of(
            meta(1, 2, 4, 4, 4), meta(2, 1, 2, 2, 2),
            {"aten::conv_depthwise3d": ([2, 2, 2], None, once, [0, 0, 0], once)}, {"groups": 2}, F.conv3d,
        ),
    ]  # fmt: skip


def asked_of(
    image: torch.Tensor, weight: torch.Tensor, named: Named, given: dict[str, Any], other: Any = F.conv2d
) -> list[Comparison]:
    """Return operators with the inputs after image and weight, to compare with another of the same work."""
    run = partial(other, image, weight, **given)
    return [
        like(name, as_recorded(name, image, weight, *inputs), run, NO_DEVICE) for name, inputs in named.items()
    ]  # fmt: skip


def cudnn() -> list[Comparison]:
    """Return cuDNN's convolution, of which PyTorch has a formula that reads a switch wrongly."""
    name = "aten::cudnn_convolution"
    image, weight = meta(2, 6, 9, 9), meta(4, 3, 3, 3)
    return [
        cudnn_by_formula((2, 6, 9, 9), (4, 3, 3, 3), HALVED),
        cudnn_by_formula((1, 3, 1008, 1008), (1024, 3, 14, 14), ([0, 0], [14, 14], [1, 1], 1)),
        cudnn_by_formula((10, 512, 7, 7), (512, 512, 3, 3), ([1, 1], [1, 1], [1, 1], 1)),
        Comparison(
            name, as_recorded(name, image, weight, *HALVED, True, False, True),
            lambda: asked_cudnn(image, weight, HALVED, tuned=True), Fraction(5 * 5, 9 * 9),
            "it takes `benchmark` for `transposed`, and counts the places of the input",
        ),
    ]  # fmt: skip


def cudnn_by_formula(sides: tuple[int, ...], kernel: tuple[int, ...], inputs: Sequence[Any]) -> Comparison:
    image, weight = meta(*sides), meta(*kernel)
    call = as_recorded("aten::cudnn_convolution", image, weight, *inputs, False, False, True)
    theirs = partial(asked_cudnn, image, weight, inputs, tuned=False)
    return Comparison("aten::cudnn_convolution", call, theirs, why="needs a GPU; its formula is asked")


def asked_cudnn(image: torch.Tensor, weight: torch.Tensor, inputs: Sequence[Any], *, tuned: bool) -> int:
    """Return what PyTorch's formula for cuDNN's convolution says; ``tuned`` is its switch `benchmark`."""
    padding, stride, dilation, groups = inputs
    out = aten.convolution(image, weight, None, stride, padding, dilation, False, [0, 0], groups)
    return int(flop_registry[aten.cudnn_convolution](image, weight, *inputs, tuned, False, True, out_val=out))


def back(grad: torch.Tensor, image: torch.Tensor, weight: torch.Tensor, *inputs: Any, asked: tuple[bool, ...]) -> Any:
    """Run the way back of a convolution for some of its gradients."""
    return aten.convolution_backward(grad, image, weight, [weight.shape[0]], *inputs, list(asked))


def backward() -> list[Comparison]:
    plane = (tensor(2, 4, 9, 9), tensor(2, 3, 9, 9), tensor(4, 3, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    spread = (tensor(2, 3, 12, 12), tensor(2, 4, 5, 5), tensor(4, 3, 3, 3), [2, 2], [0, 0], [1, 1], True, [1, 1], 1)
    line = (tensor(2, 5, 6), tensor(2, 3, 20), tensor(5, 3, 4), [3], [0], [1], False, [0], 1)
    cubes = (tensor(1, 4, 3, 3, 3), tensor(1, 3, 7, 7, 7), tensor(4, 3, 3, 3, 3), [1] * 3, [0] * 3, [2] * 3, False,
             [0] * 3, 1)  # fmt: skip
    name = "aten::convolution_backward"
    masks = list(product((True, False), repeat=3))
    with_work = [mask for mask in masks if mask != (False, False, True)]
    return [
        *(same(name, partial(back, *plane, asked=mask)) for mask in with_work),
        bias_alone(*plane),
        *(same(name, partial(back, *spread, asked=mask)) for mask in with_work[:6:2]),
        *(same(name, partial(back, *case, asked=mask)) for case in (line, cubes) for mask in with_work[:6:2]),
        *in_groups(),
        *older(),
    ]


def bias_alone(*inputs: Any) -> Comparison:
    run = partial(back, *inputs, asked=(False, False, True))
    return Comparison("aten::convolution_backward", run, lambda: 0, why=BIAS, ours=2 * 4 * 9 * 9)


def in_groups() -> list[Comparison]:
    """Return gradients of a convolution in two groups, of which PyTorch counts that of the weight twice."""
    given = (tensor(2, 4, 5, 5), tensor(2, 6, 9, 9), tensor(4, 3, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 2)
    name = "aten::convolution_backward"
    return [
        same(name, partial(back, *given, asked=(True, False, False))),
        part(name, partial(back, *given, asked=(False, True, False)), Fraction(1, 2), GROUPS),
        part(name, partial(back, *given, asked=(True, True, True)), Fraction(2, 3), GROUPS),
    ]


def older() -> list[Comparison]:
    """Return ways back by other operators than PyTorch's usual one."""
    grad, image, weight = tensor(2, 4, 9, 9), tensor(2, 3, 9, 9), tensor(4, 3, 3, 3)
    given: tuple[Any, ...] = ([1, 1], [1, 1], [1, 1])
    cached = (*given, 1, False, False)
    every, of_image, of_weight = (True, True, True), (True, False, False), (False, True, False)
    named: dict[str, tuple[tuple[bool, ...], tuple[Any, ...]]] = {
        "aten::convolution_backward_overrideable": (
            every, (grad, image, weight, *given, False, [0, 0], 1, list(every))
        ),
        "aten::cudnn_convolution_backward": (every, (image, grad, weight, *cached, True, [True, True])),
        "aten::miopen_convolution_backward": (every, (image, grad, weight, *cached, list(every))),
        "aten::cudnn_convolution_backward_input": (of_image, ([2, 3, 9, 9], grad, weight, *cached, True)),
        "aten::miopen_convolution_backward_input": (of_image, ([2, 3, 9, 9], grad, weight, *cached)),
        "aten::cudnn_convolution_backward_weight": (of_weight, ([4, 3, 3, 3], grad, image, *cached, True)),
        "aten::miopen_convolution_backward_weight": (of_weight, ([4, 3, 3, 3], grad, image, *cached)),
    }  # fmt: skip

    def usual(asked: tuple[bool, ...]) -> Run:
        return partial(back, grad, image, weight, *given, False, [0, 0], 1, asked=asked)

    slow = partial(aten._slow_conv2d_backward.output_mask, grad, image, weight, [3, 3], [1, 1], [1, 1], list(every))
    return [
        like("aten::_slow_conv2d_backward", slow, usual(every)),
        *(
            like(name, as_recorded(name, *inputs), usual(asked), NO_DEVICE)
            for name, (asked, inputs) in named.items()
        ),
    ]  # fmt: skip
