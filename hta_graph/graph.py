"""DependencyGraph: a read-only facade that speaks of events, waits, launches and lanes; its storage never leaks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hta_graph.errors import QueryError
from hta_graph.links.edges import EdgeTable
from hta_graph.model import WALKABLE, EdgeKind, EventKind, Evidence, Ids, Ints, kind_mask
from hta_graph.timeline import Timeline, end_point, start_point
from hta_graph.trace.table import READING_DIAGNOSTICS, Trace, freeze
from hta_graph.views import edges_frame, events_frame, to_networkx, to_rustworkx

if TYPE_CHECKING:
    import networkx
    import pandas as pd
    import rustworkx

__all__ = ["BUILD_DIAGNOSTICS", "DIAGNOSTICS", "DependencyGraph"]

BUILD_DIAGNOSTICS: dict[str, str] = {
    "activities_without_launch": "GPU activities whose launching call is not in the file (orphans)",
    "overlaps_on_a_stream": "activities that start before their stream has finished its earlier work",
    "nesting_violations": "operators and calls that end after the row around them",
    "edges_clamped": "edges whose target is stamped up to 1 ms before its source, a clock fault; kept with lag 0",
    "edges_dropped_back_in_time": "edges left out because they go back in time by more than 1 ms",
    "edges_dropped_cycle": "edges left out because they would close a cycle",
    "event_waits": "stream waits for events, with or without a record of the profiler",
    "event_waits_unresolved": "of those, the ones whose record or recorded stream remains unknown",
    "event_waits_for_nothing": "of those, the ones for a stream on which the trace shows no work",
    "stream_syncs_unresolved": "stream synchronisations whose stream remains unknown",
    "event_syncs_unresolved": "event synchronisations whose record or recorded stream remains unknown",
    "event_queries": "Event Sync records of event queries, which do not wait",
    "sync_records_without_call": "synchronisation records whose CPU call is not in the file",
    "forward_backward_unresolved": "forward-backward pairs without two operators that follow each other",
}
"""What building the graph counted: key → meaning."""

DIAGNOSTICS: dict[str, str] = {**READING_DIAGNOSTICS, **BUILD_DIAGNOSTICS}
"""All keys of ``graph.diagnostics``."""


class DependencyGraph:
    """One rank's events and the reasons why each could not have happened earlier.

    Every event is named by its ``event_index``, its position in ``traceEvents``.
    """

    def __init__(self, trace: Trace, timeline: Timeline, edges: EdgeTable, notes: dict[str, int]) -> None:
        self._trace = trace
        self._timeline = timeline
        self._edges = edges
        self._notes = notes

    def __repr__(self) -> str:
        return (
            f"<DependencyGraph {self._trace.path.name}: {len(self._trace.events):,} events, {len(self._edges):,} edges>"
        )

    @property
    def trace(self) -> Trace:
        """The trace that this graph was built from."""
        return self._trace

    @property
    def timeline(self) -> Timeline:
        """The order of points and the nesting of rows."""
        return self._timeline

    @property
    def edge_table(self) -> EdgeTable:
        """The edges as columns, for algorithms; points are numbers of canonical events, not of ``traceEvents``."""
        return self._edges

    @property
    def diagnostics(self) -> dict[str, int]:
        """What was dropped, repaired or left unresolved; the keys are those of :data:`DIAGNOSTICS`."""
        return {**self._trace.diagnostics, **self._notes}

    @property
    def events(self) -> pd.DataFrame:
        """All events, as a copy.

        Columns: event_index, kind, name, lane, start_ns, end_ns, duration_ns, correlation, external_id.
        """
        return self._all_events.copy()

    @cached_property
    def _all_events(self) -> pd.DataFrame:
        return self.events_of(np.arange(len(self._trace.events)))

    @property
    def edges(self) -> pd.DataFrame:
        """All edges, as a copy.

        Columns: kind, evidence, rule, clamped, source_index, source_point, target_index, target_point, lag_ns.
        """
        return self._all_edges.copy()

    @cached_property
    def _all_edges(self) -> pd.DataFrame:
        return self._edge_frame(self._edges)

    def edge_counts(self) -> dict[str, dict[str, int]]:
        """Count the edges per kind and evidence."""
        counts = np.zeros((len(EdgeKind), 2), np.int64)
        np.add.at(counts, (self._edges.kind, self._edges.inferred.astype(np.int8)), 1)
        return {
            kind.label: {evidence.label: int(counts[kind, evidence]) for evidence in Evidence}
            for kind in EdgeKind
            if counts[kind].any()
        }

    def event(self, event_index: int) -> pd.Series[Any]:
        """Return one event.

        Raises:
            QueryError: there is no such event.
        """
        return self.events_of(np.array([self._row(event_index)])).iloc[0]

    def predecessors(self, event_index: int, kinds: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Return the edges into an event's start and end from other events, optionally of some kinds only."""
        return self._touching(event_index, self._edges.target, kinds)

    def successors(self, event_index: int, kinds: str | Iterable[str] | None = None) -> pd.DataFrame:
        """Return the edges from an event's start and end to other events, optionally of some kinds only."""
        return self._touching(event_index, self._edges.source, kinds)

    def ancestors(self, event_index: int) -> pd.DataFrame:
        """Return the events without which this one could not have ended."""
        return self._reachable(end_point(np.array([self._row(event_index)])), backward=True)

    def descendants(self, event_index: int) -> pd.DataFrame:
        """Return the events that could not have happened before this one started."""
        return self._reachable(start_point(np.array([self._row(event_index)])), backward=False)

    def path_between(self, source_index: int, target_index: int) -> pd.DataFrame:
        """Return the edges of a path with the fewest edges from one event's start to another's end; empty if none."""
        source, target = 2 * self._row(source_index), 2 * self._row(target_index) + 1
        return self._edge_frame(self._edges.take(self._shortest(source, target)))

    def neighbourhood(self, event_index: int, depth: int = 1) -> DependencyGraph:
        """Return the subgraph of the events at most ``depth`` edges away, in either direction."""
        near = np.array([self._row(event_index)])
        source, target = self._edges.source >> 1, self._edges.target >> 1
        for _ in range(depth):
            inside = np.zeros(len(self._trace.events), np.bool_)
            inside[near] = True
            touched = inside[source] | inside[target]
            near = np.unique(np.concatenate([near, source[touched], target[touched]]))
        return self._induced(near)

    def filter(
        self,
        *,
        kind: str | Sequence[str] | None = None,
        name: str | None = None,
        lane: str | Sequence[str] | None = None,
        start_ns: int | None = None,
        end_ns: int | None = None,
    ) -> DependencyGraph:
        """Return the subgraph of the events that match all conditions.

        Args:
            kind: one or several event kinds, as in output.
            name: a regular expression found in the name.
            lane: one or several lanes, as in output.
            start_ns: keep events that end at or after this time.
            end_ns: keep events that start at or before this time.

        Raises:
            QueryError: an unknown kind or lane, or a bad expression.
        """
        events = self._trace.events
        keep = np.ones(len(events), np.bool_)
        if kind is not None:
            keep &= np.isin(events.kind, _codes(kind, [member.label for member in EventKind], "kind"))
        if name is not None:
            keep &= self._trace.matching_names(_expression(name))[events.name]
        if lane is not None:
            keep &= np.isin(events.lane, _codes(lane, self._trace.lanes.labels, "lane"))
        if start_ns is not None:
            keep &= events.end >= start_ns
        if end_ns is not None:
            keep &= events.start <= end_ns
        return self._induced(np.flatnonzero(keep))

    def subgraph(self, event_indices: Iterable[int]) -> DependencyGraph:
        """Return the graph of these events and of the edges between them.

        Raises:
            QueryError: an event is not there.
        """
        return self._induced(np.unique(np.array([self._row(index) for index in event_indices], np.int64)))

    def to_networkx(self) -> networkx.MultiDiGraph[Any]:
        """Return a networkx multigraph whose nodes are (event_index, "start" | "end"); edge keys are edge kinds."""
        return to_networkx(self._trace, self._points(), self._edges, self._timeline.times)

    def to_rustworkx(self) -> rustworkx.PyDiGraph[int, int]:
        """Return a rustworkx graph; a node's payload is its point (2 × row of ``events``, + 1 for the end).

        An edge's payload is its row in ``edges``.
        """
        return to_rustworkx(self._points(), self._edges)

    def events_of(self, rows: Ids | Ints) -> pd.DataFrame:
        """Return the DataFrame of canonical rows."""
        return events_frame(self._trace, rows)

    def _edge_frame(self, edges: EdgeTable) -> pd.DataFrame:
        return edges_frame(self._trace, edges, self._timeline.times)

    def _points(self) -> Ids:
        rows = np.flatnonzero(kind_mask(self._trace.events.kind, WALKABLE))
        return np.sort(np.concatenate([start_point(rows), end_point(rows)]))

    @cached_property
    def _row_of_index(self) -> Ids:
        rows = np.full(int(self._trace.events.index.max(initial=-1)) + 1, -1, np.int32)
        rows[self._trace.events.index] = np.arange(len(self._trace.events), dtype=np.int32)
        return rows

    def _row(self, event_index: int) -> int:
        row = int(self._row_of_index[event_index]) if 0 <= event_index < len(self._row_of_index) else -1
        if row < 0:
            raise QueryError(
                f"{self._trace.path}: there is no event {event_index}; an event's number is its place in traceEvents"
            )
        return row

    def _touching(self, event_index: int, side: Ids, kinds: str | Iterable[str] | None) -> pd.DataFrame:
        row = self._row(event_index)
        chosen = (side >> 1 == row) & (self._edges.source >> 1 != self._edges.target >> 1)
        if kinds is not None:
            chosen &= np.isin(self._edges.kind, _codes(kinds, [member.label for member in EdgeKind], "edge kind"))
        return self._edge_frame(self._edges.take(chosen))

    def _reachable(self, points: Ids, *, backward: bool) -> pd.DataFrame:
        source, target = self._edges.source, self._edges.target
        start, neighbour = self._adjacency(target, source) if backward else self._adjacency(source, target)
        seen = np.zeros(2 * len(self._trace.events), np.bool_)
        seen[points] = True
        stack = points.tolist()
        while stack:
            point = stack.pop()
            for near in neighbour[start[point] : start[point + 1]].tolist():
                if not seen[near]:
                    seen[near] = True
                    stack.append(near)
        rows = np.unique(np.flatnonzero(seen) >> 1)
        return self.events_of(rows[rows != points[0] >> 1])

    def _adjacency(self, side: Ids, other: Ids) -> tuple[Ints, Ids]:
        order = np.argsort(side, kind="stable")
        return np.searchsorted(side[order], np.arange(2 * len(self._trace.events) + 1)), other[order]

    def _shortest(self, source: int, target: int) -> Ints:
        """Search breadth first, one layer of edges at a time, and walk the found tree back."""
        came_by = np.full(2 * len(self._trace.events), -1, np.int64)
        seen = np.zeros(len(came_by), np.bool_)
        seen[source] = True
        frontier = np.array([source])
        start, edge_rows = self._adjacency(self._edges.source, np.arange(len(self._edges), dtype=np.int32))
        while len(frontier) and not seen[target]:
            rows = np.concatenate([edge_rows[start[point] : start[point + 1]] for point in frontier.tolist()])
            rows = rows[~seen[self._edges.target[rows]]]
            reached, first = np.unique(self._edges.target[rows], return_index=True)
            came_by[reached], seen[reached] = rows[first], True
            frontier = reached
        path: list[int] = []
        while seen[target] and target != source:
            path.append(int(came_by[target]))
            target = int(self._edges.source[path[-1]])
        return np.array(path[::-1], np.int64)

    def _induced(self, rows: Ints) -> DependencyGraph:
        """Keep these canonical rows and the edges between them; their order, and so all results, stay as they are."""
        trace = self._trace.select(rows)
        number = np.full(len(self._trace.events), -1, np.int32)
        number[rows] = np.arange(len(rows), dtype=np.int32)
        source, target = self._edges.source, self._edges.target
        inside = (number[source >> 1] >= 0) & (number[target >> 1] >= 0)
        chosen = self._edges.take(inside)
        moved = EdgeTable(
            freeze(2 * number[chosen.source >> 1] + (chosen.source & 1)),
            freeze(2 * number[chosen.target >> 1] + (chosen.target & 1)),
            chosen.kind,
            chosen.rule,
        )
        return DependencyGraph(trace, Timeline(trace.events, len(trace.lanes.labels)), moved, self._notes)


def _codes(wanted: str | Iterable[str], known: Sequence[str], what: str) -> list[int]:
    chosen = [wanted] if isinstance(wanted, str) else list(wanted)
    for name in chosen:
        if name not in known:
            raise QueryError(f"there is no {what} {name!r}; there are: {', '.join(known[:20])}")
    return [known.index(name) for name in chosen]


def _expression(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise QueryError(f"{pattern!r} is not a regular expression: {error}") from None
