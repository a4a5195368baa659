"""The times between the points of paths, and what lies behind their last points and before their first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hta_graph.arrays import first_of_runs, last_of_runs
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of
from hta_graph.model import EdgeKind, Ids, Ints
from hta_graph.paths.binding_edges import Stretches
from hta_graph.paths.walk_path import Chain
from hta_graph.paths.windows import Window

__all__ = ["path_stretches"]


def path_stretches(graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window]) -> Stretches:
    """Return the stretches that tile each window, from the walk back from its sink; ``walk`` is the window's place."""
    walked = _WalkedPoints(graph, chains, windows)
    return Stretches.join([walked.after_the_paths(), walked.between_points(), walked.before_the_paths()])


class _WalkedPoints:
    """The points of all walks end to end, each walk's latest first."""

    def __init__(self, graph: DependencyGraph, chains: Sequence[Chain], windows: Sequence[Window]) -> None:
        self._graph = graph
        self._points = np.concatenate([chain.points for chain in chains])
        self._times = np.concatenate([chain.times for chain in chains])
        self._edges = np.concatenate([chain.edges for chain in chains])
        self._lane = graph.event_table.lane[event_of(self._points)]
        self._walk = np.repeat(np.arange(len(chains)), [len(chain.points) for chain in chains])
        self._start: Ints = np.array([window.start_ns for window in windows], np.int64)
        self._end: Ints = np.array([window.end_ns for window in windows], np.int64)
        self._sink_lane: Ids = np.array([window.sink.lane for window in windows], np.int32)

    def after_the_paths(self) -> Stretches:
        """What lies between the last point of a path and the window's end: its thread's, where that is known."""
        last = np.flatnonzero(first_of_runs(self._walk))
        walk = self._walk[last]
        on_thread = self._sink_lane[walk] >= 0
        return Stretches.of(
            walk=walk, start=self._times[last], end=self._end[walk], source=np.where(on_thread, self._points[last], -1),
            target=-1, edge=-1, kind=np.where(on_thread, EdgeKind.THREAD_ORDER, -1), lane=self._sink_lane[walk],
            pending=False,
        )  # fmt: skip

    def between_points(self) -> Stretches:
        """The times between the points, latest first."""
        later = np.flatnonzero(~last_of_runs(self._walk))
        return Stretches.of(
            walk=self._walk[later], start=self._times[later + 1], end=self._times[later],
            source=self._points[later + 1], target=self._points[later], edge=self._edges,
            kind=self._graph.edge_table.kind[self._edges], lane=self._lane[later], pending=False,
        )  # fmt: skip

    def before_the_paths(self) -> Stretches:
        """What lies before the first recorded cause; of a walk without points the whole window."""
        first = np.flatnonzero(last_of_runs(self._walk))
        end, lane, target = self._end.copy(), self._sink_lane.copy(), np.full(len(self._end), -1, np.int32)
        walk = self._walk[first]
        end[walk], lane[walk], target[walk] = self._times[first], self._lane[first], self._points[first]
        return Stretches.of(
            walk=np.arange(len(end)), start=self._start, end=end, source=-1, target=target, edge=-1, kind=-1, lane=lane,
            pending=False,
        )  # fmt: skip
