"""Which calls stood still: those that a copy held, those that took far longer than calls of their name usually do."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.memo import memoized
from hta_graph.model import EventKind, Ids
from hta_graph.trace.profiler_names import (
    COPY_BLOCKING_SYNCHRONOUS_CALL,
    COPY_TO_PAGEABLE,
    SYNCHRONOUS_COPY_CALL,
)

__all__ = ["blocking_copies", "slow_calls"]

SLOW_FACTOR = 5
SHORTEST_SLOW_NS = 10_000
MEDIAN = 0.5


@memoized
def blocking_copies(context: RuleContext) -> tuple[Ids, Ids]:
    """Return the copies that hold their call until the data has arrived, and these calls.

    A copy to pageable (or unnamed) host memory blocks even when the call is asynchronous: 26,066 of 26,087 such calls
    in public traces return after the copy. A call without ``Async`` in its name also waits for copies from and to
    pinned memory; from pageable memory it returns when the data is staged. The call must return after the copy's end.
    """
    trace = context.trace
    is_copy = trace.events.kind[context.activities] == EventKind.MEMCPY
    copies, calls = context.activities[is_copy], context.launch_call[is_copy]
    copies, calls = copies[calls >= 0], calls[calls >= 0]
    name, call_name = trace.events.name[copies], trace.events.name[calls]
    is_synchronous = trace.names_starting_with(SYNCHRONOUS_COPY_CALL)[call_name]
    may_block = trace.names_starting_with(COPY_TO_PAGEABLE)[name]
    may_block |= is_synchronous & trace.names_starting_with(COPY_BLOCKING_SYNCHRONOUS_CALL)[name]
    blocks = may_block & (trace.events.end[copies] <= trace.events.end[calls])
    return copies[blocks], calls[blocks]


def slow_calls(context: RuleContext, calls: Ids, *, quantile: float = MEDIAN) -> Ids:
    """Return the calls that took at least five times what their name usually takes, and 10 µs, not held by a copy.

    Usual is the median, or a lower quantile where most calls may have waited.
    """
    events = context.trace.events
    name, length = events.name[calls], (events.end - events.start)[calls]
    usual = np.zeros(len(context.trace.names) + 1, np.int64)
    order = np.argsort(name, kind="stable")
    begins = np.flatnonzero(first_of_runs(name[order]))
    for code, own in zip(name[order[begins]].tolist(), np.split(length[order], begins[1:]), strict=False):
        # The same number for a half, but np.quantile is slower and loads numpy's masked arrays (5 ms).
        usual[code] = int(np.median(own) if quantile == MEDIAN else np.quantile(own, quantile))
    slow = (length >= SLOW_FACTOR * usual[name]) & (length >= SHORTEST_SLOW_NS)
    held = blocking_copies(context)[1]
    return calls[slow & ~np.isin(calls, held)]
