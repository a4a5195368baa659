"""stream_order: a stream runs its work one after the other."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.links.context import LinkContext
from hta_graph.model import EdgeKind, Ids, Ints

__all__ = ["stream_order"]


def stream_order(context: LinkContext) -> EdgeTable:
    """Link each activity to the next on its stream (device, context, stream).

    Normally end → start. Where the next starts before the stream has finished (programmatic dependent launch, graph
    branches shown on one stream) start → start; the first that no longer overlaps follows the latest end so far.
    """
    queues = context.queues
    follows = np.flatnonzero(~queues.is_stream_start())
    rows = queues.rows
    latest = _row_with_latest_end(context.trace.events.end[rows], queues.lane)
    target = rows[follows]
    before = rows[latest[follows - 1]]
    overlaps = context.trace.events.end[before] > context.trace.events.start[target]
    context.notes["overlaps_on_a_stream"] = int(np.count_nonzero(overlaps))
    # An overlapping activity can only be said to have started after the one before it started.
    source = np.where(overlaps, start_point(rows[follows - 1]), end_point(before))
    return EdgeTable.of_kind(EdgeKind.STREAM_ORDER, source, start_point(target))


def _row_with_latest_end(end: Ints, lane: Ids) -> Ints:
    """For each row, the row of its stream up to here that ends last (of equal ends the first)."""
    if not len(end):
        return np.empty(0, np.int64)
    # Ranks rise with the stream, then with the end: their running maximum never looks back into an earlier stream.
    rank = np.empty(len(end), np.int64)
    rank[np.lexsort((-np.arange(len(end)), end, lane))] = np.arange(len(end))
    running = np.maximum.accumulate(rank)
    row_of_rank = np.empty(len(end), np.int64)
    row_of_rank[rank] = np.arange(len(end))
    return row_of_rank[running]
