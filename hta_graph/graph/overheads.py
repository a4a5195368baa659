"""Rows in which a recorder says why a call took long, and the calls inside which they lie.

```
thread     [cudaLaunchKernel ~~~~~~~~~~~~~~~~]
recorder       [Activity Buffer Request]           Kineto writes them without a thread
```
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from hta_graph.base.arrays import distinct
from hta_graph.graph.timeline import Nesting
from hta_graph.model import EventKind, Ids
from hta_graph.trace.profiler_names import PROFILER_OVERHEAD, QUEUE_FULL_OVERHEAD
from hta_graph.trace.table import Trace


class Overheads(NamedTuple):
    """Rows and the calls around them, by call and then in order of time."""

    row: Ids
    call: Ids


def full_queues(trace: Trace, calls: Nesting) -> Overheads:
    """Return the rows that say that a launch waits for room in its queue."""
    return _overheads_in_calls(trace, calls, QUEUE_FULL_OVERHEAD)


def profiler_overheads(trace: Trace, calls: Nesting) -> Overheads:
    """Return the rows of what the recorder itself cost."""
    return _overheads_in_calls(trace, calls, PROFILER_OVERHEAD)


def _overheads_in_calls(trace: Trace, calls: Nesting, pattern: re.Pattern[str]) -> Overheads:
    """Return the overhead rows whose name a pattern matches, each with the shortest call on any thread that holds it.

    Of a row on a thread with calls only those count. Rows outside of calls are left out: whom they delayed is unknown.
    """
    events = trace.events
    named = trace.names_starting_with(pattern, EventKind.OVERHEAD)[events.name]
    rows = np.flatnonzero(named & (events.kind == EventKind.OVERHEAD)).astype(np.int32)
    found, shortest = np.full(len(rows), -1, np.int32), np.full(len(rows), np.iinfo(np.int64).max)
    threads = distinct(events.lane[events.kind == EventKind.RUNTIME]) if len(rows) else rows
    on_thread = np.isin(events.lane[rows], threads)
    for lane in threads.tolist():
        around = calls.open_at(np.full(len(rows), lane), events.start[rows])
        holds = (around >= 0) & (events.kind[around] == EventKind.RUNTIME) & (events.end[around] >= events.end[rows])
        holds &= ~on_thread | (events.lane[rows] == lane)
        length = np.where(holds, events.end[around] - events.start[around], shortest)
        found, shortest = np.where(length < shortest, around, found), np.minimum(length, shortest)
    order = np.lexsort((events.start[rows], found))
    order = order[found[order] >= 0]
    return Overheads(rows[order], found[order])
