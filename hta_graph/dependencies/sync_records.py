"""The profiler's own records of synchronisation (``cuda_sync`` rows), joined to calls, streams and record calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.model import Bools, Ids, Ints
from hta_graph.trace.table import Trace

__all__ = ["SyncKind", "SyncRows", "sync_records"]


class SyncKind(Enum):
    """The names under which the profiler writes them."""

    STREAM_WAIT = "Stream Wait Event"
    STREAM_SYNC = "Stream Sync"
    DEVICE_SYNC = "Context Sync"
    EVENT_SYNC = "Event Sync"


@dataclass(frozen=True, eq=False)
class SyncRows(Columns):
    """Records of one kind: CPU call, stream, call that recorded the event, recorded stream; -1 where unknown.

    ``row`` is the record itself, ``record_correlation`` the number of the recording call, in the file or not. A record
    may name a stream on which the trace shows no work at all: ``names_stream`` without ``record_lane``.
    """

    row: Ids
    call: Ids
    lane: Ids
    record_call: Ids
    record_correlation: Ints
    record_lane: Ids
    names_stream: Bools


def sync_records(trace: Trace, kind: SyncKind, calls_of: Callable[[Ints], Ids]) -> SyncRows:
    """Return the records of one kind in canonical order; source: pytorch/kineto, ``cuda_sync`` activities.

    Args:
        trace: the trace.
        kind: which records.
        calls_of: the join from correlations to calls.
    """
    events, syncs = trace.events, trace.syncs
    chosen = trace.matching_names(re.compile(rf"^{kind.value}$"))[events.name[syncs.event]]
    rows = syncs.event[chosen]
    return SyncRows(
        row=rows,
        call=calls_of(events.correlation[rows]),
        lane=events.lane[rows],
        record_call=calls_of(syncs.record_correlation[chosen]),
        record_correlation=syncs.record_correlation[chosen],
        names_stream=syncs.wait_on_stream[chosen] >= 0,
        record_lane=_recorded_lanes(trace, rows, syncs.wait_on_stream[chosen].tolist()),
    )


def _recorded_lanes(trace: Trace, rows: Ids, streams: list[int]) -> Ids:
    """Find the recorded stream: on the record's own device and context, else the only stream of that number.

    The record names a number only, and events may come from another device; a number on several others is not believed.
    """
    if not streams:
        return np.empty(0, np.int32)
    lanes = trace.lanes
    numbers = np.flatnonzero(lanes.is_stream & (lanes.stream >= 0))
    # Stream numbers repeat on every device and context; the record's own come first.
    own = {(int(lanes.device[at]), int(lanes.context[at]), int(lanes.stream[at])): at for at in numbers.tolist()}
    count = Counter(lanes.stream[numbers].tolist())
    only = {int(lanes.stream[at]): at for at in numbers.tolist() if count[int(lanes.stream[at])] == 1}
    places = trace.events.lane[rows].tolist()
    found = [
        own.get((int(lanes.device[at]), int(lanes.context[at]), stream), only.get(stream, -1))
        for at, stream in zip(places, streams, strict=True)
    ]
    return np.array(found, np.int32)
