"""event_wait: a stream was told to wait for an event of another stream."""

from __future__ import annotations

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.links.wait_resolution import stream_waits
from hta_graph.model import EdgeKind
from hta_graph.timeline import end_point, start_point

__all__ = ["event_wait"]


def event_wait(context: LinkContext) -> EdgeTable:
    """Link the work that a record captured to the next work enqueued on the waiting stream, by whatever thread.

    One activity may have many waits: all are kept. Of a graph the first row on each stream waits.
    """
    queues, waits = context.queues, stream_waits(context).waits
    captured = stream_waits(context).captured_by_waits()
    item = queues.item_after(waits.lane, waits.place)[captured.query]
    pair, head = queues.heads.expand(item)
    source = end_point(captured.activity[pair])
    return EdgeTable.distinct(EdgeKind.EVENT_WAIT, source, start_point(head), captured.rule[pair])
