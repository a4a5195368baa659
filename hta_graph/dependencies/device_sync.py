"""device_sync: a call returns when all streams of a device have finished what they held."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import distinct
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.inference_wait_resolution import stream_waits
from hta_graph.dependencies.stream_waits import CapturedWork
from hta_graph.dependencies.sync_records import SyncKind
from hta_graph.dependencies.synchronization import (
    SyncScopes,
    calls_without_records,
    edges_to_return,
    recorded_scopes,
)
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import EdgeKind, Ids, Ints, Rule
from hta_graph.trace.profiler_names import DEVICE_SYNC_CALL

__all__ = ["device_sync"]


def device_sync(context: RuleContext) -> EdgeTable:
    """Link the last work of each stream of the device, enqueued before the call, to the call's return.

    Without a record of the profiler the device is that of the thread's last launch, or the only one there is.
    """
    rows = context.sync_rows(SyncKind.DEVICE_SYNC)
    lanes = context.trace.lanes
    recorded = recorded_scopes(context, rows.call, rows.lane, context.start_position(rows.call))
    calls = calls_without_records(context, DEVICE_SYNC_CALL, rows)
    inferred = SyncScopes(
        calls,
        _device_stream(context, calls),
        context.start_position(calls),
        np.full(len(calls), Rule.EVERY_STREAM, np.int8),
    )
    scopes = SyncScopes.join([recorded, inferred])
    shown = context.queues.lanes()
    query, stream = np.nonzero(_same_device(lanes.device, lanes.context, scopes.lane, shown))
    # By the streams on which work shows: a device waits for a graph's rows wherever they ran.
    activity = context.queues.last_on(shown[stream], scopes.place[query])
    some = np.flatnonzero(activity >= 0)
    # A stream that only waits has no work of its own, and yet it holds what its pending waits hold.
    streams = distinct(np.append(context.queues.enqueue_streams(), stream_waits(context).waits.lane))
    at, waiting = np.nonzero(_same_device(lanes.device, lanes.context, scopes.lane, streams))
    pending = stream_waits(context).pending_at(streams[waiting], scopes.place[at])
    shown_last = CapturedWork(query[some], activity[some], np.zeros(len(some), np.int8))
    held = CapturedWork.join([shown_last, CapturedWork(at[pending.query], pending.activity, pending.rule)])
    return edges_to_return(context, EdgeKind.DEVICE_SYNC, scopes, held)


def _device_stream(context: RuleContext, calls: Ids) -> Ids:
    """Return any stream of each call's device; -1 where the device is unknown."""
    lane = context.last_launch_stream(calls)
    streams = context.queues.lanes()
    devices = distinct(context.trace.lanes.device[streams])
    return np.where((lane < 0) & (len(devices) == 1), streams[0], lane).astype(np.int32) if len(streams) else lane


def _same_device(
    device: Ints, context: Ints, scope: Ids, streams: Ids
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Compare each scope's device, and its context where both are known, with each stream's."""
    known = (scope >= 0)[:, None] & (device[scope][:, None] == device[streams][None, :])
    left, right = context[scope][:, None], context[streams][None, :]
    same: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = known & ((left == right) | (left < 0) | (right < 0))
    return same
