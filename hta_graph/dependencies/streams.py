"""Rules of GPU work: launch, execution, the order of streams and graph launches, event waits, full queues."""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import distinct, first_of_runs, is_among
from hta_graph.dependencies.clock_bounds import queue_depth
from hta_graph.dependencies.context import QUICK, RuleContext, slow_calls
from hta_graph.dependencies.inferred_waits import inferred_waits
from hta_graph.dependencies.stream_queues import ItemRows
from hta_graph.dependencies.wait_resolution import NO_WORK, stream_waits
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.memo import memoized
from hta_graph.graph.overheads import full_queues
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import Bools, EdgeKind, EdgeRule, Ids, Ints

MOST_PAIRS = 4_096
"""Up to this many pairs (64 streams'), each last row of a launch is linked to each first row of the next one."""


def launch(context: RuleContext) -> EdgeTable:
    """Link the start of a call to the start of every activity with its correlation: one to many, whatever its name.

    Where a correlation is missing, a unique External id and the kernel's name stand for one, or the name and the order
    of calls; such edges are inferred.
    Graph launches own hundreds of activities; a list of launching names would miss them (HTA#290, kineto#1467).
    """
    launched = context.launch_call >= 0
    context.notes["activities_without_launch"] = int(np.count_nonzero(~launched))
    calls, work = context.launch_call[launched], context.activities[launched]
    offsets = [piece.offset_ns or 0 for clock in context.trace.gpu_clock for piece in clock.pieces]
    context.notes["gpu_clock_behind_ns"] = max(-min(offsets, default=0), 0)
    by_name = context.trace.diagnostics["launches_by_external_id"] > 0
    in_order = np.isin(context.trace.events.correlation[calls], context.trace.launches_by_order)
    rule = np.where(
        in_order, EdgeRule.KERNEL_NAME_IN_ORDER, EdgeRule.SAME_EXTERNAL_ID if by_name else EdgeRule.RECORDED
    )
    return EdgeTable.of_kind(EdgeKind.LAUNCH, start_point(calls), start_point(work), rule)


def execution(context: RuleContext) -> EdgeTable:
    """Link the start of each GPU activity to its end."""
    rows = context.activities
    return EdgeTable.of_kind(EdgeKind.EXECUTION, start_point(rows), end_point(rows))


@memoized
def stream_order(context: RuleContext) -> EdgeTable:
    """Link each activity to the next on its stream (device, context, stream).

    Normally end → start. Where the next starts before the stream has finished (programmatic dependent launch, graph
    branches shown on one stream) start → start; the first that no longer overlaps follows the latest end so far. Where
    the recorder draws arrows between the nodes of a graph launch, the stream says nothing of these.
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
    edges = EdgeTable.of_kind(EdgeKind.STREAM_ORDER, source, start_point(target))
    if not context.is_in_ordered_graph.any():
        return edges
    number = context.trace.events.correlation
    said = context.is_in_ordered_graph[target] & (number[event_of(edges.source)] == number[target])
    return edges.take(~said)


def graph_order(context: RuleContext) -> EdgeTable:
    """Link a stream's earlier work to the first rows of a graph launched on it, and its last rows to the later work.

    Where both rows show on one stream, stream order covers it already. Inside a graph launch the recorder's arrows lead
    from node to node. They win: what is inferred for a node to which one leads is left out (:func:`without_silenced`).

        stream 7    [A][C]      recorded arrows: A → C, A → D, C → D; none to A and B, which wait for what stands
        stream 20   [B]   [D]   before the launch, and none from B and D, for which the next work waits
    """
    arrows = context.trace.node_order
    source, target = end_point(arrows.source), start_point(arrows.target)
    context.notes["graph_arrows_backward"] = int(
        (context.timeline.times[source] > context.timeline.times[target]).sum()
    )
    recorded = EdgeTable.of_kind(EdgeKind.GRAPH_ORDER, source, target)
    return EdgeTable.join([recorded, _around_graphs(context), _inside_graphs(context)])


def without_silenced(context: RuleContext, edges: EdgeTable) -> EdgeTable:
    """Leave out what is inferred for the start of nodes for which the recorder says what they waited for."""
    if not len(context.node_order):
        return edges
    return edges.take(~(edges.inferred & is_among(edges.target, start_point(context.node_order.target))))


def _inside_graphs(context: RuleContext) -> EdgeTable:
    heads = np.diff(context.queues.heads.first)
    if not (heads > 1).any():
        return EdgeTable.empty()
    from hta_graph.dependencies.graph_forks import graph_forks  # late: few traces have graphs of several streams

    return graph_forks(context)


def _around_graphs(context: RuleContext) -> EdgeTable:
    queues = context.queues
    item = np.flatnonzero(queues.item_lane[1:] == queues.item_lane[:-1]) + 1
    # Only pairs of items that show on more than one stream need more than stream order says.
    crosses = (np.diff(queues.heads.first)[item] > 1) | (np.diff(queues.tails.first)[item - 1] > 1)
    crosses |= _stream_of_first_row(context, item) != _stream_of_first_row(context, item - 1)
    crosses |= queues.is_ordered[item] | queues.is_ordered[item - 1]
    item = item[crosses]
    tail, head = _each_with_each(context, item)
    lane = context.trace.events.lane
    across = lane[tail] != lane[head]
    if queues.is_ordered.any():
        # Several heads or tails may show on one stream; stream order has one edge to each row.
        in_turn = stream_order(context)
        before = np.full(len(lane), -1, np.int32)
        before[event_of(in_turn.target)] = event_of(in_turn.source)
        ordered = context.is_in_ordered_graph[tail] | context.is_in_ordered_graph[head]
        across |= ordered & (before[head] != tail)
    source, target = end_point(tail[across]), start_point(head[across])
    return EdgeTable.of_kind(EdgeKind.GRAPH_ORDER, source, target, EdgeRule.GRAPH_IN_LAUNCHING_STREAM)


def _each_with_each(context: RuleContext, item: Ints) -> tuple[Ids, Ids]:
    """Pair the last rows of the items before some with the first rows of these.

    Where these are too many pairs, each first row gets the ones that end last, and the other ones the earliest of them.
    """
    queues, events = context.queues, context.trace.events
    heads, tails = np.diff(queues.heads.first)[item], np.diff(queues.tails.first)[item - 1]
    pair, tail = queues.tails.expand(item - 1)
    order = np.lexsort((-events.end[tail], pair))
    pair, tail = pair[order], tail[order]
    rank = np.arange(len(pair)) - (np.cumsum(tails) - tails)[pair]
    is_kept = rank < np.maximum(MOST_PAIRS // np.maximum(heads, 1), 1)[pair]
    kept = ItemRows(np.append(0, np.cumsum(np.bincount(pair[is_kept], minlength=len(item)))), tail[is_kept])
    of_item, head = queues.heads.expand(item)
    which, latest = kept.expand(of_item)
    by_start = np.lexsort((-events.start[head], of_item))
    earliest = np.zeros(len(item), np.int32)
    earliest[of_item[by_start]] = head[by_start]  # of several the last one counts
    left = ~is_kept & (heads[pair] > 0)
    return np.concatenate([latest, tail[left]]), np.concatenate([head[which], earliest[pair[left]]])


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
TIMES_QUICK = 3
"""Where the depth of the queue is known, a launch has waited that takes this many times as long as its quick ones."""


def queue_full(context: RuleContext) -> EdgeTable:
    """Link the start of the activity that freed a slot to the return of the launch that waited for it.

    Where the recorder says which launches waited (CUPTI's overhead rows), these have. Else it is inferred: the launch
    took at least five times its usual time, returned within 10 µs of that start, and about as many launches were
    outstanding as the stream ever had, at least 1,000. Where the times show how deep the queue is, three times its
    usual time suffices: in four public traces with rows 0.87 to 0.93 of them are found so (0.96 of their time), and no
    other launch. Graph launches are left out of the count.

        thread   [launch 1,025.....................]        1,024 launches are outstanding: no slot is free
        stream   [kernel 1....................][kernel 2    its start frees the slot; at most 10 µs later the
                                               |<- ->|      launch returns
    """
    overheads = full_queues(context.trace, context.timeline.calls)
    has_room = np.full(len(context.trace.events), NO_WORK)
    # Of a call with several rows the last one says when it had room.
    has_room[overheads.call] = context.trace.events.end[overheads.row]
    # A graph is one launch, however many rows it has: they would fill the count without filling the queue.
    plain = context.enqueue_stream == context.trace.events.lane[context.activities]
    plain = np.flatnonzero(plain & ((context.launch_call >= 0) | _enqueued_before_recording(context)))
    by_stream = plain[np.argsort(context.enqueue_stream[plain], kind="stable")]
    begins = np.flatnonzero(first_of_runs(context.enqueue_stream[by_stream]))
    ends = np.append(begins[1:], len(by_stream))
    busy = np.flatnonzero((ends - begins > MIN_OUTSTANDING) | (len(overheads.row) > 0))
    pairs = [
        _recorded_pairs(queue, has_room) if len(overheads.row) else _inferred_pairs(context, queue)
        for queue in (_Queue(context, by_stream[begins[at] : ends[at]]) for at in busy.tolist())
    ]
    joined = np.concatenate(pairs, axis=1) if pairs else np.empty((2, 0), np.int32)
    rule = EdgeRule.RECORDED if len(overheads.row) else EdgeRule.SLOT_FREED
    return EdgeTable.of_kind(EdgeKind.QUEUE_FULL, joined[0], joined[1], rule)


def _enqueued_before_recording(context: RuleContext) -> Bools:
    """Mark activities without a call that began before all work with one on their streams: they filled the queue, too.

    Of those with one correlation, a graph's, only the first counts.
    """
    events, rows = context.trace.events, context.activities
    first = np.full(len(context.trace.lanes.labels), np.iinfo(np.int64).max)
    launched = rows[context.launch_call >= 0]
    np.minimum.at(first, events.lane[launched], events.start[launched])
    orphan: Bools = (context.launch_call < 0) & (events.start[rows] < first[events.lane[rows]])
    once = np.zeros(len(rows), np.bool_)
    once[np.unique(events.correlation[rows], return_index=True)[1]] = True
    return orphan & (once | (events.correlation[rows] <= 0))


class _Queue:
    """The launches of a stream in their order (-1: of work from before the recording, first and as it ran)."""

    def __init__(self, context: RuleContext, rows: Ints) -> None:
        self.events = context.trace.events
        call, activity = context.launch_call[rows], context.activities[rows]
        order = np.lexsort((self.events.start[activity], context.start_position(call)))
        self.call, self.activity = call[order], activity[order]
        self.is_known = self.call >= 0
        self.begun = self.events.start[self.activity]
        self._in_order = self.activity[np.argsort(self.begun, kind="stable")]
        self.returned = np.where(self.is_known, self.events.end[self.call], NO_WORK)

    def started_by(self, times: Ints) -> tuple[Ints, Ids]:
        """Return how much had started by each time (ns), and what started last."""
        started = np.searchsorted(np.sort(self.begun), times, side="right")
        return started, self._in_order[(started - 1).clip(min=0)]

    def freed_by_depth(self, waited: Bools) -> tuple[Ids, Bools]:
        """Return what freed each launch's slot if the queue's depth shows, and where it did so right before the return.

        However wrong the clock may be: those that waited for their slots returned as long after these were freed.
        """
        depth = queue_depth(self.begun, self.returned, np.flatnonzero(waited))
        at = np.arange(len(self.call))
        behind = self.is_known & (at >= depth) & (depth > 0)
        freed = self.activity[np.maximum(at - depth, 0)]
        lag = self.returned - self.events.start[freed]
        usual = np.median(lag[waited & behind]) if (waited & behind).any() else 0
        return freed, behind & (np.abs(lag - usual) <= RETURNED_AT_ONCE_NS)


def _recorded_pairs(queue: _Queue, has_room: Ints) -> Ids:
    """Return what freed a slot for each launch that had room from a time (ns, by event) on, and these launches."""
    until = np.where(queue.is_known, has_room[queue.call], NO_WORK)
    freed, is_shown = queue.freed_by_depth(until > NO_WORK)
    started, last = queue.started_by(until)
    freed = np.where(is_shown, freed, last)
    waited = (until > NO_WORK) & (started > 0)
    return np.stack([start_point(freed[waited]), end_point(queue.call[waited])])


def _inferred_pairs(context: RuleContext, queue: _Queue) -> Ids:
    """Return the same of launches that took long while the queue was full."""
    call, events = queue.call, context.trace.events
    # When a launch returns, so many were launched on the stream (itself included), and so many have started.
    started, freed = queue.started_by(queue.returned)
    outstanding = np.where(queue.is_known, np.arange(1, len(call) + 1) - started, 0)
    deepest = int(outstanding.max(initial=0))
    if deepest < MIN_OUTSTANDING:
        return np.empty((2, 0), np.int32)
    every = distinct(call[queue.is_known])
    waited = is_among(call, slow_calls(context, every, quantile=QUICK)) & (outstanding >= NEARLY_FULL * deepest)
    by_depth, is_shown = queue.freed_by_depth(waited)
    if is_shown.any():
        long = is_among(call, slow_calls(context, every, quantile=QUICK, factor=TIMES_QUICK, least_ns=0))
        return np.stack([start_point(by_depth[is_shown & long]), end_point(call[is_shown & long])])
    lag = queue.returned - events.start[freed]
    # The slot became free while the launch stood there, not before it began.
    waited &= (
        (started > 0)
        & (lag >= -context.clock_noise[events.lane[freed]])
        & (lag <= RETURNED_AT_ONCE_NS)
        & (events.start[freed] > events.start[call])
    )
    return np.stack([start_point(freed[waited]), end_point(call[waited])])
