"""hardware-counters: what CUPTI counted, by the operator that launched the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import empty_figure, new_figure
from analyses.scope import Scope, earliest_ns
from hta_graph.graph import DependencyGraph
from hta_graph.model import EventKind, Ids
from hta_graph.trace.profiler_ranges import ProfilerRanges, read_profiler_ranges
from hta_graph.trace.vocabulary import KERNEL_LAUNCH_CALL, PROFILER_RANGE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "counted_ranges", "figure", "hardware_counters", "hta_cupti_counter_data_with_operators"]

KEYS = ("rank", "scope", "event_index", "name", "call_index", "operator", "operator_stack")
COLUMNS = ("rank", "scope", "counter", "operator", "ranges", "value", "value_share")
OPERATORS_SHOWN = 9
SUMMABLE = ".sum"
"""How counters end that may be added up; others are averages and ratios."""


def counted_ranges(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List CUPTI's profiler ranges with the operators that launched their kernels.

    A range says nothing about its launch, and its time is not the kernel's: the k-th range belongs to the k-th call
    that launches a kernel, which holds where both are equally many (the profiler made a range of each kernel). Else the
    ranges are listed without operators.

    Returns:
        rank, scope, event_index, name, call_index of the launch (-1 where unknown), operator (the innermost; empty
        where none is open), operator_stack (names, outermost first), then a column per counter.
    """
    parts = [_ranges(scope) for scope in scopes]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=list(KEYS))


def _ranges(scope: Scope) -> pd.DataFrame:
    trace, ranges = scope.graph.trace, read_profiler_ranges(scope.graph.trace)
    calls = _launches(scope.graph, ranges)
    stacks = _stacks(scope.graph, calls)
    index = trace.events.index
    frame = pd.DataFrame(
        {
            "rank": scope.rank,
            "scope": scope.label,
            "event_index": index[ranges.row],
            "name": [trace.names[code] for code in trace.events.name[ranges.row].tolist()],
            "call_index": np.where(calls >= 0, index[calls], -1) if len(calls) else np.empty(0, np.int32),
            "operator": [stack[-1] if stack else "" for stack in stacks],
            "operator_stack": stacks,
            **ranges.counters,
        }
    )
    return frame[scope.is_open | scope.holds(np.where(calls >= 0, calls, ranges.row))].reset_index(drop=True)


def _launches(graph: DependencyGraph, ranges: ProfilerRanges) -> Ids:
    """Return the call that launched each range's kernel; -1 for all where their numbers differ."""
    events = graph.trace.events
    launches = graph.trace.names_starting_with(KERNEL_LAUNCH_CALL)[events.name] & (events.kind == EventKind.RUNTIME)
    calls = np.flatnonzero(launches).astype(np.int32)
    return calls if len(calls) == len(ranges) else np.full(len(ranges), -1, np.int32)


def _stacks(graph: DependencyGraph, calls: Ids) -> list[list[str]]:
    """Return the names of the operators around each call, outermost first."""
    trace, around = graph.trace, graph.operator_around
    levels = [np.where(calls >= 0, around[calls], -1)] if len(calls) else []
    while levels and (levels[-1] >= 0).any():
        levels.append(np.where(levels[-1] >= 0, around[levels[-1]], -1))
    stacked = np.array(levels[::-1]).T.tolist()
    return [[trace.names[trace.events.name[row]] for row in stack if row >= 0] for stack in stacked]


def hardware_counters(ranges: pd.DataFrame) -> pd.DataFrame:
    """Sum up counters by operator.

    Args:
        ranges: what :func:`counted_ranges` returns.

    Returns:
        rank, scope, counter, operator, ranges (kernels), value: the sum over them and its value_share of all operators
        for counters that end in ``.sum``, else the mean; largest first, operators without any left out.
    """
    counters = [name for name in ranges.columns if name not in KEYS]
    parts = [part for _, part in ranges.groupby(["rank", "scope"], sort=False)]
    rows = [row for part in parts for name in counters for row in _by_operator(part, name)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _by_operator(part: pd.DataFrame, counter: str) -> list[dict[str, Any]]:
    """Return the rows of one counter, largest first."""
    operators, group = np.unique(part["operator"].to_numpy(str), return_inverse=True)
    values = part[counter].to_numpy()
    own = [values[(group == at) & (values == values)] for at in range(len(operators))]  # not NaN
    sums = [item.sum().item() for item in own]
    whole = sum(sums)
    adds_up = counter.endswith(SUMMABLE)
    return [
        {
            "rank": part["rank"].iloc[0],
            "scope": part["scope"].iloc[0],
            "counter": counter,
            "operator": str(operators[at]),
            "ranges": len(own[at]),
            "value": sums[at] if adds_up else sums[at] / len(own[at]),
            "value_share": sums[at] / whole if adds_up else np.nan,
        }
        for at in sorted(range(len(operators)), key=lambda at: (-sums[at], operators[at]))
        if sums[at]
    ]


def answer(scopes: Sequence[Scope]) -> Answer:
    """Answer the command."""
    ranges = counted_ranges(scopes)
    notes = [note for scope in scopes if (note := _missing(scope, ranges))]
    return Answer({"hardware_counters": hardware_counters(ranges)}, notes, {"ranges": ranges})


def _missing(scope: Scope, ranges: pd.DataFrame) -> str:
    own = ranges[(ranges["rank"] == scope.rank) & (ranges["scope"] == scope.label)]
    if own.empty:
        return (
            f"rank {scope.rank}: no {PROFILER_RANGE} rows in {scope.label}; record with experimental_config="
            "_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True)"
        )
    if (own["call_index"] < 0).all():
        return (
            f"rank {scope.rank}: there are not as many profiler ranges as launches of kernels, so that nobody knows "
            "which belong together; record with profiler_measure_per_kernel=True"
        )
    zero = [name for name in own.columns if name not in KEYS and own[name].notna().any() and not own[name].any()]
    return f"rank {scope.rank}: 0 in every range of {scope.label}: {', '.join(zero)}" if zero else ""


def figure(found: Answer) -> Figure:
    """Draw how each counter is shared between the operators."""
    title = "Hardware counters by operator"
    frame = found.main[found.main["value_share"].notna()]
    if frame.empty:
        return empty_figure(title, "no counters that add up were recorded")
    sums = frame.pivot_table(index="operator", columns="counter", values="value", aggfunc="sum", fill_value=0)
    shares = sums / sums.sum()
    shares = shares.loc[shares.sum(axis=1).sort_values(ascending=False).index]
    rest = shares.iloc[OPERATORS_SHOWN:]
    shown = pd.concat([shares.iloc[:OPERATORS_SHOWN], *([rest.sum().to_frame("others").T] if len(rest) else [])])
    made = new_figure(title=title, x="share of the counter")
    for operator, row in shown.iterrows():
        text = f"{operator or '(no operator)'}: %{{x:.1%}}<extra>%{{y}}</extra>"
        made.add_bar(name=str(operator), y=list(shown.columns), x=row.to_numpy(), orientation="h", hovertemplate=text)
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(tickformat=".0%", range=[0, 1])
    return made


def hta_cupti_counter_data_with_operators(scopes: Sequence[Scope], origin_ns: int | None = None) -> list[pd.DataFrame]:
    """Return what HTA's ``get_cupti_counter_data_with_operators`` does: one table for each rank that has counters.

    HTA pairs ranges with calls of cudaLaunchKernel only, and fails where a launch has no operator; here such a range
    has an empty op_stack. Its loader's columns that do not concern ranges are left out.

    Args:
        scopes: one a rank.
        origin_ns: what ts (µs) counts from; the earliest event of the scopes' traces if not given.

    Returns:
        index, cat, name, ts, dur, end (µs), a column per counter, index_runtime, op_stack (outermost first),
        top_level_op, bottom_level_op; ranks whose ranges and launches differ in number are left out, as in HTA.
    """
    scopes = [scope for scope in scopes if (scope.graph.trace.events.kind == EventKind.OTHER).any()]
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = [(scope, _ranges(scope)) for scope in scopes]
    return [_hta_frame(scope, frame, origin) for scope, frame in frames if (frame["call_index"] >= 0).any()]


def _hta_frame(scope: Scope, frame: pd.DataFrame, origin: int) -> pd.DataFrame:
    events = scope.graph.trace.events
    rows = np.flatnonzero(np.isin(events.index, frame["event_index"]))
    start, end = (events.start[rows] - origin) / 1e3, (events.end[rows] - origin) / 1e3
    return pd.DataFrame(
        {
            "index": frame["event_index"],
            "cat": PROFILER_RANGE,
            "name": frame["name"],
            "ts": start,
            "dur": end - start,
            "end": end,
            **{name: frame[name] for name in frame.columns if name not in KEYS},
            "index_runtime": frame["call_index"],
            "op_stack": frame["operator_stack"],
            "top_level_op": [stack[0] if stack else "" for stack in frame["operator_stack"]],
            "bottom_level_op": frame["operator"],
        }
    )
