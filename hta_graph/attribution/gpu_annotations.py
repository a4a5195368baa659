"""Annotations that the profiler copied onto GPU streams: which activities lie under them, and what they copy."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import expand_ranges, find_sorted
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints

__all__ = ["gpu_annotations_over", "annotation_sources"]


def gpu_annotations_over(graph: DependencyGraph, rows: Ids) -> Ids:
    """Return for each activity (canonical row) the shortest GPU annotation that it overlaps on its stream; -1: none.

    Overlap, not containment: clocks are rounded, and an annotation's copy ends with the last activity launched in it.
    """
    events = graph.event_table
    marks = np.flatnonzero(events.kind == EventKind.GPU_ANNOTATION).astype(np.int32)
    found = np.full(len(rows), -1, np.int32)
    for lane in np.unique(events.lane[marks]).tolist():
        here = np.flatnonzero(events.lane[rows] == lane)
        found[here] = _shortest_over(graph, rows[here], marks[events.lane[marks] == lane])
    return found


def _shortest_over(graph: DependencyGraph, rows: Ids, marks: Ids) -> Ids:
    """Mark the rows of one stream, given in order of start, by its annotations."""
    start, end = graph.event_table.start, graph.event_table.end
    mark, place = _candidate_pairs(start[rows], end[rows], start[marks], end[marks])
    # The second half keeps activities of no length that start in the annotation's first nanosecond.
    overlaps = (end[rows[place]] > start[marks[mark]]) | (start[rows[place]] >= start[marks[mark]])
    mark, place = mark[overlaps], place[overlaps]
    length = (end - start)[marks[mark]]
    # Of several over one activity the shortest says most; of equally long ones the last in canonical order.
    order = np.lexsort((-mark, length, place))
    _, first = np.unique(place[order], return_index=True)
    found = np.full(len(rows), -1, np.int32)
    found[place[order][first]] = marks[mark[order][first]]
    return found


def _candidate_pairs(start: Ints, end: Ints, mark_start: Ints, mark_end: Ints) -> tuple[Ints, Ints]:
    """Pair each annotation with the rows from the first that may reach into it to the last that starts in it."""
    # Rows are in order of their starts, not of their ends: the running maximum of the ends can be searched.
    reach = np.maximum.accumulate(end) if len(end) else end
    first = np.searchsorted(reach, mark_start, side="left")
    count = np.maximum(np.searchsorted(start, mark_end, side="left") - first, 0)
    return expand_ranges(first, count)


def annotation_sources(graph: DependencyGraph) -> tuple[Ids, Ids]:
    """Return the GPU annotations and the CPU annotation that each copies (same name and External id; -1: unknown)."""
    events = graph.event_table
    copies = np.flatnonzero(events.kind == EventKind.GPU_ANNOTATION).astype(np.int32)
    sources = np.flatnonzero(events.kind == EventKind.ANNOTATION).astype(np.int32)
    sources = sources[events.external_id[sources] > 0]
    if not len(sources):
        return copies, np.full(len(copies), -1, np.int32)
    sources = sources[np.argsort(events.external_id[sources], kind="stable")]
    ids = events.external_id[sources]
    at = find_sorted(events.external_id[copies], ids)
    same = (at >= 0) & (events.name[sources[at]] == events.name[copies])
    return copies, np.where(same, sources[at], -1).astype(np.int32)
