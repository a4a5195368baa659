"""When was a stream told to wait, and when was the event recorded? Also where the calls are not in the file.

```
thread       [launch a]                    [launch b]     nobody's call: cuEventRecord, cuStreamWaitEvent
number          11       12        13         14          the record's row names 12: a (11) is captured
stream 9                        [wait row]                its row stands at its time: b is the next work
```
"""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import take_or
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.sync_records import SyncRows
from hta_graph.model import Bools, EventKind, Ints

__all__ = ["recorded_before_wait", "record_positions", "wait_positions"]


def wait_positions(context: RuleContext, rows: SyncRows) -> Ints:
    """Return the place of each row's call in the global order; without a call that of the last point before the row."""
    times = context.timeline.times[context.timeline.order]
    # What begins with the row comes after it: a row stands inside its call, and the next launch follows that.
    before = np.searchsorted(times, context.trace.events.start[rows.row], side="left") - 1
    return np.where(rows.call >= 0, context.start_position(rows.call), before)


def record_positions(context: RuleContext, rows: SyncRows) -> Ints:
    """Return the place of each recording call; where it is not in the file, behind the last call of a lower number.

    Numbers rise in the order in which calls are issued. Unknown is -1: no call is lower.
    """
    events = context.trace.events
    calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.correlation > 0)).astype(np.int32)
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    lower = np.searchsorted(events.correlation[calls], rows.record_correlation, side="left") - 1
    by_number = context.start_position(take_or(calls, lower)) + 1
    return np.where(
        rows.record_call >= 0, context.start_position(rows.record_call), np.where(lower >= 0, by_number, -1)
    )


def recorded_before_wait(context: RuleContext, rows: SyncRows, place: Ints, record_place: Ints) -> Bools:
    """Mark the rows whose record is known and was issued before the wait: by place, by time or by number."""
    events = context.trace.events
    has_call, has_record = rows.call >= 0, rows.record_call >= 0
    by_time = take_or(events.start, rows.record_call) <= events.start[rows.row]
    by_number = (record_place >= 0) & (rows.record_correlation < events.correlation[rows.row])
    known: Bools = np.where(has_record, np.where(has_call, record_place < place, by_time), by_number)
    return known
