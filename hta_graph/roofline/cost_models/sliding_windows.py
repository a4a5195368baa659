"""Where windows lie over images: of convolutions, pools and unfolding. How many there are, and what they touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor

__all__ = [
    "SlidingWindow",
    "filter_windows",
    "per_dimension",
    "recorded_windows",
    "shape_after",
    "shape_before",
    "sides_of",
    "touched_elements",
    "touched_part",
]  # fmt: skip


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
            raise NotRecordedError("windows that there can be")

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
    """Return the sides of an image over which there are so many windows, as a transposed convolution writes it.

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
