"""Where the windows of a pool or an unfolding lie along each dimension: how many they are, and what they touch."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor

__all__ = ["PoolWindow", "read_through", "recorded_windows", "sides_of"]


@dataclass(frozen=True)
class PoolWindow:
    """The windows along one dimension; the ``dilation`` is the distance of two elements of a window."""

    size: int
    stride: int
    padding: int = 0
    dilation: int = 1

    @property
    def span(self) -> int:
        """From a window's first element to behind its last."""
        return self.dilation * (self.size - 1) + 1

    def count(self, side: int, *, ceil: bool = False) -> int:
        """Return how many windows a side has; with ``ceil`` also one that begins inside and ends beyond.

        >>> PoolWindow(3, 2).count(8), PoolWindow(3, 2).count(8, ceil=True)
        (3, 4)

        Raises:
            NotToldError: the side is too short for any.
        """
        room = side + 2 * self.padding - self.span
        if room < 0:
            raise NotToldError("windows that fit their data")
        found = (room + (self.stride - 1) * ceil) // self.stride + 1
        return found - (ceil and (found - 1) * self.stride >= side + self.padding)

    def touched(self, side: int, count: int) -> int:
        """Return how many elements of a side at least are in one of its first windows.

        >>> PoolWindow(3, 2).touched(8, 3), PoolWindow(1, 2).touched(8, 4), PoolWindow(2, 3).touched(8, 3)
        (7, 4, 6)
        """
        if self.dilation == 1 and self.stride <= self.size:
            return max(0, min(side, (count - 1) * self.stride - self.padding + self.size))
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


def recorded_windows(
    call: OperatorCall, dimensions: int, size: int, stride: int, padding: int, dilation: int | None = None
) -> tuple[PoolWindow, ...]:
    """Return the windows of each dimension from the positions of their values; without a stride it is the size.

    Raises:
        NotToldError: they were not recorded, or are none.
    """
    sizes = _each(call, size, dimensions)
    strides = _each(call, stride, dimensions) if call.integers(stride) else sizes
    paddings = _each(call, padding, dimensions)
    dilations = _each(call, dilation, dimensions) if dilation is not None else (1,) * dimensions
    if min(*sizes, *strides, *dilations) < 1 or min(paddings) < 0:
        raise NotToldError("windows that fit their data")
    return tuple(PoolWindow(*one) for one in zip(sizes, strides, paddings, dilations, strict=True))


def _each(call: OperatorCall, at: int, dimensions: int) -> tuple[int, ...]:
    """Return a value for each dimension, where one may be meant for all."""
    found = call.integers(at)
    if len(found) == 1:
        return found * dimensions
    if len(found) != dimensions:
        raise NotToldError(f"the value of input {at}")
    return found


def sides_of(data: Tensor, dimensions: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return images and channels of data, and the sides of an image; one image may come without its dimension.

    Raises:
        NotToldError: it has other dimensions.
    """
    if len(data.shape) not in (dimensions + 1, dimensions + 2):
        raise NotToldError("data with images and channels")
    return data.shape[:-dimensions], data.shape[-dimensions:]


def read_through(windows: Sequence[PoolWindow], sides: Sequence[int], counts: Sequence[int]) -> int:
    """Return how many elements of an image at least are in a window."""
    return math.prod(window.touched(*one) for window, *one in zip(windows, sides, counts, strict=True))
