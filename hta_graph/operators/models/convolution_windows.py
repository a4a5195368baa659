"""The geometry of convolutions: how windows of the weight's size lie over images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hta_graph.operators.operator_call import NotToldError, Tensor

__all__ = ["FilterWindow", "for_each", "shape_after", "shape_before", "touched", "windows_of"]


@dataclass(frozen=True)
class FilterWindow:
    """How windows lie along one side: how long they are, their distance, the rim around, the gaps within."""

    length: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1

    def __post_init__(self) -> None:
        if min(self.length, self.stride, self.dilation) < 1 or self.padding < 0:
            raise NotToldError("a window as convolutions have it")

    @property
    def span(self) -> int:
        """From its first element to its last."""
        return self.dilation * (self.length - 1) + 1


def shape_after(sides: Sequence[int], windows: Sequence[FilterWindow]) -> tuple[int, ...]:
    """Return how many windows there are along each side.

    >>> shape_after((224, 224), [FilterWindow(7, stride=2, padding=3)] * 2)
    (112, 112)

    Raises:
        NotToldError: one does not hold any.
    """
    found = tuple(
        (side + 2 * one.padding - one.span) // one.stride + 1 for side, one in zip(sides, windows, strict=True)
    )
    if min(found, default=0) < 0:
        raise NotToldError("shapes that fit each other")
    return found


def shape_before(sides: Sequence[int], windows: Sequence[FilterWindow], besides: Sequence[int]) -> tuple[int, ...]:
    """Return the sides of an image over which there are so many windows, as a transposed convolution writes it.

    ``besides`` is what was asked for beyond the last window.

    Raises:
        NotToldError: nothing would be left inside the rim.
    """
    found = tuple(
        (side - 1) * one.stride - 2 * one.padding + one.span + more
        for side, one, more in zip(sides, windows, besides, strict=True)
    )
    if min(found, default=0) < 0:
        raise NotToldError("shapes that fit each other")
    return found


def touched(image: Tensor, counts: Sequence[int], windows: Sequence[FilterWindow]) -> Tensor:
    """Return the part of images that lies in a window, at least: windows far apart leave out what is between them."""
    sides = zip(image.shape[2:], counts, windows, strict=True)
    inside = tuple(_touched_side(*one) for one in sides)
    return Tensor((*image.shape[:2], *inside), image.dtype, image.strides)


def _touched_side(side: int, count: int, one: FilterWindow) -> int:
    reached = min(side, (count - 1) * one.stride + one.span - one.padding)
    meet = one.stride <= one.length if one.dilation == 1 else one.stride == 1 and count >= one.dilation
    if count < 1 or meet:
        return max(0, reached) if count else 0
    first, last = -(-one.padding // one.stride), (side + one.padding - one.span) // one.stride
    whole = max(0, min(last, count - 1) - first + 1)
    return min(side, whole * (one.length if one.dilation == 1 else 1))


def windows_of(
    weight: Tensor, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> list[FilterWindow]:
    """Return the windows of a weight; one number for all sides may be given once.

    Raises:
        NotToldError: there are not as many numbers as sides.
    """
    sides = weight.shape[2:]
    columns = [for_each(given, len(sides)) for given in (stride, padding, dilation)]
    return [FilterWindow(*one) for one in zip(sides, *columns, strict=True)]


def for_each(given: Sequence[int], count: int) -> Sequence[int]:
    """Return a number for each side, where one for all may be given.

    Raises:
        NotToldError: there are not as many.
    """
    if len(given) not in {1, count}:
        raise NotToldError("a number for each side")
    return given if len(given) == count else tuple(given) * count
