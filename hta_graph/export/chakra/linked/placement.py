"""Where rows of the device trace belong among the host nodes: whose work, whose time, what comes before and after."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.export.chakra.host.host_matching import Matching
from hta_graph.export.sync_dependencies import next_operators
from hta_graph.graph import DependencyGraph
from hta_graph.graph.nesting import Nesting
from hta_graph.model import Bools, EventKind, Ids, Ints

__all__ = ["Placement"]

OPEN_ROWS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME)
"""What host nodes stand for, and the calls inside."""


class Placement:
    """A graph and the host nodes of its operators and annotations; a row *has a node* if it was matched."""

    def __init__(self, graph: DependencyGraph, matching: Matching) -> None:
        self.graph = graph
        self.has_node: Bools = matching.node >= 0

    @cached_property
    def _nesting(self) -> Nesting:
        return self.graph.timeline.lookups(*OPEN_ROWS)

    @cached_property
    def around(self) -> Ids:
        """The innermost row with a node around each operator, annotation and call; -1 where there is none."""
        around = self._nesting.parent.copy()
        while (unknown := (around >= 0) & ~self.has_node[around]).any():
            around[unknown] = around[around[unknown]]
        return around

    def innermost(self, rows: Ids) -> Ids:
        """Return rows that have a node, and for others the innermost one around them; -1 for none and for row -1."""
        known = np.where(rows >= 0, np.where(self.has_node[rows], rows, self.around[rows]), -1)
        return known.astype(np.int32)

    @cached_property
    def launcher(self) -> Ids:
        """For every GPU activity the innermost row with a node around its launching call; -1 where there is none."""
        return self.innermost(self.graph.launching_call)

    def open_at(self, lane: int, times: Ints) -> Ids:
        """Return the innermost row with a node that is open on a thread just after each time; -1 where none is."""
        part = self._nesting.lane_slice(lane)
        owner = np.append(self._nesting.owner[part], -1)
        at = np.searchsorted(self.graph.timeline.times[self._nesting.points[part]], times, side="right") - 1
        return self.innermost(owner[at])

    @cached_property
    def own_time(self) -> Ints:
        """How long each row with a node runs without the rows with nodes directly inside (ns)."""
        events = self.graph.trace.events
        own = events.end - events.start
        inner = np.flatnonzero(self.has_node & (self.around >= 0))
        outer = self.around[inner]
        inside = np.minimum(events.end[inner], events.end[outer]) - events.start[inner]
        np.subtract.at(own, outer, np.maximum(inside, 0))
        left: Ints = np.maximum(own, 0)
        return left

    @cached_property
    def _operators(self) -> tuple[Ids, Ints]:
        """The operators with a node in order of thread and start, and their keys."""
        events = self.graph.trace.events
        rows = np.flatnonzero(self.has_node & (events.kind == EventKind.CPU_OP)).astype(np.int32)
        key = self._key(events.lane[rows], self.graph.timeline.position[2 * rows])
        order = np.argsort(key)
        return rows[order], key[order]

    def _key(self, lane: Ids, place: Ids | Ints) -> Ints:
        return (lane.astype(np.int64) << 32) + place

    def operators_from(self, points: Ids) -> Ids:
        """Return the first operator with a node that starts at or after each point on its thread; -1: none."""
        place = self.graph.timeline.position[points]
        return self._operator(points >> 1, place - 1, ahead=True)

    def operators_before(self, points: Ids) -> Ids:
        """Return the last operator with a node that has started when a point of its thread happens; -1: none."""
        place = self.graph.timeline.position[points]
        return self._operator(points >> 1, place, ahead=False)

    def operators_after(self, calls: Ids) -> Ids:
        """Return the first operator with a node that starts when or after a call of its thread returns; -1: none."""
        return next_operators(self.graph, calls, self.has_node)

    def _operator(self, rows: Ids, place: Ids | Ints, *, ahead: bool) -> Ids:
        """Find on each row's thread the first operator that starts after a place in the order, or the last up to it."""
        operators, keys = self._operators
        lane = self.graph.trace.events.lane
        at = np.searchsorted(keys, self._key(lane[rows], place), side="right") - (not ahead)
        found = np.append(operators, -1)[np.where(at < 0, len(operators), at)]
        return np.where((found >= 0) & (lane[found] == lane[rows]), found, -1).astype(np.int32)
