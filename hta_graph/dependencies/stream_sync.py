"""stream_sync: a call returns when one stream has finished what it held."""

from __future__ import annotations

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
from hta_graph.model import EdgeKind
from hta_graph.trace.profiler_names import STREAM_SYNC_CALL

__all__ = ["stream_sync"]


def stream_sync(context: RuleContext) -> EdgeTable:
    """Link the last work enqueued on the stream before the call, and its pending waits' work, to the call's return.

    Without a record of the profiler the stream is inferred: the call's return tells it where it had to wait.
    """
    rows = context.sync_rows(SyncKind.STREAM_SYNC)
    recorded = recorded_scopes(context, rows.call, rows.lane, context.start_position(rows.call))
    calls = calls_without_records(context, STREAM_SYNC_CALL, rows)
    inferred = infer_synced_streams(context, calls, context.start_position(calls), context.last_launch_stream(calls))
    context.notes["stream_syncs_unresolved"] = len(calls) - len(inferred.call)
    scopes = SyncScopes.join([recorded, inferred])
    return edges_to_return(
        context, EdgeKind.STREAM_SYNC, scopes, stream_waits(context).outstanding_at(scopes.lane, scopes.place)
    )
