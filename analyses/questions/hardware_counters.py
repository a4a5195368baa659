"""hardware-counters: CUPTI's hardware counters by the operator that launched the kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import MORE, Table, integer, listed, number, share, text
from analyses.declare.scope import Scope
from analyses.declare.tables import event_names, table_of
from analyses.display.charts import empty_figure, new_figure
from analyses.display.sentence_format import counted
from hta_graph.base.arrays import take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids
from hta_graph.trace.event_args import MOST_COUNTED, ProfilerRanges, count_counter_samples, read_profiler_ranges
from hta_graph.trace.profiler_names import PROFILER_RANGE

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["KEYS", "TABLES", "answer", "counted_ranges", "figure", "hardware_counters"]

TITLE = "Hardware counters by operator"
KEYS = Table(
    *("rank", "scope", "event_index", "name"),
    integer("call_index", "Event index of the launch call; -1 if unknown."),
    text("operator", "Innermost operator; empty if none is open."),
    listed("operator_stack", "Open operators, outermost first.", items=text("", "An operator.")),
)
RANGES = Table(KEYS, number(MORE, "Value of the counter that the column is named after; null if none.", null=True))
COUNTERS = Table(
    *("rank", "scope", text("counter", "Name of the counter.")),
    text("operator", "Operator that launched the kernels."),
    integer("ranges", "Number of kernels counted."),
    number("value", "Sum over the kernels if the counter's name ends in .sum, otherwise the mean."),
    share("value_share", "Share of all operators; null unless the counter ends in .sum", null=True),
)
OPERATORS_SHOWN, METRICS_LISTED = 9, 3
SUMMABLE = ".sum"
"""How the names of additive counters end; others are averages and ratios."""
MOST_COUNTED_EXACTLY = (1 << 63) // MOST_COUNTED


@RANGES.returned
def counted_ranges(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List CUPTI's profiler ranges with the operators that launched their kernels.

    A range does not record its launch, and its time is not the kernel's. The k-th range belongs to the k-th kernel
    launch if both are equal in number (the profiler made one range per kernel). Otherwise the ranges are listed
    without operators.
    """
    return table_of(scopes, _ranges_of_scope, RANGES)


def _ranges_of_scope(scope: Scope) -> pd.DataFrame:
    """List the ranges of one scope."""
    graph, ranges = scope.graph, read_profiler_ranges(scope.graph.trace)
    calls = _launching_calls(graph, ranges)
    stacks = _operator_stacks(graph, calls)
    index = graph.event_table.index
    frame = pd.DataFrame(
        {
            "event_index": index[ranges.row],
            "name": event_names(graph, ranges.row),
            "call_index": take_or(index, calls),
            "operator": [stack[-1] if stack else "" for stack in stacks],
            "operator_stack": stacks,
            **ranges.counters,
        }
    )
    return frame[scope.is_open | scope.holds(np.where(calls >= 0, calls, ranges.row))].reset_index(drop=True)


def _launching_calls(graph: DependencyGraph, ranges: ProfilerRanges) -> Ids:
    """Return the call that launched each range's kernel; -1 for all where their numbers differ."""
    # Ranges carry no correlation: only equal counts justify pairing them with launches one by one.
    launches = graph.event_flags.kernel_launch_call
    calls = np.flatnonzero(launches).astype(np.int32)
    return calls if len(calls) == len(ranges) else np.full(len(ranges), -1, np.int32)


def _operator_stacks(graph: DependencyGraph, calls: Ids) -> list[list[str]]:
    """Return the names of the operators around each call, outermost first."""
    around = graph.operator_around
    # One step outwards a level, until no call has a further operator around it.
    levels = [np.where(calls >= 0, around[calls], -1)] if len(calls) else []
    while levels and (levels[-1] >= 0).any():
        levels.append(np.where(levels[-1] >= 0, around[levels[-1]], -1))
    stacked = np.array(levels[::-1]).T.tolist()
    return [[graph.names[graph.event_table.name[row]] for row in stack if row >= 0] for stack in stacked]


@COUNTERS.returned
def hardware_counters(ranges: pd.DataFrame) -> pd.DataFrame:
    """Sum up counters by operator, largest first; operators without any are left out.

    Args:
        ranges: what :func:`counted_ranges` returns.
    """
    counters = [name for name in ranges.columns if name not in KEYS]
    parts = [part for _, part in ranges.groupby(["rank", "scope"], sort=False)]
    rows = [row for part in parts for name in counters for row in _sums_by_operator(part, name)]
    return pd.DataFrame(rows, columns=[*COUNTERS])


def _sums_by_operator(part: pd.DataFrame, counter: str) -> list[dict[str, Any]]:
    """Return the rows of one counter, largest first."""
    operators, group = np.unique(part["operator"].to_numpy(str), return_inverse=True)
    values = part[counter].to_numpy()
    # NaN differs from itself: a counter that a range does not have is left out.
    own = [values[(group == at) & (values == values)] for at in range(len(operators))]  # not NaN
    # Whole numbers add up exactly as long as 64 bits hold their sum.
    sums = [item.sum(dtype=np.float64 if len(item) > MOST_COUNTED_EXACTLY else None).item() for item in own]
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
    """Return the table ``hardware_counters`` (by counter and operator) and the series ``ranges`` (a row per kernel).

    Args:
        scopes: where to look.
    """
    ranges = counted_ranges(scopes)
    notes = [note for scope in scopes if (note := _missing_note(scope, ranges))]
    return Answer({"hardware_counters": hardware_counters(ranges)}, notes, {"ranges": ranges})


def _missing_note(scope: Scope, ranges: pd.DataFrame) -> str:
    """Return a note on what was not counted, and how to record it."""
    own = ranges[(ranges["rank"] == scope.rank) & (ranges["scope"] == scope.label)]
    if own.empty:
        return _samples_note(scope) or (
            f"rank {scope.rank}: no {PROFILER_RANGE} events in {scope.name}; record with "
            "experimental_config=_ExperimentalConfig(profiler_metrics=[...], profiler_measure_per_kernel=True); "
            "PyTorch has this option until June 2026"
        )
    if (own["call_index"] < 0).all():
        return (
            f"rank {scope.rank}: profiler ranges and kernel launches differ in number, so ranges cannot be matched to "
            "operators; record with profiler_measure_per_kernel=True"
        )
    zero = [name for name in own.columns if name not in KEYS and own[name].notna().any() and not own[name].any()]
    if zero:
        return f"rank {scope.rank}: counters that are 0 in every range of {scope.name}: {', '.join(zero)}"
    return ""


def _samples_note(scope: Scope) -> str:
    """Return a note on counters that the file has as samples over time; they belong to no kernel."""
    samples = count_counter_samples(scope.graph.trace)
    if not samples:
        return ""
    metrics = list(samples)
    listed = ", ".join(metrics[:METRICS_LISTED]) + (", …" if len(metrics) > METRICS_LISTED else "")
    count = f"{sum(samples.values()):,} counter samples of {counted(len(metrics), 'metric')}"
    return (
        f"rank {scope.rank}: {count} are in the file, not read: PM sampling counts over time, not per kernel; "
        f"Perfetto draws them ({listed})"
    )


def figure(found: Answer) -> Figure:
    """Draw each operator's share of each counter."""
    frame = found.main[found.main["value_share"].notna()]
    if frame.empty:
        return empty_figure(TITLE, "no additive counters recorded")
    sums = frame.pivot_table(index="operator", columns="counter", values="value", aggfunc="sum", fill_value=0)
    shares = sums / sums.sum()
    shares = shares.loc[shares.sum(axis=1).sort_values(ascending=False).index]
    rest = shares.iloc[OPERATORS_SHOWN:]
    shown = pd.concat([shares.iloc[:OPERATORS_SHOWN], *([rest.sum().to_frame("others").T] if len(rest) else [])])
    made = new_figure(title=TITLE, x="share of the counter")
    for operator, row in shown.iterrows():
        text = f"{operator or '(no operator)'}: %{{x:.1%}}<extra>%{{y}}</extra>"
        made.add_bar(name=str(operator), y=list(shown.columns), x=row.to_numpy(), orientation="h", hovertemplate=text)
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(tickformat=".0%", range=[0, 1])
    return made


TABLES = {"hardware_counters": COUNTERS, "ranges": RANGES}

ANALYSIS = Analysis(
    name="hardware-counters",
    help="CUPTI hardware counters by the operator that launched the kernel.",
    more="Requires a trace recorded with profiler_metrics (PyTorch until June 2026); samples are counted, not read.",
    question="what do CUPTI's hardware counters show for each operator?",
    examples=("hardware-counters trace.json.gz",),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
