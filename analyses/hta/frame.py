"""A rank's trace as the DataFrame that HTA's users know, and the window of the run that HTA analyzes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd

from analyses.declare.scope import Scope, spanning, whole
from hta_graph.attribution.owners import annotation_sources
from hta_graph.base.arrays import take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import CallsByCorrelation
from hta_graph.model import GPU_KINDS, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.gpu_activity import activities
from hta_graph.trace.event_args import Objects, read_event_args


def hta_scopes(graphs: Mapping[int, DependencyGraph], *, include_last_step: bool = False) -> list[Scope]:
    """Return the window that HTA documents: without the last profiler step and work that no kept call launched.

    Where all ranks together have fewer than two steps, nothing is cut. Unlike HTA, which then cuts later, GPU
    annotations of the steps make no difference.
    """
    names = {item.number for graph in graphs.values() for item in graph.steps()}
    # The only step of a run is not left out: nothing would remain.
    if len(names) < 2:
        return [whole(rank, graph) for rank, graph in graphs.items()]
    return [_before_last_step(rank, graph, include_last_step=include_last_step) for rank, graph in graphs.items()]


def _before_last_step(rank: int, graph: DependencyGraph, *, include_last_step: bool) -> Scope:
    """Return the scope of what was launched before the last step, or before its end."""
    steps = graph.steps()
    if not steps:
        return whole(rank, graph)
    last = max(steps, key=lambda item: item.start_ns)
    cut = last.end_ns + 1 if include_last_step else last.start_ns
    work = activities(graph)
    calls = np.flatnonzero((graph.event_table.kind == EventKind.RUNTIME) & (graph.event_table.start < cut))
    # Work stays with its call: what a kept call launched may run into the last step.
    correlation = graph.event_table.correlation
    own = correlation[work.row]
    kept = (own > 0) & np.isin(own, correlation[calls])
    return spanning(rank, graph, "HTA's window", work.take(kept), cut)


def earliest_ns(scopes: Iterable[Scope]) -> int:
    """Return when the first event with a duration starts in any of the scopes' traces; 0 without events."""
    traces = [scope.graph.trace for scope in scopes]
    starts = [trace.file_times.start[trace.events.kind != EventKind.MEMORY] for trace in traces]
    return min((int(start.min()) for start in starts if len(start)), default=0)


BRACKETS = re.compile(r"<[^<>]*>|\([^()]*\)")
DEEPEST = 100
COPY_NAME = re.compile(r"Mem(cpy|set)")


def name_without_arguments(name: str) -> str:
    """Shorten a name to its last word without template and function arguments; copies stay as they are.

    >>> name_without_arguments("void at::native::elementwise<4, Foo<int> >(int, Bar)")
    'at::native::elementwise'
    >>> name_without_arguments("Memcpy DtoD (Device -> Device)"), name_without_arguments("aten::mul")
    ('Memcpy DtoD (Device -> Device)', 'aten::mul')
    """
    if COPY_NAME.match(name):
        return name
    stripped = name
    # Innermost brackets first: a regular expression cannot count. No compiler nests as deep as a hostile name.
    for _ in range(DEEPEST):
        stripped, before = BRACKETS.sub("", stripped), stripped
        if stripped == before:
            break
    words = stripped.split()
    return words[-1] if words and stripped != name else name


NO_STREAM = -1
WITHOUT_STREAMS = "mtia_ccp_events"

ARGUMENTS: dict[str, tuple[str, Any]] = {
    "bytes": ("bytes", -1),
    "memory_bw_gbps": ("memory bandwidth (GB/s)", 0.0),
    "wait_on_stream": ("wait_on_stream", -1),
    "wait_on_cuda_event_record_corr_id": ("wait_on_cuda_event_record_corr_id", -1),
    "input_dims": ("Input Dims", "-1"),
    "input_type": ("Input type", "-1"),
    "input_strides": ("Input Strides", "-1"),
    "python_id": ("Python id", -1),
    "python_parent_id": ("Python parent id", -1),
    "collective_name": ("Collective name", ""),
    "in_msg_nelems": ("In msg nelems", 0),
    "out_msg_nelems": ("Out msg nelems", 0),
    "msg_dtype": ("dtype", ""),
    "group_size": ("Group size", 0),
    "process_rank": ("Rank", -1),
    "in_split_size": ("In split size", "[]"),
    "out_split_size": ("Out split size", "[]"),
}
"""Columns that come from arguments: the argument and the value where it is missing, as in HTA."""


COLUMNS = (
    *("index", "cat", "name", "pid", "tid", "ts", "dur", "stream", "correlation"),
    *list(ARGUMENTS)[:7],
    *("external_id", *list(ARGUMENTS)[7:], "index_correlation", "iteration", "end"),
)
"""HTA's columns in HTA's order."""


class SymbolTable:
    """Ids of texts, in alphabetical order."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.sym_table = sorted(set(texts))

    @property
    def sym_index(self) -> dict[str, int]:
        """Text → id."""
        return {text: number for number, text in enumerate(self.sym_table)}

    def get_sym_table(self) -> list[str]:
        """Return the texts in order of id."""
        return self.sym_table

    def get_sym_id_map(self) -> dict[str, int]:
        """Return text → id."""
        return self.sym_index


def hta_trace_frame(scope: Scope) -> pd.DataFrame:
    """Return one rank's :func:`hta_trace_frames`."""
    return hta_trace_frames([scope])[0][scope.rank]


ALIGNED = -1
"""Times count from the earliest start of all ranks."""


def hta_trace_frames(
    scopes: Sequence[Scope], *, origin_ns: int | None = ALIGNED
) -> tuple[dict[int, pd.DataFrame], SymbolTable]:
    """Return the traces of ranks as frames with HTA's columns, and the table of their symbols.

    The index is the position in ``traceEvents``. ``ts``, ``dur`` and ``end`` are µs since the earliest start of all
    ranks (since ``origin_ns``; None: as each file has them), exact to the nanosecond; ``cat`` and ``name`` are symbols,
    ``s_cat`` and ``s_name`` their texts. Missing values are those of HTA (-1, 0, "", "-1", "[]").

    Unlike HTA, times are not rounded; ``stream`` is -1 for events that did not run on one, whatever their arguments
    are; ``iteration`` comes from the steps on the CPU alone, and activities and their annotations have that of their
    launch, also on stream 0; ``index_correlation`` is -1 where the partner is not in the file.
    """
    origin = earliest_ns(scopes) if origin_ns == ALIGNED else origin_ns
    frames = {scope.rank: _frame_of_rows(scope, _kept_rows(scope), origin) for scope in scopes}
    texts = (frame[column].unique() for frame in frames.values() for column in ("s_cat", "s_name"))
    symbols = SymbolTable(chain.from_iterable(texts))
    numbers = symbols.sym_index
    for frame in frames.values():
        frame["cat"] = frame["s_cat"].map(numbers).astype(np.int64)
        frame["name"] = frame["s_name"].map(numbers).astype(np.int64)
    return frames, symbols


def _kept_rows(scope: Scope) -> Ids:
    """Return the rows that HTA keeps, in the order of the file: no instants, and nothing outside the window."""
    graph = scope.graph
    events = graph.event_table
    rows = np.arange(len(events), dtype=np.int32)
    keep = scope.holds(rows)
    # GPU events belong where their launch does: activities by the scope's work, the others by their CPU side.
    keep[graph.is_gpu] = False
    keep[scope.work.row] = True
    keep[events.kind == EventKind.MEMORY] = False
    copies, original = annotation_sources(graph)
    keep[copies] = scope.holds(np.where(original >= 0, original, copies))
    syncs = np.flatnonzero(events.kind == EventKind.SYNC_RECORD)
    call = _calls_of_rows(graph, syncs)
    keep[syncs] = scope.holds(np.where(call >= 0, call, syncs))
    chosen = np.flatnonzero(keep)
    return chosen[np.argsort(events.index[chosen])].astype(np.int32)


def _calls_of_rows(graph: DependencyGraph, rows: Ids | Ints) -> Ids:
    """Return the call with each row's correlation; -1 where there is none."""
    return CallsByCorrelation(graph.event_table).of(graph.event_table.correlation[rows])


def _frame_of_rows(scope: Scope, rows: Ids, origin_ns: int | None) -> pd.DataFrame:
    """Return the frame of some rows, without those that have no category, which HTA does not load."""
    graph = scope.graph
    keys = list(dict.fromkeys([*(key for key, _ in ARGUMENTS.values()), "stream"]))
    details = read_event_args(graph.trace, keys, rows, fields=("cat", "pid", "tid"))
    origin = details.base_ns if origin_ns is None else origin_ns
    listed = np.flatnonzero(details.fields["cat"] != None)  # noqa: E711 - an array
    events, times = graph.event_table.take(rows), graph.trace.file_times.take(rows)
    on_stream = kind_mask(events.kind, (*GPU_KINDS, EventKind.SYNC_RECORD))
    # Of MTIA's rows some are on no stream: the thread that they are drawn on is none.
    on_stream &= (details.fields["cat"] != WITHOUT_STREAMS) | (details["stream"] != None)  # noqa: E711 - arrays
    columns: dict[str, Any] = {
        "index": events.index,
        "cat": 0,
        "name": 0,
        "pid": details.fields["pid"],
        "tid": details.fields["tid"],
        "ts": (times.start - origin) / 1e3,
        "dur": (times.end - times.start) / 1e3,
        "stream": np.where(on_stream, graph.lanes.stream[events.lane], NO_STREAM),
        "correlation": events.correlation,
        "external_id": events.external_id,
        "index_correlation": _partner_indices(scope, rows),
        "iteration": iterations(scope.graph, rows),
        "end": (times.end - origin) / 1e3,
        "s_cat": details.fields["cat"],
        "s_name": np.array(graph.names or ("",), dtype=object)[events.name],
    }
    for column, (key, absent) in ARGUMENTS.items():
        columns[column] = _filled_column(details[key], absent)
    frame = pd.DataFrame(columns, index=pd.Index(events.index), columns=[*COLUMNS, "s_cat", "s_name"])
    return frame.iloc[listed]


def _filled_column(values: Objects, absent: Any) -> Any:
    """Replace what is absent; numbers become a column of numbers."""
    column = [absent if value is None else value for value in values.tolist()]
    if isinstance(absent, str):
        return pd.Series(column, dtype=object).to_numpy()
    return pd.to_numeric(pd.Series(column, dtype=object), errors="coerce").fillna(absent).to_numpy()


def _partner_indices(scope: Scope, rows: Ids) -> Ids:
    """Return the event index of the call of a GPU row, and of the first GPU row of a call; -1 where there is none."""
    graph = scope.graph
    events = graph.event_table
    on_gpu = np.flatnonzero(kind_mask(events.kind, (*GPU_KINDS, EventKind.SYNC_RECORD))).astype(np.int32)
    call = _calls_of_rows(graph, on_gpu)
    partner = np.full(len(events), -1, np.int32)
    partner[on_gpu] = take_or(events.index, call)
    known = call >= 0
    partner[call[known][::-1]] = events.index[on_gpu[known][::-1]]  # backwards: the first activity of a call stays
    return partner[rows]


def iterations(graph: DependencyGraph, rows: Ids) -> Ints:
    """Return the step in which each row starts on the CPU; of GPU rows that of the launch; -1 outside all steps."""
    events = graph.event_table
    # A row's anchor is the row on the CPU that decides: itself, its launch call, or the annotation it copies.
    anchor = rows.copy()
    on_gpu = kind_mask(events.kind[rows], (*GPU_KINDS, EventKind.SYNC_RECORD))
    anchor[on_gpu] = _calls_of_rows(graph, rows[on_gpu])
    copies, original = annotation_sources(graph)
    of_copy = np.full(len(events), -1, np.int32)
    of_copy[copies] = original
    is_copy = events.kind[rows] == EventKind.GPU_ANNOTATION
    anchor[is_copy] = of_copy[rows[is_copy]]
    return np.where(anchor >= 0, _step_numbers_at(graph, events.start[anchor]), -1)


def _step_numbers_at(graph: DependencyGraph, time: Ints) -> Ints:
    """Return the number of the step that is open at each time; -1 between steps."""
    steps = sorted(graph.steps(), key=lambda step: step.start_ns)
    if not steps:
        return np.full(len(time), -1, np.int64)
    start = np.array([step.start_ns for step in steps], np.int64)
    end = np.array([step.end_ns for step in steps], np.int64)
    number = np.array([step.number for step in steps], np.int64)
    at = np.searchsorted(start, time, side="right") - 1
    return np.where((at >= 0) & (time < end[at]), number[at], -1)
