"""A window of a graph, ready to be replayed: what is given, what each edge weighs, and whose the time is.

carried over   [======|====]              issued before the window: its times are given
window                |---------------|
issued in it          |~~op──|  [=====|~~   may change, also the time ~ from the window's start to the first cause
                                            and from the last point to its end
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.arrays import freeze, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of, is_end
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Bools, BoundBy, EdgeKind, Floats, Ids, Ints
from hta_graph.paths.binding_edges import Stretches, lane_runs
from hta_graph.paths.carried_over import issue_times
from hta_graph.paths.time_accounting import TimePart
from hta_graph.paths.window_ends import NO_POINTS
from hta_graph.paths.windows import Window
from hta_graph.what_if.edge_times import EdgeParts, divide_into_parts, edge_weights
from hta_graph.what_if.longest_paths import LongestPaths

__all__ = ["ReplayEdges", "ReplayGraph"]


@dataclass(frozen=True)
class ReplayEdges:
    """The edges that decide times in a window: their rows in ``graph.edge_table`` (-1: added), points and weights."""

    row: Ids
    source: Ids
    target: Ids
    weight: Ints
    preferred: Bools


class ReplayGraph:
    """A window of a graph as recorded, to which changes are applied.

    Points at or before its start and after its end keep their times. What has no cause in the graph keeps its distance
    to what came before it on the thread of its rank that does most, or, before that began, to the window's start: a
    point of its own behind those of the graph.

    Args:
        graph: one rank's or a job's.
        window: the window.
        external_points: points whose times others decide: they keep those that they are given.
        until: up to when (ns) points may change where others make that later than the window's end.
    """

    def __init__(
        self,
        graph: DependencyGraph,
        window: Window,
        external_points: Ids = NO_POINTS,
        until: int | None = None,
    ) -> None:
        self.graph = graph
        self.window = window
        self.answers: dict[Callable[[Any], Any], Any] = {}
        """Answers that were found (:func:`remembered`)."""
        self.start_point = len(graph.timeline.times)
        self.times = freeze(np.append(graph.timeline.times, window.start_ns))
        """The recorded times (ns) of all points, and last the window's start."""
        self.until = self._last_inside(window.end_ns if until is None else until)
        """Up to when (ns) points may change."""
        self.is_inside = self._points_inside(external_points)
        self.edges = self._edges_inside()

    @property
    def length_ns(self) -> int:
        """The window's length as recorded."""
        return self.window.end_ns - self.window.start_ns

    def _last_inside(self, end: int) -> int:
        # What runs at the end of explicit times ends later.
        end = int(self.times[self.window.sink.ends].max(initial=end))
        table, times = self.graph.edge_table, self.times
        faults = np.flatnonzero(times[table.source] > times[table.target])
        causes, effects = times[table.source[faults]], times[table.target[faults]]
        # By a clock fault a cause inside may be stamped after the end, and so may its own.
        while (beyond := int(causes[effects <= end].max(initial=end))) > end:
            end = beyond
        return end

    def _points_inside(self, external_points: Ids) -> Bools:
        inside = self.changes_at(self.times)
        inside[self.start_point] = inside[external_points] = False
        return freeze(inside)

    def changes_at(self, times: Ints) -> Bools:
        """Mark the times (ns) at which points may change."""
        inside: Bools = (times > self.window.start_ns) & (times <= self.until)
        return inside | (times == self.window.start_ns) if self.window.is_whole else inside

    def _edges_inside(self) -> ReplayEdges:
        known, table = edge_weights(self.graph), self.graph.edge_table
        # Who holds a lock first is decided anew when times change: that ties no thread to the times of another.
        rows = np.flatnonzero(self.is_inside[table.target] & (table.kind != EdgeKind.RUNTIME_LOCK))
        without = self.is_inside & np.append(self.graph.timeline.position >= 0, False)
        without[table.target[rows]] = False
        target = np.flatnonzero(without).astype(np.int32)
        source = self._preceding_points(target)
        weight = self.times[target] - self.times[source]
        return ReplayEdges(
            np.append(rows, np.full(len(source), -1)).astype(np.int32),
            np.append(table.source[rows], source),
            np.append(table.target[rows], target),
            np.append(known.weight[rows], weight),
            np.append(known.binds[rows], np.ones(len(source), np.bool_)),
        )

    def _preceding_points(self, roots: Ids) -> Ids:
        """Return for points without a cause the last point before them of their rank's busiest thread, or the start."""
        found = np.full(len(roots), self.start_point, np.int32)
        part = self.graph.rank_index_of(event_of(roots))
        for place, points in enumerate(_busiest_threads(self.graph)):
            own = np.flatnonzero(part == place)
            # So far back that clock faults, which lead back by less, cannot close a cycle.
            before = np.searchsorted(self.times[points], self.times[roots[own]] - CLOCK_FAULT_LIMIT_NS, side="left")
            found[own[before > 0]] = points[before[before > 0] - 1]
        found[self.times[found] < self.window.start_ns] = self.start_point
        return found

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
            edges.source, edges.target, np.append(lane_runs(self.graph).points, np.int32(self.start_point)),
            np.append(self.graph.timeline.position, np.int32(-1)), ~self.is_inside, edges.preferred,
        )  # fmt: skip

    # -- whose the time is ---------------------------------------------------------------------------------------------

    @cached_property
    def parts(self) -> EdgeParts:
        """What the weights consist of, as far as it lies in the window.

        ``edge`` is a row of ``edges``; behind those follow the tails of the window's ends, in their order.
        """
        every, own = edge_weights(self.graph).parts, self.edges.row >= 0
        number = np.full(len(self.graph.edge_table), -1, np.int32)
        number[self.edges.row[own]] = np.flatnonzero(own)
        found = every.take(number[every.edge] >= 0)
        found = EdgeParts.join([
            replace(found, edge=number[found.edge]), self._frozen_parts(), self._boundary_parts()
        ])  # fmt: skip
        start = np.maximum(found.start, self.window.start_ns)
        found = replace(found, start=start, length=np.minimum(found.start + found.length, self.window.end_ns) - start)
        found = found.take(found.length > 0)
        return found.take(np.lexsort((found.start, found.edge)))

    def _frozen_parts(self) -> EdgeParts:
        """Let nobody own the time before points without a cause."""
        frozen = self.edges.row < 0
        frozen[self._heads] = False
        rows = np.flatnonzero(frozen)
        return EdgeParts.of(
            edge=rows, start=self.times[self.edges.source[rows]], length=self.edges.weight[rows], owner=-1,
            lane=self.graph.event_table.lane[event_of(self.edges.target[rows])], part=TimePart.EXCESS,
            bound=BoundBy.UNEXPLAINED,
        )  # fmt: skip

    def _boundary_parts(self) -> EdgeParts:
        """Divide the time from the window's start to the first causes, and from its ends to its end."""
        sink, lanes = self.window.sink, self.graph.event_table.lane
        target = self.edges.target[self._heads]
        heads = Stretches.of(
            walk=0, start=self.times[self.edges.source[self._heads]], end=self.times[target], source=-1, target=target,
            edge=-1, kind=-1, lane=lanes[event_of(target)], pending=False,
        )  # fmt: skip
        last = np.flatnonzero(sink.tails > 0)
        source = sink.ends[last]
        on_thread = ~self.graph.is_activity[event_of(source)]
        tails = Stretches.of(
            walk=0, start=self.times[source], end=self.times[source] + sink.tails[last],
            source=np.where(on_thread, source, -1), target=-1, edge=-1,
            kind=np.where(on_thread, EdgeKind.THREAD_ORDER, -1),
            lane=np.where(on_thread, lanes[event_of(source)], -1), pending=False,
        )  # fmt: skip
        number = np.append(self._heads, len(self.edges.row) + last)
        return divide_into_parts(self.graph, Stretches.join([heads, tails]), number)

    @cached_property
    def _heads(self) -> Ints:
        """The edges to points of threads without a cause; from the window's start only where a thread begins."""
        rows = np.flatnonzero(self.edges.row < 0)
        row = event_of(self.edges.target[rows])
        on_thread = ~self.graph.is_activity[row] & ~is_end(self.edges.target[rows])
        from_start = self.edges.source[rows] == self.start_point
        first = rows[on_thread & from_start]
        lane = self.graph.event_table.lane[event_of(self.edges.target[first])]
        return np.append(rows[on_thread & ~from_start], first[np.unique(lane, return_index=True)[1]])

    @cached_property
    def is_issued(self) -> Bools:
        """Mark the rows that may change: what was issued in the window, and all that threads do; the rest keeps times.

        What a thread does in the window is the window's, whenever the operator around it began.
        """
        since = min(self.window.start_ns, self.window.cpu_span[0])
        found: Bools = self.window.is_whole | ~self.graph.is_activity | (issue_times(self.graph) >= since)
        return found

    @cached_property
    def may_change(self) -> Bools:
        """Mark the parts of time that may change."""
        found: Bools = take_or(self.is_issued, self.parts.owner, otherwise=True)
        return found

    @cached_property
    def part_rank(self) -> Ids:
        """The place of the rank of each part: its owner's, else that of what its edge leads to."""
        leads_to = np.append(self.edges.target, self.window.sink.ends)[self.parts.edge]
        owner = self.graph.rank_index_of(self.parts.owner)
        return np.where(owner >= 0, owner, self.graph.rank_index_of(event_of(leads_to)))

    # -- where it ends -------------------------------------------------------------------------------------------------

    def end_of(self, values: Ints, tails: Ints) -> int:
        """Return when (ns) the window ends with some values of all points and tails: with the last it waits for."""
        return int(self.ends_of(values[self.window.sink.ends][None], tails[None])[0])

    def ends_of(self, values: Ints | Floats, tails: Ints | Floats) -> Any:
        """Return when (ns) the window ends, given rows of values of its ends and of their tails."""
        if not len(self.window.sink.ends):
            return np.full(len(values), self.window.end_ns)
        return (values + tails).max(axis=1)

    def last_of(self, values: Ints | Floats, tails: Ints | Floats) -> int:
        """Return the place among the window's ends of the one with which it ends; -1 if it waits for none.

        Of several it is the one with which it ends as recorded, else one of the same rank.
        """
        sink = self.window.sink
        if not len(sink.ends):
            return -1
        reached = values[sink.ends] + tails
        latest = np.flatnonzero(reached == reached.max())
        rank = self.graph.rank_index_of(event_of(np.append(sink.ends[latest], np.int32(sink.point))))
        is_usual, of_its_rank = sink.ends[latest] == sink.point, rank[:-1] == rank[-1]
        return int(latest[np.lexsort((~of_its_rank, ~is_usual))[0]])


def _busiest_threads(graph: DependencyGraph) -> list[Ids]:
    """Return the points of the thread with the most points of each rank, in order of time."""
    calls = graph.calls
    count = np.diff(calls.first)
    threads = []
    for part in graph.parts:
        own = np.where(graph.rank_index_of_lane == part.place, count[: len(graph.rank_index_of_lane)], 0)
        lane = int(np.argmax(own)) if len(own) else 0
        threads.append(calls.points[calls.lane_slice(lane)] if len(own) and own[lane] else calls.points[:0])
    return threads
