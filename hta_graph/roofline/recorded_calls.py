"""The calls of operators that a trace recorded, equal ones once, with what each demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, operator_call
from hta_graph.trace.event_args import read_arg_texts

NO_MODEL, NOT_RECORDED = "no model", "not recorded"
"""Why it is unknown what a call demands."""

INPUTS = ("Input Dims", "Input type", "Concrete Inputs", "Input Strides")


@dataclass(frozen=True)
class RecordedCall:
    """A call, what it demands, and why that is unknown: :data:`NO_MODEL` or :data:`NOT_RECORDED`; empty if known."""

    call: OperatorCall
    demand: Demand | None
    unknown: str = ""
    missing: str = ""


@dataclass(frozen=True)
class RecordedCalls:
    """Different calls, and for each operator in question which one it is."""

    calls: Sequence[RecordedCall]
    number: Ints


def recorded_calls(graph: DependencyGraph, operators: Ids, kernels: Ids) -> RecordedCalls:
    """Read what some operators were given.

    Args:
        graph: their graph; its trace's file must still be there.
        operators: canonical rows.
        kernels: for each one the name code of the kernel that took most of its time.

    Raises:
        TraceError: the file is gone or has changed.
    """
    texts = read_arg_texts(graph.trace, INPUTS, operators)
    names = graph.event_table.name[operators].tolist()
    known: dict[tuple[Any, ...], int] = {}
    number = [known.setdefault(one, len(known)) for one in zip(names, kernels.tolist(), texts, strict=True)]
    calls = [_recorded_call(graph.names[name], graph.names[kernel], given) for name, kernel, given in known]
    return RecordedCalls(calls, np.array(number, np.int64))


def _recorded_call(name: str, kernel: str, given: Sequence[bytes]) -> RecordedCall:
    shapes, types, values, strides = map(_decode_text, given)
    call = operator_call(name, shapes, types, values, strides, kernel)
    try:
        demand = demand_of(call)
    except NotRecordedError as error:
        return RecordedCall(call, None, NOT_RECORDED, str(error))
    return RecordedCall(call, demand, "" if demand else NO_MODEL)


def _decode_text(text: bytes) -> Any:
    """Return what a JSON text says; nothing where there is none."""
    try:
        return msgspec.json.decode(text) if text else None
    except (msgspec.DecodeError, RecursionError):
        return None
