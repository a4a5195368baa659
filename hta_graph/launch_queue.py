"""How many launches of each stream have not started yet, at every moment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.activities import Activities
from hta_graph.arrays import Columns, first_of_runs, last_of_runs
from hta_graph.model import Ids, Ints
from hta_graph.trace.table import EventTable

__all__ = ["QueueSteps", "queue_steps"]


@dataclass(frozen=True, eq=False)
class QueueSteps(Columns):
    """The changes of the queues, stream by stream in order of time.

    From ``time`` (ns) until the stream's next entry ``length`` launches wait; ``row`` is what changed it: the call that
    enqueued or the activity that started.
    """

    lane: Ids
    time: Ints
    length: Ints
    row: Ids

    def clip(self, start_ns: int, end_ns: int) -> QueueSteps:
        """Return the changes in a window; what waits when it begins is a change at its start."""
        early = self.time < start_ns
        # Of the changes before the window each stream's last says what waits when the window begins.
        last_early = early & ~np.append(early[1:] & ~first_of_runs(self.lane)[1:], False)
        kept = self.take((~early | last_early) & (self.time <= end_ns))
        return QueueSteps(kept.lane, kept.time.clip(min=start_ns), kept.length, kept.row)

    def lasting(self, end_ns: int | None = None) -> Ints:
        """Return how long each entry lasts (ns): until the stream's next, the last one until ``end_ns``, else 0."""
        following = np.append(self.time[1:], 0)
        last = last_of_runs(self.lane)
        following[last] = self.time[last] if end_ns is None else end_ns
        lengths: Ints = following[: len(self)] - self.time
        return lengths

    def streams(self) -> list[tuple[int, slice]]:
        """List the streams (lane codes) and where each lies."""
        first = np.flatnonzero(first_of_runs(self.lane))
        bounds = zip(first.tolist(), np.append(first[1:], len(self)).tolist(), strict=False)
        return [(int(self.lane[begin]), slice(begin, end)) for begin, end in bounds]


def queue_steps(events: EventTable, work: Activities) -> QueueSteps:
    """Count the queue of each stream up at the start of every launching call and down when the activity starts.

    A graph launch counts once for each activity that it launches, on the stream where that runs. Where an activity is
    stamped before its call (a clock fault) it never waited. At equal times launches come first.
    """
    launched = np.flatnonzero(work.call >= 0)
    call, row, start, lane = work.call[launched], work.row[launched], work.start[launched], work.lane[launched]
    lanes, times = np.tile(lane, 2), np.concatenate([np.minimum(events.start[call], start), start])
    rows: Ids = np.concatenate([call, row])
    change = np.repeat(np.array([1, -1]), len(row))
    order = np.lexsort((rows, -change, times, lanes))
    return QueueSteps(lanes[order], times[order], np.cumsum(change[order]), rows[order])
