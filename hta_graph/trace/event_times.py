"""Times of events that a file has wrong: of a GPU's clock, and of Python frames whose return was lost.

Host and GPU events come from two clocks (:mod:`hta_graph.dependencies.clock_estimate` finds how far they are apart).
The columns of a graph are in host time; what the file says of an event stays with its trace.

Frames that outlive the frame that called them got the recording's end. The profiler records each frame's caller
(``Python parent id``). A frame cannot return after its caller; since pytorch#190950 the profiler ends it there, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import column_types, distinct, freeze
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.table import EventTable, FileTimes, GpuClock, Trace, canonical_order


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
    moved, order = _with_times(replace(trace, gpu_clock=tuple(clocks)), start, end)
    return replace(moved, moved_from=FileTimes(freeze(events.start[order]), freeze(events.end[order])))


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


def _with_times(trace: Trace, start: Ints, end: Ints) -> tuple[Trace, Ints]:
    """Give the events of a trace other times; return it in canonical order, and the events' former rows."""
    events = trace.events
    columns: dict[str, Any] = {name: getattr(events, name) for name in column_types(EventTable)}
    columns |= {"start": start, "end": end}
    order = canonical_order(columns)
    place = np.empty(len(order), np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    events = EventTable(**{name: freeze(column[order]) for name, column in columns.items()})
    syncs, copies = _sorted_side(trace.syncs, place), _sorted_side(trace.copies, place)
    nodes = trace.node_order.renumbered(place)
    return replace(trace, events=events, syncs=syncs, copies=copies, node_order=nodes), order


def _sorted_side(table: Any, place: Ids) -> Any:
    """Number the events of a side table anew, in order."""
    moved = replace(table, event=freeze(place[table.event]))
    return moved.take(np.argsort(moved.event, kind="stable"))


FRAME_ID, CALLER_ID = "Python id", "Python parent id"


def end_frames_with_callers(trace: Trace) -> Trace:
    """Let frames end at the latest when their recorded callers do, and count those that did not.

    Callers are read only where frames of a thread cross.

    Raises:
        TraceError: the file is gone or has changed.
    """
    events = trace.events
    frames = np.flatnonzero(events.kind == EventKind.PYTHON_FUNCTION).astype(np.int32)
    if not len(frames) or not _cross(events.lane[frames], events.start[frames], events.end[frames]):
        return trace
    caller = _callers(trace, frames)
    end = events.end[frames].copy()
    while True:
        # A caller may itself end with its own.
        known = np.where(caller >= 0, end[caller], np.iinfo(np.int64).max)
        late = (end > known) & (events.start[frames] < known)
        if not late.any():
            break
        end[late] = known[late]
    moved = int(np.count_nonzero(end != events.end[frames]))
    if not moved:
        return trace
    ends = events.end.copy()
    ends[frames] = end
    counts = {**trace.diagnostics, "rows_ended_with_caller": moved}
    return _with_times(replace(trace, diagnostics=counts), events.start, ends)[0]


def _cross(lane: Ids, start: Ints, end: Ints) -> bool:
    """Return whether some frames of a thread overlap and are not inside each other.

    Frames are in order of start, longer first. Of frames that nest as many are open when one ends as when it began;
    of those that cross, the one that ends last outlives one that was open when it began.
    """
    long = end > start
    lane, start, end = lane[long], start[long], end[long]
    for one in distinct(lane).tolist():
        begins, ends = start[lane == one], end[lane == one]
        by_end = np.argsort(ends[::-1], kind="stable")
        ended_before = np.empty(len(ends), np.int64)
        ended_before[len(ends) - 1 - by_end] = np.arange(len(ends))
        open_at_start = np.arange(1, len(ends) + 1) - np.searchsorted(np.sort(ends), begins, side="right")
        open_at_end = np.searchsorted(begins, ends, side="left") - ended_before
        if (open_at_end < open_at_start).any():
            return True
    return False


def _callers(trace: Trace, frames: Ids) -> Ids:
    """Return the place among the frames of each one's caller on its thread; -1 where it is not recorded."""
    found = read_event_args(trace, [FRAME_ID, CALLER_ID], frames, has_header=False)
    own, caller = (list(map(_number, found[key])) for key in (FRAME_ID, CALLER_ID))
    lanes = trace.events.lane[frames].tolist()
    place: dict[tuple[int, int | None], int] = {}
    place.update(((lane, own[at]), at) for at, lane in enumerate(lanes) if own[at] is not None)
    return np.array([place.get((lane, number), -1) for lane, number in zip(lanes, caller, strict=True)], np.int32)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
