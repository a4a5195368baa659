"""Which record call does a wait without ids refer to?"""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.model import Bools, Ids
from hta_graph.trace.profiler_names import EVENT_RECORD_CALL, STREAM_WAIT_CALL

__all__ = ["latest_records"]


def latest_records(context: RuleContext, calls: Ids, lane: Ids) -> Ids:
    """Return the likely record of each wait call; -1 where there is none.

    It is the thread's latest, right for 20 of 21 labelled waits, unless the same stream has waited since that record:
    nobody waits twice for one event. Then it is the latest record of another thread for which none has waited yet.
    """
    record = context.last_call_on_thread(EVENT_RECORD_CALL, calls)
    used = _repeats_a_wait(context, calls, lane, record)
    elsewhere = _records_of_other_threads(context, calls)
    return np.where((record >= 0) & ~used, record, np.where(used | (record < 0), elsewhere, -1)).astype(np.int32)


def _repeats_a_wait(context: RuleContext, calls: Ids, lane: Ids, record: Ids) -> Bools:
    """Mark the waits that are not the first with their thread's record on their stream."""
    # Waits of one stream for one record stand together, in the order of issue; only the first is real.
    order = np.lexsort((context.start_position(calls), lane, record))
    again = np.zeros(len(calls), np.bool_)
    again[order] = ~first_of_runs(record[order], lane[order])
    return again & (record >= 0)


def _records_of_other_threads(context: RuleContext, calls: Ids) -> Ids:
    """Return the latest earlier record of another thread that no wait of that thread follows; -1 if there is none."""
    thread = context.trace.events.lane
    records = context.calls_named(EVENT_RECORD_CALL)
    waits = context.calls_named(STREAM_WAIT_CALL)
    following = context.last_call_on_thread(EVENT_RECORD_CALL, waits)
    free = records[~np.isin(records, following)]
    free = free[np.argsort(context.start_position(free), kind="stable")]
    if not len(free):
        return np.full(len(calls), -1, np.int32)
    at = np.searchsorted(context.start_position(free), context.start_position(calls)) - 1
    own = (at >= 0) & (thread[free[at]] == thread[calls])
    # Step over the thread's own records: before a run of one thread's stands another's.
    run = np.maximum.accumulate(np.where(first_of_runs(thread[free]), np.arange(len(free)), 0))
    at = np.where(own, run[at] - 1, at)
    return np.where(at >= 0, free[at], -1).astype(np.int32)
