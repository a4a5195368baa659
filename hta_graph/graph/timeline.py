"""A trace's points in time: their times, their order, and the nesting of the rows that they bound."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.columns import freeze, pair_key
from hta_graph.graph.nesting import Nesting, nest
from hta_graph.graph.points import event_of, ordered_points, point_times
from hta_graph.model import CPU_KINDS, WALKABLE, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import EventTable

__all__ = ["Timeline"]


class Timeline:
    """The points of a trace's walkable rows in one global order, and the nesting of rows on each thread."""

    def __init__(self, events: EventTable, lane_count: int) -> None:
        self._events = events
        self._lane_count = lane_count
        self.times = freeze(point_times(events))

    @cached_property
    def order(self) -> Ids:
        """All points of walkable rows in the order in which they happened (:func:`ordered_points`)."""
        return ordered_points(self._events, np.flatnonzero(kind_mask(self._events.kind, WALKABLE)))

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
        rows = np.flatnonzero(kind_mask(self._events.kind, kinds))
        return nest(self._events, self.times, ordered_points(self._events, rows), self._lane_count)
