"""Rules of GPU work: launch, execution, the order of streams and graph launches, event waits, full queues."""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import distinct, first_of_runs
from hta_graph.dependencies.clock_bounds import queue_depth
from hta_graph.dependencies.context import QUICK, RuleContext, slow_calls
from hta_graph.dependencies.inferred_waits import inferred_waits
from hta_graph.dependencies.wait_resolution import stream_waits
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind, EdgeRule, Ids, Ints


def launch(context: RuleContext) -> EdgeTable:
    """Link the start of a call to the start of every activity with its correlation: one to many, whatever its name.

    In a file without correlations a unique External id and the kernel's name stand for one; such edges are inferred.
    Graph launches own hundreds of activities; a list of launching names would miss them (HTA#290, kineto#1467).
    """
    launched = context.launch_call >= 0
    context.notes["activities_without_launch"] = int(np.count_nonzero(~launched))
    calls, work = context.launch_call[launched], context.activities[launched]
    offsets = [piece.offset_ns or 0 for clock in context.trace.gpu_clock for piece in clock.pieces]
    context.notes["gpu_clock_behind_ns"] = max(-min(offsets, default=0), 0)
    by_name = context.trace.diagnostics["launches_by_external_id"] > 0
    rule = EdgeRule.SAME_EXTERNAL_ID if by_name else EdgeRule.RECORDED
    return EdgeTable.of_kind(EdgeKind.LAUNCH, start_point(calls), start_point(work), rule)


def execution(context: RuleContext) -> EdgeTable:
    """Link the start of each GPU activity to its end."""
    rows = context.activities
    return EdgeTable.of_kind(EdgeKind.EXECUTION, start_point(rows), end_point(rows))


def stream_order(context: RuleContext) -> EdgeTable:
    """Link each activity to the next on its stream (device, context, stream).

    Normally end → start. Where the next starts before the stream has finished (programmatic dependent launch, graph
    branches shown on one stream) start → start; the first that no longer overlaps follows the latest end so far.
    """
    queues = context.queues
    follows = np.flatnonzero(~queues.is_stream_start())
    rows = queues.rows
    target = rows[follows]
    before = rows[queues.latest[follows - 1]]
    overlaps = context.trace.events.end[before] > context.trace.events.start[target]
    context.notes["overlaps_on_a_stream"] = int(np.count_nonzero(overlaps))
    # An overlapping activity can only be said to have started after the one before it started.
    source = np.where(overlaps, start_point(rows[follows - 1]), end_point(before))
    return EdgeTable.of_kind(EdgeKind.STREAM_ORDER, source, start_point(target))


def graph_order(context: RuleContext) -> EdgeTable:
    """Link a stream's earlier work to the first rows of a graph launched on it, and its last rows to the later work.

    Where both rows show on one stream, stream order covers it already.
    """
    queues = context.queues
    item = np.flatnonzero(queues.item_lane[1:] == queues.item_lane[:-1]) + 1
    # Only pairs of items that show on more than one stream need more than stream order says.
    crosses = (np.diff(queues.heads.first)[item] > 1) | (np.diff(queues.tails.first)[item - 1] > 1)
    crosses |= _stream_of_first_row(context, item) != _stream_of_first_row(context, item - 1)
    item = item[crosses]
    pair, head = queues.heads.expand(item)
    which, tail = queues.tails.expand(item[pair] - 1)
    head = head[which]
    lane = context.trace.events.lane
    across = lane[tail] != lane[head]
    source, target = end_point(tail[across]), start_point(head[across])
    return EdgeTable.of_kind(EdgeKind.GRAPH_ORDER, source, target, EdgeRule.GRAPH_IN_LAUNCHING_STREAM)


def _stream_of_first_row(context: RuleContext, item: Ints) -> Ids:
    heads = context.queues.heads
    lane: Ids = context.trace.events.lane[heads.members[heads.first[item]]]
    return lane


def event_wait(context: RuleContext) -> EdgeTable:
    """Link the work that a record captured to the next work enqueued on the waiting stream, by whatever thread.

    One activity may have many waits: all are kept. Of a graph the first row on each stream waits. Where several calls
    ask for one pair, a recorded one counts, then the first. Waits that nothing in the file says are believed where
    chance is improbable.
    """
    edges, calls = _resolved_waits_as_edges(context)
    believed, their_calls = inferred_waits(context, edges)
    context.wait_calls = WaitCalls.join([calls, their_calls])
    return EdgeTable.join([edges, believed])


def _resolved_waits_as_edges(context: RuleContext) -> tuple[EdgeTable, WaitCalls]:
    """Return the edges of the waits whose calls or records say for what, and these calls."""
    queues, waits = context.queues, stream_waits(context).waits
    captured = stream_waits(context).captured_by_waits()
    # Whatever is enqueued next has to wait, also if another thread enqueues it.
    item = queues.item_after(waits.lane, waits.place)[captured.query]
    pair, waiting = queues.heads.expand(item)
    awaited, rule = captured.activity[pair], captured.rule[pair]
    place = waits.place[captured.query[pair]]
    call = waits.call[captured.query[pair]]
    # Of one pair's calls the recorded (rule 0) and then the earliest comes first, and is kept.
    order = np.lexsort((place, rule, awaited, waiting))
    chosen = order[first_of_runs(awaited[order], waiting[order])]
    edges = EdgeTable.of_kind(EdgeKind.EVENT_WAIT, end_point(awaited), start_point(waiting), rule).take(chosen)
    return edges, WaitCalls(awaited, waiting, call).take(chosen[call[chosen] >= 0])


MIN_OUTSTANDING = 1_000
"""The ten deepest NVIDIA traces hold 1,013 to 1,024 launches that have not started; one AMD trace 1,840."""

RETURNED_AT_ONCE_NS = 10_000
NEARLY_FULL = 0.97


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
    return EdgeTable.of_kind(EdgeKind.QUEUE_FULL, joined[0], joined[1], EdgeRule.SLOT_FREED)


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
    slow = np.isin(call, slow_calls(context, distinct(call), quantile=QUICK))
    # Which launch freed the slot follows from the depth of the queue where that shows, else from the times.
    depth = queue_depth(events.start[activity], returned, np.flatnonzero(slow))
    if depth:
        freed = activity[np.maximum(np.arange(len(activity)) - depth, 0)]
        lag = returned - events.start[freed]
        waited = slow & (np.arange(len(activity)) >= depth)
        # However wrong the clock may be: those that waited for their slots returned as long after these were freed.
        waited &= np.abs(lag - np.median(lag[waited])) <= RETURNED_AT_ONCE_NS
        return np.stack([start_point(freed[waited]), end_point(call[waited])])
    freed = _last_started(activity, events.start[activity], started)
    waited = slow & (outstanding >= NEARLY_FULL * deepest) & (started > 0)
    lag = returned - events.start[freed]
    # The slot became free while the launch stood there, not before it began.
    waited &= (
        (lag >= -context.clock_noise[events.lane[freed]])
        & (lag <= RETURNED_AT_ONCE_NS)
        & (events.start[freed] > events.start[call])
    )
    return np.stack([start_point(freed[waited]), end_point(call[waited])])


def _last_started(activity: Ids, begun: Ints, started: Ints) -> Ids:
    in_order = activity[np.argsort(begun, kind="stable")]
    latest: Ids = in_order[(started - 1).clip(min=0)]
    return latest
