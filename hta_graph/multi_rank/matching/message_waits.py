"""Since when a thread waits for a message on the CPU: ``isend`` and ``irecv`` ask for it, ``wait()`` leaves no row.

A message's row begins with its call and ends where ``wait()`` returns. What the thread did last until then shows when
it came to wait: an operator or a call, a boundary of an annotation, the end of another message that it waited for.

    thread      [c10d::recv_][aten::mm]────▶|      ───▶|[aten::add]
        message    [======== gloo:recv ============]
                   |.......busy.............|..wait.....|

A thread that did nothing since its call waited at once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, last_at_most, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ids, Ints

NEVER_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class MessageWaits(Columns):
    """Messages (``row``) whose thread did something after it asked for them, in order of lane and end.

    It came to wait (``since``, ns) with the start, or the end (``at_end``), of ``event``: an operator's, an
    annotation's, or the end of the message that it waited for before. ``before`` and ``before_at_end`` are what an
    annotation's boundary follows on its thread, where that is ``event`` (-1: it is not, or nothing is known).
    """

    row: Ids
    event: Ids
    at_end: Bools
    since: Ints
    before: Ids
    before_at_end: Bools


def message_waits(graph: DependencyGraph, rows: Ids, asked_by: Ids) -> MessageWaits:
    """Return since when threads waited for messages on the CPU, given their rows and calls (-1: not in the file)."""
    events, calls = graph.event_table, graph.calls
    order = np.lexsort((events.start[rows], events.end[rows], events.lane[rows]))
    rows, asked_by = rows[order], asked_by[order]
    ends, lanes = events.end[rows], events.lane[rows]
    at = last_at_most(calls.time, calls.first[lanes], calls.first[lanes + 1], ends - 1)
    at = np.where(at >= calls.first[lanes], at, -1)
    event, at_end = take_or(calls.event, at), take_or(calls.is_end, at, otherwise=False)
    since = take_or(calls.time, at, otherwise=NEVER_NS)
    # Several waits may follow each other with nothing in between.
    follows, previous = np.zeros(len(rows), np.bool_), np.roll(ends, 1)
    follows[1:] = (lanes[1:] == lanes[:-1]) & (since[1:] <= previous[1:])
    event, at_end = np.where(follows, np.roll(rows, 1), event), at_end | follows
    since = np.where(follows, previous, since)
    mark, mark_at_end, marked = _last_boundaries(graph, lanes, ends)
    is_mark = marked > np.maximum(since, events.start[rows])
    at_once = ~follows & at_end & (event == asked_by)
    known = since > NEVER_NS
    found = MessageWaits.of(
        row=rows,
        event=np.where(is_mark, mark, event),
        at_end=np.where(is_mark, mark_at_end, at_end),
        since=np.where(is_mark, marked, since),
        before=np.where(is_mark & known, event, -1),
        before_at_end=at_end,
    )
    return found.take(is_mark | (known & ~at_once))


def _last_boundaries(graph: DependencyGraph, lanes: Ids, until: Ints) -> tuple[Ids, Bools, Ints]:
    """Return the last start or end of an annotation on each lane before a time: whose, which of both, and when (ns)."""
    events = graph.event_table
    is_mark = (events.kind == EventKind.ANNOTATION) & ~graph.event_flags.gloo_collective
    own = np.flatnonzero(is_mark & np.isin(events.lane, lanes)).astype(np.int32)
    event, at_end = np.append(own, own), np.arange(2 * len(own)) >= len(own)
    time = np.where(at_end, events.end[event], events.start[event])
    order = np.lexsort((time, events.lane[event]))
    event, at_end, time = (
        np.append(column[order], last) for column, last in ((event, -1), (at_end, 0), (time, NEVER_NS))
    )
    lane = events.lane[event[:-1]]
    first, past = (np.searchsorted(lane, lanes, side) for side in ("left", "right"))
    at = last_at_most(time, first, past, until - 1)
    at = np.where(at >= first, at, len(time) - 1)
    return event[at], at_end[at].astype(np.bool_), time[at]
