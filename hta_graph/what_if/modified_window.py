"""What a window's path consists of, as recorded and after changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.arrays import summed_by, take_or
from hta_graph.graph.conversion import labels, texts_of_codes
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, BoundBy, Floats, Ids, Ints
from hta_graph.what_if.draft import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayEdges, ReplayGraph

__all__ = [
    "PathRow",
    "PathTotals",
    "frozen_share",
    "frozen_time",
    "inferred_share",
    "inferred_time",
    "path_columns",
    "modified_path_totals",
    "recorded_path_totals",
    "path_totals_of_edges",
    "communicates_without_partner",
]


@dataclass(frozen=True)
class PathTotals:
    """What a path through a window consists of, after changes or without.

    ``rows`` are the parts (rows of ``base.parts``) on the path and ``length`` how long (ns) each is; ``unowned_ns`` is
    the length of a window that waits for nothing in the graph.
    """

    base: ReplayGraph
    rows: Ints
    length: Ints
    unowned_ns: int = 0

    @cached_property
    def by_bound_ns(self) -> dict[str, int]:
        """Time (ns) per class, all ten; they sum to the window, but for what was inserted."""
        sums = summed_by(self.base.parts.bound[self.rows], self.length, len(BoundBy))
        sums[BoundBy.UNEXPLAINED] += self.unowned_ns
        return {bound.label: int(sums[bound]) for bound in BoundBy}

    @cached_property
    def by_rank_ns(self) -> dict[int, int]:
        """Time (ns) on each rank."""
        parts = self.base.graph.parts
        sums = summed_by(self.base.part_rank[self.rows], self.length, len(parts))
        sums[0] += self.unowned_ns
        return {part.rank: int(sums[part.place]) for part in parts}

    def time_of(self, meant: Bools) -> int:
        """Return how much time (ns) of the path is in some parts."""
        return int(self.length[meant[self.rows]].sum())

    def by_name(self, meant: Bools | None = None) -> dict[str, Any]:
        """Return the columns name (whose the time is), bound_by, rank, time_ns, longest first; of some parts or all."""
        base, graph = self.base, self.base.graph
        chosen = slice(None) if meant is None else meant[self.rows]
        rows, length = self.rows[chosen], self.length[chosen]
        names = take_or(graph.event_table.name, base.parts.owner[rows])
        ranks = len(graph.parts)
        key = ((names + 1).astype(np.int64) * len(BoundBy) + base.parts.bound[rows]) * ranks + base.part_rank[rows]
        time = summed_by(key, length, (len(graph.names) + 1) * len(BoundBy) * ranks)
        found = np.flatnonzero(time)
        bound = labels(BoundBy, (found // ranks % len(BoundBy)).astype(np.int8))
        names = texts_of_codes(graph.names, found // ranks // len(BoundBy) - 1)
        of_rank = np.array([part.rank for part in graph.parts], object)[found % ranks]
        return path_columns(zip(names, bound, of_rank, time[found].tolist(), strict=True))


PathRow = tuple[str | None, str, int, int]
"""Whose the time is (None: nobody's), its class, the rank, and how long it is (ns)."""


def path_columns(rows: Iterable[PathRow]) -> dict[str, Any]:
    """Return what a path consists of as columns name, bound_by, rank, time_ns; of equally long rows by name and so on.

    >>> path_columns([("b", "cpu_bound", 0, 5), ("a", "cpu_bound", 0, 5)])["name"].tolist()
    ['a', 'b']
    """
    listed = sorted(rows, key=lambda row: (-row[3], row[0] or "", row[2], row[1]))
    columns = list(zip(*listed, strict=True)) or [(), (), (), ()]
    names, bounds, ranks = (np.array(column, object) for column in columns[:3])
    return {"name": names, "bound_by": bounds, "rank": ranks, "time_ns": np.array(columns[3], np.int64)}


def modified_path_totals(
    draft: ModifiedWindow, values: Ints | Floats, weight: Ints | Floats, tails: Ints | Floats
) -> PathTotals:
    """Trace the path of a draft back from the point with which its window ends, and find the parts that it passes.

    Args:
        draft: a window with changes.
        values: the times of all points with them.
        weight: the weights that led to these.
        tails: how long (ns) the window goes on after each of its ends.
    """
    base, paths = draft.base, draft.shape()[1]
    last = base.last_of(values, tails)
    if last < 0:
        return PathTotals(base, np.empty(0, np.int64), np.empty(0, np.int64), base.length_ns)
    passed = paths.trace_back(weight, values, int(base.window.sink.ends[last]))
    return path_totals_of_edges(draft, values, weight, passed, last)


def path_totals_of_edges(
    draft: ModifiedWindow, values: Ints | Floats, weight: Ints | Floats, passed: Ids, last: int
) -> PathTotals:
    """Find the parts that a path passes.

    Args:
        draft: a window with changes.
        values: the times of all points with them.
        weight: the weights that led to these.
        passed: the edges of the path, latest first.
        last: the place of its last point among the window's ends; -1 if it goes on elsewhere.
    """
    base, edges = draft.base, draft.shape()[0]
    kept = np.flatnonzero(~draft.dropped)
    on_path = np.zeros(len(base.edges.row) + len(base.window.sink.ends), np.bool_)
    on_path[kept[passed[passed < len(kept)]]] = True
    if last >= 0:
        on_path[len(base.edges.row) + last] = True
    rows = np.flatnonzero(on_path[base.parts.edge])
    length = draft.lengths[rows]
    back = np.flatnonzero(weight[passed] < 0)
    if len(back):
        too_long = np.zeros(len(on_path))
        inside = passed < len(kept)
        too_long[kept[passed[inside]]] = (
            _hidden_by_clock_faults(edges, values, weight, passed) - _beyond_window_end(base, edges, passed)
        )[inside].clip(min=0)
        length = _shortened_from_end(base.parts.edge[rows], length, too_long)
    return PathTotals(base, rows, length)


def _hidden_by_clock_faults(edges: ReplayEdges, values: Ints | Floats, weight: Ints | Floats, passed: Ids) -> Floats:
    """Return by how much (ns) edges of a path, latest first, reach beyond where clock faults let it go on.

    path   ──────────|────▶|          the later edge goes back in time by a clock fault: what the earlier one has
               ◀─────|                beyond that is no time of the window
    """
    begins = np.minimum.accumulate(values[edges.source[passed]])
    ends = np.append(values[edges.target[passed[:1]]], begins[:-1])
    hidden: Floats = np.maximum(weight[passed], 0) - (ends - begins)
    return hidden


def _beyond_window_end(base: ReplayGraph, edges: ReplayEdges, passed: Ids) -> Ints:
    """Return how much (ns) of edges lies beyond the window's end, and so is in no part."""
    beyond: Ints = np.maximum(base.times[edges.target[passed]] - base.window.end_ns, 0)
    return beyond


def _shortened_from_end(edge: Ids, length: Ints, too_long: Floats) -> Ints:
    """Shorten the parts of edges, which stand in order, from the last one of each edge on."""
    behind = np.cumsum(length[::-1])[::-1] - length
    behind -= behind[np.searchsorted(edge, edge, side="right") - 1]
    cut = np.clip(np.rint(too_long[edge]).astype(np.int64) - behind, 0, length)
    shorter: Ints = length - cut
    return shorter


@memoized
def recorded_path_totals(base: ReplayGraph) -> tuple[PathTotals, int]:
    """Return what the window's path consists of as recorded, and where it ends (ns) in replay."""
    times = base.paths.values(base.edges.weight, base.times)
    tails = base.window.sink.tails
    return modified_path_totals(ModifiedWindow(base), times, base.edges.weight, tails), base.end_of(times, tails)


def frozen_share(base: ReplayGraph) -> float:
    """Return the share of the recorded path that no change moves.

    That is what nothing explains, and communication whose partners are not known: it may have waited for them.
    """
    path, end = recorded_path_totals(base)
    return frozen_time(path) / max(end - base.window.start_ns, 1)


def frozen_time(path: PathTotals) -> int:
    """Return how much (ns) of a path no change moves."""
    parts, alone = path.base.parts.take(path.rows), communicates_without_partner(path.base.graph)
    frozen = (parts.bound == BoundBy.UNEXPLAINED) | take_or(alone, parts.owner, otherwise=False)
    return path.unowned_ns + int(path.length[frozen].sum())


def communicates_without_partner(graph: DependencyGraph) -> Bools:
    """Mark the activities that communicate and were matched with nobody."""
    alone: Bools = graph.marks.communicates | graph.lanes.is_communication[graph.event_table.lane]
    if isinstance(graph, JobGraph):
        alone = alone.copy()
        alone[graph.members.row[graph.members.number >= 0]] = False
    return alone


def inferred_share(base: ReplayGraph) -> float:
    """Return the share of the recorded path's time that lies on edges which a rule deduced."""
    path, end = recorded_path_totals(base)
    return inferred_time(path) / max(end - base.window.start_ns, 1)


def inferred_time(path: PathTotals) -> int:
    """Return how much (ns) of a path lies on edges which a rule deduced."""
    base = path.base
    row = take_or(base.edges.row, np.where(base.parts.edge < len(base.edges.row), base.parts.edge, -1)[path.rows])
    return int(path.length[take_or(base.graph.edge_table.inferred, row, otherwise=False)].sum())
