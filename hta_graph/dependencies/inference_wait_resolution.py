"""Which record does a stream wait refer to? From the profiler's record where it says so, else by rules."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.other_devices import cross_device_waits, names_own_stream
from hta_graph.dependencies.stream_waits import ResolvedWaits, StreamWaits
from hta_graph.dependencies.sync_records import SyncKind
from hta_graph.dependencies.wait_moments import record_positions, recorded_before_wait, wait_positions
from hta_graph.dependencies.wait_resolution import infer_records
from hta_graph.graph.memo import memoized
from hta_graph.model import Ids
from hta_graph.trace.profiler_names import STREAM_WAIT_CALL

__all__ = ["unresolved_wait_calls", "stream_waits"]


def stream_waits(context: RuleContext) -> StreamWaits:
    """Return the stream waits whose record is known or can be inferred, and what they capture."""
    return _resolved_and_unresolved(context)[0]


def unresolved_wait_calls(context: RuleContext) -> Ids:
    """Return the wait calls, in order, that may hold back any stream: none where the profiler records what waits."""
    return _resolved_and_unresolved(context)[1]


@memoized
def _resolved_and_unresolved(context: RuleContext) -> tuple[StreamWaits, Ids]:
    waits, calls = _resolved_waits(context)
    return StreamWaits(context.queues, waits), calls


def _resolved_waits(context: RuleContext) -> tuple[ResolvedWaits, Ids]:
    """Find the waiting stream, the recorded stream and the moment of the record of every stream wait that can be known.

    Recorded ids count where the record was issued before the wait (a later one is of a reused event, kineto#1339),
    also where the call of either is not in the file (a library that calls the driver itself leaves rows only). The
    others are inferred: the device where a stream names its own number
    (:mod:`hta_graph.dependencies.other_devices`), rows of a file in which none has ids (CUDA 12.9 and later;
    elsewhere that event was never recorded), and calls without a row where the file has no such rows or, as the
    profiler drops these (kineto#904), where the waiting stream had no work yet. Besides return the calls, in order,
    that may hold back any stream.
    """
    rows = context.sync_rows(SyncKind.STREAM_WAIT)
    place, record_place = wait_positions(context, rows), record_positions(context, rows)
    resolved = rows.names_stream & recorded_before_wait(context, rows, place, record_place)
    elsewhere = resolved & names_own_stream(context, rows)
    known = resolved & (rows.record_lane >= 0) & ~elsewhere
    by_record = np.zeros(len(place), np.int8)
    recorded = ResolvedWaits(rows.lane, place, rows.record_lane, record_place, by_record, rows.call).take(known)
    other_devices = cross_device_waits(context, rows.take(elsewhere), place[elsewhere], record_place[elsewhere])
    open_rows = np.flatnonzero(~resolved & (not context.names_events))
    # The profiler writes no row for a wait of a stream on which nothing ran yet: the call alone shows it.
    calls, lane = _calls_without_rows(context, rows.call)
    asked = lane >= 0
    inferred = infer_records(
        context,
        np.append(rows.call[open_rows], calls[asked]),
        np.append(rows.lane[open_rows], lane[asked]),
        np.append(place[open_rows], context.start_position(calls[asked])),
        lane_is_known=np.arange(len(open_rows) + np.count_nonzero(asked)) < len(open_rows),
    )
    context.notes["sync_records_without_call"] += int(np.count_nonzero(rows.call < 0))
    context.notes["event_waits"] = len(rows.call) + len(calls)
    context.notes["event_waits_for_nothing"] = int(np.count_nonzero(resolved & (rows.record_lane < 0)))
    context.notes["event_waits_unresolved"] = int(np.count_nonzero(~resolved)) + len(calls) - len(inferred.lane)
    is_open = calls if not len(rows.call) else calls[:0]
    return ResolvedWaits.join([recorded, other_devices, inferred]), _unresolved(context, is_open, inferred)


def _calls_without_rows(context: RuleContext, with_row: Ids) -> tuple[Ids, Ids]:
    """Return the wait calls to infer and their waiting streams: that of the thread's next launch; -1 without one."""
    calls = context.calls_named(STREAM_WAIT_CALL)
    calls = calls[~np.isin(calls, with_row)]
    lane = context.next_launch_stream(calls)
    if len(with_row):
        # With rows in the file only such calls lack theirs; the others waited for an event that was never recorded.
        first = context.queues.item_before(lane, context.start_position(calls)) < 0
        calls, lane = calls[first & (lane >= 0)], lane[first & (lane >= 0)]
    return calls, lane


def _unresolved(context: RuleContext, calls: Ids, waits: ResolvedWaits) -> Ids:
    """Return the calls for which no wait was found, in order."""
    unknown = calls[~np.isin(calls, waits.call)]
    return unknown[np.argsort(context.start_position(unknown), kind="stable")]
