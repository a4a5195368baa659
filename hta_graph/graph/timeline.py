"""A trace's points in time: their times, their order, and the nesting of the rows that they bound."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.columns import freeze, pair_key
from hta_graph.graph.nesting import Nesting, nest
from hta_graph.graph.points import event_of, ordered_points, point_times
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
        rows = np.flatnonzero(kind_mask(self._events.kind, kinds))
        return nest(self._events, self.times, self._in_order(rows), self._lane_count)

    def _in_order(self, rows: Ints) -> Ids:
        return ordered_points(self._events, rows, self._is_activity)
