"""Gaps of single streams by when the activity behind each was launched: too late, or in time. A table of idle-time."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd

from analyses.scope import Scope
from analyses.tables import table_of
from hta_graph.arrays import summed_by
from hta_graph.errors import UsageError
from hta_graph.model import Codes, Ints
from hta_graph.stream_gaps import StreamIntervals, stream_intervals

__all__ = ["LAUNCH_GAP_COLUMNS", "LAUNCH_GAP_US", "LaunchGap", "causes_by_launch", "launch_gaps"]

LAUNCH_GAP_US = 30.0
"""A gap shorter than this after a launch in time is usual."""
LAUNCH_GAP_COLUMNS = ["rank", "scope", "stream", "cause", "idle_ns", "idle_share", "gaps"]


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


def launch_gaps(scopes: Sequence[Scope], *, launch_gap_us: float = LAUNCH_GAP_US) -> pd.DataFrame:
    """Divide each stream's time between its activities by when the next one was launched.

    The causes are HTA's. Gaps run from the latest end so far, so that none is negative; an activity whose launch is not
    in the file is not counted as launched in time. HTA documents its threshold in nanoseconds and compares it with
    microseconds.

    Args:
        scopes: where to look.
        launch_gap_us: the length below which a gap after a launch in time is ``kernel_wait``, in µs.

    Returns:
        rank, scope, stream, cause (host_wait, kernel_wait, other, launch_unknown), idle_ns, idle_share (of the
        stream's), gaps.

    Raises:
        UsageError: the threshold is negative.
    """
    busy = [scope for scope in scopes if len(scope.running)]
    return table_of(busy, lambda scope: _gaps_per_stream(scope, launch_gap_us), LAUNCH_GAP_COLUMNS)


def _gaps_per_stream(scope: Scope, launch_gap_us: float) -> dict[str, Any]:
    """Sum and count the gaps of one scope by stream and cause."""
    found = stream_intervals(scope.running)
    idle = found.end > found.start
    sums, counts = _sums_and_counts(found, causes_by_launch(scope, found, launch_gap_us), idle)
    lane, cause = np.nonzero(sums)
    return {
        "stream": np.array(scope.graph.lanes.labels, object)[lane],
        "cause": LABELS[cause],
        "idle_ns": sums[lane, cause],
        "idle_share": sums[lane, cause] / sums.sum(axis=1)[lane],
        "gaps": counts[lane, cause],
    }


def causes_by_launch(scope: Scope, found: StreamIntervals, launch_gap_us: float) -> Codes:
    """Tell the cause of each interval between the end of a stream's earlier work and the start of its next one."""
    # stream     ####|......gap......|####
    # launched    ^ here: kernel_wait or other, by the gap's length
    # launched             ^ here: host_wait, the stream had nothing to run
    if launch_gap_us < 0:
        raise UsageError(f"the threshold of launch gaps is a length in µs, not {launch_gap_us:g}")
    launched = scope.graph.event_table.start[found.call]
    # Launched in time: short gaps are usual on a stream, long ones have another reason, which HTA does not name.
    in_time = np.where(found.length < launch_gap_us * 1e3, LaunchGap.KERNEL_WAIT, LaunchGap.OTHER)
    cause = np.where(launched > found.start, LaunchGap.HOST_WAIT, in_time)
    return np.where(found.call < 0, LaunchGap.LAUNCH_UNKNOWN, cause).astype(np.int8)


def _sums_and_counts(found: StreamIntervals, cause: Codes, counted: Any) -> tuple[Ints, Ints]:
    """Return sum and number of the counted intervals by lane and cause."""
    # A grid of lanes and causes: few of either, however many gaps there are.
    shape = (int(found.lane.max(initial=-1)) + 1, len(LaunchGap))
    cell = found.lane[counted].astype(np.int64) * len(LaunchGap) + cause[counted]
    size = shape[0] * shape[1]
    sums, counts = summed_by(cell, found.length[counted], size), np.bincount(cell, minlength=size)
    return sums.reshape(shape), counts.reshape(shape)
