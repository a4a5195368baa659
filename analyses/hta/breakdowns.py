"""HTA's tables of GPU time, overlap, kernels, idle time, annotations and stragglers."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analyses.declare.scope import Scope
from analyses.declare.tables import rows_to_share
from analyses.hta.frame import SymbolTable, hta_trace_frames, iterations, name_without_arguments
from analyses.questions.annotation_times import annotation_rows
from analyses.questions.idle_time import LaunchGap, causes_by_launch
from analyses.questions.kernel_breakdown import OVERLAPPING, kernel_statistics, kernel_types
from analyses.questions.overlap import comm_comp_overlap
from analyses.questions.stragglers import stragglers
from analyses.questions.temporal_breakdown import temporal_breakdown
from analyses.source.matched_collectives import MatchedWindow, matched_collectives
from hta_graph.attribution.owners import gpu_annotations_over
from hta_graph.base.arrays import take_or
from hta_graph.base.errors import QueryError
from hta_graph.base.safe_regex import names_matching
from hta_graph.model import EventKind, Ints
from hta_graph.paths.gpu_activity import stream_intervals
from hta_graph.trace.event_args import Objects

STATISTICS = ("count", "mean", "std", "min", "25%", "50%", "75%", "max")


def describe(values: np.ndarray[Any, Any]) -> list[float]:
    """Return the statistics of pandas' ``describe`` for at least one value: sample deviation, interpolated quartiles.

    >>> describe(np.array([3, 1, 2, 2]))
    [4.0, 2.0, 0.816496580927726, 1.0, 1.75, 2.0, 2.25, 3.0]
    """
    ordered = np.sort(values)
    count = len(ordered)
    mean = float(ordered.mean())
    spread = (
        math.sqrt(float(((ordered - mean) ** 2).sum()) / (count - 1)) if count > 1 else math.nan
    )  # of a sample: pandas' default
    quartiles = [_value_at(ordered, share) for share in (0.25, 0.5, 0.75)]
    return [float(count), mean, spread, float(ordered[0]), *quartiles, float(ordered[-1])]


def _value_at(ordered: np.ndarray[Any, Any], share: float) -> float:
    """Return a quantile of ordered values, interpolated between neighbours."""
    place = share * (len(ordered) - 1)
    # Linear interpolation, as pandas and NumPy do by default.
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return float(ordered[low] + (ordered[high] - ordered[low]) * (place - low))


def describe_groups(
    groups: Sequence[tuple[tuple[Any, ...], np.ndarray[Any, Any]]], names: Sequence[str], column: str
) -> pd.DataFrame | None:
    """Return one row of statistics per group of values, with the groups' keys as the index; None without groups.

    Args:
        groups: keys and values of each group; those without values are left out.
        names: the names of the keys.
        column: the name of the values, above the statistics.
    """
    filled = [(key, describe(values)) for key, values in groups if len(values)]
    if not filled:
        return None
    index = pd.MultiIndex.from_arrays(list(zip(*(key for key, _ in filled), strict=True)), names=list(names))
    return pd.DataFrame(np.array([row for _, row in filled]), index=index, columns=_summary_columns(column))


@cache
def _summary_columns(column: str) -> pd.MultiIndex:
    """Return the headings of a summary, cached: making them is half the time of a small one."""
    return pd.MultiIndex.from_product([[column], STATISTICS])


def hta_temporal_breakdown(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_temporal_breakdown``."""
    exact = temporal_breakdown([scope for scope in scopes if not scope.missing()])
    frame = pd.DataFrame({"rank": exact["rank"]})
    times = {
        "idle_time": exact["idle_ns"],
        "compute_time": exact["compute_ns"],
        "non_compute_time": exact["exposed_communication_ns"] + exact["exposed_memory_ns"],
        "kernel_time": exact["window_ns"],
    }
    for name, column in times.items():
        frame[f"{name}(us)"] = column / 1e3
    for name in ("idle_time", "compute_time", "non_compute_time"):
        frame[f"{name}_pctg"] = (100 * times[name] / times["kernel_time"]).round(2)
    return frame


def hta_overlap(scopes: Sequence[Scope]) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_comm_comp_overlap``."""
    exact = comm_comp_overlap(scopes)
    share = exact["overlapped_communication_ns"] * 100 / exact["communication_ns"].where(exact["communication_ns"] > 0)
    return pd.DataFrame({"rank": exact["rank"], "comp_comm_overlap_pctg": share.astype(float).round(2)})


def hta_kernel_breakdown(
    scopes: Sequence[Scope],
    duration_ratio: float,
    num_kernels: int,
    include_memory_kernels: bool,
    *,
    by_quantile: bool = False,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_gpu_kernel_breakdown``; ``by_quantile`` selects names by HTA's rule."""
    exact = kernel_types(scopes, memory_kernels=include_memory_kernels)
    limits = (duration_ratio, num_kernels)
    frame = kernel_statistics(scopes, limits, memory_kernels=include_memory_kernels, by_quantile=by_quantile)
    return _types_of_all_ranks(exact), _kernels_per_rank(frame)


def _types_of_all_ranks(exact: pd.DataFrame) -> pd.DataFrame:
    """Add up types over all ranks (µs, percent)."""
    total = exact.groupby("kernel_type", sort=False)["time_ns"].sum().sort_values(ascending=False, kind="stable")
    names = [OVERLAPPING.join(part.upper() for part in str(name).split(OVERLAPPING)) for name in total.index]
    share = (100 * total / max(total.sum(), 1)).round(1)
    return pd.DataFrame({"kernel_type": names, "sum": total.to_numpy() / 1e3, "percentage": share.to_numpy()})


def _kernels_per_rank(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of kernels under HTA's names (µs)."""
    named = {"sum (us)": "sum", "max (us)": "max", "min (us)": "min", "stddev": "std", "mean (us)": "mean"}
    hta = pd.DataFrame({"name": frame["kernel"]})
    for column, statistic in named.items():
        hta[column] = frame[f"{statistic}_ns"].astype(float) / 1e3
    hta["kernel_type"] = frame["kernel_type"].str.upper()
    hta["rank"] = frame["rank"]
    return hta.sort_values(["kernel_type", "name", "rank"], kind="stable", ignore_index=True)


def hta_idle_time(
    scopes: Sequence[Scope],
    streams: Collection[int] | None,
    show_idle_interval_stats: bool,
    consecutive_kernel_delay: float,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the frames of ``TraceAnalysis.get_idle_time_breakdown``."""
    delay = consecutive_kernel_delay
    rows = [row for scope in scopes if len(scope.work) for row in _intervals_by_cause(scope, streams, delay)]
    return _idle_frame(rows), _statistics_frame(rows) if show_idle_interval_stats else None


class CauseIntervals(NamedTuple):
    """The intervals of one cause on one stream; ``place`` counts the rows of a rank from 0."""

    place: int
    rank: int
    lane: int
    stream: int
    cause: str
    length: Ints


def _intervals_by_cause(scope: Scope, streams: Collection[int] | None, delay_us: float) -> list[CauseIntervals]:
    """Divide a rank's intervals by stream and cause; each stream has the cause ``other``, as in HTA."""
    found = stream_intervals(scope.work)
    cause = causes_by_launch(scope, found, delay_us)
    number = scope.graph.lanes.stream
    # HTA's rows come in the order in which streams first have work.
    unique, first = np.unique(scope.work.lane, return_index=True)
    lanes = unique[np.argsort(first)]
    chosen = lanes if streams is None else lanes[np.isin(number[lanes], list(streams))]
    kept = [
        (lane, kind, found.length[here])
        for lane in chosen.tolist()
        for kind in LaunchGap
        # HTA lists `other` for every stream, with 0 where there is none.
        if (here := (found.lane == lane) & (cause == kind)).any() or kind == LaunchGap.OTHER
    ]
    return [
        CauseIntervals(place, scope.rank, lane, int(number[lane]), kind.label, length)
        for place, (lane, kind, length) in enumerate(kept)
    ]


def _idle_frame(rows: Sequence[CauseIntervals]) -> pd.DataFrame:
    """Return HTA's table of idle time (µs)."""
    whole: dict[tuple[int, int], int] = {}
    for row in rows:
        whole[row.rank, row.lane] = whole.get((row.rank, row.lane), 0) + int(row.length.sum())
    idle = np.array([row.length.sum() for row in rows], np.float64)
    of = np.array([max(whole[row.rank, row.lane], 1) for row in rows], np.float64)
    columns = {
        "rank": np.array([row.rank for row in rows], np.int64),
        "stream": np.array([row.stream for row in rows], np.int64),
        "idle_category": np.array([row.cause for row in rows], object),
        "idle_time": (idle / 1e3).round(2),
        "idle_time_ratio": (idle / of).round(2),
    }
    return pd.DataFrame(columns, index=pd.Index([row.place for row in rows], dtype=np.int64))


def _statistics_frame(rows: Sequence[CauseIntervals]) -> pd.DataFrame:
    """Describe the intervals; of none only the count is known."""
    unknown = [0.0, *[float("nan")] * (len(STATISTICS) - 1)]
    values = [describe(row.length / 1e3) if len(row.length) else unknown for row in rows]
    numbers = np.array(values or np.empty((0, len(STATISTICS)))).round(2).T
    columns = {
        "rank": np.array([row.rank for row in rows], np.int64),
        "stream": np.array([row.stream for row in rows], np.int64),
        **dict(zip(STATISTICS, numbers, strict=True)),
    }
    return pd.DataFrame(columns, index=pd.Index([row.cause for row in rows], name="idle_category", dtype=object))


OTHERS = "others"
Frames = tuple[dict[int, pd.DataFrame], SymbolTable]
Numbers = np.ndarray[Any, Any]


def hta_gpu_kernels_with_user_annotations(
    scope: Scope,
    expand_names: bool,
    shorten_names: bool,
    *,
    frames: Callable[[], Frames] | None = None,
) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_gpu_kernels_with_user_annotations``.

    ``frames`` returns :func:`hta_trace_frames` of the run, if available; called only where there is a copy.
    """
    if not len(annotation_rows(scope, on_gpu=True)):
        return None
    own, symbols = frames() if frames else hta_trace_frames([scope])
    frame = own[scope.rank]
    events = scope.graph.event_table
    order = np.argsort(events.index[scope.work.row])
    over = gpu_annotations_over(scope.graph, scope.work.row)[order]
    kept = frame.drop(columns=["s_name", "s_cat"]).take(
        np.searchsorted(frame.index, events.index[scope.work.row][order])
    )
    used, place = np.unique(take_or(events.name, over), return_inverse=True)
    numbers = symbols.sym_index
    names = scope.graph.names
    kept["user_annotation"] = np.array([numbers.get(names[code], -1) if code >= 0 else -1 for code in used])[place]
    if expand_names:
        for column in ("name", "cat", "user_annotation"):
            kept[f"s_{column}"] = _symbol_texts(symbols, kept[column].to_numpy(), short=shorten_names)
    return kept


def _symbol_texts(symbols: SymbolTable, numbers: Ints, *, short: bool) -> Objects:
    """Look up symbols; -1 is the empty text."""
    used, place = np.unique(numbers, return_inverse=True)
    texts = [symbols.sym_table[number] if number >= 0 else "" for number in used.tolist()]
    found: Objects = np.array([name_without_arguments(text) if short else text for text in texts], dtype=object)
    return found[place]


def hta_gpu_user_annotation_breakdown(
    scopes: Sequence[Scope],
    use_gpu_annotation: bool,
    duration_ratio: float,
    num_kernels: int,
    allowlist_patterns: Sequence[str] | None,
) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_gpu_user_annotation_breakdown``."""
    kind = EventKind.GPU_ANNOTATION if use_gpu_annotation else EventKind.ANNOTATION
    allowed, limits = allowlist_patterns or (), (duration_ratio, num_kernels)
    rows = [row for scope in scopes for row in _rows_of_rank(scope, limits, allowed, on_gpu=use_gpu_annotation)]
    # An empty table: none in the window; None, as in HTA: none in the trace.
    if not rows and not any((scope.graph.event_table.kind == kind).any() for scope in scopes):
        return None
    return pd.DataFrame(rows, columns=_breakdown_columns())


@cache
def _breakdown_columns() -> pd.Index[str]:
    """Return the headings of HTA's table."""
    return pd.Index(["name", "sum (us)", "max (us)", "min (us)", "stddev", "mean (us)", "rank"])


def _rows_of_rank(scope: Scope, limits: tuple[float, int], allowed: Sequence[str], *, on_gpu: bool) -> list[list[Any]]:
    """Describe the annotations of one rank, by name."""
    graph = scope.graph
    rows = annotation_rows(scope, on_gpu=on_gpu)
    codes, name_of = np.unique(graph.event_table.name[rows], return_inverse=True)
    durations = (graph.event_table.end[rows] - graph.event_table.start[rows]) / 1e3
    names = [graph.names[code] for code in codes.tolist()]
    sums = np.bincount(name_of, weights=durations)
    order = np.argsort(-sums, kind="stable")
    kept = np.zeros(len(sums), np.bool_)
    kept[order[: rows_to_share(sums[order], *limits)]] = True
    # Names on the list are kept whatever their time, also beyond the limit.
    kept |= names_matching(allowed, names)[: len(names)]
    listed = [name if keeps else OTHERS for name, keeps in zip(names, kept.tolist(), strict=True)]
    groups = sorted(set(listed))
    place = {name: at for at, name in enumerate(groups)}
    group_of = np.array([place[name] for name in listed], np.int64)[name_of]
    statistics = _group_statistics(group_of, durations, len(groups)).T.tolist()
    return [[name, *numbers, scope.rank] for name, numbers in zip(groups, statistics, strict=True)]


def _group_statistics(group_of: Ints, durations: Numbers, groups: int) -> Numbers:
    """Return sum, maximum, minimum, deviation of a sample and mean of each group."""
    if not groups:
        return np.empty((5, 0))
    order = np.argsort(group_of, kind="stable")
    first = np.searchsorted(group_of[order], np.arange(groups))
    count = np.bincount(group_of, minlength=groups)
    total = np.bincount(group_of, weights=durations, minlength=groups)
    # Groups come from the rows: none is empty.
    mean = total / count
    squares = np.bincount(group_of, weights=(durations - mean[group_of]) ** 2, minlength=groups)
    highest, lowest = (ufunc.reduceat(durations[order], first) for ufunc in (np.maximum, np.minimum))
    return np.array([total, highest, lowest, np.sqrt(squares / np.maximum(count - 1, 1)), mean])


def hta_profiler_steps(scopes: Sequence[Scope]) -> list[int]:
    """Return the numbers of ``TraceAnalysis.get_profiler_steps``."""
    steps = ((scope, step) for scope in scopes for step in scope.graph.steps())
    return sorted({step.number for scope, step in steps if scope.holds(np.array([step.event]))[0]})


def hta_potential_stragglers(
    scopes: Sequence[Scope], profiler_steps: Sequence[int] | None, num_candidates: int
) -> list[int]:
    """Return the ranks of ``TraceAnalysis.get_potential_stragglers``, the one that causes most waiting first."""
    matched = matched_collectives(scopes)
    if profiler_steps is not None:
        known = hta_profiler_steps(scopes)
        if not set(profiler_steps) & set(known):
            listed = ", ".join(map(str, known)) or "none"
            raise QueryError(f"no step of {list(profiler_steps)} is in the traces; the steps are: {listed}")
        matched = [item.take(step in set(profiler_steps) for step in _launching_steps(item)) for item in matched]
    frame = stragglers(matched)
    if not len(frame):
        return []
    caused = frame.groupby("rank")["wait_caused_ns"].sum()
    # A rank without waiting ranks is no straggler, even if fewer are found than requested.
    worst = caused[caused > 0].sort_values(ascending=False, kind="stable")
    return [int(rank) for rank in worst.index[:num_candidates]]


def _launching_steps(item: MatchedWindow) -> list[int]:
    """Return the step in which the last rank launched each collective."""
    last = item.found.last
    step = np.full(len(last), -1, np.int64)
    rank, rows = item.found.rank[last], item.rows(last)
    for one in np.unique(rank).tolist():
        step[rank == one] = iterations(item.graphs[one], rows[rank == one].astype(np.int32))
    return [int(number) for number in step]
