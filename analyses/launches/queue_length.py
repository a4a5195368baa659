"""queue-length: how many launches wait on each stream, and for how long a full queue held the CPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import row_labels, step_lines
from analyses.scope import Scope, earliest_ns
from analyses.statistics import described
from hta_graph.algorithms.work.activities import activities
from hta_graph.algorithms.work.launch_queue import QueueSteps, queue_steps
from hta_graph.errors import QueryError
from hta_graph.model import GPU_KINDS, Codes, EdgeKind, EventKind, Ids, kind_mask
from hta_graph.trace.vocabulary import AMD_CALL

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = [
    "answer",
    "figure",
    "hta_queue_length_summary",
    "hta_queue_length_summary_from_time_series",
    "hta_queue_length_time_series",
    "hta_time_spent_blocked_on_full_queue",
    "queue_length",
    "queue_length_time_series",
    "queue_of",
]

MAX_QUEUE_LENGTH = 1024
ROWS_AT_ONCE = 4_096
SATURATED = range(1000, 1024)
"""Where the queues of NVIDIA GPUs are full in real traces: 1,013 to 1,024 launches, mostly 1,022."""


def queue_length(scopes: Sequence[Scope], max_queue_length: int = MAX_QUEUE_LENGTH) -> pd.DataFrame:
    """Summarise how many launches of each stream had not started.

    Every launch counts, a graph launch once for each activity; HTA leaves graph launches and several other calls out.
    A window begins with the queue that it finds.

    Returns:
        rank, scope, stream, launches, max_length; mean_length and median_length over the changes, as HTA;
        time_mean_length, weighted by time; full_ns: with at least ``max_queue_length`` launches, and its full_share of
        the time from the first change to the last (of a window: of all its time); blocked_calls and blocked_ns:
        launches that waited for a free slot, by the graph's queue_full edges, and the time inside them.
    """
    columns = [
        *("rank", "scope", "stream", "launches", "max_length", "mean_length", "median_length", "time_mean_length"),
        *("full_ns", "full_share", "blocked_calls", "blocked_ns"),
    ]
    return pd.DataFrame([row for scope in scopes for row in _summaries(scope, max_queue_length)], columns=columns)


def queue_length_time_series(scopes: Sequence[Scope]) -> pd.DataFrame:
    """List every change of a queue, stream by stream.

    Returns:
        rank, scope, stream, time_ns, queue_length from then on, event_index of the call or activity that changed it.
    """
    parts = [_series(scope) for scope in scopes]
    columns = ["rank", "scope", "stream", "time_ns", "queue_length", "event_index"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)


def queue_of(scope: Scope) -> QueueSteps:
    """Return the changes of the queues in a stretch."""
    events = scope.graph.trace.events
    if scope.is_open:
        return queue_steps(events, scope.work)
    return queue_steps(events, activities(scope.graph)).clip(scope.start_ns, scope.end_ns)


def _series(scope: Scope) -> pd.DataFrame:
    trace, queue = scope.graph.trace, queue_of(scope)
    labels = np.array(trace.lanes.labels, object)
    return pd.DataFrame(
        {
            "rank": scope.rank,
            "scope": scope.label,
            "stream": labels[queue.lane],
            "time_ns": queue.time,
            "queue_length": queue.length,
            "event_index": trace.events.index[queue.row],
        }
    )


def _summaries(scope: Scope, max_queue_length: int) -> list[dict[str, Any]]:
    queue, blocked = queue_of(scope), _blocked(scope)
    lasting = queue.lasting(None if scope.is_open else scope.end_ns)
    return [
        {
            "rank": scope.rank,
            "scope": scope.label,
            "stream": scope.graph.trace.lanes.labels[lane],
            "launches": _launches(scope, queue.row[part]),
            **_lengths(queue.length[part], lasting[part], max_queue_length, None if scope.is_open else scope.window_ns),
            **blocked.get(lane, {"blocked_calls": 0, "blocked_ns": 0}),
        }
        for lane, part in queue.streams()
    ]


def _launches(scope: Scope, rows: Ids) -> int:
    events = scope.graph.trace.events
    inside = events.start[rows] >= scope.start_ns if not scope.is_open else np.True_
    return int(np.count_nonzero((events.kind[rows] == EventKind.RUNTIME) & inside))


def _lengths(length: Any, lasting: Any, max_queue_length: int, window_ns: int | None) -> dict[str, Any]:
    span = int(lasting.sum()) if window_ns is None else window_ns
    full = int(lasting[length >= max_queue_length].sum())
    return {
        "max_length": int(length.max()),
        "mean_length": float(length.mean()),
        "median_length": float(np.median(length)),
        "time_mean_length": float((length * lasting).sum() / span) if span else float(length.mean()),
        "full_ns": full,
        "full_share": full / span if span else 0.0,
    }


def _blocked(scope: Scope) -> dict[int, dict[str, int]]:
    """Return for each stream the launches that waited for a slot, and the time inside them."""
    edges, events = scope.graph.edge_table, scope.graph.trace.events
    found = np.flatnonzero(edges.kind == EdgeKind.QUEUE_FULL)
    call, lane = edges.target[found] >> 1, events.lane[edges.source[found] >> 1]
    here = scope.holds(call)
    call, lane = call[here], lane[here]
    return {
        stream: {
            "blocked_calls": int(np.count_nonzero(lane == stream)),
            "blocked_ns": int((events.end[call] - events.start[call])[lane == stream].sum()),
        }
        for stream in np.unique(lane).tolist()
    }


def answer(scopes: Sequence[Scope], max_queue_length: int = MAX_QUEUE_LENGTH) -> Answer:
    """Answer the command."""
    frame = queue_length(scopes, max_queue_length)
    notes = [note for scope in scopes if (note := _missing(scope))]
    near = frame[frame["max_length"].isin(SATURATED) & (frame["max_length"] < max_queue_length)]
    if len(near):
        most = int(near["max_length"].max())
        notes.append(f"a queue reached {most:,}: NVIDIA's are full near 1,022; --max-queue-length {most} counts that")
    if any(map(_is_amd, scopes)):
        notes.append("AMD's queues take more than 1,024 launches: a long one there holds nobody up")
    return Answer({"queue_length": frame}, notes, {"queue_length_time_series": queue_length_time_series(scopes)})


def _missing(scope: Scope) -> str:
    if scope.missing() or (scope.work.call >= 0).any() or not len(scope.work):
        return scope.missing()
    return f"rank {scope.rank}: no launching call in {scope.label}; record with ProfilerActivity.CPU as well"


def _is_amd(scope: Scope) -> bool:
    trace = scope.graph.trace
    called = np.unique(trace.events.name[scope.work.call[scope.work.call >= 0]])
    return bool(trace.names_starting_with(AMD_CALL)[called].any())


def figure(found: Answer) -> Figure:
    """Draw each stream's queue over time."""
    frame = found.series["queue_length_time_series"]
    ms = (frame["time_ns"] - frame["time_ns"].min()) / 1e6
    keys = frame[["rank", "scope", "stream"]].drop_duplicates()
    names = [f"{label}, {stream}" for label, stream in zip(row_labels(keys), keys["stream"], strict=True)]
    parts = frame["queue_length"].groupby([frame["rank"], frame["scope"], frame["stream"]], sort=False)
    lines = {name: (ms[part.index].to_numpy(), part.to_numpy()) for name, (_, part) in zip(names, parts, strict=True)}
    return step_lines(lines, title="Launches that have not started", x="ms", y="queue length")


def hta_queue_length_time_series(scopes: Sequence[Scope], origin_ns: int | None = None) -> dict[int, pd.DataFrame]:
    """Return what HTA's ``get_queue_length_time_series`` does: rank → ts, pid, tid, stream, queue_length; index: event.

    Args:
        scopes: one a rank.
        origin_ns: what ts (µs) counts from; the earliest event of the scopes' traces if not given.
    """
    origin = earliest_ns(scopes) if origin_ns is None else origin_ns
    frames = {scope.rank: _hta_series(scope, queue_of(scope), origin) for scope in scopes}
    return {rank: frame for rank, frame in frames.items() if len(frame)}


def _hta_series(scope: Scope, queue: QueueSteps, origin: int) -> pd.DataFrame:
    trace = scope.graph.trace
    stream = trace.lanes.stream[queue.lane]
    columns = {
        "ts": (queue.time - origin) / 1e3,
        "pid": trace.lanes.device[queue.lane],
        "tid": stream,
        "stream": stream,
        "queue_length": queue.length,
    }
    return pd.DataFrame(columns, index=pd.Index(trace.events.index[queue.row], name="index"))


def hta_queue_length_summary(scopes: Sequence[Scope]) -> pd.DataFrame | None:
    """Return what HTA's ``get_queue_length_summary`` does: (rank, stream) → queue_length described over its changes."""
    groups = [
        ((scope.rank, int(scope.graph.trace.lanes.stream[lane])), queue.length[part])
        for scope in scopes
        for queue in (queue_of(scope),)
        for lane, part in queue.streams()
    ]
    return described(groups, ("rank", "stream"), "queue_length")


def hta_queue_length_summary_from_time_series(queue_length_dict: Mapping[int, pd.DataFrame]) -> pd.DataFrame | None:
    """Return the same from time series, which stay as they are; HTA writes a column into them."""
    groups = [
        ((rank, stream), frame["queue_length"].to_numpy()[part])
        for rank, frame in queue_length_dict.items()
        for stream, part in _streams(frame)
    ]
    return described(groups, ("rank", "stream"), "queue_length")


def _streams(frame: pd.DataFrame) -> list[tuple[int, slice]]:
    """Return where each stream lies in a time series."""
    stream, device = frame["stream"].to_numpy(), frame["pid"].to_numpy()
    changes = np.flatnonzero((stream[1:] != stream[:-1]) | (device[1:] != device[:-1])) + 1
    first = [0, *changes.tolist()] if len(frame) else []
    bounds = zip(first, [*first[1:], len(frame)], strict=False)
    return [(int(stream[begin]), slice(begin, end)) for begin, end in bounds]


def hta_time_spent_blocked_on_full_queue(
    scopes: Sequence[Scope],
    queue_length_dict: Mapping[int, pd.DataFrame],
    max_queue_length: int = MAX_QUEUE_LENGTH,
) -> pd.DataFrame:
    """Return what HTA's ``get_time_spent_blocked_on_full_queue`` does, in µs, for every stream.

    HTA keeps only the last stream of each rank. Its default says nothing on NVIDIA, where queues are full near 1,022,
    and nothing on AMD, where they take more.

    Args:
        scopes: those of all ranks in the series, whose length the times are related to.
        queue_length_dict: what :func:`hta_queue_length_time_series` returns.
        max_queue_length: a queue of so many launches is full.

    Raises:
        QueryError: a rank of the series is not among the scopes.
    """
    own = {scope.rank: scope for scope in scopes}
    for rank in queue_length_dict:
        if rank not in own:
            raise QueryError(f"rank {rank} is not loaded; there are: {', '.join(map(str, own))}")
    rows = [row for rank, frame in queue_length_dict.items() for row in _full(own[rank], frame, max_queue_length)]
    frame = pd.DataFrame(rows, columns=_full_columns())
    return frame if rows else frame.astype(dict(zip(frame, ("int64", "int64", "float64", "float64"), strict=True)))


@cache
def _full_columns() -> pd.Index[str]:
    return pd.Index(["rank", "stream", "duration_at_max_queue_length", "relative_duration_at_max_queue_length"])


def _full(scope: Scope, frame: pd.DataFrame, max_queue_length: int) -> list[tuple[int, int, float, float]]:
    """Return rank, stream, time at a full queue (µs) and its share, of the streams that fill."""
    time, full = frame["ts"].to_numpy(), frame["queue_length"].to_numpy() >= max_queue_length
    blocked = [
        (stream, float(np.diff(time[part])[full[part][:-1]].sum()))
        for stream, part in _streams(frame)
        if full[part].any()
    ]
    whole = _duration_us(scope) if blocked else 0.0
    return [(scope.rank, stream, length, length / whole if whole else 0.0) for stream, length in blocked]


def _duration_us(scope: Scope) -> float:
    """Return the time from the earliest start of a kept row to the latest."""
    events = scope.graph.trace.events
    until = int(np.searchsorted(events.start, scope.cpu_end_ns))
    ends = [_first_on_cpu(events.kind[:until]), until - 1 - _first_on_cpu(events.kind[:until][::-1])]
    start = np.concatenate([events.start[[at for at in ends if 0 <= at < until]], scope.work.start])
    return float(start.max() - start.min()) / 1e3 if len(start) else 0.0


def _first_on_cpu(kind: Codes) -> int:
    """Return the place of the first row of the CPU, looking at no more rows than needed; the end if there is none."""
    for begin in range(0, len(kind), ROWS_AT_ONCE):
        found = ~kind_mask(kind[begin : begin + ROWS_AT_ONCE], (*GPU_KINDS, EventKind.MEMORY))
        if found.any():
            return begin + int(found.argmax())
    return len(kind)
