"""stream_sync: a call returns when one stream has finished what it held."""

from __future__ import annotations

from hta_graph.links.blocking import edges_to_return
from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.links.sync_records import SyncKind
from hta_graph.model import EdgeKind

__all__ = ["stream_sync"]


def stream_sync(context: LinkContext) -> EdgeTable:
    """Link the last work enqueued on the stream before the call, and its pending waits' work, to the call's return."""
    rows = context.sync_rows(SyncKind.STREAM_SYNC)
    return edges_to_return(context, EdgeKind.STREAM_SYNC, rows.call, rows.lane, context.start_position(rows.call))
