"""The same place in replay after replay of a graph: in how many of them it shows the same hole.

replay 1   [node][node]........[last]        [first][last] are recorded rows; what stands between them
replay 2   [node][node].........[last]       in every replay was not
replay 3   [node][node].......[last]
"""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import first_of_runs, run_numbers, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import event_of, start_point
from hta_graph.model import Ids, Ints
from hta_graph.paths.binding_edges import binding_edges

__all__ = ["replays_with_hole"]

LAG_BITS = 40
"""A lag (ns) of up to 18 minutes and its place fit one number."""


def replays_with_hole(graph: DependencyGraph, work: Ids, hole_ns: Ints) -> tuple[Ints, Ints]:
    """Return how many replays have the place where each work stands, and how many show a hole before it there.

    It shows a hole where that is at least half as long as ``hole_ns``; both numbers are 0 for work without a launch.
    """
    launched, place, lag = _positions_in_launches(graph)
    place_of = np.full(len(graph.event_table), -1, np.int64)
    place_of[launched] = place
    number = place_of[work]
    key = np.sort((place << LAG_BITS) + lag.clip(0, (1 << LAG_BITS) - 1))
    ends = np.searchsorted(key, (number + 1) << LAG_BITS)
    first, first_long = (np.searchsorted(key, (number << LAG_BITS) + least) for least in (0, (hole_ns + 1) // 2))
    return np.where(number >= 0, ends - first, 0), np.where(number >= 0, ends - first_long, 0)


@memoized
def _positions_in_launches(graph: DependencyGraph) -> tuple[Ids, Ints, Ints]:
    """Return launched work, where it stands in its launch and its lag.

    Equal numbers are the same place in replays of one graph; the lag (ns) is how long it started after what it waited
    for last, 0 where that is of another launch.
    """
    events, edges, times = graph.event_table, graph.edge_table, graph.timeline.times
    work = np.flatnonzero(graph.launching_call >= 0).astype(np.int32)
    work = work[np.argsort(graph.launching_call[work], kind="stable")]
    call = graph.launching_call[work]
    new = first_of_runs(call)
    launch, begins = np.cumsum(new) - 1, np.flatnonzero(new)
    ordinal, size = np.arange(len(work)) - begins[launch], np.bincount(launch)[launch]
    source = take_or(edges.source, binding_edges(graph)[start_point(work)])
    before = np.where(source >= 0, event_of(source), -1)
    lag = np.where(take_or(graph.launching_call, before) == call, events.start[work] - take_or(times, source), 0)
    # Replays of one graph have as many rows; the same place has the same name in each.
    columns = events.name[work], ordinal, size
    order = np.lexsort(columns)
    return work[order], run_numbers(*(column[order] for column in columns)), lag[order]
