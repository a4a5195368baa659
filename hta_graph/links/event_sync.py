"""event_sync: a call returns when an event has happened."""

from __future__ import annotations

import numpy as np

from hta_graph.links.blocking import edges_to_return
from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.links.sync_records import SyncKind
from hta_graph.model import EdgeKind
from hta_graph.trace.vocabulary import NON_BLOCKING_QUERY

__all__ = ["event_sync"]


def event_sync(context: LinkContext) -> EdgeTable:
    """Link the work that the record captured to the return of the waiting call; a query does not wait.

    The profiler writes the same record for cudaEventQuery, which returns at once.
    """
    rows = context.sync_rows(SyncKind.EVENT_SYNC)
    names = context.trace.events.name
    is_query = context.trace.matching_names(NON_BLOCKING_QUERY)[names[rows.call]] & (rows.call >= 0)
    place = context.start_position(rows.record_call)
    issued_before = (rows.record_call >= 0) & (place < context.start_position(rows.call))
    resolved = ~is_query & rows.names_stream & issued_before
    context.notes["event_queries"] = int(np.count_nonzero(is_query))
    context.notes["event_syncs_unresolved"] = int(np.count_nonzero(~is_query & ~resolved))
    context.notes["sync_records_without_call"] += int(np.count_nonzero(rows.call < 0))
    known = resolved & (rows.record_lane >= 0)
    return edges_to_return(context, EdgeKind.EVENT_SYNC, rows.call[known], rows.record_lane[known], place[known])
