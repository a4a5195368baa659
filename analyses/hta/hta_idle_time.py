"""HTA's breakdown of idle time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from analyses.hta.hta_statistics import STATISTICS, describe
from analyses.questions.launch_gaps import LaunchGap, causes_by_launch
from analyses.scope import Scope
from hta_graph.model import Ints
from hta_graph.stream_gaps import stream_intervals

__all__ = ["hta_idle_time"]


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
    """The intervals of one cause on one stream, whose own rank's rows are counted from 0."""

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
