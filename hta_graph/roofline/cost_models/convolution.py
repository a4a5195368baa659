"""Convolutions, pools and unfolding: windows that slide over images, forward and backward.

Each element of a convolution's weight meets each place of the output (of the input, if transposed) of each image once,
which is a multiplication and an addition; places where it meets the rim of zeros count as others do. Backward, the
gradients of input and weight are a convolution's work each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hta_graph.roofline.demand import CostModel, Demand, Unit, memory_bound_demand, partial_bytes
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, known_bytes


@dataclass(frozen=True)
class SlidingWindow:
    """The windows along one side: their size, their distance, the rim around; ``dilation`` is that of two elements."""

    # side      . . a b c d e f g . .      padding 2
    # windows   [a   b   c]                size 3, dilation 2: span 5
    #                 [        ]           stride 3
    size: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def __post_init__(self) -> None:
        if min(self.size, self.stride, self.dilation) < 1 or self.padding < 0:
            raise NotRecordedError("windows that are possible")

    @property
    def span(self) -> int:
        """From a window's first element to its last, both counted."""
        return self.dilation * (self.size - 1) + 1

    def count(self, side: int, *, ceil: bool = False) -> int:
        """Return how many windows a side has; with ``ceil`` also one that begins inside and ends beyond.

        >>> SlidingWindow(3, 2).count(8), SlidingWindow(3, 2).count(8, ceil=True)
        (3, 4)

        Raises:
            NotRecordedError: the side is too short for any.
        """
        room = side + 2 * self.padding - self.span
        if room < 0:
            raise NotRecordedError("windows that fit their data")
        found = (room + (self.stride - 1) * ceil) // self.stride + 1
        return found - (ceil and (found - 1) * self.stride >= side + self.padding)

    def touched(self, side: int, count: int) -> int:
        """Return how many elements of a side at least are in one of its first windows.

        >>> SlidingWindow(3, 2).touched(8, 3), SlidingWindow(1, 2).touched(8, 4), SlidingWindow(2, 3).touched(8, 3)
        (7, 4, 6)
        """
        reached = min(side, (count - 1) * self.stride - self.padding + self.span)
        # Without gaps inside of windows or between them all up to the last one is touched.
        if count and (self.stride <= self.size if self.dilation == 1 else self.stride == 1 and count >= self.dilation):
            return max(0, reached)
        if self.dilation == 1 and self.padding < self.stride:
            beyond = (count - 1) * self.stride - self.padding + self.size - side
            outside = min(self.padding, self.size) + max(0, min(self.size, beyond))
            return max(0, count * self.size - outside)
        return self._at_one_place(side, count)

    def _at_one_place(self, side: int, count: int) -> int:
        """Return how many windows have the first element that lies inside of the first window in the side."""
        place = -(-self.padding // self.dilation)
        first = place * self.dilation - self.padding
        inside = -(-(side - first) // self.stride)
        return max(0, min(count, inside)) if place < self.size else 0

    def inside(self, side: int, count: int) -> int:
        """Return how many of the first windows lie wholly in a side."""
        first = -(-self.padding // self.stride)
        last = (side - self.span + self.padding) // self.stride
        return max(0, min(last, count - 1) - first + 1)


def shape_after(sides: Sequence[int], windows: Sequence[SlidingWindow]) -> tuple[int, ...]:
    """Return how many windows there are along each side.

    >>> shape_after((224, 224), [SlidingWindow(7, stride=2, padding=3)] * 2)
    (112, 112)

    Raises:
        NotRecordedError: one does not hold any.
    """
    return tuple(one.count(side) for side, one in zip(sides, windows, strict=True))


def shape_before(
    sides: Sequence[int], windows: Sequence[SlidingWindow], output_padding: Sequence[int]
) -> tuple[int, ...]:
    """Return the sides of an image over which there are the given windows, as a transposed convolution writes it.

    ``output_padding`` is what was asked for beyond the last window.

    Raises:
        NotRecordedError: nothing would be left inside the rim.
    """
    found = tuple(
        (side - 1) * one.stride - 2 * one.padding + one.span + more
        for side, one, more in zip(sides, windows, output_padding, strict=True)
    )
    if min(found, default=0) < 0:
        raise NotRecordedError("shapes that fit each other")
    return found


def touched_elements(windows: Sequence[SlidingWindow], sides: Sequence[int], counts: Sequence[int]) -> int:
    """Return how many elements of an image at least are in a window."""
    return math.prod(one.touched(*sizes) for one, *sizes in zip(windows, sides, counts, strict=True))


def touched_part(image: Tensor, counts: Sequence[int], windows: Sequence[SlidingWindow]) -> Tensor:
    """Return the part of images that lies in a window, at least: windows far apart leave out what is between them."""
    inside = tuple(one.touched(*sizes) for one, *sizes in zip(windows, image.shape[2:], counts, strict=True))
    return Tensor((*image.shape[:2], *inside), image.dtype, image.strides)


def filter_windows(
    weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[SlidingWindow]:
    """Return the windows of a weight; one number for all sides may be given once.

    Raises:
        NotRecordedError: there are not as many numbers as sides.
    """
    sides = weight.shape[2:]
    columns = [per_dimension(given, len(sides)) for given in (stride, padding, dilation)]
    return [SlidingWindow(*one) for one in zip(sides, *columns, strict=True)]


def recorded_windows(
    call: OperatorCall, dimensions: int, size: int, stride: int, padding: int, dilation: int | None = None
) -> list[SlidingWindow]:
    """Return the windows of each dimension from the positions of their values; without a stride it is the size.

    Raises:
        NotRecordedError: they were not recorded, or are none.
    """
    sizes = per_dimension(call.integers(size), dimensions)
    strides = per_dimension(call.integers(stride), dimensions) if call.integers(stride) else sizes
    paddings = per_dimension(call.integers(padding), dimensions)
    dilations = per_dimension(call.integers(dilation) if dilation is not None else (1,), dimensions)
    return [SlidingWindow(*one) for one in zip(sizes, strides, paddings, dilations, strict=True)]


def per_dimension(given: Sequence[int], count: int) -> Sequence[int]:
    """Return a number for each side, where one for all may be given.

    Raises:
        NotRecordedError: there are not as many.
    """
    if len(given) not in {1, count}:
        raise NotRecordedError("a number for each side")
    return given if len(given) == count else tuple(given) * count


def sides_of(data: Tensor, dimensions: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return images and channels of data, and the sides of an image; one image may come without its dimension.

    Raises:
        NotRecordedError: it has other dimensions.
    """
    if len(data.shape) not in (dimensions + 1, dimensions + 2):
        raise NotRecordedError("data with images and channels")
    return data.shape[:-dimensions], data.shape[-dimensions:]


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


CONVOLUTION_FLOPS = "2·N·|weight|·output positions (products with padding count)"
TRANSPOSED_FLOPS = "2·N·|weight|·input positions"
CONVOLUTION_BYTES = "the part of the input that windows cover + weight + bias + output"
ATEN_CONVOLUTION = ConvolutionArgs(stride=3, padding=4, dilation=5, bias=2, output_padding=7, groups=8)
CONVOLUTIONS = (
    CostModel(
        ("aten::convolution", "aten::_convolution", "aten::convolution_overrideable"),
        f"{CONVOLUTION_FLOPS}; transposed: input positions", CONVOLUTION_BYTES, _forward_or_transposed,
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
        """Return whether a call is of a transposed convolution.

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
    """Return the memory of what is read and written for the wanted results; of the image, all and what is read."""
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
        raise NotRecordedError("which gradients are requested")
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
    "the forward's, for each requested gradient of input and weight; for a bias alone: additions"
)
CONVOLUTION_GRADIENT_BYTES = "gradient of the output + the data that each requested gradient reads and writes"
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
        CONVOLUTION_FLOPS, "gradient of the output + the part of the input that windows cover + that of the weight",
        _weight_gradient,
    ),
)  # fmt: skip


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


POOLING_BYTES = "the part of the data that the windows read + result"
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
    CostModel(("aten::col2im",), "elements of the windows", "elements inside the images + result", _col2im),
)  # fmt: skip
