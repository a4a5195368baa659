"""Where rows of the device trace belong among the host nodes: whose work, whose time, what comes before and after."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.chakra.host_matching import HostMatching
from hta_graph.export.sync_dependencies import next_operators
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ids, Ints

__all__ = ["NodePlacement"]

NESTED_KINDS = (EventKind.CPU_OP, EventKind.ANNOTATION, EventKind.RUNTIME)
"""What host nodes stand for, and the calls inside."""


class NodePlacement:
    """A graph and the host nodes of its operators and annotations; a row *has a node* if it was matched."""

    def __init__(self, graph: DependencyGraph, matching: HostMatching) -> None:
        self.graph = graph
        self.has_node: Bools = matching.node >= 0

    @cached_property
    def enclosing(self) -> Ids:
        """The innermost row with a node around each operator, annotation and call; -1 where there is none."""
        # Climb until all have reached a row with a node: as many passes as rows without one lie inside each other.
        around = self.graph.nesting(*NESTED_KINDS).parent.copy()
        while (unknown := (around >= 0) & ~self.has_node[around]).any():
            around[unknown] = around[around[unknown]]
        return around

    def innermost(self, rows: Ids) -> Ids:
        """Return rows that have a node, and for others the innermost one around them; -1 for none and for row -1."""
        known = np.where(rows >= 0, np.where(self.has_node[rows], rows, self.enclosing[rows]), -1)
        return known.astype(np.int32)

    @cached_property
    def launcher(self) -> Ids:
        """For every GPU activity the innermost row with a node around its launching call; -1 where there is none."""
        return self.innermost(self.graph.launching_call)

    def open_at(self, lanes: Ids, times: Ints) -> Ids:
        """Return the innermost row with a node that is open on each thread just after each time; -1 where none is."""
        return self.innermost(self.graph.nesting(*NESTED_KINDS).open_at(lanes, times))

    @cached_property
    def own_time(self) -> Ints:
        """How long each row with a node runs without the rows with nodes directly inside (ns)."""
        events = self.graph.event_table
        own = events.end - events.start
        inner = np.flatnonzero(self.has_node & (self.enclosing >= 0))
        outer = self.enclosing[inner]
        # A row may outlive the one around it; only the part inside is taken from that one.
        inside = np.minimum(events.end[inner], events.end[outer]) - events.start[inner]
        np.subtract.at(own, outer, np.maximum(inside, 0))
        left: Ints = np.maximum(own, 0)
        return left

    @cached_property
    def _operators_in_order(self) -> tuple[Ids, Ints]:
        """The operators with a node in order of thread and start, and their keys."""
        events = self.graph.event_table
        rows = np.flatnonzero(self.has_node & (events.kind == EventKind.CPU_OP)).astype(np.int32)
        key = self.graph.place_on_lane(rows)
        order = np.argsort(key)
        return rows[order], key[order]

    def operators_from(self, events: Ids, *, at_end: Bools) -> Ids:
        """Return the first operator with a node that starts with or after each event's start or end; -1: none."""
        return self._adjacent_operator(events, self.graph.place_on_lane(events, at_end) - 1, ahead=True)

    def operators_before(self, events: Ids, *, at_end: Bools) -> Ids:
        """Return the last operator with a node that has started by each event's start or end; -1: none."""
        return self._adjacent_operator(events, self.graph.place_on_lane(events, at_end), ahead=False)

    def operators_after(self, calls: Ids) -> Ids:
        """Return the first operator with a node that starts when or after a call of its thread returns; -1: none."""
        return next_operators(self.graph, calls, self.has_node)

    def _adjacent_operator(self, events: Ids, key: Ints, *, ahead: bool) -> Ids:
        """Find on each event's thread the first operator that starts after a place, or the last up to it."""
        operators, keys = self._operators_in_order
        lane = self.graph.event_table.lane
        at = np.searchsorted(keys, key, side="right") - (not ahead)
        found = np.append(operators, -1)[np.where(at < 0, len(operators), at)]
        return np.where((found >= 0) & (lane[found] == lane[events]), found, -1).astype(np.int32)
