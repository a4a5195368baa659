"""Python frames that outlive the frame that called them: their return was lost, and they got the recording's end.

The profiler records each frame's caller (``Python parent id``). A frame cannot return after its caller; since
pytorch#190950 the profiler ends it there, too.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hta_graph.base.arrays import distinct, freeze
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.event_args import read_event_args
from hta_graph.trace.table import Trace, canonical_order

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
    return _in_order(replace(trace, events=replace(events, end=freeze(ends)), diagnostics=counts))


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


def _in_order(trace: Trace) -> Trace:
    """Restore the canonical order after some events have become shorter."""
    events = trace.events
    order = canonical_order({name: getattr(events, name) for name in type(events).__dataclass_fields__})
    if (order == np.arange(len(order))).all():
        return trace
    number = np.empty(len(order), np.int32)
    number[order] = np.arange(len(order), dtype=np.int32)
    syncs = replace(trace.syncs, event=freeze(number[trace.syncs.event]))
    copies = replace(trace.copies, event=freeze(number[trace.copies.event]))
    return replace(trace, events=events.take(order), syncs=syncs, copies=copies)
