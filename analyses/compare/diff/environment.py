"""Differences in the environment of two runs: machine, job, precision, shapes, versions, profiler options.

A different GPU, rank or program is a caveat: the difference in length is then not the effect of a change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from analyses.compare.diff.length_comparison import outermost_operators
from analyses.compare.diff.sides import OTHER_RANK
from analyses.declare.columns import Table, text
from analyses.declare.missing_work import missing_work
from analyses.declare.scope import Scope
from hta_graph.attribution.call_paths import STANDALONE_NUMBER
from hta_graph.attribution.graph_kernels import operator_of_activities, rows_by_graph
from hta_graph.base.arrays import distinct
from hta_graph.base.errors import TraceError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints
from hta_graph.paths.gpu_activity import WorkType
from hta_graph.trace.event_args import read_arg_texts
from hta_graph.trace.table import Trace

FACTS_LISTED = 4
"""How many differences of the environment the first line lists."""
VERSIONS = {
    "pytorch_version": "PyTorch",
    "cuda_runtime_version": "CUDA",
    "cuda_driver_version": "CUDA driver",
    "cupti_version": "CUPTI",
    "hip_runtime_version": "HIP",
    "hip_driver_version": "HIP driver",
    "nccl_version": "NCCL",
    "schemaVersion": "trace schema",
}
"""Keys of a trace's header, as the table of the environment names them."""
NOT_RECORDED = "not recorded"
NO_GPU = "no GPU work"
LOST_WORK = "launched work that was not recorded"

LEAST_SHARE = 0.1
"""The share of operators' time from which on different types or shapes are reported."""
LONGEST_SHAPE = 60
"""How many characters of an operator's shapes are shown."""
FLOATING = re.compile(r"(?:c10::)?(float|double|Half|BFloat16|Float8\w*|Float4\w*|complex<\w+>)")
WORDS = {"float": "float32", "double": "float64", "Half": "float16", "BFloat16": "bfloat16"}

Fact = tuple[str, str, str]
"""What differs, control's, test's."""


@dataclass
class Inputs:
    """Time (ns) by floating type, and by operator and shapes; ``time_ns`` is the time of all operators."""

    time_ns: int = 0
    by_type: Counter[str] = field(default_factory=Counter)
    by_shape: Counter[tuple[str, str]] = field(default_factory=Counter)


def inputs_that_differ(control: Scope, test: Scope) -> list[Fact]:
    """Return the floating type of most work, and an operator with other shapes, where the sides differ."""
    return inputs_of_sides(inputs_of(control), inputs_of(test))


def inputs_of_sides(control: Inputs, test: Inputs) -> list[Fact]:
    """Return what differs in the inputs of two runs, which are known."""
    return [*_other_type(control, test), *_other_shapes(control, test)]


def inputs_of(scope: Scope) -> Inputs:
    """Sum up the time of a window's operators by the types and shapes of their inputs."""
    operators, times, whole_ns = _operators_with_times(scope)
    found = Inputs(whole_ns)
    try:
        parts = [
            (of, times[here], rows, read_arg_texts(of.trace, ["Input type", "Input Dims"], rows))
            for of, here, rows in rows_by_graph(scope.graph, operators)
        ]
    except TraceError:  # a graph that was saved lives on without its trace's file
        return found
    # Operators with the same texts have the same inputs: only distinct texts are decoded.
    alike: Counter[tuple[str, bytes, bytes]] = Counter()
    for of, own_times, rows, texts in parts:
        for row, (types_text, shapes_text), time_ns in zip(rows.tolist(), texts, own_times.tolist(), strict=True):
            alike[of.name_of(row), types_text, shapes_text] += time_ns
    for (name, types_text, shapes_text), time_ns in alike.items():
        types, shapes = _decoded(types_text), _decoded(shapes_text)
        if isinstance(types, list) and (floating := _floating_type(types)):
            found.by_type[floating] += time_ns
        if isinstance(shapes, list) and any(shapes):
            found.by_shape[name, str(shapes)] += time_ns
    return found


def _decoded(text: bytes) -> Any:
    return msgspec.json.decode(text) if text else None


def _operators_with_times(scope: Scope) -> tuple[Ints, Ints, int]:
    """Return the operators that launched a window's computation, its time by operator and in total.

    Without GPU work, these are the outermost operators and their CPU time.
    """
    graph = scope.graph
    # Communication has shapes of its own kind.
    work = scope.work.take(scope.work.type == WorkType.COMPUTATION)
    if len(scope.work):
        operators = operator_of_activities(graph, work.row)
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


def _covers_most(known: Counter[Any], side: Inputs) -> bool:
    """Return whether most of a side's time has a known input."""
    return 0 < side.time_ns <= 2 * known.total()


def _other_type(control: Inputs, test: Inputs) -> list[Fact]:
    """Return the type of most work where it differs."""
    if not all(_covers_most(side.by_type, side) for side in (control, test)):
        return []
    was, now = (max(side.by_type, key=lambda kind: (side.by_type[kind], kind)) for side in (control, test))
    # Two types that share the work about equally may swap places between recordings of one program.
    moved = abs(control.by_type[was] / control.by_type.total() - test.by_type[was] / test.by_type.total())
    return [("dtype of most work", was, now)] if was != now and moved >= LEAST_SHARE else []


def _other_shapes(control: Inputs, test: Inputs) -> list[Fact]:
    """Return the operator with most of the time of differing shapes."""
    if not all(_covers_most(side.by_shape, side) for side in (control, test)):
        return []
    sides = (control.by_shape, test.by_shape)
    names = [{name for name, _ in shapes} for shapes in sides]
    common = names[0] & names[1]
    # An operator that only one side has is a change of the program, not of its inputs.
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
    return [(f"input shapes ({name})", *(_cut_middle(text) for text in shown))]  # type: ignore[list-item]


def _cut_middle(text: str) -> str:
    """Keep the beginning and the end of long shapes."""
    half = LONGEST_SHAPE // 2
    return text if len(text) <= LONGEST_SHAPE else f"{text[:half]}…{text[-half:]}"


OPTIONS = ("with_stack", "record_shapes", "profile_memory", "with_flops", "with_modules")
"""Options that the profiler records when they are on; most of them slow the recorded program down."""


ENVIRONMENT = Table(
    text("what", "What is compared."),
    text("control", "Value in the control; null if not recorded.", null=True),
    text("test", "Value in the test; null if not recorded.", null=True),
)


@ENVIRONMENT.returned
def environment(control: Scope, test: Scope) -> pd.DataFrame:
    """List the differences in the environment of two runs, those that affect speed most first."""
    sides = (facts_of_run(control.graph), facts_of_run(test.graph))
    listed = facts_that_differ(*sides, inputs_that_differ(control, test))
    return pd.DataFrame(listed, columns=[*ENVIRONMENT], dtype=object)


def facts_that_differ(
    control: Mapping[str, str | None], test: Mapping[str, str | None], inputs: Sequence[Fact] = ()
) -> list[Fact]:
    """Return the recorded facts that differ, with those of the inputs of operators after the GPUs."""
    rows = [(what, control.get(what), test.get(what)) for what in dict.fromkeys([*control, *test])]
    rows[2:2] = inputs
    return [
        (what, was or NOT_RECORDED, now or NOT_RECORDED) for what, was, now in rows if _is_different(what, was, now)
    ]


def environment_lines(frame: pd.DataFrame) -> list[str]:
    """Return the sentence that lists the differences, if there are any."""
    facts = [(what, was, now) for what, was, now in frame.itertuples(index=False)]
    return [_environment_line(facts)] if facts else []


def _environment_line(facts: Sequence[tuple[str, str, str]]) -> str:
    """List what differs in the environment.

    >>> _environment_line([("GPU", "A100", "V100")])
    'Also different: GPU A100 → V100.'
    """
    listed = [f"{what} {was} → {now}" for what, was, now in facts[:FACTS_LISTED]]
    hidden = len(facts) - FACTS_LISTED
    more = [f"{hidden} more in the environment table"] if hidden > 0 else []
    return f"Also different: {'; '.join([*listed, *more])}."


def _is_different(what: str, was: str | None, now: str | None) -> bool:
    """Return whether a fact differs; what one side does not record does not differ, except for the GPU."""
    return was != now and (bool(was and now) or (what == "GPU" and NO_GPU in (was, now)))


def facts_of_run(graph: DependencyGraph) -> dict[str, str | None]:
    """Return what a trace records about its machine, its job and its profiler."""
    trace = graph.trace
    has_header = bool(trace.settings)
    options = {f"profiler option {key}": _option(trace, key) for key in OPTIONS if has_header}
    return {
        "GPU": _gpus_at_work(graph),
        "GPUs per host": str(len(trace.gpu_names)) if trace.gpu_names else None,
        "world size": None if trace.world_size is None else str(trace.world_size),
        "rank": None if trace.rank is None else str(trace.rank),
        "communication": trace.settings.get("backend"),
        **{words: _version(key, trace.settings.get(key)) for key, words in VERSIONS.items()},
        **options,
        LOST_WORK: lost_work(graph),
    }


def lost_work(graph: DependencyGraph) -> str | None:
    """Say what was launched and not recorded; None where all is."""
    events = graph.event_table
    found = missing_work(graph, int(events.start.min()), int(events.end.max())) if len(events) else []
    return found[0] if found else None


def _option(trace: Trace, key: str) -> str:
    return "off" if trace.settings.get(key, "0") in ("0", "False", "false") else "on"


def _gpus_at_work(graph: DependencyGraph) -> str | None:
    """Name the GPUs whose streams did work, as the header calls them; none where there was no work."""
    events, lanes, names = graph.event_table, graph.lanes, graph.trace.gpu_names
    if not graph.is_gpu.any():
        return NO_GPU
    devices = np.unique(lanes.device[np.unique(events.lane[graph.is_gpu])]).tolist()
    found = {names[device] if 0 <= device < len(names) else "" for device in devices} - {"", "unnamed"}
    return ", ".join(sorted(found or set(names) - {"unnamed"})) or None


def _version(key: str, text: str | None) -> str | None:
    """Write CUDA's and HIP's numbers as versions.

    >>> _version("cuda_runtime_version", "12060"), _version("hip_runtime_version", "60443483")
    ('12.6', '6.4')
    """
    if text is None or not text.isdigit():
        return text
    number = int(text)
    if key.startswith("cuda") and number >= 1_000:
        return f"{number // 1_000}.{number % 1_000 // 10}"
    if key.startswith("hip") and number >= 10_000_000:
        return f"{number // 10_000_000}.{number // 100_000 % 100}"
    return text


LEAST_COMMON = 0.5
"""Versions of one program have 63 to 100% of their operators' time in common, other programs 7 to 49% (rarely 65)."""
OF_ENVIRONMENT: Mapping[str, str] = {"GPU": "on a different GPU", "rank": OTHER_RANK}


def caveats(control: Scope, test: Scope, around: pd.DataFrame) -> list[str]:
    """Return why a difference is more than the effect of a change: a different GPU, rank or program.

    Args:
        control: the window that represents the control.
        test: that of the test.
        around: what differs in the environment.
    """
    said = [words for what, words in OF_ENVIRONMENT.items() if what in set(around["what"])]
    return [*said, "with mostly different operators"] if share_in_common(control, test) < LEAST_COMMON else said


def share_in_common(control: Scope, test: Scope) -> float:
    """Return how much of a side's outermost operators, by time, have names that the other side has, too.

    The smaller one of both sides; numbers in names do not count. 1 where a side has no operators.
    """
    return common_share(operator_times(control), operator_times(test))


def common_share(control: Mapping[str, int], test: Mapping[str, int]) -> float:
    """Return how much of a side's time by name has names that the other side has, too."""
    times = (control, test)
    totals = [sum(own.values()) for own in times]
    if not all(totals):
        return 1.0
    common = times[0].keys() & times[1].keys()
    return min(sum(own[name] for name in common) / total for own, total in zip(times, totals, strict=True))


def operator_times(scope: Scope) -> dict[str, int]:
    """Add up the outermost operators of a scope by name."""
    events, names = scope.graph.event_table, scope.graph.names
    rows = outermost_operators(scope)
    found: dict[str, int] = {}
    for code in distinct(events.name[rows]).tolist():
        own = rows[events.name[rows] == code]
        name = STANDALONE_NUMBER.sub("#", names[code])
        found[name] = found.get(name, 0) + int((events.end[own] - events.start[own]).sum())
    return found
