"""HTA's time series and summaries of launch queues."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

import numpy as np
import pandas as pd

from analyses.hta.hta_statistics import describe_groups
from analyses.hta.hta_window import earliest_ns
from analyses.questions.queue_length import queue_of
from analyses.scope import Scope
from hta_graph.arrays import first_of_runs
from hta_graph.errors import QueryError
from hta_graph.launch_queue import QueueSteps
from hta_graph.model import GPU_KINDS, Codes, EventKind, kind_mask

__all__ = [
    "hta_queue_length_summary",
    "hta_queue_length_summary_from_time_series",
    "hta_queue_length_time_series",
    "hta_time_spent_blocked_on_full_queue",
]

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
    """Return where each stream lies in a time series."""
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
            raise QueryError(f"rank {rank} is not loaded; there are: {', '.join(map(str, own))}")
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
    """Return rank, stream, time at a full queue (µs) and its share, of the streams that fill."""
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
    """Return the place of the first row of the CPU, looking at no more rows than needed; the end if there is none."""
    for begin in range(0, len(kind), ROWS_AT_ONCE):
        found = ~kind_mask(kind[begin : begin + ROWS_AT_ONCE], (*GPU_KINDS, EventKind.MEMORY))
        if found.any():
            return begin + int(found.argmax())
    return len(kind)
