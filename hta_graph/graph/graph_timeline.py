"""A trace's points in time: their times, their order, and the nesting of the rows that they bound."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.arrays import freeze, pair_key, stable_order, take_or
from hta_graph.graph.points import event_of, ordered_points, point_times
from hta_graph.graph.timeline import Nesting, nest
from hta_graph.model import CPU_KINDS, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import Trace

__all__ = ["Timeline"]


class Timeline:
    """The points of a trace's walkable rows in one global order, and the nesting of rows on each thread."""

    def __init__(self, trace: Trace) -> None:
        self._events = trace.events
        self._lane_count = len(trace.lanes.labels)
        self._is_activity = trace.is_activity
        self.times = freeze(point_times(trace.events))

    @cached_property
    def order(self) -> Ids:
        """All points of walkable rows in the order in which they happened (:func:`ordered_points`)."""
        return self._in_order(np.flatnonzero(kind_mask(self._events.kind, CPU_KINDS) | self._is_activity))

    @cached_property
    def position(self) -> Ids:
        """The place of each point in :attr:`order`; -1 for points that are not walked."""
        position = np.full(2 * len(self._events), -1, np.int32)
        position[self.order] = np.arange(len(self.order), dtype=np.int32)
        return freeze(position)

    @cached_property
    def calls(self) -> Nesting:
        """The nesting of operators and runtime calls on each thread."""
        on_cpu = kind_mask(self._events.kind, CPU_KINDS)[event_of(self.order)]
        return nest(self._events, self.times, self.order[on_cpu], self._lane_count)

    def lane_key(self, points: Ids) -> Ints:
        """Combine each point's lane and place in :attr:`order` into one sortable number; -1 for point -1."""
        # The lane above, the place below: what is next to each other on a lane is so among the sorted keys.
        key = pair_key(self._events.lane[event_of(points)], self.position[points])
        return np.where(points >= 0, key, -1)

    def lookups(self, *kinds: EventKind) -> Nesting:
        """Nest rows of kinds that are looked up and never walked (annotations, Python frames)."""
        if kinds not in self._lookups:
            rows = np.flatnonzero(kind_mask(self._events.kind, kinds))
            self._lookups[kinds] = nest(self._events, self.times, self._in_order(rows), self._lane_count)
        return self._lookups[kinds]

    @cached_property
    def _lookups(self) -> dict[tuple[EventKind, ...], Nesting]:
        return {}

    @cached_property
    def by_lane(self) -> Ids:
        """All points lane by lane in order: threads, then streams, then those that are not walked."""
        on_stream = self.order[self._is_activity[event_of(self.order)]]
        lane = self._events.lane[event_of(on_stream)]
        not_walked = np.flatnonzero(self.position < 0).astype(np.int32)
        return freeze(np.concatenate([self.calls.points, on_stream[stable_order(lane)], not_walked]))

    @cached_property
    def place_by_lane(self) -> Ids:
        """Where each point stands in :attr:`by_lane`."""
        place = np.empty(len(self.times), np.int32)
        place[self.by_lane] = np.arange(len(self.by_lane), dtype=np.int32)
        return freeze(place)

    def place_on_thread(self, points: Ids) -> Ids:
        """Return where points stand among those of :attr:`calls`; -1 for what is on no thread and for point -1."""
        place: Ids = take_or(self.place_by_lane, points)
        return np.where(place < len(self.calls.points), place, np.int32(-1))

    def _in_order(self, rows: Ints) -> Ids:
        return ordered_points(self._events, rows, self._is_activity)
