"""The calls of operators that a trace recorded, equal ones once, with what each demands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np

from hta_graph.attribution.graph_kernels import rows_by_graph
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.roofline.cost_models.served_attention import PHASE
from hta_graph.roofline.cost_models.table import demand_of
from hta_graph.roofline.demand import Demand
from hta_graph.roofline.operator_call import NotRecordedError, OperatorCall, operator_call
from hta_graph.trace.event_args import read_arg_texts

NO_MODEL, NOT_RECORDED = "no model", "not recorded"
"""Why it is unknown what a call demands."""

ANNOTATED_OPERATORS = ("::unified_attention", "::unified_attention_with_output")
"""Operators whose work an annotation of the engine says, by the ends of their names."""

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


def recorded_calls(graph: DependencyGraph, operators: Ids, kernels: Ids, replays: Ids) -> RecordedCalls:
    """Read what some operators were given.

    Args:
        graph: their graph; its trace's file must still be there.
        operators: canonical rows, or rows of its captures.
        kernels: for each one the name code of the kernel that took most of its time.
        replays: for each one of a capture the call that launches its replay, around which the step's annotation is.

    Raises:
        TraceError: the file is gone or has changed.
    """
    known: dict[tuple[Any, ...], int] = {}
    number = np.zeros(len(operators), np.int64)
    for of, here, rows in rows_by_graph(graph, operators):
        texts = read_arg_texts(of.trace, INPUTS, rows)
        names = [of.names[code] for code in of.event_table.name[rows].tolist()]
        around = _annotations_around(graph, names, rows if of is graph else replays[here])
        asked = zip(names, kernels[here].tolist(), texts, around, strict=True)
        number[here] = [known.setdefault(one, len(known)) for one in asked]
    calls = [_recorded_call(name, graph.names[kernel], given, said) for name, kernel, given, said in known]
    return RecordedCalls(calls, number)


def _annotations_around(graph: DependencyGraph, names: Sequence[str], rows: Ids) -> list[str]:
    """Return the annotations around rows of operators whose work depends on them; "" for the others."""
    asked = np.flatnonzero(np.array([name.endswith(ANNOTATED_OPERATORS) for name in names], np.bool_))
    found = [""] * len(names)
    if not len(asked):
        return found
    parent = graph.nesting(EventKind.ANNOTATION).parent
    says = np.array([PHASE.search(name) is not None for name in graph.names])[graph.event_table.name]
    innermost = graph.enclosing(rows[asked], EventKind.ANNOTATION)
    for at, row in zip(asked.tolist(), nearest_around(parent, innermost, says).tolist(), strict=True):
        found[at] = graph.name_of(row) if row >= 0 else ""
    return found


def _recorded_call(name: str, kernel: str, given: Sequence[bytes], annotation: str) -> RecordedCall:
    shapes, types, values, strides = map(_decode_text, given)
    call = operator_call(name, shapes, types, values, strides, kernel, annotation)
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
