"""kernel-breakdown: GPU time by type of work, alone and overlapping, and the longest kernels of each type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.analysis import Analysis
from analyses.declare.answer import Answer
from analyses.declare.columns import Table, ns, share, text
from analyses.declare.description import Flag
from analyses.declare.scope import Scope, idle_first
from analyses.declare.tables import joined, rows_to_share, table_of
from analyses.display.charts import COLOUR, GRID, SERIES, empty_figure, new_figure, row_labels
from analyses.display.headline import largest_item, rows_at_outlier
from analyses.display.sentence_format import brief_duration, brief_share, counted, quoted
from analyses.source.unnamed_communication import unnamed_communication
from hta_graph.base.arrays import summed_by
from hta_graph.base.errors import UsageError
from hta_graph.base.text.shorten import short_name
from hta_graph.model import Ints
from hta_graph.paths.gpu_activity import Activities, WorkType
from hta_graph.paths.intervals import time_by_combination

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["OVERLAPPING", "TABLES", "answer", "figure", "kernel_breakdown", "kernel_statistics", "kernel_types"]

TITLE = "GPU busy time by type of work, and the longest kernels"

KERNELS_SHOWN = 12
NAME_SIZE = 48


def types_and_kernels(types: pd.DataFrame, kernels: pd.DataFrame) -> Figure:
    """Draw stacked bars of the types' shares, a rank or step each, and below them bars of the longest kernels."""
    if types.empty:
        return empty_figure(TITLE, "no GPU activity recorded")
    made = new_figure(title=TITLE)
    _add_types(made, types)
    _add_kernels(made, kernels)
    # The upper half grows with the ranks, up to half of the figure.
    upper = 1 - min(0.14 + 0.04 * types.groupby(["rank", "scope"]).ngroups, 0.5)
    made.update_layout(
        barmode="stack",
        xaxis={"anchor": "y", "side": "top", "tickformat": ".0%", "range": [0, 1], "title": None},
        yaxis={"domain": [upper, 1], "autorange": "reversed", "showgrid": False, "title": None, "dtick": 1},
        xaxis2={"anchor": "y2", "title": "ms, total", "gridcolor": GRID, "zeroline": False},
        yaxis2={"anchor": "x2", "domain": [0, upper - 0.06], "autorange": "reversed", "automargin": True, "dtick": 1},
        legend={"orientation": "h", "y": -0.12, "yanchor": "top"},
        margin={"t": 80},
    )
    return made


def _add_types(made: Figure, types: pd.DataFrame) -> None:
    """Add a stacked bar of the types of each rank or step."""
    labelled = types.assign(label=row_labels(types))
    # Overlaps of types have no colour of their own.
    mixed = iter(SERIES[3:] * len(types))
    for kind, own in labelled.groupby("kernel_type", sort=False):
        made.add_bar(
            name=str(kind),
            orientation="h",
            y=own["label"],
            x=own["time_share"],
            customdata=own["time_ns"] / 1e6,
            marker_color=COLOUR.get(str(kind)) or next(mixed),
            legendgroup=str(kind),
            hovertemplate="%{y}: %{x:.1%}, %{customdata:,.3f} ms",
        )


def _add_kernels(made: Figure, kernels: pd.DataFrame) -> None:
    """Add the longest kernels of all ranks together; names that are shortened alike share a bar."""
    rows = zip(kernels["kernel"], kernels["kernel_type"], strict=True)
    labels = [f"other {kind}" if name == "others" else _short_label(name) for name, kind in rows]
    totals = kernels.assign(label=labels).groupby(["label", "kernel_type"])[["sum_ns", "count"]].sum()
    longest = totals.nlargest(KERNELS_SHOWN, "sum_ns").reset_index()
    made.add_bar(
        orientation="h",
        y=longest["label"],
        x=longest["sum_ns"] / 1e6,
        customdata=longest["count"],
        marker_color=longest["kernel_type"].map(COLOUR),
        xaxis="x2",
        yaxis="y2",
        showlegend=False,
        hovertemplate="%{y}: %{x:,.3f} ms in %{customdata:,} runs<extra></extra>",
    )


def _short_label(name: str) -> str:
    """Shorten a name to the label of a bar."""
    short = short_name(name)
    return short if len(short) <= NAME_SIZE else f"{short[: NAME_SIZE - 1]}…"


DURATION_RATIO = 0.8
NUM_KERNELS = 10
"""Defaults: list the kernels that make up this share of a type's time, and at most this many."""
OVERLAPPING = " overlapping "
OTHERS = "others"
COMMUNICATION = WorkType.COMMUNICATION.label
STATISTICS = ("sum", "min", "max", "mean", "std")
KERNEL_TYPE = text("kernel_type", "Type of work: computation, communication, memory, or several that overlap.")
TIME_SHARE = share("time_share", "Share of the total of the scope's rows", null=True)
TYPE_TIMES = Table("rank", "scope", KERNEL_TYPE, "time_ns")
TYPES = Table(TYPE_TIMES, TIME_SHARE)
KERNEL_STATISTICS = Table(
    *("rank", "scope", KERNEL_TYPE, "kernel", "count", "sum_ns", "min_ns", "max_ns", "mean_ns"),
    ns("std_ns", "Sample standard deviation, rounded; null for a single run", null=True),
)
KERNELS = Table(KERNEL_STATISTICS, TIME_SHARE)


@TYPES.returned
def kernel_types(scopes: Sequence[Scope], *, memory_kernels: bool = True) -> pd.DataFrame:
    """Divide the GPU's busy time by what runs, longest first: one type alone, or exactly these types together.

    The rows of a scope sum to its busy time, to the nanosecond. Memory is recognized by category, communication by its
    recorded collective, else by name; HTA goes by names alone and assigns kernels such as ``fused_addmax`` to no type.

    Args:
        scopes: where to look.
        memory_kernels: count copies and memsets; otherwise their time is left out.
    """
    types = _work_types(memory_kernels=memory_kernels)
    frame = table_of(scopes, lambda scope: _combined_times(scope.running, types), TYPE_TIMES)
    # The types of empty columns would be objects, which do not divide.
    frame = frame.astype({"time_ns": np.int64})
    frame["time_share"] = frame["time_ns"] / frame.groupby(["rank", "scope"])["time_ns"].transform("sum")
    return frame


def _work_types(*, memory_kernels: bool) -> list[WorkType]:
    """List the types of work that count."""
    return [kind for kind in WorkType if memory_kernels or kind != WorkType.MEMORY]


def _combined_times(running: Activities, types: Sequence[WorkType]) -> list[dict[str, Any]]:
    """Return a row for each combination that occurs, longest first."""
    if not len(running):
        return []
    times = time_by_combination([running.busy(kind) for kind in types]).tolist()
    labels = [OVERLAPPING.join(kind.label for kind in types if mask >> kind & 1) for mask in range(len(times))]
    found = [(label, time) for label, time in zip(labels, times, strict=True) if time]
    found.sort(key=lambda item: (-item[1], item[0]))
    return [{"kernel_type": label, "time_ns": time} for label, time in found]


@KERNELS.returned
def kernel_breakdown(
    scopes: Sequence[Scope],
    *,
    duration_ratio: float = DURATION_RATIO,
    num_kernels: int = NUM_KERNELS,
    memory_kernels: bool = True,
    by_quantile: bool = False,
) -> pd.DataFrame:
    """List the longest kernels of each type, with statistics of their single runs.

    Where a type has more than ``num_kernels`` names, those are kept, longest first, that together reach
    ``duration_ratio`` of its time, at most ``num_kernels``; ``others`` are all runs of the rest. HTA computes the
    statistics of a long list over sums of names instead of runs, has no count, and reads the ratio as a quantile.

    Args:
        scopes: where to look.
        duration_ratio: the share of a type's time to name, above 0 and at most 1.
        num_kernels: how many names to keep of each type at most.
        memory_kernels: list copies and memsets too.
        by_quantile: choose names as HTA does: a name is kept while the running total of the sums is within the
            ``duration_ratio`` quantile of all running totals.

    Raises:
        UsageError: the ratio or the number is out of range.
    """
    limits = (duration_ratio, num_kernels)
    frame = kernel_statistics(scopes, limits, memory_kernels=memory_kernels, by_quantile=by_quantile)
    for name in STATISTICS:
        frame[f"{name}_ns"] = np.rint(frame[f"{name}_ns"].to_numpy(np.float64)).astype(np.int64)
    frame["time_share"] = frame["sum_ns"] / frame.groupby(["rank", "scope"])["sum_ns"].transform("sum")
    return frame


def kernel_statistics(
    scopes: Sequence[Scope], limits: tuple[float, int], *, memory_kernels: bool, by_quantile: bool
) -> pd.DataFrame:
    """Return the table with mean and standard deviation as real numbers."""
    if not 0 < limits[0] <= 1:
        raise UsageError(f"the duration ratio must be above 0 and at most 1, not {limits[0]:g}")
    if limits[1] < 1:
        raise UsageError(f"the number of kernels must be at least 1, not {limits[1]}")
    types = _work_types(memory_kernels=memory_kernels)

    def every_type(scope: Scope) -> pd.DataFrame:
        parts = [_kernels_of_type(scope, kind, limits, by_quantile=by_quantile) for kind in types]
        return joined([part for part in parts if len(part)], [*KERNEL_STATISTICS][2:])

    return table_of(scopes, every_type, KERNEL_STATISTICS)


def _kernels_of_type(scope: Scope, kind: WorkType, limits: tuple[float, int], *, by_quantile: bool) -> pd.DataFrame:
    """Describe the names of one type that are kept, and all others together, longest first."""
    work = scope.work.take(scope.work.type == kind)
    codes, name_of = np.unique(scope.graph.event_table.name[work.row], return_inverse=True)
    durations = work.end - work.start
    sums = summed_by(name_of, durations, len(codes))
    # Names of equal time stay in the order of their codes: the same file gives the same table.
    order = np.argsort(-sums, kind="stable")
    kept = _count_to_name(sums[order], *limits, by_quantile=by_quantile)
    group = np.empty(len(codes), np.int64)
    group[order] = np.minimum(np.arange(len(codes)), kept)  # the rest is one group, behind those that are kept
    names = [scope.graph.names[code] for code in codes[order[:kept]].tolist()] + [OTHERS] * (kept < len(codes))
    head = {"kernel_type": kind.label, "kernel": names}
    return pd.DataFrame(head | _described_groups(group[name_of], durations, len(names)))


def _count_to_name(sums: Ints, ratio: float, most: int, *, by_quantile: bool) -> int:
    """Return how many of the names, longest first, keep their own row."""
    if len(sums) <= most:
        return len(sums)
    if by_quantile:
        # HTA's rule, as it is written there: a quantile of running totals, not a share of the time.
        running = np.cumsum(sums)
        return min(int(np.count_nonzero(running <= np.quantile(running, ratio))), most)
    return rows_to_share(sums, ratio, most)


def _described_groups(group: Ints, durations: Ints, groups: int) -> dict[str, Any]:
    """Return count, sum, min, max, mean and sample standard deviation of each group's durations."""
    order = np.argsort(group, kind="stable")
    ordered = durations[order]
    # Sorted by group, each is one slice: reduceat takes its extremes without a loop.
    first = np.searchsorted(group[order], np.arange(groups))
    count = np.bincount(group, minlength=groups)
    total = summed_by(group, durations, groups)
    mean = total / np.maximum(count, 1)
    squares = np.bincount(group, weights=(durations - mean[group]) ** 2, minlength=groups)
    return {
        "count": count,
        "sum_ns": total,
        "min_ns": np.minimum.reduceat(ordered, first) if groups else ordered,
        "max_ns": np.maximum.reduceat(ordered, first) if groups else ordered,
        "mean_ns": mean,
        "std_ns": np.sqrt(squares / np.maximum(count - 1, 1)),  # of a sample; 0 for a single run
    }


def answer(
    scopes: Sequence[Scope],
    duration_ratio: float = DURATION_RATIO,
    num_kernels: int = NUM_KERNELS,
    *,
    no_memory_kernels: bool = False,
    by_quantile: bool = False,
) -> Answer:
    """Return the tables ``kernel_types`` (GPU time by type of work) and ``kernels`` (the longest of each type).

    Args:
        scopes: where to look.
        duration_ratio: the share of a type's time to name, above 0 and at most 1.
        num_kernels: how many kernels of each type to name at most.
        no_memory_kernels: leave out copies and memsets.
        by_quantile: choose the names by HTA's rule instead.

    Raises:
        UsageError: the ratio or the number is out of range.
    """
    memory = not no_memory_kernels
    types = kernel_types(scopes, memory_kernels=memory)
    kernels = kernel_breakdown(
        scopes,
        duration_ratio=duration_ratio,
        num_kernels=num_kernels,
        memory_kernels=memory,
        by_quantile=by_quantile,
    )
    notes = [note for scope in scopes if (note := _missing_note(scope, memory_kernels=memory))]
    notes += unnamed_communication(scopes)
    said = idle_first(_conclusion(types, kernels), scopes)
    return Answer({"kernel_types": types, "kernels": kernels}, notes, conclusion=said)


def _conclusion(types: pd.DataFrame, kernels: pd.DataFrame) -> list[str]:
    """Return the headline: the kernel with the most GPU time, and the type with the most busy time."""
    found = largest_item(kernels[kernels["kernel"] != OTHERS], ["kernel", "kernel_type"], "sum_ns")
    if found is None:
        return []
    # What a step launched may run behind the end of its window, in which the GPU is idle then.
    own = rows_at_outlier(types, found)
    busy = ""
    if len(own):
        busy = f"; {brief_share(own['time_share'].iloc[0])} of GPU busy time is {own['kernel_type'].iloc[0]}"
    waits = " (may include waiting for other ranks)" if found["kernel_type"] == COMMUNICATION else ""
    times = f"{brief_duration(int(found['sum_ns']))} in {counted(found['count'], 'run')}{found.typical}"
    most = f"{quoted(short_name(found['kernel']))} takes the most GPU time{found.where}: {times}"
    share = f"{brief_share(found['time_share'])} of all GPU work{waits}"
    return [f"{most}, {share}{busy}"]


def _missing_note(scope: Scope, *, memory_kernels: bool) -> str:
    """Return a note where there is no time to divide."""
    if missing := scope.missing():
        return missing
    if not (scope.running.end > scope.running.start).any():
        where = f"rank {scope.rank}: every GPU activity in {scope.name}"
        return f"{where} has length 0, below the resolution of the trace's clock"
    if any(scope.running.busy(kind).total for kind in _work_types(memory_kernels=memory_kernels)):
        return ""
    return f"rank {scope.rank}: {scope.name} has only copies and memsets, which are left out"


def figure(found: Answer) -> Figure:
    """Draw the types of each rank or step as stacked bars, and below them the longest kernels."""
    return types_and_kernels(found.tables["kernel_types"], found.tables["kernels"])


TABLES = {"kernel_types": TYPES, "kernels": KERNELS}

ANALYSIS = Analysis(
    name="kernel-breakdown",
    help="GPU time by type of work, and the longest kernels of each type.",
    more="Types are computation, communication and memory; overlaps are listed separately.",
    question="which kernels and types of work take the most GPU time?",
    examples=("kernel-breakdown trace.json.gz", "kernel-breakdown job --step 2"),
    flags=(
        Flag("duration_ratio", "share", "list the kernels that make up this share of a type's time", DURATION_RATIO),
        Flag("num_kernels", "count", "list at most this many kernels of a type", NUM_KERNELS),
        Flag("by_quantile", "switch", "select kernels by HTA's rule instead of by share of time", default=False),
        Flag("no_memory_kernels", "switch", "leave out copies and memsets", default=False),
    ),
    tables=TABLES,
    answer=answer,
    figure=figure,
)
