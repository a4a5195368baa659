"""HTA's tables of launches: queues, copy bandwidth, counter tracks, kernels of operators and frequent sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Flag, auto
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from analyses.declare.description import COUNTER_SERIES
from analyses.declare.scope import Scope
from analyses.declare.tables import event_names
from analyses.display.charts import show
from analyses.hta.breakdowns import describe_groups
from analyses.hta.frame import earliest_ns
from analyses.questions import kernel_sequences
from analyses.questions.counter_tracks import QUEUES, RATES, counter_tracks, output_name
from analyses.questions.hardware_counters import KEYS, counted_ranges
from analyses.questions.launch_stats import answer, figure, launched_work
from analyses.questions.operator_kernels import OPERATORS, joined_names, launch_delays, sequences_of_operators
from analyses.questions.queue_length import queue_of
from hta_graph.base.arrays import first_of_runs
from hta_graph.base.errors import OutputError, QueryError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.storage.output_paths import check_output, check_outputs
from hta_graph.export.perfetto.append_events import write_counters
from hta_graph.model import GPU_KINDS, Codes, EventKind, kind_mask
from hta_graph.paths.gpu_activity import Copies, QueueSteps, RateSteps, copies_of, rate_steps
from hta_graph.trace.profiler_names import PROFILER_RANGE

ROWS_AT_ONCE = 4_096


def hta_queue_length_time_series(scopes: Sequence[Scope], origin_ns: int | None = None) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_queue_length_time_series``.

    ``origin_ns`` is what ts counts from; the earliest event of the scopes' traces if not given.
    """
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = {scope.rank: _series_frame(scope, queue_of(scope), origin) for scope in scopes}
    return {rank: frame for rank, frame in frames.items() if len(frame)}


def _series_frame(scope: Scope, queue: QueueSteps, origin: int) -> pd.DataFrame:
    """Return the changes of a rank's queues (µs from the origin)."""
    graph = scope.graph
    stream = graph.lanes.stream[queue.lane]
    columns = {
        "ts": (queue.time - origin) / 1e3,
        "pid": graph.lanes.device[queue.lane],
        "tid": stream,
        "stream": stream,
        "queue_length": queue.length,
    }
    return pd.DataFrame(columns, index=pd.Index(graph.event_table.index[queue.row], name="index"))


def hta_queue_length_summary(scopes: Sequence[Scope]) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_queue_length_summary``."""
    groups = [
        ((scope.rank, int(scope.graph.lanes.stream[lane])), queue.length[part])
        for scope in scopes
        for queue in (queue_of(scope),)
        for lane, part in queue.streams()
    ]
    return describe_groups(groups, ("rank", "stream"), "queue_length")


def hta_queue_length_summary_from_time_series(queue_length_dict: Mapping[int, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_queue_length_summary_from_time_series``."""
    groups = [
        ((rank, stream), frame["queue_length"].to_numpy()[part])
        for rank, frame in queue_length_dict.items()
        for stream, part in _stream_slices(frame)
    ]
    return describe_groups(groups, ("rank", "stream"), "queue_length")


def _stream_slices(frame: pd.DataFrame) -> list[tuple[int, slice]]:
    """Return the slice of each stream in a time series."""
    stream, device = frame["stream"].to_numpy(), frame["pid"].to_numpy()
    first = np.flatnonzero(first_of_runs(stream, device)).tolist()
    bounds = zip(first, [*first[1:], len(frame)], strict=False)
    return [(int(stream[begin]), slice(begin, end)) for begin, end in bounds]


def hta_time_spent_blocked_on_full_queue(
    scopes: Sequence[Scope], queue_length_dict: Mapping[int, pd.DataFrame], max_queue_length: int
) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_time_spent_blocked_on_full_queue``."""
    own = {scope.rank: scope for scope in scopes}
    for rank in queue_length_dict:
        if rank not in own:
            raise QueryError(f"rank {rank} is not loaded; choose one of {', '.join(map(str, own))}")
    rows = [
        row
        for rank, frame in queue_length_dict.items()
        for row in _full_queue_times(own[rank], frame, max_queue_length)
    ]
    frame = pd.DataFrame(rows, columns=_full_queue_columns())
    # Empty columns get the types that filled ones have.
    return frame if rows else frame.astype(dict(zip(frame, ("int64", "int64", "float64", "float64"), strict=True)))


@cache
def _full_queue_columns() -> pd.Index[str]:
    """Return the headings of HTA's table."""
    return pd.Index(["rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"])


def _full_queue_times(scope: Scope, frame: pd.DataFrame, max_queue_length: int) -> list[tuple[int, int, float, float]]:
    """Return rank, stream, time at a full queue (µs) and its share, of the streams with a full queue."""
    time, full = frame["ts"].to_numpy(), frame["queue_length"].to_numpy() >= max_queue_length
    blocked = [
        # A length holds until the next change; the last one of a stream has no end and counts nothing.
        (stream, float(np.diff(time[part])[full[part][:-1]].sum()))
        for stream, part in _stream_slices(frame)
        if full[part].any()
    ]
    whole = _trace_duration_us(scope) if blocked else 0.0
    return [(scope.rank, stream, length, length / whole if whole else 0.0) for stream, length in blocked]


def _trace_duration_us(scope: Scope) -> float:
    """Return the time from the earliest start of a kept row to the latest."""
    events = scope.graph.event_table
    # Rows are sorted by start: the first and the last kept CPU row lie at the ends, found without a look at all.
    until = int(np.searchsorted(events.start, scope.cpu_end_ns))
    ends = [_first_row_on_cpu(events.kind[:until]), until - 1 - _first_row_on_cpu(events.kind[:until][::-1])]
    start = np.concatenate([events.start[[at for at in ends if 0 <= at < until]], scope.work.start])
    return float(start.max() - start.min()) / 1e3 if len(start) else 0.0


def _first_row_on_cpu(kind: Codes) -> int:
    """Return the place of the first CPU row, reading no more rows than needed; the end if there is none."""
    for begin in range(0, len(kind), ROWS_AT_ONCE):
        found = ~kind_mask(kind[begin : begin + ROWS_AT_ONCE], (*GPU_KINDS, EventKind.MEMORY))
        if found.any():
            return begin + int(found.argmax())
    return len(kind)


def hta_memory_bw_time_series(scopes: Sequence[Scope], origin_ns: int | None = None) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_memory_bw_time_series``.

    ``origin_ns`` is what ts counts from; the earliest event of the scopes' traces if not given.
    """
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = {scope.rank: _rate_frame(scope, origin) for scope in scopes}
    return {rank: frame for rank, frame in frames.items() if len(frame)}


def _rate_frame(scope: Scope, origin: int) -> pd.DataFrame:
    """Return the changes of a rank's copy bandwidths (µs from the origin, GB/s)."""
    copies, steps = _copy_rates(scope)
    device = scope.graph.lanes.device[copies.lane]
    columns = {
        "ts": (steps.time - origin) / 1e3,
        "pid": np.tile(device, 2)[steps.change],
        "name": np.array(copies.kinds, object)[steps.kind],
        "memory_bw_gbps": steps.rate,
    }
    return pd.DataFrame(columns, index=pd.Index(steps.change))


def _copy_rates(scope: Scope) -> tuple[Copies, RateSteps]:
    """Return a rank's copies and how their bandwidths add up; copies of length 0 count as 1 µs."""
    copies = copies_of(scope.graph, scope.work).in_file_time(scope.graph.trace)
    return copies, rate_steps(copies, copies.drawn_end, np.nan_to_num(copies.rate))


def hta_memory_bw_summary(scopes: Sequence[Scope]) -> pd.DataFrame | None:
    """Return the frame of ``TraceAnalysis.get_memory_bw_summary``."""
    groups = []
    for scope in scopes:
        copies, steps = _copy_rates(scope)
        bounds = np.searchsorted(steps.kind, np.arange(len(copies.kinds) + 1)).tolist()  # steps are sorted by kind
        for code, name in enumerate(copies.kinds):
            own = steps.rate[bounds[code] : bounds[code + 1]]
            groups.append(((scope.rank, name), own[own > 0]))
    return describe_groups(groups, ("rank", "name"), "memory_bw_gbps")


class TimeSeriesTypes(Flag):
    """HTA's names of counter series: the queue of each stream, the bandwidth of each kind of copy."""

    QUEUE_LENGTH = auto()
    MEMCPY_BANDWIDTH = auto()


SERIES_OF_TYPE = {TimeSeriesTypes.QUEUE_LENGTH: QUEUES, TimeSeriesTypes.MEMCPY_BANDWIDTH: RATES}


def hta_generate_trace_with_counters(
    scopes: Sequence[Scope],
    time_series: TimeSeriesTypes | None,
    output_suffix: str,
    output_dir: str | Path | None,
    *,
    inputs: Sequence[Location] = (),
) -> list[Location]:
    """Write the files of ``TraceAnalysis.generate_trace_with_counters``.

    ``inputs`` are files of other ranks, which are not overwritten either.
    """
    paths = [scope.graph.path for scope in scopes]
    targets = [resolve_location(output_dir or path.parent) / output_name(path, output_suffix) for path in paths]
    if len(set(targets)) < len(targets):
        raise OutputError(f"{targets[0]}: two ranks would be written there; pass a different output_dir for each")
    # All outputs are checked before the first is written.
    check_outputs(targets, [*paths, *inputs])
    chosen = [name for kind, name in SERIES_OF_TYPE.items() if kind in time_series] if time_series else COUNTER_SERIES
    for scope, target in zip(scopes, targets, strict=True):
        write_counters(scope.graph.trace, counter_tracks(scope, chosen), target)
    return targets


def hta_cupti_counter_data_with_operators(scopes: Sequence[Scope], origin_ns: int | None = None) -> list[pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_cupti_counter_data_with_operators``: the columns of ranges.

    ``origin_ns`` is what ts (µs) counts from; the earliest event of the scopes' traces if not given.
    """
    scopes = [scope for scope in scopes if (scope.graph.event_table.kind == EventKind.OTHER).any()]
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = [(scope, counted_ranges([scope])) for scope in scopes]
    return [_counter_frame(scope, frame, origin) for scope, frame in frames if (frame["call_index"] >= 0).any()]


def _counter_frame(scope: Scope, frame: pd.DataFrame, origin: int) -> pd.DataFrame:
    """Return a rank's ranges (µs from the origin)."""
    times = scope.graph.trace.file_times
    rows = np.flatnonzero(np.isin(scope.graph.event_table.index, frame["event_index"]))
    start, end = (times.start[rows] - origin) / 1e3, (times.end[rows] - origin) / 1e3
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


HTA_COLUMNS = (
    *("aten_op_name", "kernel_sequence", "occurrence_count"),
    *("avg_aten_op_launch_delay", "avg_runtime_delay"),
)


def hta_cuda_kernel_launch_stats(
    scopes: Sequence[Scope],
    runtime_cutoff: float,
    launch_delay_cutoff: float,
    *,
    include_memory_events: bool,
    visualize: bool,
) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_cuda_kernel_launch_stats``."""
    if visualize:
        show(figure(answer(scopes, runtime_cutoff, launch_delay_cutoff, no_memory_events=not include_memory_events)))
    return {scope.rank: _launch_frame(scope, include_memory_events=include_memory_events) for scope in scopes}


def _launch_frame(scope: Scope, *, include_memory_events: bool) -> pd.DataFrame:
    """Return a rank's launches (µs)."""
    events, work = scope.graph.event_table, launched_work(scope, include_memory_events=include_memory_events)
    returned = events.end[work.call]
    return pd.DataFrame(
        {
            "correlation": events.correlation[work.row],
            "cpu_duration": (returned - events.start[work.call]) / 1e3,
            "gpu_duration": (work.end - work.start) / 1e3,
            "launch_delay": (work.start - returned).clip(min=0) / 1e3,
        }
    )


def hta_aten_op_kernels_and_delay(scopes: Sequence[Scope], sort_by: Sequence[str] | None) -> dict[int, pd.DataFrame]:
    """Return the frames of ``TraceAnalysis.get_aten_op_kernels_and_delay``."""
    wanted = list(sort_by or ["occurrence_count"])  # HTA's own default
    frames = {scope.rank: _operator_frame(scope) for scope in scopes}
    for column in wanted:
        if column not in HTA_COLUMNS:
            raise QueryError(f"cannot sort by {column!r}; choose from {', '.join(HTA_COLUMNS)}")
    return {rank: frame.sort_values(wanted, ascending=False, kind="stable") for rank, frame in frames.items()}


def _operator_frame(scope: Scope) -> pd.DataFrame:
    """Return a rank's operators and sequences (µs), by name."""
    found = sequences_of_operators(scope, OPERATORS)
    count = found.counts()
    launch_delay, runtime_delay = (found.per_pattern(delay) / count / 1e3 for delay in launch_delays(scope, found))
    graph = scope.graph
    values = (event_names(graph, found.owner[found.example]), joined_names(graph, found, " -> "), count)
    columns = (*values, launch_delay.round(3), runtime_delay.round(3))
    frame = pd.DataFrame(dict(zip(HTA_COLUMNS, columns, strict=True)))
    return frame.sort_values(list(HTA_COLUMNS[:2]), ignore_index=True)


def hta_frequent_cuda_kernel_sequences(
    scope: Scope,
    operator_name: str,
    output_dir: str | Path | None,
    min_pattern_len: int,
    top_k: int,
    *,
    visualize: bool,
    inputs: Sequence[Location] = (),
) -> pd.DataFrame:
    """Return the frame of ``TraceAnalysis.get_frequent_cuda_kernel_sequences``.

    ``inputs`` are files of other ranks, which are not overwritten either.
    """
    graph = scope.graph
    if output_dir is not None:
        target = resolve_location(output_dir) / f"overlaid_{graph.path.name.removesuffix('.zst')}"
        check_output(target, inputs)
        kernel_sequences.write_sequence_overlay(scope, target, operator_name, min_pattern_len, top_k)
    if visualize:
        show(kernel_sequences.figure(kernel_sequences.answer([scope], operator_name, min_pattern_len), top_k))
    found = kernel_sequences.sequences_under(scope, operator_name, min_pattern_len)
    gpu, cpu = kernel_sequences.pattern_times(graph, found)
    columns = {
        "pattern": kernel_sequences.pattern_texts(graph, found),
        "count": found.counts(),
        "GPU kernel duration (us)": gpu / 1e3,
        "CPU op duration (us)": cpu / 1e3,
    }
    return pd.DataFrame(columns).iloc[kernel_sequences.most_frequent(graph, found)].reset_index(drop=True)
