"""event_wait: a stream was told to wait for an event of another stream."""

from __future__ import annotations

import numpy as np

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind, Rule
from hta_graph.timeline import end_point, start_point

__all__ = ["event_wait"]


def event_wait(context: LinkContext) -> EdgeTable:
    """Link the work that a record captured to the next work enqueued on the waiting stream, by whatever thread.

    One activity may have many waits: all are kept. A wait for work of the same stream adds nothing to stream order.
    """
    waits = context.waits
    captured = waits.captured_by_waits()
    held_back = context.queues.first_after(waits.lane, waits.place)[captured.query]
    lane = context.trace.events.lane
    useful = (held_back >= 0) & (lane[captured.activity] != lane[held_back])
    source, target = end_point(captured.activity[useful]), start_point(held_back[useful])
    pairs = np.unique(np.stack([target, source]), axis=1) if len(source) else np.empty((2, 0), np.int32)
    return EdgeTable.of(EdgeKind.EVENT_WAIT, pairs[1], pairs[0], Rule.RECORDED)
