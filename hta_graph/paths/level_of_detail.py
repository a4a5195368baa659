"""Which rows a drawing of lanes shows of a stretch of time, on which lanes, and how they stand there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hta_graph.arrays import first_of_runs, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import GPU_KINDS, Bools, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath

__all__ = ["busiest_lanes", "tracks_on_lanes", "ranks_on_paths", "rows_between", "lane_order"]

THREAD_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION)


def rows_between(graph: DependencyGraph, start_ns: int, end_ns: int) -> Ints:
    """Return the rows (canonical) that are drawn of a stretch."""
    events = graph.event_table
    meets = (events.start < end_ns) & (events.end > start_ns)
    # A row of no length at the very edge overlaps nothing but belongs to it.
    meets |= (events.start == events.end) & (events.start >= start_ns) & (events.end <= end_ns)
    return np.flatnonzero(meets & kind_mask(events.kind, THREAD_KINDS + GPU_KINDS))


def tracks_on_lanes(graph: DependencyGraph, rows: Ints, deepest: int) -> Ints:
    """Return the track of each row in its lane: rows around it on a thread, rows that still run on a stream.

    What lies deeper than ``deepest`` has that depth.
    """
    depth = _nesting_depth(graph.nesting(*THREAD_KINDS).parent, rows, deepest)
    beside = np.flatnonzero(graph.is_activity[rows])
    depth[beside] = _overlap_depth(graph, rows[beside], deepest)
    return depth


def _nesting_depth(parent: Ids, rows: Ints, deepest: int) -> Ints:
    """Count the rows around each row, as far as that is drawn."""
    # All rows step outwards together; a row stays where it is once nothing is around it.
    depth = np.zeros(len(rows), np.int64)
    around = parent[rows]
    for _ in range(deepest):
        depth += around >= 0
        around = np.where(around >= 0, parent[around], -1)
    return depth


def _overlap_depth(graph: DependencyGraph, rows: Ints, deepest: int) -> Ints:
    """Move work that starts before its stream's earlier work has ended down, track by track."""
    events = graph.event_table
    depth = np.zeros(len(rows), np.int64)
    order = np.lexsort((events.end[rows], events.start[rows], events.lane[rows]))
    while len(order) and depth[order[0]] < deepest:
        start, end, lane = events.start[rows[order]], events.end[rows[order]], events.lane[rows[order]]
        order = order[start < _ends_so_far(end, lane)]
        depth[order] += 1
    return depth


def _ends_so_far(end: Ints, lane: Ids) -> Ints:
    """Return for each row, in order of lane and start, when all before it on its lane have ended."""
    none = np.iinfo(np.int64).min
    found = np.full(len(end), none)
    bounds = np.flatnonzero(first_of_runs(lane))
    for low, high in zip(bounds.tolist(), [*bounds[1:].tolist(), len(end)], strict=True):
        found[low + 1 : high] = np.maximum.accumulate(end[low:high])[:-1]
    return found


def ranks_on_paths(paths: Sequence[CriticalPath], limit: int) -> list[int]:
    """Choose ranks, by their places in order: those that the paths run on longest, then the lowest."""
    parts = paths[0].graph.parts
    on_path = [sum(path.by_rank_ns[part.rank] for path in paths) for part in parts]
    chosen = sorted(range(len(parts)), key=lambda part: (-on_path[part], part))[:limit]
    return sorted(chosen)


def busiest_lanes(paths: Sequence[CriticalPath], rows: Ints, parts: Sequence[int], limit: int) -> tuple[Bools, int]:
    """Mark the lanes of some ranks on which paths and then events run longest; count the others of these ranks."""
    graph = paths[0].graph
    lanes, events = len(graph.lanes.labels), graph.event_table
    on_path, running = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    for path in paths:
        on_lane = path.pieces.lane >= 0
        on_path += summed_by(path.pieces.lane[on_lane], path.pieces.length[on_lane], lanes)
    # One more than its length: what lasts no time is there too.
    running += summed_by(events.lane[rows], events.end[rows] - events.start[rows] + 1, lanes)
    used = np.flatnonzero(((on_path > 0) | (running > 0)) & np.isin(graph.rank_index_of_lane, parts))
    chosen = used[np.lexsort((-running[used], -on_path[used]))][:limit]
    shown = np.zeros(lanes, np.bool_)
    shown[chosen] = True
    return shown, len(used) - len(chosen)


def lane_order(graph: DependencyGraph) -> Ints:
    """Return all lanes from top to bottom: rank by rank, threads, streams, what communicates."""
    lanes = graph.lanes
    return np.lexsort((lanes.is_communication, lanes.is_stream, graph.rank_index_of_lane))
