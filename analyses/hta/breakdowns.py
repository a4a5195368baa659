"""HTA's two questions about annotations, in HTA's shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from analyses.hta.frame import SymbolTable, hta_trace_frames
from analyses.hta.kernel_names import name_without_arguments
from analyses.questions.annotation_times import annotation_rows
from analyses.scope import Scope
from analyses.tables import rows_to_share
from hta_graph.arrays import take_or
from hta_graph.attribution.gpu_annotations import gpu_annotations_over
from hta_graph.model import EventKind, Ints
from hta_graph.safe_regex import names_matching
from hta_graph.trace.event_args import Objects

__all__ = ["hta_gpu_kernels_with_user_annotations", "hta_gpu_user_annotation_breakdown"]

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

    ``frames`` returns :func:`hta_trace_frames` of the run, if that is at hand; called only where there is a copy.
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
    # An empty table says that the window has none; None, as in HTA, that the trace has none.
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
    # Names on the list stay whatever they take, beyond the limit too.
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
