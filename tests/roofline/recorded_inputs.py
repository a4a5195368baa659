"""Calls of operators as PyTorch's profiler writes them, in a line; and what each should demand, computed by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hta_graph.roofline.demand import Unit
from hta_graph.roofline.operator_call import OperatorCall, operator_call

__all__ = ["Case", "recorded"]

TENSOR = re.compile(r"(?P<type>[\w:]+(<\w+>)?( int| char)?)\[(?P<shape>[\d, ]*)\](@(?P<strides>[\d,]*))?")


def recorded(name: str, *inputs: str | Sequence[str], kernel: str = "") -> OperatorCall:
    """Return a call with inputs such as ``"float[8, 3]"``, ``"float[4, 2]@0,1"`` (strides), ``"1"``, ``"[1, 1]"``.

    An empty text is an optional input that was not given; several texts are a list of tensors.

    >>> recorded("aten::add", "float[4]", "float[4]", "1").values
    ('', '', '1')
    """
    written = [_written(one) for one in inputs]
    shapes, types, values, strides = (list(column) for column in zip(*written, strict=True)) if written else ([],) * 4
    return operator_call(name, shapes, types, values, strides, kernel)


def _written(one: str | Sequence[str]) -> tuple[object, str, str, object]:
    """Return one input as the profiler writes it: dims, type, value, strides."""
    if not isinstance(one, str):
        members = [_written(member) for member in one]
        return [member[0] for member in members], "TensorList", "", [member[3] for member in members]
    if found := TENSOR.fullmatch(one):
        strides = [int(step) for step in found["strides"].split(",")] if found["strides"] else []
        return [int(side) for side in found["shape"].replace(" ", "").split(",") if side], found["type"], "", strides
    return [], "ScalarList" if one.startswith("[") else "Scalar" if one else "", one, []


@dataclass(frozen=True)
class Case:
    """A call and what it demands, counted by hand: the numbers are written out as products and sums in the test."""

    call: OperatorCall
    flops: int
    bytes: int | None
    dtype: str
    unit: Unit = Unit.VECTOR
    is_least: bool = False
