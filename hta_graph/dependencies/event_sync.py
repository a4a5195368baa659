"""event_sync: a call returns when an event has happened."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.inference_wait_resolution import stream_waits
from hta_graph.dependencies.sync_records import SyncKind
from hta_graph.dependencies.synchronization import (
    SyncScopes,
    calls_without_records,
    edges_to_return,
    infer_synced_streams,
    recorded_scopes,
)
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EdgeKind, Ids
from hta_graph.trace.profiler_names import EVENT_RECORD_CALL, EVENT_SYNC_CALL, NON_BLOCKING_QUERY

__all__ = ["event_sync"]


def event_sync(context: RuleContext) -> EdgeTable:
    """Link the work that the record captured to the return of the waiting call; a query does not wait.

    The profiler writes the same record for cudaEventQuery, which returns at once. Without ids the record is the
    thread's last one before the call, and its stream is told by the call's return.
    """
    rows = context.sync_rows(SyncKind.EVENT_SYNC)
    names = context.trace.events.name
    is_query = context.trace.names_starting_with(NON_BLOCKING_QUERY)[names[rows.call]] & (rows.call >= 0)
    place = context.start_position(rows.record_call)
    issued_before = (rows.record_call >= 0) & (place < context.start_position(rows.call))
    # A record issued after the call belongs to a later use of the same event (kineto#1339).
    resolved = ~is_query & rows.names_stream & issued_before
    known = resolved & (rows.record_lane >= 0)
    recorded = recorded_scopes(context, rows.call[known], rows.record_lane[known], place[known])
    waiting = ~is_query & ~resolved & (rows.call >= 0)
    unknown = rows.call[waiting & (not context.names_events)]
    calls = np.append(unknown, calls_without_records(context, EVENT_SYNC_CALL, rows))
    inferred = _infer_recorded_scopes(context, calls)
    context.notes["sync_records_without_call"] += int(np.count_nonzero((rows.call < 0) & ~known))
    context.notes["event_queries"] = int(np.count_nonzero(is_query))
    context.notes["event_syncs_unresolved"] = (
        int(np.count_nonzero(waiting)) - len(unknown) + len(calls) - len(inferred.call)
    )
    scopes = SyncScopes.join([recorded, inferred])
    return edges_to_return(
        context, EdgeKind.EVENT_SYNC, scopes, stream_waits(context).outstanding_at(scopes.lane, scopes.place)
    )


def _infer_recorded_scopes(context: RuleContext, calls: Ids) -> SyncScopes:
    record = context.last_call_on_thread(EVENT_RECORD_CALL, calls)
    # Without a record on the thread the event holds at most what was enqueued before the call.
    moment = np.where(record >= 0, record, calls).astype(np.int32)
    return infer_synced_streams(context, calls, context.start_position(moment), context.last_launch_stream(moment))
