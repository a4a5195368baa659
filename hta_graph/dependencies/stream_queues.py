"""Work on streams in the order in which it was enqueued; a graph is one piece of work of its launching stream."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.arrays import distinct, expand_ranges, first_of_runs, freeze, last_of_runs
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.points import start_point
from hta_graph.model import Bools, Codes, Ids, Ints, Rule
from hta_graph.trace.table import Trace

__all__ = ["ItemRows", "StreamQueues", "rows_with_latest_end"]


@dataclass(frozen=True)
class ItemRows:
    """Lists of activities, one list per item: ``members[first[i] : first[i + 1]]``."""

    first: Ints
    members: Ids

    def expand(self, items: Ints) -> tuple[Ints, Ids]:
        """Return pairs (place in ``items``, member); items of -1 have none."""
        known = np.flatnonzero(items >= 0)
        first = self.first[items[known]]
        place, member = expand_ranges(first, self.first[items[known] + 1] - first)
        return known[place], self.members[member]


class StreamQueues:
    """Each stream's activities and the items that were enqueued on it.

    ``rows`` are the activities in stream order (stream, then start), ``lane`` the streams on which they show. An *item*
    is what one call enqueued on one stream: usually one activity; of a graph all its rows, on whichever streams they
    show. Its ``heads`` are the first activity on each of those, its ``tails`` the last.

        thread       [launch a] [launch graph g] [launch b]
        stream 7        [a]        [g1]      [g4]   [b]        its items: a, g, b
        stream 9                      [g2][g3]                 no items: nothing was enqueued here
                                                               g: heads g1 g2, tails g4 g3

    An activity without a call in the file was enqueued no earlier than its predecessor on the stream, which may be
    before the recording began (place -1).
    """

    def __init__(self, trace: Trace, timeline: Timeline, activities: Ids, call: Ids, enqueue_stream: Ids) -> None:
        """Order the work.

        Args:
            trace: the trace.
            timeline: its order of points.
            activities: all GPU activities.
            call: the call that launched each; -1 for orphans.
            enqueue_stream: the stream on which each was enqueued: its own, or the one that its graph was launched on.
        """
        self._shown_on = trace.events.lane
        lane = trace.events.lane[activities]
        by_stream = np.lexsort((timeline.position[start_point(activities)], lane))
        self.rows = freeze(activities[by_stream])
        self.lane = freeze(lane[by_stream])
        self.enqueue_stream = freeze(enqueue_stream[by_stream])
        self._is_orphan = call[by_stream] < 0
        self._end = trace.events.end[self.rows]
        self._scale = len(timeline.order) + 2  # places run from -1 to len(order)
        # Work is enqueued when its call starts; an orphan's call may lie before the recording.
        place = np.where(self._is_orphan, -1, timeline.position[start_point(call[by_stream])]).astype(np.int64)
        self.place = freeze(np.where(self._is_orphan, self._running_place(place), place))
        # Rows show in the order in which they ran; sorted by place they can be searched for what was enqueued before.
        self._by_lane = np.argsort(self.key(self.lane, self.place), kind="stable")
        self._lane_key = self.key(self.lane, self.place)[self._by_lane]
        self._collect_items()

    def key(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Combine stream and place into one sortable number."""
        return lane.astype(np.int64) * self._scale + place + 1

    def _running_place(self, place: Ints) -> Ints:
        # The key holds the stream above the place, so one running maximum starts anew at each stream by itself.
        key = self.key(self.lane, place)
        return (np.maximum.accumulate(key) if len(key) else key) - self.key(self.lane, np.zeros(len(place), np.int64))

    def _collect_items(self) -> None:
        """Collect the items: their stream, place, heads and tails."""
        key = self.key(self.enqueue_stream, self.place)
        order = np.lexsort((np.arange(len(key)), self.lane, key))
        item_key, lane = key[order], self.lane[order]
        new_item = first_of_runs(item_key)
        new_lane, last_lane = first_of_runs(item_key, lane), last_of_runs(item_key, lane)
        self._item_key = item_key[new_item]
        number = np.cumsum(new_item) - 1
        # An item's rows stand together, stream by stream: the first of each stream's are its heads, the last its tails.
        self.heads = _rows_by_item(self.rows[order[new_lane]], number[new_lane], len(self._item_key))
        self.tails = _rows_by_item(self.rows[order[last_lane]], number[last_lane], len(self._item_key))
        self.item_lane = (self._item_key // self._scale).astype(np.int32)
        self.item_place = self._item_key % self._scale - 1

    def attribution(self, activity: Ids, lane: Ids) -> Codes:
        """Return why activities count as a stream's work: recorded where they show on it, else by a graph's rule."""
        shown_there = self._shown_on[activity] == lane
        return np.where(shown_there, Rule.RECORDED, Rule.GRAPH_IN_LAUNCHING_STREAM).astype(np.int8)

    @cached_property
    def latest(self) -> Ints:
        """For each row, the one of its stream up to here that ends last."""
        return freeze(rows_with_latest_end(self._end, self.lane))

    def is_stream_start(self) -> Bools:
        """Mark the first row of each stream in ``rows``."""
        return first_of_runs(self.lane)

    def lanes(self) -> Ids:
        """Return the streams on which work shows."""
        lanes: Ids = self.lane[self.is_stream_start()]
        return lanes

    def enqueue_streams(self) -> Ids:
        """Return the streams on which work was enqueued."""
        return distinct(self.item_lane)

    def item_before(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Find the last item enqueued on each stream before a place; -1 where there is none."""
        return self._on_own_lane(np.searchsorted(self._item_key, self.key(lane, place), side="left") - 1, lane)

    def item_after(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Find the next item enqueued on each stream after a place; -1 where there is none."""
        return self._on_own_lane(np.searchsorted(self._item_key, self.key(lane, place), side="right"), lane)

    def _on_own_lane(self, item: Ints, lane: Ids | Ints) -> Ints:
        if not len(self.item_lane):
            return np.full(len(item), -1, np.int64)
        inside = (item >= 0) & (item < len(self.item_lane))
        inside &= self.item_lane[item.clip(0, len(self.item_lane) - 1)] == lane
        return np.where(inside, item, -1)

    def last_on(self, lane: Ids | Ints, place: Ints) -> Ids:
        """Find the last work that shows on each stream and was enqueued before a place; -1 where there is none."""
        if not len(self.rows):
            return np.full(len(lane), -1, np.int32)
        at = np.searchsorted(self._lane_key, self.key(lane, place), side="left") - 1
        row = self._by_lane[at.clip(min=0)]
        return np.where((at >= 0) & (self.lane[row] == lane), self.rows[row], -1).astype(np.int32)

    def not_after(self, activity: Ids, deadline: Ints) -> Ids:
        """Replace work without a call that ended after a deadline (ns) by the last earlier on its stream; -1 if none.

        Nobody knows when such work was enqueued, but what had not ended by then was not waited for.
        """
        row = self._row_of(activity)
        # Only an orphan can be late: of other work it is known that it was enqueued before the question's place.
        late = (activity >= 0) & self._is_orphan[row] & (self._end[row] > deadline) if len(self.rows) else activity > 0
        result = activity.copy()
        for at in np.flatnonzero(late).tolist():
            result[at] = self._earlier_ended(int(row[at]), int(deadline[at]))
        return result

    def _row_of(self, activity: Ids) -> Ints:
        number = np.zeros(int(self.rows.max(initial=0)) + 1, np.int64)
        number[self.rows] = np.arange(len(self.rows))
        return number[activity]

    def _earlier_ended(self, row: int, deadline: int) -> int:
        lane = self.lane[row]
        while row >= 0 and self.lane[row] == lane and self._is_orphan[row] and self._end[row] > deadline:
            row -= 1
        return int(self.rows[row]) if row >= 0 and self.lane[row] == lane else -1


def _rows_by_item(members: Ids, number: Ints, size: int) -> ItemRows:
    return ItemRows(freeze(np.searchsorted(number, np.arange(size + 1))), freeze(members))


def rows_with_latest_end(end: Ints, lane: Ids) -> Ints:
    """Return for each row the row of its stream up to here that ends last (of equal ends the first).

    >>> rows_with_latest_end(np.array([5, 9, 7, 3]), np.array([0, 0, 0, 1])).tolist()
    [0, 1, 1, 3]
    """
    if not len(end):
        return np.empty(0, np.int64)
    # Ranks rise with the stream, then with the end: their running maximum never looks back into an earlier stream.
    rank = np.empty(len(end), np.int64)
    rank[np.lexsort((-np.arange(len(end)), end, lane))] = np.arange(len(end))
    running = np.maximum.accumulate(rank)
    row_of_rank = np.empty(len(end), np.int64)
    row_of_rank[rank] = np.arange(len(end))
    return row_of_rank[running]
