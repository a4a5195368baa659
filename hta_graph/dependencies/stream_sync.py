"""stream_sync: a call returns when one stream has finished what it held."""

from __future__ import annotations

from hta_graph.dependencies.context import LinkContext
from hta_graph.dependencies.inference_wait_resolution import stream_waits
from hta_graph.dependencies.sync_records import SyncKind
from hta_graph.dependencies.synchronization import (
    Scopes,
    calls_to_infer,
    edges_to_return,
    recorded_scopes,
    streams_by_timing,
)
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EdgeKind
from hta_graph.trace.profiler_names import STREAM_SYNC_CALL

__all__ = ["stream_sync"]


def stream_sync(context: LinkContext) -> EdgeTable:
    """Link the last work enqueued on the stream before the call, and its pending waits' work, to the call's return.

    Without a record of the profiler the stream is inferred: the call's return tells it where it had to wait.
    """
    rows = context.sync_rows(SyncKind.STREAM_SYNC)
    recorded = recorded_scopes(context, rows.call, rows.lane, context.start_position(rows.call))
    calls = calls_to_infer(context, STREAM_SYNC_CALL, rows)
    inferred = streams_by_timing(context, calls, context.start_position(calls), context.last_launch_stream(calls))
    context.notes["stream_syncs_unresolved"] = len(calls) - len(inferred.call)
    scopes = Scopes.join([recorded, inferred])
    return edges_to_return(
        context, EdgeKind.STREAM_SYNC, scopes, stream_waits(context).outstanding_at(scopes.lane, scopes.place)
    )
