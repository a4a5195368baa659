"""Which types and shapes the operators behind a run's work were given, where the recording tells."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from analyses.diff.outermost_operators import outermost_operators
from analyses.scope import Scope
from hta_graph.activities import WorkType
from hta_graph.errors import TraceError
from hta_graph.model import Ints
from hta_graph.trace.event_args import read_event_args

__all__ = ["inputs_that_differ"]

LEAST_SHARE = 0.1
"""Other types or shapes are said where so much of the time that operators ask for is theirs."""
LONGEST_SHAPE = 60
"""How many characters of an operator's shapes are shown."""
FLOATING = re.compile(r"(?:c10::)?(float|double|Half|BFloat16|Float8\w*|Float4\w*|complex<\w+>)")
WORDS = {"float": "float32", "double": "float64", "Half": "float16", "BFloat16": "bfloat16"}

Fact = tuple[str, str, str]
"""What differs, control's, test's."""


@dataclass
class Inputs:
    """Time (ns) by floating type, and by operator and shapes; ``time_ns`` is all that there was to tell of."""

    time_ns: int = 0
    by_type: Counter[str] = field(default_factory=Counter)
    by_shape: Counter[tuple[str, str]] = field(default_factory=Counter)


def inputs_that_differ(control: Scope, test: Scope) -> list[Fact]:
    """Tell which floating type most work is done in, and an operator with other shapes, where the sides differ."""
    sides = [_inputs_of(scope) for scope in (control, test)]
    return [*_other_type(*sides), *_other_shapes(*sides)]


def _inputs_of(scope: Scope) -> Inputs:
    """Sum up what the operators of a stretch asked for by the types and shapes of their inputs."""
    operators, times, whole_ns = _operators_with_times(scope)
    found = Inputs(whole_ns)
    try:
        details = read_event_args(scope.graph.trace, ["Input type", "Input Dims"], operators)
    except TraceError:  # a graph that was saved lives on without its trace's file
        return found
    names = (scope.graph.name_of(row) for row in operators.tolist())
    columns = zip(names, details["Input type"], details["Input Dims"], times.tolist(), strict=True)
    for name, types, shapes, time_ns in columns:
        if isinstance(types, list) and (floating := _floating_type(types)):
            found.by_type[floating] += time_ns
        if isinstance(shapes, list) and any(shapes):
            found.by_shape[name, str(shapes)] += time_ns
    return found


def _operators_with_times(scope: Scope) -> tuple[Ints, Ints, int]:
    """Return the operators behind a stretch's computation, its time by them and in all; without GPU work the CPU's."""
    graph = scope.graph
    # What ranks send each other has shapes of its own kind.
    work = scope.work.take(scope.work.type == WorkType.COMPUTATION)
    if len(scope.work):
        operators = graph.launching_operator[work.row]
        known = operators >= 0
        rows, place = np.unique(operators[known].astype(np.int64), return_inverse=True)
        times = np.zeros(len(rows), np.int64)
        np.add.at(times, place, (work.end - work.start)[known])
        return rows, times, int((work.end - work.start).sum())
    events = graph.event_table
    rows = outermost_operators(scope).astype(np.int64)
    times = events.end[rows] - events.start[rows]
    return rows, times, int(times.sum())


def _floating_type(types: list[object]) -> str:
    """Return the first floating type of an operator's inputs in PyTorch's words; empty if it has none.

    >>> _floating_type(["long int", "c10::BFloat16", "float"]), _floating_type(["Scalar"])
    ('bfloat16', '')
    """
    matches = (FLOATING.fullmatch(text) for text in types if isinstance(text, str))
    found = next((match[1] for match in matches if match), "")
    return WORDS.get(found, found.lower())


def _tells_enough(told: Counter[Any], side: Inputs) -> bool:
    """Tell whether most of a side's time has a known input."""
    return 0 < side.time_ns <= 2 * told.total()


def _other_type(control: Inputs, test: Inputs) -> list[Fact]:
    """Tell the type of most work where it is another one."""
    if not all(_tells_enough(side.by_type, side) for side in (control, test)):
        return []
    was, now = (max(side.by_type, key=lambda kind: (side.by_type[kind], kind)) for side in (control, test))
    # Two types that share the work about equally may swap places between recordings of one program.
    moved = abs(control.by_type[was] / control.by_type.total() - test.by_type[was] / test.by_type.total())
    return [("type of most work", was, now)] if was != now and moved >= LEAST_SHARE else []


def _other_shapes(control: Inputs, test: Inputs) -> list[Fact]:
    """Tell the operator that most of the differing shapes' time belongs to."""
    if not all(_tells_enough(side.by_shape, side) for side in (control, test)):
        return []
    sides = (control.by_shape, test.by_shape)
    names = [{name for name, _ in shapes} for shapes in sides]
    common = names[0] & names[1]
    # An operator that only one side has is a change of the program, not of what it is given.
    only: list[Counter[tuple[str, str]]] = [
        Counter({key: ns for key, ns in mine.items() if key[0] in common and key not in other})
        for mine, other in ((sides[0], sides[1]), (sides[1], sides[0]))
    ]
    share = min(found.total() / max(shapes.total(), 1) for found, shapes in zip(only, sides, strict=True))
    changed = {name for name, _ in only[0]} & {name for name, _ in only[1]}
    if share < LEAST_SHARE or not changed:
        return []
    by_name = {name: sum(ns for found in only for key, ns in found.items() if key[0] == name) for name in changed}
    name = max(by_name, key=lambda one: (by_name[one], one))
    shown = [max((ns, shape) for (of, shape), ns in found.items() if of == name)[1] for found in only]
    return [(f"shapes such as those of {name}", *(_cut_middle(text) for text in shown))]  # type: ignore[list-item]


def _cut_middle(text: str) -> str:
    """Keep the beginning and the end of long shapes."""
    half = LONGEST_SHAPE // 2
    return text if len(text) <= LONGEST_SHAPE else f"{text[:half]}…{text[-half:]}"
