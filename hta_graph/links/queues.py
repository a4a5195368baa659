"""Work on streams in the order in which it was enqueued."""

from __future__ import annotations

import numpy as np

from hta_graph.model import Bools, Ids, Ints
from hta_graph.timeline import Timeline
from hta_graph.trace.table import Trace, freeze

__all__ = ["StreamQueues"]


class StreamQueues:
    """Each stream's activities; ``rows`` in stream order (by start), ``enqueued`` = place of the launching call.

    An activity without a call in the file was enqueued no earlier than its predecessor on the stream, which may be
    before the recording began (place -1).
    """

    def __init__(self, trace: Trace, timeline: Timeline, activities: Ids, launch_call: Ids) -> None:
        lane = trace.events.lane[activities]
        by_stream = np.lexsort((timeline.position[2 * activities], lane))
        self.rows = freeze(activities[by_stream])
        self.lane = freeze(lane[by_stream])
        call = launch_call[by_stream]
        self._is_orphan = call < 0
        self._end = trace.events.end[self.rows]
        self._scale = len(timeline.order) + 2
        place = np.where(call >= 0, timeline.position[2 * call], -1).astype(np.int64)
        self.enqueued = freeze(np.where(self._is_orphan, self._running_place(place), place))
        key = self.key(self.lane, self.enqueued)
        self._by_enqueue = np.argsort(key, kind="stable")
        self._sorted_key = key[self._by_enqueue]

    def key(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Combine stream and place into one sortable number."""
        return lane.astype(np.int64) * self._scale + place + 1

    def _running_place(self, place: Ints) -> Ints:
        key = np.maximum.accumulate(self.key(self.lane, place)) if len(place) else place
        return key - self.key(self.lane, np.zeros(len(place), np.int64))

    def is_stream_start(self) -> Bools:
        """Mark the first row of each stream in ``rows``."""
        first = np.ones(len(self.rows), np.bool_)
        first[1:] = self.lane[1:] != self.lane[:-1]
        return first

    def lanes(self) -> Ids:
        """Return the streams that have work."""
        lanes: Ids = self.lane[self.is_stream_start()]
        return lanes

    def last_before(self, lane: Ids | Ints, place: Ints, deadline: Ints | None = None) -> tuple[Ids, Ints]:
        """Find the last work enqueued on each stream before a place.

        Args:
            lane: streams.
            place: places in the global order of points.
            deadline: ns; work without a known call that ends later cannot have been waited for and is passed over.

        Returns:
            the activity (-1: none) and its own place (-1: none, or before the recording).
        """
        if not len(self.rows):
            return np.full(len(lane), -1, np.int32), np.full(len(lane), -1, np.int64)
        at = np.searchsorted(self._sorted_key, self.key(lane, place), side="left") - 1
        found = self._by_enqueue[at.clip(min=0)]
        is_there = (at >= 0) & (self.lane[found] == lane)
        if deadline is not None:
            self._pass_over_late_orphans(found, is_there, deadline)
        activity = np.where(is_there, self.rows[found], -1).astype(np.int32)
        return activity, np.where(is_there, self.enqueued[found], -1)

    def _pass_over_late_orphans(self, found: Ints, is_there: Bools, deadline: Ints) -> None:
        late = is_there & self._is_orphan[found] & (self._end[found] > deadline)
        for at in np.flatnonzero(late).tolist():
            row = int(found[at])
            lane = self.lane[row]
            while row >= 0 and self.lane[row] == lane and self._is_orphan[row] and self._end[row] > deadline[at]:
                row -= 1
            is_there[at] = row >= 0 and self.lane[row] == lane
            found[at] = max(row, 0)

    def first_after(self, lane: Ids | Ints, place: Ints) -> Ids:
        """Find the next work enqueued on each stream after a place; -1 where there is none."""
        if not len(self.rows):
            return np.full(len(lane), -1, np.int32)
        at = np.searchsorted(self._sorted_key, self.key(lane, place), side="right")
        row = self._by_enqueue[at.clip(max=len(self.rows) - 1)]
        is_there = (at < len(self.rows)) & (self.lane[row] == lane)
        return np.where(is_there, self.rows[row], -1).astype(np.int32)
