"""What an operation element by element reads, computes and writes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, Tensor, total_bytes
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.roofline.tensor_types import broadcast, magnitude_type, output_bytes, promoted_type, real_type

__all__ = [
    "Pointwise",
    "Result",
    "bytes_read",
    "operands_of",
    "pointwise_demand",
    "pointwise_model",
    "written_bytes",
]


def _bool_type(_: str) -> str:
    return "bool"


class Result(Enum):
    """Which type a result has, of the one that the operands are promoted to."""

    SAME = "same"
    REAL = "real"
    TRUTH = "truth"
    MAGNITUDE = "magnitude"


RESULT_TYPE: dict[Result, Callable[[str], str]] = {
    Result.SAME: str, Result.REAL: real_type, Result.TRUTH: _bool_type, Result.MAGNITUDE: magnitude_type,
}  # fmt: skip


@dataclass(frozen=True)
class Pointwise:
    """A row of the table of operations: ``operators`` without ``aten::``, FLOPs of an element, and what these are.

    ``operands`` are the positions of what is computed with, tensors or numbers. ``factor`` is the position of a number
    that multiplies besides, unless it is one. ``is_least`` tells that an option, which is not recorded, asks for more.
    """

    operators: str
    flops: int
    formula: str
    operands: tuple[int, ...] = (0,)
    result: Result = Result.SAME
    factor: int | None = None
    is_least: bool = False


def pointwise_model(row: Pointwise) -> CostModel:
    """Return the model of a row of the table."""
    names = tuple(f"aten::{name}" for name in row.operators.split())
    count = f"{row.flops} per element" + (", 1 more where scaled" if row.factor is not None else "")
    text = f"{row.formula}: {count}" if row.formula else count
    return CostModel(names, text, "operands + result", lambda call: pointwise_demand(row, call))


def pointwise_demand(row: Pointwise, call: OperatorCall) -> Demand:
    """Return the work of a call of a row's operators.

    Raises:
        NotRecordedError: an operand was not recorded, or its type is not known.
    """
    tensors, numbers = operands_of(call, row.operands)
    shape = broadcast(tensor.shape for tensor in tensors)
    kind = promoted_type(tensors, numbers)
    computed = real_type(kind) if row.result is Result.REAL else kind
    flops, is_least = _flops_of_an_element(row, call)
    return Demand(
        flops=flops * math.prod(shape),
        bytes=bytes_read(call, tensors)
        + written_bytes(call, shape, RESULT_TYPE[row.result](computed), first=row.operands[0], last=max(row.operands)),
        dtype=computed,
        is_least=is_least or computed.startswith("complex"),
    )


def _flops_of_an_element(row: Pointwise, call: OperatorCall) -> tuple[int, bool]:
    """Return how many there are, and whether they may be more."""
    factor = "1" if row.factor is None else call.text(row.factor)
    return row.flops + (factor not in {"", "1", "1.", "1.0"}), row.is_least or not factor


def operands_of(call: OperatorCall, positions: Sequence[int]) -> tuple[list[Tensor], list[str]]:
    """Return what is computed with: the tensors, and the numbers as recorded.

    Raises:
        NotRecordedError: one was not recorded, or none is a tensor.
    """
    found = {at: call.tensor_or_none(at) for at in positions}
    tensors = [tensor for tensor in found.values() if tensor is not None]
    numbers = {at: call.text(at) for at, tensor in found.items() if tensor is None}
    missing = [at for at, number in numbers.items() if at >= len(call.inputs) or (call.values and not number)]
    if missing or not tensors:
        raise NotRecordedError(f"the shape of input {[*missing, *positions][0]}")
    return tensors, list(numbers.values())


def bytes_read(call: OperatorCall, tensors: Sequence[Tensor]) -> int:
    """Return the memory of operands.

    One without dimensions beside others may be a number in the host's memory, so that it counts nothing; that which is
    written in place is on the GPU.
    """
    sure = [tensor for tensor in tensors if tensor.shape] or list(tensors[: len(tensors) == 1 or _is_in_place(call)])
    return total_bytes(*sure)


def written_bytes(call: OperatorCall, shape: Sequence[int], dtype: str, *, first: int, last: int) -> int:
    """Return the memory of a result of some shape: that of operand ``first`` in place, else of an output if given.

    An output that is given stands last, behind operand ``last``; it is made to fit, so that its shape tells nothing.

    Raises:
        NotRecordedError: its type is not known, or it cannot have that shape.
    """
    if _is_in_place(call):
        written = call.tensor(first)
        if written.shape != tuple(shape):
            raise NotRecordedError("shapes that fit each other")
        return written.bytes
    given = call.tensor_or_none(len(call.inputs) - 1) if len(call.inputs) - 1 > last else None
    return output_bytes(shape, given.dtype if given else dtype)


def _is_in_place(call: OperatorCall) -> bool:
    return call.name.endswith("_")
