"""kernel-breakdown: GPU time per type of work, alone and overlapping, and the kernels that take it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.scope import Scope
from analyses.statistics import reaching
from hta_graph.algorithms.time.intervals import combinations
from hta_graph.algorithms.work.activities import Activities, WorkType
from hta_graph.errors import UsageError
from hta_graph.model import Floats, Ids, Ints

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "figure", "hta_kernel_breakdown", "kernel_breakdown", "kernel_types"]

OVERLAPPING = " overlapping "
OTHERS = "others"
STATISTICS = ("sum", "min", "max", "mean", "std")
KERNEL_COLUMNS = ["rank", "scope", "kernel_type", "kernel", "count", *(f"{name}_ns" for name in STATISTICS)]


def kernel_types(scopes: Sequence[Scope], *, memory_kernels: bool = True) -> pd.DataFrame:
    """Divide the GPU's busy time by what runs: one type alone, or exactly these types together.

    The rows of a scope sum to its busy time, to the nanosecond. Memory is told by category, communication by recorded
    collective, else by name; HTA goes by names alone and loses kernels such as ``fused_addmax`` to no type.

    Args:
        scopes: where to look.
        memory_kernels: count copies and sets; without them their time is nobody's.

    Returns:
        rank, scope, kernel_type (``computation``, ``computation overlapping communication``, …), time_ns, time_share
        (of the scope's rows); longest first.
    """
    rows = [
        {"rank": scope.rank, "scope": scope.label, "kernel_type": label, "time_ns": time}
        for scope in scopes
        for label, time in _combined(scope.running, _types(memory_kernels=memory_kernels))
    ]
    frame = pd.DataFrame(rows, columns=["rank", "scope", "kernel_type", "time_ns"]).astype({"time_ns": np.int64})
    frame["time_share"] = frame["time_ns"] / frame.groupby(["rank", "scope"])["time_ns"].transform("sum")
    return frame


def _types(*, memory_kernels: bool) -> list[WorkType]:
    return [kind for kind in WorkType if memory_kernels or kind != WorkType.MEMORY]


def _combined(running: Activities, types: Sequence[WorkType]) -> list[tuple[str, int]]:
    """Return the time of each combination that occurs, longest first."""
    if not len(running):
        return []
    times = combinations([running.busy(kind) for kind in types]).tolist()
    labels = [OVERLAPPING.join(kind.label for kind in types if mask >> kind & 1) for mask in range(len(times))]
    found = [(label, time) for label, time in zip(labels, times, strict=True) if time]
    return sorted(found, key=lambda item: (-item[1], item[0]))


def kernel_breakdown(
    scopes: Sequence[Scope],
    *,
    duration_ratio: float = 0.8,
    num_kernels: int = 10,
    memory_kernels: bool = True,
    by_quantile: bool = False,
) -> pd.DataFrame:
    """List the kernels that take most of each type's time, with statistics of their single runs.

    Where a type has more than ``num_kernels`` names, those are kept, longest first, that together reach
    ``duration_ratio`` of its time, at most ``num_kernels``; ``others`` are all runs of the rest. HTA computes the
    statistics of a long list over sums of names instead of runs, has no count, and reads the ratio as a quantile.

    Args:
        scopes: where to look.
        duration_ratio: the share of a type's time to name, above 0 and at most 1.
        num_kernels: how many names to keep of each type at most.
        memory_kernels: list copies and sets too.
        by_quantile: choose names as HTA does: a name is kept while the running total of the sums is within the
            ``duration_ratio`` quantile of all running totals.

    Returns:
        rank, scope, kernel_type, kernel, count, sum_ns, min_ns, max_ns, mean_ns, std_ns (of a sample; rounded to the
        nanosecond like the mean), time_share (of all listed runs of the scope, one after the other).

    Raises:
        UsageError: the ratio or the number is out of range.
    """
    frame = _statistics(scopes, (duration_ratio, num_kernels), memory_kernels=memory_kernels, by_quantile=by_quantile)
    for name in STATISTICS:
        frame[f"{name}_ns"] = np.rint(frame[f"{name}_ns"].to_numpy(np.float64)).astype(np.int64)
    frame["time_share"] = frame["sum_ns"] / frame.groupby(["rank", "scope"])["sum_ns"].transform("sum")
    return frame


def _statistics(
    scopes: Sequence[Scope], limits: tuple[float, int], *, memory_kernels: bool, by_quantile: bool
) -> pd.DataFrame:
    """Return the table with mean and standard deviation as real numbers."""
    if not 0 < limits[0] <= 1:
        raise UsageError(f"the duration ratio is a share above 0 and at most 1, not {limits[0]:g}")
    if limits[1] < 1:
        raise UsageError(f"the number of kernels is at least 1, not {limits[1]}")
    types = _types(memory_kernels=memory_kernels)
    parts = [_of_type(scope, kind, limits, by_quantile=by_quantile) for scope in scopes for kind in types]
    found = [part for part in parts if len(part)]
    return pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=KERNEL_COLUMNS)


def _of_type(scope: Scope, kind: WorkType, limits: tuple[float, int], *, by_quantile: bool) -> pd.DataFrame:
    work = scope.work.take(scope.work.type == kind)
    trace = scope.graph.trace
    codes, name_of = np.unique(trace.events.name[work.row], return_inverse=True)
    durations = work.end - work.start
    sums = _sums(name_of, durations, len(codes))
    order = np.argsort(-sums, kind="stable")
    kept = _kept(sums[order], *limits, by_quantile=by_quantile)
    group = np.empty(len(codes), np.int64)
    group[order] = np.minimum(np.arange(len(codes)), kept)
    names = [trace.names[code] for code in codes[order[:kept]].tolist()] + [OTHERS] * (kept < len(codes))
    head = {"rank": scope.rank, "scope": scope.label, "kernel_type": kind.label, "kernel": names}
    return pd.DataFrame(head | _described(group[name_of], durations, len(names)), columns=KERNEL_COLUMNS)


def _kept(sums: Ints, ratio: float, most: int, *, by_quantile: bool) -> int:
    """Return how many of the names, longest first, keep their own row."""
    if len(sums) <= most:
        return len(sums)
    if by_quantile:
        running = np.cumsum(sums)
        return min(int(np.count_nonzero(running <= np.quantile(running, ratio))), most)
    return reaching(sums, ratio, most)


def _described(group: Ints, durations: Ints, groups: int) -> dict[str, Any]:
    """Return count, sum, min, max, mean and sample standard deviation of each group's durations."""
    order = np.argsort(group, kind="stable")
    ordered = durations[order]
    first = np.searchsorted(group[order], np.arange(groups))
    count = np.bincount(group, minlength=groups)
    total = _sums(group, durations, groups)
    mean = total / np.maximum(count, 1)
    return {
        "count": count,
        "sum_ns": total,
        "min_ns": np.minimum.reduceat(ordered, first) if groups else ordered,
        "max_ns": np.maximum.reduceat(ordered, first) if groups else ordered,
        "mean_ns": mean,
        "std_ns": _deviation(group, durations - mean[group], count),
    }


def _sums(group: Ints | Ids, durations: Ints, groups: int) -> Ints:
    total = np.zeros(groups, np.int64)
    np.add.at(total, group, durations)
    return total


def _deviation(group: Ints, from_mean: Floats, count: Ints) -> Floats:
    """Return the sample standard deviation; 0 for a single run."""
    squares = np.bincount(group, weights=from_mean**2, minlength=len(count))
    deviation: Floats = np.sqrt(squares / np.maximum(count - 1, 1))
    return deviation


def hta_kernel_breakdown(
    scopes: Sequence[Scope],
    duration_ratio: float = 0.8,
    num_kernels: int = 10,
    include_memory_kernels: bool = True,  # noqa: FBT001, FBT002
    *,
    by_quantile: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the two frames of HTA's ``get_gpu_kernel_breakdown``: types over all ranks, and kernels per rank, in µs.

    ``duration_ratio`` is a share of time; ``by_quantile`` chooses names by HTA's rule. Statistics are over runs where
    HTA's are over sums as soon as a type has more than ``num_kernels`` names.
    """
    exact = kernel_types(scopes, memory_kernels=include_memory_kernels)
    limits = (duration_ratio, num_kernels)
    frame = _statistics(scopes, limits, memory_kernels=include_memory_kernels, by_quantile=by_quantile)
    return _hta_types(exact), _hta_kernels(frame)


def _hta_types(exact: pd.DataFrame) -> pd.DataFrame:
    total = exact.groupby("kernel_type", sort=False)["time_ns"].sum().sort_values(ascending=False, kind="stable")
    names = [OVERLAPPING.join(part.upper() for part in str(name).split(OVERLAPPING)) for name in total.index]
    share = (100 * total / max(total.sum(), 1)).round(1)
    return pd.DataFrame({"kernel_type": names, "sum": total.to_numpy() / 1e3, "percentage": share.to_numpy()})


def _hta_kernels(frame: pd.DataFrame) -> pd.DataFrame:
    named = {"sum (us)": "sum", "max (us)": "max", "min (us)": "min", "stddev": "std", "mean (us)": "mean"}
    hta = pd.DataFrame({"name": frame["kernel"]})
    for column, statistic in named.items():
        hta[column] = frame[f"{statistic}_ns"].astype(float) / 1e3
    hta["kernel_type"] = frame["kernel_type"].str.upper()
    hta["rank"] = frame["rank"]
    return hta.sort_values(["kernel_type", "name", "rank"], kind="stable", ignore_index=True)


def answer(
    scopes: Sequence[Scope],
    duration_ratio: float = 0.8,
    num_kernels: int = 10,
    *,
    no_memory_kernels: bool = False,
    by_quantile: bool = False,
) -> Answer:
    """Answer the command."""
    memory = not no_memory_kernels
    types = kernel_types(scopes, memory_kernels=memory)
    kernels = kernel_breakdown(
        scopes,
        duration_ratio=duration_ratio,
        num_kernels=num_kernels,
        memory_kernels=memory,
        by_quantile=by_quantile,
    )
    notes = [note for scope in scopes if (note := _note(scope))]
    return Answer({"kernel_types": types, "kernels": kernels}, notes)


def _note(scope: Scope) -> str:
    if scope.missing() or (scope.running.end > scope.running.start).any():
        return scope.missing()
    return f"rank {scope.rank}: all GPU activity in {scope.label} is too short for the trace's clock: its length is 0"


def figure(found: Answer) -> Figure:
    """Draw the types of each rank or step as stacked bars, and below them the longest kernels."""
    from analyses.gpu_time.kernel_breakdown_chart import types_and_kernels

    return types_and_kernels(found.tables["kernel_types"], found.tables["kernels"])
