"""stream_order: a stream runs its work one after the other."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind

__all__ = ["stream_order"]


def stream_order(context: RuleContext) -> EdgeTable:
    """Link each activity to the next on its stream (device, context, stream).

    Normally end → start. Where the next starts before the stream has finished (programmatic dependent launch, graph
    branches shown on one stream) start → start; the first that no longer overlaps follows the latest end so far.
    """
    queues = context.queues
    follows = np.flatnonzero(~queues.is_stream_start())
    rows = queues.rows
    target = rows[follows]
    before = rows[queues.latest[follows - 1]]
    overlaps = context.trace.events.end[before] > context.trace.events.start[target]
    context.notes["overlaps_on_a_stream"] = int(np.count_nonzero(overlaps))
    # An overlapping activity can only be said to have started after the one before it started.
    source = np.where(overlaps, start_point(rows[follows - 1]), end_point(before))
    return EdgeTable.of_kind(EdgeKind.STREAM_ORDER, source, start_point(target))
