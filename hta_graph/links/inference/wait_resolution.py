"""Which record does a stream wait refer to? From the profiler's record where it says so, else by rules."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.remembered import remembered
from hta_graph.links.context import LinkContext
from hta_graph.links.inference.wait_inference import infer_waits
from hta_graph.links.streams.stream_waits import ResolvedWaits, StreamWaits
from hta_graph.links.streams.sync_records import SyncKind
from hta_graph.model import Ids
from hta_graph.trace.vocabulary import STREAM_WAIT_CALL

__all__ = ["stream_waits"]


@remembered
def stream_waits(context: LinkContext) -> StreamWaits:
    """Return the stream waits whose record is known or can be inferred, and what they capture."""
    return StreamWaits(context.queues, _resolved_waits(context))


def _resolved_waits(context: LinkContext) -> ResolvedWaits:
    """Find the waiting stream, the recorded stream and the moment of the record of every stream wait that can be known.

    Recorded ids count where the record was issued before the wait (a later one is of a reused event, kineto#1339). The
    others are inferred: rows of a file in which none has ids (CUDA 12.9 and later; elsewhere such an event was never
    recorded), and calls without a row where the file has no such rows or, as the profiler drops these (kineto#904),
    where the waiting stream had no work yet.
    """
    rows = context.sync_rows(SyncKind.STREAM_WAIT)
    place, record_place = context.start_position(rows.call), context.start_position(rows.record_call)
    resolved = (rows.call >= 0) & (rows.record_call >= 0) & rows.names_stream & (record_place < place)
    known = resolved & (rows.record_lane >= 0)
    recorded = ResolvedWaits(rows.lane, place, rows.record_lane, record_place, np.zeros(len(place), np.int8)).take(
        np.flatnonzero(known)
    )
    open_rows = np.flatnonzero(~resolved & (rows.call >= 0) & (not context.names_events))
    # The profiler writes no row for a wait of a stream on which nothing ran yet: the call alone shows it.
    calls, lane = _calls_without_rows(context, rows.call)
    inferred = infer_waits(
        context,
        np.append(rows.call[open_rows], calls),
        np.append(rows.lane[open_rows], lane),
        lane_is_known=np.arange(len(open_rows) + len(calls)) < len(open_rows),
    )
    context.notes["event_waits"] = len(rows.call) + len(calls)
    context.notes["event_waits_for_nothing"] = int(np.count_nonzero(resolved & ~known))
    context.notes["event_waits_unresolved"] = int(np.count_nonzero(~resolved)) + len(calls) - len(inferred.lane)
    return ResolvedWaits.join([recorded, inferred])


def _calls_without_rows(context: LinkContext, with_row: Ids) -> tuple[Ids, Ids]:
    """Return the wait calls to infer and their waiting streams: those of each thread's next launch."""
    calls = context.calls_named(STREAM_WAIT_CALL)
    calls = calls[~np.isin(calls, with_row)]
    lane = context.next_launch_stream(calls)
    if len(with_row):
        # With rows in the file only such calls lack theirs; the others waited for an event that was never recorded.
        first = context.queues.item_before(lane, context.start_position(calls)) < 0
        calls, lane = calls[first], lane[first]
    return calls[lane >= 0], lane[lane >= 0]
