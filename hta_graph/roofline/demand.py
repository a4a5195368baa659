"""What a call of an operator demands at least: arithmetic, and traffic between the GPU and its memory.

A :class:`CostModel` counts the demand of the operators that do the same work. Models of memory-bound operators share
how traffic of whole tensors and of parts of them is counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, total_bytes


class Unit(StrEnum):
    """Which of a GPU's units does the arithmetic."""

    MATRIX = "matrix"
    VECTOR = "vector"


@dataclass(frozen=True)
class Demand:
    """The work of one call.

    ``flops`` counts an addition and a multiplication as two, a comparison or a function such as ``exp`` as one.
    ``bytes`` are read and written at least: each input once, each output once, as if all between stayed on the chip;
    ``None`` where that is not known. ``dtype`` is what is computed in, as :class:`Tensor` names it. ``is_least`` says
    that the arithmetic may be more, since something was not recorded. ``sizes`` are the words' M, N and K.
    """

    flops: int
    bytes: int | None
    dtype: str
    unit: Unit = Unit.VECTOR
    is_least: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def is_product(self) -> bool:
        """Whether it is a product of matrices."""
        return self.unit == Unit.MATRIX


@dataclass(frozen=True)
class CostModel:
    """A row of the table: operators that do the same work, its formulas as text, and the function that counts it.

    The function raises ``NotRecordedError`` where the recording does not say what it needs.
    """

    operators: tuple[str, ...]
    flops: str
    bytes: str
    demand: Callable[[OperatorCall], Demand]


MASK = re.compile(r"[\[(]((?:True|False)(?:, ?(?:True|False))*)[\])]")


def memory_bound_demand(
    dtype: str,
    flops: int,
    read: Iterable[Tensor | None],
    written: Iterable[Tensor | None],
    parts: int = 0,
    *,
    is_least: bool = False,
) -> Demand:
    """Return the work of a call that reads and writes some whole tensors once, and ``parts`` bytes of others.

    Raises:
        NotRecordedError: the type of one is not known.
    """
    return Demand(flops, total_bytes(*read, *written) + parts, dtype, is_least=is_least)


def partial_bytes(tensor: Tensor, elements: int) -> int:
    """Return the memory of ``count`` elements of a tensor, which has no more than it stores.

    Raises:
        NotRecordedError: its type is not known.
    """
    return min(elements, tensor.stored_elements) * tensor.width


def accumulation_type(dtype: str) -> str:
    """Return the type in which sums over elements of a type are kept on a GPU."""
    return "double" if dtype == "double" else "float"


def dimension(call: OperatorCall, at: int, shape: Sequence[int]) -> int:
    """Return the dimension of a shape that the value at a position names, negative ones counted from the end.

    Raises:
        NotRecordedError: it was not recorded, or the shape has no such dimension.
    """
    found = call.integer(at)
    if not -len(shape) <= found < len(shape):
        raise NotRecordedError("a dimension that the shape has")
    return found % len(shape)


def output_mask(call: OperatorCall, at: int, count: int) -> tuple[bool, ...]:
    """Return which of a number of results were requested, such as the gradients of a backward operator.

    Raises:
        NotRecordedError: it was not recorded.
    """
    found = MASK.fullmatch(call.text(at))
    mask = tuple(part.strip() == "True" for part in found[1].split(",")) if found else ()
    if len(mask) != count:
        raise NotRecordedError("which results were requested")
    return mask
