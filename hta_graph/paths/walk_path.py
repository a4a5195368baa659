"""Walk back from one point: at each point to the predecessor that finished last."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import expand_ranges
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import end_point
from hta_graph.model import Ids, Ints
from hta_graph.paths.binding_edges import binding_edges, lane_runs

__all__ = ["Chain", "walk_back", "walk_back_from_end"]


@dataclass(frozen=True)
class Chain:
    """A walk back in time: ``edges[i]`` leads from ``points[i + 1]`` to ``points[i]``; ``times`` never increase."""

    points: Ids
    edges: Ids
    times: Ints


def walk_back(graph: DependencyGraph, sink: int, until_ns: int) -> Chain:
    """Follow binding edges from a point until a point at or before ``until_ns`` or without a predecessor.

    A point that is not walked has no predecessor; of point -1 the chain is empty.
    """
    if sink < 0:
        none = np.empty(0, np.int32)
        return Chain(none, none, np.empty(0, np.int64))
    runs, binding, times = lane_runs(graph), binding_edges(graph), graph.timeline.times
    # Plain memory views: looking up one number at a time is several times faster than in an array.
    oldest = runs.oldest.data
    edge_of, source_of, time_of = binding.data, graph.edge_table.source.data, times.data
    entered = [sink]
    # One round per change of lane, however many points a lane's run has in between.
    while True:
        left = oldest[entered[-1]]
        edge = edge_of[left]
        if edge < 0 or time_of[left] <= until_ns:
            break
        entered.append(source_of[edge])
    # From each point that was entered back to its run's oldest one, as one column; of the last run no more than asked.
    place = runs.place[np.array(entered, np.int32)]
    first = runs.first[place]
    last_run = times[runs.points[first[-1] : place[-1] + 1]]
    first[-1] += max(int(np.searchsorted(last_run, until_ns, side="right")) - 1, 0)
    count = place - first + 1
    run, nth = expand_ranges(np.zeros_like(count), count)
    walked: Ids = runs.points[place[run] - nth]
    # A clock fault may stamp a cause after its effect; on a walk back time never rises.
    return Chain(walked, binding[walked[:-1]], np.minimum.accumulate(times[walked]))


def walk_back_from_end(graph: DependencyGraph, row: int) -> Chain:
    """Follow binding edges from the end of an event (canonical row) as far as causes are known."""
    return walk_back(graph, int(end_point(np.array([row]))[0]), int(graph.event_table.start.min()))
