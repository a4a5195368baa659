"""HTA's view of idle time: gaps of single streams, told apart by when the next activity was launched."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analyses.scope import Scope
from analyses.statistics import describe
from hta_graph.algorithms.work.stream_gaps import StreamIntervals, stream_intervals
from hta_graph.errors import UsageError
from hta_graph.model import Codes, Ids, Ints

__all__ = ["LaunchGap", "hta_idle_time", "launch_gaps"]

COLUMNS = ["rank", "scope", "stream", "cause", "idle_ns", "idle_share", "gaps"]
STATISTICS = ["count", "mean", "std", "min", "25%", "50%", "75%", "max"]


class LaunchGap(IntEnum):
    """When the activity behind a gap of its stream was launched."""

    HOST_WAIT = 0
    """After the stream was done with all before: the host was late."""
    KERNEL_WAIT = 1
    """In time, and the gap is shorter than the threshold: the stream's usual gap between activities."""
    OTHER = 2
    """In time, and the gap is longer: something else kept it waiting."""
    LAUNCH_UNKNOWN = 3
    """Its launching call is not in the file."""

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


LABELS = np.array([cause.label for cause in LaunchGap], object)


def launch_gaps(scopes: Sequence[Scope], *, launch_gap_us: float = 30.0) -> pd.DataFrame:
    """Divide each stream's time between its activities by HTA's causes: by when the next one was launched.

    Gaps run from the latest end so far, so that none is negative; an activity whose launch is not in the file is not
    counted as launched in time. HTA documents its threshold in nanoseconds and compares it with microseconds.

    Args:
        scopes: where to look.
        launch_gap_us: the length below which a gap after a launch in time is ``kernel_wait``, in µs.

    Returns:
        rank, scope, stream, cause (host_wait, kernel_wait, other, launch_unknown), idle_ns, idle_share (of the
        stream's), gaps.

    Raises:
        UsageError: the threshold is negative.
    """
    parts = [_of_scope(scope, launch_gap_us) for scope in scopes if len(scope.running)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def _of_scope(scope: Scope, launch_gap_us: float) -> pd.DataFrame:
    found = stream_intervals(scope.running)
    idle = found.end > found.start
    sums, counts = _per_stream(found, _causes(scope, found, launch_gap_us), idle)
    lane, cause = np.nonzero(sums)
    columns = {
        "rank": scope.rank,
        "scope": scope.label,
        "stream": np.array(scope.graph.trace.lanes.labels, object)[lane],
        "cause": LABELS[cause],
        "idle_ns": sums[lane, cause],
        "idle_share": sums[lane, cause] / sums.sum(axis=1)[lane],
        "gaps": counts[lane, cause],
    }
    return pd.DataFrame(columns)


def _causes(scope: Scope, found: StreamIntervals, launch_gap_us: float) -> Codes:
    if launch_gap_us < 0:
        raise UsageError(f"the threshold of launch gaps is a length in µs, not {launch_gap_us:g}")
    launched = scope.graph.trace.events.start[found.call]
    in_time = np.where(found.length < launch_gap_us * 1e3, LaunchGap.KERNEL_WAIT, LaunchGap.OTHER)
    cause = np.where(launched > found.start, LaunchGap.HOST_WAIT, in_time)
    return np.where(found.call < 0, LaunchGap.LAUNCH_UNKNOWN, cause).astype(np.int8)


def _per_stream(found: StreamIntervals, cause: Codes, counted: Any) -> tuple[Ints, Ints]:
    """Return sum and number of the counted intervals by lane and cause."""
    shape = (int(found.lane.max(initial=-1)) + 1, len(LaunchGap))
    sums, counts = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    np.add.at(sums, (found.lane[counted], cause[counted]), found.length[counted])
    np.add.at(counts, (found.lane[counted], cause[counted]), 1)
    return sums, counts


def hta_idle_time(
    scopes: Sequence[Scope],
    streams: Collection[int] | None = None,
    show_idle_interval_stats: bool = False,  # noqa: FBT001, FBT002
    consecutive_kernel_delay: float = 30,
) -> tuple[pd.DataFrame, pd.DataFrame | None]:
    """Return the frames of HTA's ``get_idle_time_breakdown``: idle time by cause, and statistics of the intervals.

    The delay is in microseconds, as HTA uses it though it documents nanoseconds. Activities without a launch in the
    file are a cause of their own, ``launch_unknown``; HTA joins them with whatever event comes first in the file.

    Args:
        scopes: one per rank.
        streams: the numbers of the streams to look at; all if not given.
        show_idle_interval_stats: return the statistics too.
        consecutive_kernel_delay: the threshold of ``kernel_wait``, in µs.
    """
    delay = consecutive_kernel_delay
    rows = [row for scope in scopes if len(scope.work) for row in _hta_rows(scope, streams, delay)]
    return _hta_frame(rows), _hta_statistics(rows) if show_idle_interval_stats else None


class _HtaRow(NamedTuple):
    """The intervals of one cause on one stream, whose own rank's rows are counted from 0."""

    place: int
    rank: int
    lane: int
    stream: int
    cause: str
    length: Ints


def _hta_rows(scope: Scope, streams: Collection[int] | None, delay_us: float) -> list[_HtaRow]:
    found = stream_intervals(scope.work)
    cause = _causes(scope, found, delay_us)
    number = scope.graph.trace.lanes.stream
    lanes = _in_order_of_appearance(scope.work.lane)
    chosen = lanes if streams is None else lanes[np.isin(number[lanes], list(streams))]
    kept = [
        (lane, kind, found.length[here])
        for lane in chosen.tolist()
        for kind in LaunchGap
        if (here := (found.lane == lane) & (cause == kind)).any() or kind == LaunchGap.OTHER
    ]
    return [
        _HtaRow(place, scope.rank, lane, int(number[lane]), kind.label, length)
        for place, (lane, kind, length) in enumerate(kept)
    ]


def _in_order_of_appearance(lanes: Ids) -> Ids:
    unique, first = np.unique(lanes, return_index=True)
    ordered: Ids = unique[np.argsort(first)]
    return ordered


def _hta_frame(rows: Sequence[_HtaRow]) -> pd.DataFrame:
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


def _hta_statistics(rows: Sequence[_HtaRow]) -> pd.DataFrame:
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
