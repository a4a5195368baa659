"""Loops in which a thread queried until the GPU was done: from their first call to the last query, the thread waits."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hta_graph.base.arrays import distinct, expand_ranges, find_sorted, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of
from hta_graph.model import EdgeRule, Ids, Ints


class PolledLoops(NamedTuple):
    """Of each loop its first call and the last query (rows), and the points between them, of all loops together."""

    first: Ids
    last: Ids
    inside: Ids


@memoized
def polled_loops(graph: DependencyGraph) -> PolledLoops:
    """Return the loops that the graph's edges say were waits, in order of the last query."""
    edges, calls = graph.edge_table, graph.calls
    ends = distinct(edges.target[edges.rule == EdgeRule.POLLED_UNTIL_WORK_END])
    if not len(ends):
        return PolledLoops(ends, ends, ends)
    until = graph.timeline.position_on_thread(ends)
    begins = calls.run_starts(graph.event_flags.polling_call)[until]
    # The first call is made in any case; what follows is repeated until the work has ended.
    _, inside = expand_ranges(begins + 2, until - begins - 2)
    return PolledLoops(calls.event[begins], event_of(ends), calls.points[inside])


def waiting_since(graph: DependencyGraph, calls: Ids) -> Ints:
    """Return when calls that wait began to (ns): with themselves, the last query of a loop with that loop."""
    loops = polled_loops(graph)
    since = graph.event_table.start[calls]
    at = find_sorted(calls, loops.last)
    return np.where(at >= 0, take_or(graph.event_table.start, take_or(loops.first, at)), since)
