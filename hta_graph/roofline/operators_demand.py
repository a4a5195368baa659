"""What a call of an operator demands at least: arithmetic, and traffic between the GPU and its memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hta_graph.roofline.operator_call import OperatorCall

__all__ = ["CostModel", "Demand", "Unit"]


class Unit(StrEnum):
    """Which of a GPU's units does the arithmetic."""

    MATRIX = "matrix"
    VECTOR = "vector"


@dataclass(frozen=True)
class Demand:
    """The work of one call.

    ``flops`` counts an addition and a multiplication as two, a comparison or a function such as ``exp`` as one.
    ``bytes`` are read and written at least: each input once, each output once, as if all between stayed on the chip;
    ``None`` where that is not known. ``dtype`` is what is computed in, as :class:`Tensor` names it. ``is_least`` tells
    that the arithmetic may be more, since something was not recorded. ``sizes`` are the words' M, N and K.
    """

    flops: int
    bytes: int | None
    dtype: str
    unit: Unit = Unit.VECTOR
    is_least: bool = False
    sizes: Mapping[str, int] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class CostModel:
    """A row of the table: operators that do the same work, its formulas in words, and the function that counts it.

    The function raises ``NotRecordedError`` where the recording does not say what it needs.
    """

    operators: tuple[str, ...]
    flops: str
    bytes: str
    demand: Callable[[OperatorCall], Demand]
