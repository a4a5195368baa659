"""A call of an operator as the profiler recorded it: shapes, types and values of its inputs, by position."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import repeat
from typing import Any

from hta_graph.trace.element_bytes import element_bytes

__all__ = ["NotRecordedError", "OperatorCall", "Tensor", "operator_call", "total_bytes", "total_elements"]

MAX_ELEMENTS = 1 << 53
"""A larger tensor is taken for a broken number."""
MAX_DIMENSIONS = 64
"""PyTorch's tensors have no more dimensions."""
INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
NON_TENSOR_TYPES = {
    "",
    "Scalar",
    "ScalarList",
    "TensorList",
    "GenericList",
    "Bool",
    "Int",
    "Double",
    "str",
    "Device",
    "None",
}
"""What the profiler writes as type of an input that is not one tensor; an optional one that was not given is empty."""


class NotRecordedError(Exception):
    """What a recording does not say of an operator's inputs, so that nothing is known of its work."""


@dataclass(frozen=True)
class Tensor:
    """A tensor as recorded; ``dtype`` in PyTorch's words without ``c10::``, in lower case, such as ``bfloat16``.

    ``strides`` are those of its dimensions in elements; ``None`` where they were not recorded.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def elements(self) -> int:
        """How many elements its shape has."""
        return math.prod(self.shape)

    @property
    def stored_elements(self) -> int:
        """How many different elements there are in memory: one that is expanded repeats them.

        >>> Tensor((4, 1024), "float", (0, 1)).stored_elements, Tensor((4, 1024), "float").stored_elements
        (1024, 4096)
        """
        if self.strides is None:
            return self.elements
        return math.prod(side for side, stride in zip(self.shape, self.strides, strict=True) if stride or not side)

    @property
    def width(self) -> int:
        """The bytes of an element.

        Raises:
            NotRecordedError: its type is not known.
        """
        if not (width := element_bytes(self.dtype)):
            raise NotRecordedError(f"the size of {self.dtype or 'an unnamed type'}")
        return width

    @property
    def bytes(self) -> int:
        """How much memory it takes.

        Raises:
            NotRecordedError: its type is not known.
        """
        return self.stored_elements * self.width


@dataclass(frozen=True)
class OperatorCall:
    """An operator's name and inputs.

    ``inputs`` has by position a tensor, the tensors of a list, or ``None`` for what is no tensor; ``values`` the texts
    of what is none, as recorded: ``"1"``, ``"[1, 1]"``, ``"True"``; empty where not recorded. ``kernel`` is the name of
    the kernel that most of its time on the GPU is spent in: it may tell types that the inputs do not.
    """

    name: str
    inputs: tuple[Tensor | tuple[Tensor, ...] | None, ...]
    values: tuple[str, ...] = ()
    kernel: str = ""

    def tensor(self, at: int) -> Tensor:
        """Return the tensor at a position.

        Raises:
            NotRecordedError: none was recorded there.
        """
        found = self.tensor_or_none(at)
        if found is None:
            raise NotRecordedError(f"the shape of input {at}")
        return found

    def tensor_or_none(self, at: int) -> Tensor | None:
        """Return the tensor at a position; ``None`` if there is none: an optional one may be left out."""
        found = self.inputs[at] if at < len(self.inputs) else None
        return found if isinstance(found, Tensor) else None

    def tensor_list(self, at: int) -> tuple[Tensor, ...]:
        """Return the tensors of the list at a position.

        Raises:
            NotRecordedError: no list was recorded there.
        """
        found = self.inputs[at] if at < len(self.inputs) else None
        if not isinstance(found, tuple):
            raise NotRecordedError(f"the shapes of list {at}")
        return found

    @cached_property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors that are given singly, in order."""
        return tuple(found for found in self.inputs if isinstance(found, Tensor))

    def text(self, at: int) -> str:
        """Return the value at a position as recorded; empty if it was not, or not given."""
        return self.values[at] if at < len(self.values) else ""

    def integers(self, at: int) -> tuple[int, ...]:
        """Return a list of whole numbers.

        Raises:
            NotRecordedError: it was not recorded.
        """
        inner = self.text(at).strip("[]()").replace(" ", "")
        parts = inner.split(",") if inner else []
        if not self.text(at) or not all(INTEGER.fullmatch(part) for part in parts):
            raise NotRecordedError(f"the value of input {at}")
        return tuple(map(int, parts))

    def integer(self, at: int) -> int:
        """Return a whole number.

        Raises:
            NotRecordedError: it was not recorded.
        """
        found = self.integers(at)
        if len(found) != 1:
            raise NotRecordedError(f"the value of input {at}")
        return found[0]

    def boolean(self, at: int) -> bool | None:
        """Return a boolean; ``None`` where it was not recorded."""
        return {"True": True, "False": False}.get(self.text(at))


def operator_call(
    name: str, shapes: Any, types: Any, values: Any = None, strides: Any = None, kernel: str = ""
) -> OperatorCall:
    """Make a call of what the profiler wrote: ``Input Dims``, ``Input type``, ``Concrete Inputs``, ``Input Strides``.

    What is not as PyTorch writes it counts as not recorded.

    >>> operator_call("aten::mm", [[8, 3], [3, 5]], ["c10::BFloat16", "float"]).inputs
    (Tensor(shape=(8, 3), dtype='bfloat16', strides=None), Tensor(shape=(3, 5), dtype='float', strides=None))
    >>> operator_call("aten::add", [[4], []], ["float", "Scalar"], ["", "1"]).values
    ('', '1')
    """
    if not isinstance(shapes, list) or not isinstance(types, list) or len(shapes) != len(types):
        return OperatorCall(name, (), kernel=kernel)
    steps = strides if isinstance(strides, list) and len(strides) == len(shapes) else [None] * len(shapes)
    inputs = tuple(_decode_input(*one) for one in zip(shapes, types, steps, strict=True))
    has_values = isinstance(values, list) and len(values) == len(shapes)
    return OperatorCall(name, inputs, tuple(map(str, values)) if has_values else (), kernel)


def _decode_input(shape: Any, kind: Any, strides: Any) -> Tensor | tuple[Tensor, ...] | None:
    """Return what one input is; the type of a list's tensors is not recorded."""
    if not isinstance(shape, list) or not isinstance(kind, str):
        return None
    if kind == "TensorList":
        fits = isinstance(strides, list) and len(strides) == len(shape)
        members = [_decode_tensor(*one) for one in zip(shape, repeat(""), strides if fits else repeat(None))]
        return tuple(one for one in members if one is not None) if all(members) and members else None
    return None if kind in NON_TENSOR_TYPES else _decode_tensor(shape, kind, strides)


def _decode_tensor(shape: Any, kind: str, strides: Any) -> Tensor | None:
    """Return a tensor, if its shape is one."""
    if not _are_lengths(shape) or math.prod(shape) > MAX_ELEMENTS:
        return None
    fits = _are_lengths(strides) and len(strides) == len(shape)
    return Tensor(tuple(shape), kind.removeprefix("c10::").lower(), tuple(strides) if fits else None)


def _are_lengths(found: Any) -> bool:
    """Tell whether something is a list of lengths."""
    return (
        isinstance(found, list) and len(found) <= MAX_DIMENSIONS and all(type(one) is int and one >= 0 for one in found)
    )


def total_elements(tensors: Sequence[Tensor]) -> int:
    """Add up the elements of some tensors."""
    return sum(tensor.elements for tensor in tensors)


def total_bytes(*tensors: Tensor | None) -> int:
    """Add up the memory of tensors; one that is not given takes none.

    Raises:
        NotRecordedError: the type of one is not known.
    """
    return sum(tensor.bytes for tensor in tensors if tensor is not None)
