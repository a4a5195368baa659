"""Tensors that are filled or copied: no arithmetic, memory only; how random numbers are made is not counted."""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.roofline.operator_call import OperatorCall, Tensor
from hta_graph.roofline.operators_demand import CostModel, Demand
from hta_graph.roofline.tensor_types import output_bytes, type_of_code

__all__ = ["FILLS_AND_COPIES"]

FILL_OPERATORS = (
    "aten::fill_", "aten::zero_", "aten::uniform_", "aten::normal_", "aten::random_", "aten::exponential_",
    "aten::cauchy_", "aten::log_normal_", "aten::geometric_",
)  # fmt: skip


def _fill(call: OperatorCall) -> Demand:
    filled = call.tensor(0)
    return Demand(0, filled.bytes, filled.dtype)


def _bernoulli(call: OperatorCall) -> Demand:
    """Count the tensor, and that of probabilities where they are not one number."""
    filled, probabilities = call.tensor(0), call.tensor_or_none(1)
    read = probabilities.bytes if probabilities and probabilities.shape else 0
    return Demand(0, filled.bytes + read, filled.dtype)


def _copied(call: OperatorCall, read: Tensor, written: int, dtype: str) -> Demand:
    """Count what is on the GPU: of a copy from or to the host one half is in the host's memory."""
    sides = {"Memcpy HtoD": (0, written), "Memcpy DtoH": (read.bytes, 0)}
    return Demand(0, sum(sides.get(call.kernel[:11], (read.bytes, written))), dtype)


def _copy(call: OperatorCall) -> Demand:
    written, read = call.tensor(0), call.tensor(1)
    return _copied(call, read, written.bytes, written.dtype)


def _clone(call: OperatorCall) -> Demand:
    read = call.tensor(0)
    return _copied(call, read, output_bytes(read.shape, read.dtype), read.dtype)


def _convert(call: OperatorCall) -> Demand:
    """Count a copy in the type that was asked for; without one it keeps its type."""
    read = call.tensor(0)
    kind = type_of_code(call.text(1)) if call.text(1) or not call.values else read.dtype
    return _copied(call, read, output_bytes(read.shape, kind), kind)


def _model(names: tuple[str, ...], text: str, demand: Callable[[OperatorCall], Demand]) -> CostModel:
    return CostModel(names, "none", text, demand)


FILLS_AND_COPIES = (
    _model(FILL_OPERATORS, "what is written", _fill),
    _model(("aten::bernoulli_",), "what is written + probabilities", _bernoulli),
    _model(("aten::copy_",), "source + target; of a copy from or to the host what is on the GPU", _copy),
    _model(("aten::clone", "aten::contiguous"), "input + result", _clone),
    _model(("aten::_to_copy",), "input + result in the type asked for", _convert),
)
