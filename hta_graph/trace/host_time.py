"""One time for a trace: GPU events moved by what their device's clock is ahead of the host's.

Host and GPU events come from two clocks (:mod:`hta_graph.dependencies.clock_estimate` finds how far they are apart).
The columns of a graph are in host time; what the file says of an event stays with its trace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import column_types, freeze
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.gpu_clock import FileTimes, GpuClock
from hta_graph.trace.table import EventTable, Trace, canonical_order


def on_gpu_clock(trace: Trace) -> Bools:
    """Mark the events that are stamped by a GPU; records of synchronization stand on streams, but in host time."""
    stamped: Bools = trace.lanes.is_stream[trace.events.lane] & (trace.events.kind != EventKind.SYNC_RECORD)
    return stamped


def in_host_time(trace: Trace, clocks: Sequence[GpuClock]) -> Trace:
    """Return a trace whose GPU events are in host time; lengths stay, but for what a drift makes of them.

    Where a clock jumps ahead, its events are moved back by more from there on. No event begins before the one before it
    on its stream has ended, unless it does in the file: it is then moved by less, and so are those right behind it.
    """
    if all(clock.is_host_time for clock in clocks):
        return replace(trace, gpu_clock=tuple(clocks))
    events = trace.events
    start, end = events.start.copy(), events.end.copy()
    stamped, device = on_gpu_clock(trace), trace.lanes.device[events.lane]
    for clock in clocks:
        rows = np.flatnonzero(stamped & (device == clock.device))
        piece = clock.piece_of(events.start[rows])
        # An event keeps its length where the clock jumps inside it.
        start[rows] -= clock.ahead(events.start[rows], piece)
        end[rows] -= clock.ahead(events.end[rows], piece)
        if any(later.offset_ns > earlier.offset_ns for earlier, later in pairwise(clock.pieces)):  # type: ignore[operator]
            _keep_stream_order(trace, rows, start, end)
    return _in_order(replace(trace, gpu_clock=tuple(clocks)), start, end)


def _keep_stream_order(trace: Trace, rows: Ints, start: Ints, end: Ints) -> None:
    """Move activities later that would overlap the one before them on their stream, only because their clock jumped.

    file       [a       ][b     ][c  ]  [d  ]         b and later are moved back by more than a
    host time  [a       ]                             b would overlap it: it follows at once, c too; d has room
               . [b     ][c  ]  [d  ]
               [a       ][b     ][c  ][d  ]
    """
    events = trace.events
    activities = rows[trace.is_gpu[rows]]
    for lane in np.unique(events.lane[activities]).tolist():
        own = activities[events.lane[activities] == lane]
        ended = np.maximum.accumulate(events.end[own])[:-1]
        room = (events.start[own[1:]] - ended).clip(min=0)
        overlap = np.maximum.accumulate(end[own])[:-1] - start[own[1:]]
        for at in np.flatnonzero((overlap > 0) & (events.start[own[1:]] >= ended)).tolist():
            # What is behind it moves along, by less and less as gaps of the file take it up.
            later = own[at + 1 :]
            least = np.maximum.accumulate(end[own])[at] - start[own[at + 1]]
            delay = (least - (np.cumsum(room[at:]) - room[at])).clip(min=0)
            start[later] += delay
            end[later] += delay


def _in_order(trace: Trace, start: Ints, end: Ints) -> Trace:
    """Give the events of a trace other times, and put them into canonical order."""
    events = trace.events
    columns: dict[str, Any] = {name: getattr(events, name) for name in column_types(EventTable)}
    columns |= {"start": start, "end": end}
    order = canonical_order(columns)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    return replace(
        trace,
        events=EventTable(**{name: freeze(column[order]) for name, column in columns.items()}),
        syncs=_sorted_side(trace.syncs, place),
        copies=_sorted_side(trace.copies, place),
        moved_from=FileTimes(freeze(events.start[order]), freeze(events.end[order])),
    )


def _sorted_side(table: Any, place: Ids) -> Any:
    """Number the events of a side table anew, in order."""
    moved = replace(table, event=freeze(place[table.event]))
    return moved.take(np.argsort(moved.event, kind="stable"))
