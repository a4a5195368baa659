"""Where the GPU, or one of its streams, has nothing to run."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hta_graph.activities import Activities
from hta_graph.arrays import Columns, first_of_runs
from hta_graph.model import Bools, Ids, Ints
from hta_graph.paths.gaps import Gaps

__all__ = ["StreamIntervals", "device_gaps", "stream_intervals"]


@dataclass(frozen=True, eq=False)
class StreamIntervals(Columns):
    """The time in front of each activity but the first of its stream, from when the stream was done with all before.

    By stream, then start. Where activities overlap the interval is empty, never negative.
    """

    start: Ints
    end: Ints
    row: Ids
    lane: Ids
    call: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start

    def gaps(self) -> tuple[Gaps, Ids]:
        """Return the intervals that are not empty, and their streams."""
        idle: Bools = self.end > self.start
        return Gaps(self.start[idle], self.end[idle], self.row[idle]), self.lane[idle]


def stream_intervals(work: Activities) -> StreamIntervals:
    """Return the intervals between the activities of each stream."""
    order = np.lexsort((work.start, work.lane))
    lane, start = work.lane[order], work.start[order]
    done = _running_maximum(work.end[order], lane)
    follows = np.flatnonzero(lane[1:] == lane[:-1]) + 1
    # Where the stream was still busy nothing was idle: the interval ends where it begins.
    begin = np.minimum(done[follows - 1], start[follows])
    return StreamIntervals(begin, start[follows], work.row[order][follows], lane[follows], work.call[order][follows])


def _running_maximum(end: Ints, lane: Ids) -> Ints:
    """Return the latest end so far within each run of equal lanes."""
    done = end.copy()
    begins = np.append(np.flatnonzero(first_of_runs(lane)), len(lane))
    for first, last in pairwise(begins.tolist()):
        np.maximum.accumulate(end[first:last], out=done[first:last])
    return done


def device_gaps(running: Activities, every: Activities, start_ns: int, end_ns: int) -> Gaps:
    """Return when nothing runs on any stream in [start, end), and what starts next.

    Args:
        running: the activities of the window, cut to it.
        every: all activities of the trace; what ends the last gap may lie behind the window.
        start_ns: the window's start.
        end_ns: the window's end.
    """
    idle = running.busy().gaps(start_ns, end_ns)
    order = np.argsort(every.start, kind="stable")
    at = np.searchsorted(every.start[order], idle.end, side="left")
    after = np.append(every.row[order], -1)[at]
    return Gaps(idle.start, idle.end, after.astype(np.int32))
