"""Which device's stream does a wait name? The profiler writes a number, and every device has a stream of that number.

A stream that waits for its own number waits for another device's stream: waiting for itself would hold back nothing.
PyTorch's copies between GPUs do so, whose default streams are all called 7.

stream 7 of GPU 0   [copy to GPU 1] record e
stream 7 of GPU 1                     wait e ("stream 7") [kernel]
"""

from __future__ import annotations

import numpy as np

from hta_graph.links.context import LinkContext
from hta_graph.links.inference.stream_choice import NO_WORK, nearest_stream, tail_ends
from hta_graph.links.inference.wait_inference import CLOSE_NS, held_back_until
from hta_graph.links.streams.stream_waits import ResolvedWaits
from hta_graph.links.streams.sync_records import SyncRows
from hta_graph.model import Bools, Ids, Ints, Rule

__all__ = ["names_itself", "waits_for_other_devices"]


def names_itself(context: LinkContext, rows: SyncRows) -> Bools:
    """Mark the waits that name the waiting stream itself, where other devices have a stream of that number."""
    shared = _other_devices(context, rows.lane).any(axis=1)
    found: Bools = (rows.record_lane >= 0) & (rows.record_lane == rows.lane) & np.asarray(shared, np.bool_)
    return found


def waits_for_other_devices(context: LinkContext, rows: SyncRows, place: Ints, record_place: Ints) -> ResolvedWaits:
    """Find the device that such waits meant: the only other one, of several that whose work ended just before.

    Work that ended after what was held back had begun was not waited for.
    """
    streams = context.queues.homes()
    ends = np.where(_other_devices(context, rows.lane), tail_ends(context, streams, record_place), NO_WORK)
    start = held_back_until(context, rows.lane, place)
    ends[ends > start[:, None]] = NO_WORK
    column, rule = nearest_stream(ends, start, np.full(len(start), NO_WORK), CLOSE_NS)
    single = (ends > NO_WORK).sum(axis=1) == 1
    column = np.where(single, (ends > NO_WORK).argmax(axis=1), column) if len(streams) else column
    rule = np.where(single, Rule.ONLY_OTHER_STREAM, rule).astype(np.int8)
    recorded = streams[column] if len(streams) else rows.lane
    found = ResolvedWaits(rows.lane, place, recorded, record_place, rule, rows.call)
    return found.take(column >= 0)


def _other_devices(context: LinkContext, lane: Ids) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Compare each stream with all that have work: the same number on another device."""
    lanes, streams = context.trace.lanes, context.queues.homes()
    number = lanes.stream[lane][:, None] == lanes.stream[streams][None, :]
    found: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = number & (
        lanes.device[lane][:, None] != lanes.device[streams][None, :]
    )
    return found
