"""Which device's stream does a wait name? The profiler writes a number, and every device has a stream of that number.

A stream that waits for its own number waits for another device's stream: waiting for itself would hold back nothing.
PyTorch's copies between GPUs do so, whose default streams are all called 7.

stream 7 of GPU 0   [copy to GPU 1] record e
stream 7 of GPU 1                     wait e ("stream 7") [kernel]
"""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import find_sorted, first_of_runs, last_of_runs, take_or
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.stream_choice import NO_WORK, batches, ends_before, nearest_stream
from hta_graph.dependencies.stream_waits import ResolvedWaits
from hta_graph.dependencies.sync_records import SyncRows
from hta_graph.dependencies.wait_resolution import CLOSE_NS, starts_of_next_work
from hta_graph.model import Bools, Codes, Ids, Ints, Rule

__all__ = ["names_own_stream", "cross_device_waits"]


def names_own_stream(context: RuleContext, rows: SyncRows) -> Bools:
    """Mark the waits that name the waiting stream itself, where other devices have a stream of that number."""
    lanes, streams = context.trace.lanes, context.queues.enqueue_streams()
    itself = (rows.record_lane >= 0) & (rows.record_lane == rows.lane)
    # There may be very many waits and streams: of each number the first and the last device say whether another has it.
    order = np.lexsort((lanes.device[streams], lanes.stream[streams]))
    number, device = lanes.stream[streams][order], lanes.device[streams][order]
    at = find_sorted(lanes.stream[rows.lane], number[first_of_runs(number)])
    own = lanes.device[rows.lane]
    first, last = (take_or(device[of_number(number)], at, otherwise=-1) for of_number in (first_of_runs, last_of_runs))
    found: Bools = itself & (at >= 0) & ((first != own) | (last != own))
    return found


def cross_device_waits(context: RuleContext, rows: SyncRows, place: Ints, record_place: Ints) -> ResolvedWaits:
    """Find the device that such waits meant: the only other one, of several that whose work ended just before.

    Work that ended after what was held back had begun was not waited for.
    """
    streams = context.queues.enqueue_streams()
    start = starts_of_next_work(context, rows.lane, place)
    chosen = [
        _stream_of_other_device(context, rows.lane[some], start[some], record_place[some], streams)
        for some in batches(len(rows.lane), len(streams))
    ]
    if not chosen:
        return ResolvedWaits.empty()
    column, rule = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
    found = ResolvedWaits(rows.lane, place, streams[column], record_place, rule, rows.call)
    return found.take(column >= 0)


def _stream_of_other_device(
    context: RuleContext, lane: Ids, start: Ints, record_place: Ints, streams: Ids
) -> tuple[Ints, Codes]:
    """Return which of all streams each wait meant (-1: none), and by which rule."""
    lanes = context.trace.lanes
    is_other = lanes.stream[lane][:, None] == lanes.stream[streams]
    is_other &= lanes.device[lane][:, None] != lanes.device[streams]
    ends = np.where(is_other, ends_before(context, streams, record_place), NO_WORK)
    ends[ends > start[:, None]] = NO_WORK
    column, rule = nearest_stream(ends, start, np.full(len(start), NO_WORK), CLOSE_NS)
    single = (ends > NO_WORK).sum(axis=1) == 1
    column = np.where(single, (ends > NO_WORK).argmax(axis=1), column)
    return column, np.where(single, Rule.ONLY_OTHER_STREAM, rule).astype(np.int8)
