"""runtime_lock: the driver lets only one thread at a time into some calls."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.held_calls import slow_calls
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point
from hta_graph.model import EdgeKind, Ids, Ints, Rule
from hta_graph.trace.profiler_names import LOCK_TAKING_CALL

__all__ = ["runtime_lock"]

RETURNED_TOGETHER_NS = 10_000


def runtime_lock(context: RuleContext) -> EdgeTable:
    """Link the return of a lock-taking call to the return of another thread's that waited for it.

    The waiter took at least five times its usual time and returned within 10 µs of the other, during which both were
    open. A laxer rule moved 27 % of a real path to a watchdog thread.
    """
    events = context.trace.events
    calls = context.calls_named(LOCK_TAKING_CALL)
    by_end = calls[np.lexsort((calls, events.end[calls]))]
    waiters = slow_calls(context, calls)
    ends = events.end[by_end]
    found = [_lock_holder(context, by_end, ends, int(waiter)) for waiter in waiters.tolist()] if len(waiters) else []
    pairs = [(holder, waiter) for holder, waiter in zip(found, waiters.tolist(), strict=True) if holder >= 0]
    source, target = (np.array([pair[side] for pair in pairs], np.int32) for side in (0, 1))
    return EdgeTable.of_kind(EdgeKind.RUNTIME_LOCK, end_point(source), end_point(target), Rule.RETURNED_TOGETHER)


def _lock_holder(context: RuleContext, by_end: Ids, ends: Ints, waiter: int) -> int:
    """Return the other thread's call that returned last before a waiter did, within 10 µs and inside it; -1: none."""
    events = context.trace.events
    earliest = max(int(events.start[waiter]), int(events.end[waiter]) - RETURNED_TOGETHER_NS)
    at = int(np.searchsorted(ends, events.end[waiter], side="left")) - 1
    # Calls of the waiter's own thread are passed over; within 10 µs there are a handful at most.
    while at >= 0 and ends[at] > earliest:
        if events.lane[by_end[at]] != events.lane[waiter]:
            return int(by_end[at])
        at -= 1
    return -1
