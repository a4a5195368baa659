"""What models of memory-bound operators share: traffic of whole tensors and of parts of them, and recorded masks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hta_graph.operators.demand import Demand
from hta_graph.operators.operator_call import NotToldError, OperatorCall, Tensor, bytes_of

__all__ = ["accumulated", "dimension", "moving", "part_bytes", "switches"]

MASK = re.compile(r"[\[(]((?:True|False)(?:, ?(?:True|False))*)[\])]")


def moving(
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
        NotToldError: the type of one is not known.
    """
    return Demand(flops, bytes_of(*read, *written) + parts, dtype, is_least=is_least)


def part_bytes(tensor: Tensor, elements: int) -> int:
    """Return the memory of so many elements of a tensor, which has no more than it stores.

    Raises:
        NotToldError: its type is not known.
    """
    return min(elements, tensor.stored) * tensor.width


def accumulated(dtype: str) -> str:
    """Return the type in which sums over elements of a type are kept on a GPU."""
    return "double" if dtype == "double" else "float"


def dimension(call: OperatorCall, at: int, shape: Sequence[int]) -> int:
    """Return the dimension of a shape that the value at a position names, negative ones counted from the end.

    Raises:
        NotToldError: it was not recorded, or the shape has no such dimension.
    """
    found = call.integer(at)
    if not -len(shape) <= found < len(shape):
        raise NotToldError("a dimension that the shape has")
    return found % len(shape)


def switches(call: OperatorCall, at: int, count: int) -> tuple[bool, ...]:
    """Return what of so many things was asked for, such as the gradients of a backward operator.

    Raises:
        NotToldError: it was not recorded.
    """
    found = MASK.fullmatch(call.text(at))
    asked = tuple(part.strip() == "True" for part in found[1].split(",")) if found else ()
    if len(asked) != count:
        raise NotToldError("which results were asked for")
    return asked
