"""queue_full: a launch waits while too many earlier launches of its stream have not started."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import distinct, first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.held_calls import slow_calls
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind, Ids, Ints, Rule

__all__ = ["queue_full"]

MIN_OUTSTANDING = 1_000
"""The ten deepest NVIDIA traces hold 1,013 to 1,024 launches that have not started; one AMD trace 1,840."""

RETURNED_AT_ONCE_NS = 10_000
NEARLY_FULL = 0.97
QUICK = 0.1
"""Where the GPU is the bottleneck nearly every launch waits; the quickest tenth shows what a launch takes."""


def queue_full(context: RuleContext) -> EdgeTable:
    """Link the start of the activity that freed a slot to the return of the launch that waited for it.

    The launch took at least five times its usual time, returned within 10 µs of that start, and about as many launches
    were outstanding as the stream ever had, at least 1,000. Graph launches are left out of the count.

        thread   [launch 1,025.....................]        1,024 launches are outstanding: no slot is free
        stream   [kernel 1....................][kernel 2    its start frees the slot; at most 10 µs later the
                                               |<- ->|      launch returns
    """
    # A graph is one launch, however many rows it has: they would fill the count without filling the queue.
    plain = np.flatnonzero(
        (context.launch_call >= 0) & (context.enqueue_stream == context.trace.events.lane[context.activities])
    )
    by_stream = plain[np.argsort(context.enqueue_stream[plain], kind="stable")]
    begins = np.flatnonzero(first_of_runs(context.enqueue_stream[by_stream]))
    ends = np.append(begins[1:], len(by_stream))
    busy = np.flatnonzero(ends - begins > MIN_OUTSTANDING)
    pairs = [_full_queue_pairs(context, by_stream[begins[at] : ends[at]]) for at in busy.tolist()]
    joined = np.concatenate(pairs, axis=1) if pairs else np.empty((2, 0), np.int32)
    return EdgeTable.of_kind(EdgeKind.QUEUE_FULL, joined[0], joined[1], Rule.SLOT_FREED)


def _full_queue_pairs(context: RuleContext, rows: Ints) -> Ids:
    events = context.trace.events
    call, activity = context.launch_call[rows], context.activities[rows]
    order = np.argsort(context.start_position(call), kind="stable")
    call, activity = call[order], activity[order]
    begun = np.sort(events.start[activity])
    returned = events.end[call]
    # When a launch returns, so many were launched on the stream (itself included), and so many have started.
    started = np.searchsorted(begun, returned, side="right")
    outstanding = np.arange(1, len(call) + 1) - started
    deepest = int(outstanding.max(initial=0))
    if deepest < MIN_OUTSTANDING:
        return np.empty((2, 0), np.int32)
    freed = _last_started(activity, events.start[activity], started)
    lag = returned - events.start[freed]
    waited = np.isin(call, slow_calls(context, distinct(call), quantile=QUICK)) & (outstanding >= NEARLY_FULL * deepest)
    # The slot became free while the launch stood there, not before it began.
    waited &= (lag >= 0) & (lag <= RETURNED_AT_ONCE_NS) & (events.start[freed] > events.start[call]) & (started > 0)
    return np.stack([start_point(freed[waited]), end_point(call[waited])])


def _last_started(activity: Ids, begun: Ints, started: Ints) -> Ids:
    in_order = activity[np.argsort(begun, kind="stable")]
    latest: Ids = in_order[(started - 1).clip(min=0)]
    return latest
