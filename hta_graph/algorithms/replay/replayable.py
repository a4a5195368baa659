"""A window of a graph, ready to be replayed: what is given, what each edge weighs, and whose the time is.

carried over   [======|====]            issued before the window: its times are given
window                |---------------|
issued in it          |--op--|  [=====|   these may change
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.algorithms.replay.edge_times import EdgeParts, edge_times
from hta_graph.algorithms.replay.longest_paths import LongestPaths
from hta_graph.algorithms.time.accounting import TimePart
from hta_graph.algorithms.time.carried_over import issued_times
from hta_graph.algorithms.time.stretches import lane_runs
from hta_graph.algorithms.time.windows import ResolvedWindow
from hta_graph.columns import picked
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import event_of
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Bools, BoundBy, Floats, Ids, Ints

__all__ = ["ReplayEdges", "Replayable"]


@dataclass(frozen=True)
class ReplayEdges:
    """The edges that decide times in a window: their rows in ``graph.edge_table`` (-1: added), points and weights."""

    row: Ids
    source: Ids
    target: Ids
    weight: Ints
    preferred: Bools


class Replayable:
    """A window of a graph as recorded, to which changes are applied.

    Points at or before its start and after its end keep their times. What no edge explains keeps its distance to what
    came before it on the thread of its rank that does most.
    """

    def __init__(self, graph: DependencyGraph, window: ResolvedWindow) -> None:
        self.graph = graph
        self.window = window
        self.answers: dict[Callable[[Any], Any], Any] = {}
        """Answers that were found (:func:`remembered`)."""
        self.times = graph.timeline.times
        self.is_inside = (self.times > window.start_ns) & (self.times <= window.end_ns)
        if window.is_whole:
            self.is_inside |= self.times == window.start_ns
        self.edges = self._edges_inside()

    def _edges_inside(self) -> ReplayEdges:
        graph, known = self.graph, edge_times(self.graph)
        table = graph.edge_table
        rows = np.flatnonzero(self.is_inside[table.target])
        without = self.is_inside.copy()
        without[table.target[rows]] = False
        source, target = self._frozen_edges(np.flatnonzero(without).astype(np.int32))
        weight = self.times[target] - self.times[source]
        return ReplayEdges(
            np.append(rows, np.full(len(source), -1)).astype(np.int32),
            np.append(table.source[rows], source),
            np.append(table.target[rows], target),
            np.append(known.weight[rows], weight),
            np.append(known.binds[rows], np.ones(len(source), np.bool_)),
        )

    def _frozen_edges(self, roots: Ids) -> tuple[Ids, Ids]:
        """Lead to points without a cause from the last point before them of their rank's busiest thread."""
        graph, times = self.graph, self.times
        roots = roots[graph.timeline.position[roots] >= 0]
        part = graph.part_of(event_of(roots))
        sources, targets = [], []
        for place, points in enumerate(_busiest_threads(graph)):
            own = roots[part == place]
            # So far back that clock faults, which lead back by less, cannot close a cycle.
            before = np.searchsorted(times[points], times[own] - CLOCK_FAULT_LIMIT_NS, side="left")
            sources.append(points[before[before > 0] - 1])
            targets.append(own[before > 0])
        return np.concatenate([*sources, roots[:0]]), np.concatenate([*targets, roots[:0]])

    @cached_property
    def paths(self) -> LongestPaths:
        """The shape of the window's edges."""
        return self.paths_of(self.edges)

    def paths_of(self, edges: ReplayEdges) -> LongestPaths:
        """Return the shape of other edges in the same window.

        Raises:
            QueryError: they form a cycle.
        """
        return LongestPaths(
            edges.source, edges.target, lane_runs(self.graph).points, self.graph.timeline.position, ~self.is_inside,
            edges.preferred,
        )  # fmt: skip

    @cached_property
    def parts(self) -> EdgeParts:
        """What the weights consist of, as far as it lies in the window; ``edge`` is a row of ``edges``."""
        every = edge_times(self.graph).parts
        number = np.full(len(self.graph.edge_table), -1, np.int32)
        own = self.edges.row >= 0
        number[self.edges.row[own]] = np.flatnonzero(own)
        found = every.take(number[every.edge] >= 0)
        frozen = np.flatnonzero(~own)
        found = EdgeParts.join([
            replace(found, edge=number[found.edge]),
            EdgeParts.of(
                edge=frozen, start=self.times[self.edges.source[frozen]], length=self.edges.weight[frozen], owner=-1,
                lane=self.graph.event_table.lane[event_of(self.edges.target[frozen])], part=TimePart.EXCESS,
                bound=BoundBy.UNEXPLAINED,
            ),
        ])  # fmt: skip
        start = np.maximum(found.start, self.window.start_ns)
        found = replace(found, start=start, length=np.minimum(found.start + found.length, self.window.end_ns) - start)
        return found.take(found.length > 0)

    @cached_property
    def may_change(self) -> Bools:
        """Mark the parts of what was issued in the window; the rest is carried over and keeps its times."""
        since = min(self.window.start_ns, self.window.cpu_span[0])
        issued = picked(issued_times(self.graph), self.parts.owner, otherwise=since)
        is_activity = picked(self.graph.is_activity, self.parts.owner, otherwise=False)
        # What a thread does in the window is the window's, whenever the operator around it began.
        found: Bools = self.window.is_whole | ~is_activity | (issued >= since)
        return found

    @cached_property
    def part_rank(self) -> Ids:
        """The place of the rank of each part: its owner's, else that of what its edge leads to."""
        target = self.graph.part_of(event_of(self.edges.target[self.parts.edge]))
        owner = self.graph.part_of(self.parts.owner)
        return np.where(owner >= 0, owner, target)

    @property
    def length_ns(self) -> int:
        """The window's length as recorded."""
        return self.window.end_ns - self.window.start_ns

    def end_of(self, values: Ints) -> int:
        """Return when (ns) the window ends with some values of all points: when the last one is there it waits for."""
        return int(self.ends_of(values[self.window.sink.ends][None])[0])

    def ends_of(self, values: Ints | Floats) -> Any:
        """Return when (ns) the window ends, given rows of values of its ends."""
        sink = self.window.sink
        if not len(sink.ends):
            return np.full(len(values), self.window.end_ns)
        return (values + sink.tails).max(axis=1)

    def last_of(self, values: Ints | Floats) -> int:
        """Return the point with which the window ends; -1 if it waits for none."""
        sink = self.window.sink
        if not len(sink.ends):
            return -1
        reached = values[sink.ends] + sink.tails
        latest = sink.ends[reached == reached.max()]
        return sink.point if sink.point in latest else int(latest[0])

    def tail_of(self, point: int) -> int:
        """Return how long (ns) the window goes on after one of its ends; explicit times may lie before it."""
        sink = self.window.sink
        return max(int(sink.tails[sink.ends == point][0]), 0)


def _busiest_threads(graph: DependencyGraph) -> list[Ids]:
    """Return the points of the thread with the most points of each rank, in order of time."""
    calls = graph.calls
    count = np.diff(calls.first)
    threads = []
    for part in graph.parts:
        own = np.where(graph.part_of_lane == part.place, count[: len(graph.part_of_lane)], 0)
        lane = int(np.argmax(own)) if len(own) else 0
        threads.append(calls.points[calls.lane_slice(lane)] if len(own) and own[lane] else calls.points[:0])
    return threads
