"""Work on streams in the order in which it was enqueued, and the waits that are pending on them.

A graph launch is one piece of work of its launching stream, on whichever streams its rows ran. A record captures the
last work of its stream and the waits that are pending there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import Columns, distinct, expand_ranges, first_of_runs, freeze, is_among, last_of_runs
from hta_graph.graph.points import start_point
from hta_graph.graph.timeline import Timeline
from hta_graph.model import Bools, Codes, EdgeRule, Ids, Ints
from hta_graph.trace.profiler_names import GRAPH_LAUNCH_CALL
from hta_graph.trace.table import NodeOrder, Trace

OVERLAPS_NS = 10_000
"""Kernels of one stream overlap by less, where they may (programmatic dependent launch)."""


def enqueue_streams(trace: Trace, timeline: Timeline, activities: Ids, call: Ids, named: Callable[[], Ids]) -> Ids:
    """Return for each activity the stream on which it was enqueued: its own, or its graph's launching stream.

    A graph belongs to the stream among its own on which other work is launched too, or that a record names (``named``
    finds these: it waits, or is waited for). Where its rows run on streams of their own, as CUDA shows captured ones,
    it belongs to the stream of the thread's launches next to it, unless work of that stream overlaps with the graph.

        thread       [launch a] [launch graph g] [launch b]
        stream 7        [a]                [b]               b is launched after g, and starts before g has ended:
        stream 20                  [g1 ========]             g was launched on stream 20, where only graphs run
    """
    stream = trace.events.lane[activities].copy()
    launches = trace.matching_names(GRAPH_LAUNCH_CALL)[trace.events.name[call]] & (call >= 0)
    if not launches.any():
        return freeze(stream)
    plain = np.flatnonzero(~launches & (call >= 0))
    # Streams on which something else than a graph was launched (a graph's own branches never are) before those of which
    # only records say that something waits there, or is waited for.
    certainty = np.zeros(len(trace.lanes.labels), np.int8)
    certainty[named()] = 1
    certainty[stream[plain]] = 2
    neighbours = _NeighbouringLaunches(trace, timeline, activities[plain], call[plain])
    of_graph = np.flatnonzero(launches)
    of_graph = of_graph[np.argsort(call[of_graph], kind="stable")]
    # One round per graph launch: few, even where graphs hold most of the work.
    every = np.split(of_graph, np.flatnonzero(np.diff(call[of_graph])) + 1)
    near = [
        -1 if certainty[stream[rows]].any() else neighbours.stream(int(call[rows[0]]), activities[rows])
        for rows in every
    ]
    # Where nothing next to a launch can be meant, its first stream is one on which graphs are launched.
    own = [int(stream[rows[np.argmax(certainty[stream[rows]])]]) for rows in every]
    certainty[[lane for lane, other in zip(own, near, strict=True) if other < 0]] = 1
    for rows, lane, other in zip(every, own, near, strict=True):
        stream[rows] = lane if certainty[lane] else other
    return freeze(stream)


class _NeighbouringLaunches:
    """Plain launches, to find the ones next to a graph launch on its thread, and the work next to it on a stream."""

    def __init__(self, trace: Trace, timeline: Timeline, work: Ids, call: Ids) -> None:
        self._events, self._device = trace.events, trace.lanes.device
        self._timeline = timeline
        key = timeline.lane_key(start_point(call))
        order = np.argsort(key, kind="stable")
        self._call, self._stream, self._key = call[order], trace.events.lane[work[order]], key[order]
        self._used = np.bincount(self._stream, minlength=len(trace.lanes.labels))
        place = timeline.position[start_point(call)]
        order = np.lexsort((place, trace.events.lane[work]))
        self._work, self._place = work[order], place[order]
        self._first = np.searchsorted(trace.events.lane[work[order]], np.arange(len(trace.lanes.labels) + 1))

    def stream(self, call: int, rows: Ids) -> int:
        """Return the stream of the launches next to a graph's call on its thread and device; -1 if it can be none.

        Of two it is the one that the thread uses more.
        """
        point = start_point(np.array([call]))
        at = int(np.searchsorted(self._key, self._timeline.lane_key(point))[0])
        lane, device = self._events.lane, self._device[self._events.lane[rows[0]]]
        near = [
            int(self._stream[i]) for i in (at - 1, at) if 0 <= i < len(self._call) and lane[self._call[i]] == lane[call]
        ]
        place = int(self._timeline.position[point][0])
        near = [one for one in near if self._device[one] == device and not self._overlaps(one, place, rows)]
        return max(near, key=lambda stream: self._used[stream]) if near else -1

    def _overlaps(self, stream: int, place: int, rows: Ids) -> bool:
        """Return whether a stream's work enqueued last before a place, or next after it, overlaps with a graph."""
        first, past = self._first[stream : stream + 2].tolist()
        at = first + int(np.searchsorted(self._place[first:past], place))
        start, end = self._events.start, self._events.end
        before, after = self._work[max(at - 1, first) : at], self._work[at : min(at + 1, past)]
        late = (end[before] > start[rows].min() + OVERLAPS_NS).any()
        return bool(late or (start[after] < end[rows].max() - OVERLAPS_NS).any())


@dataclass(frozen=True)
class ItemRows:
    """Lists of activities, one list per item: ``members[first[i] : first[i + 1]]``."""

    first: Ints
    members: Ids

    def expand(self, items: Ints) -> tuple[Ints, Ids]:
        """Return pairs (place in ``items``, member); items of -1 have none."""
        known = np.flatnonzero(items >= 0)
        first = self.first[items[known]]
        place, member = expand_ranges(first, self.first[items[known] + 1] - first)
        return known[place], self.members[member]


class StreamQueues:
    """Each stream's activities and the items that were enqueued on it.

    ``rows`` are the activities in stream order (stream, then start), ``lane`` the streams on which they show. An *item*
    is what one call enqueued on one stream: usually one activity; of a graph all its rows, on whichever streams they
    show. Its ``heads`` are the first activity on each of those, its ``tails`` the last.

        thread       [launch a] [launch graph g] [launch b]
        stream 7        [a]        [g1]      [g4]   [b]        its items: a, g, b
        stream 9                      [g2][g3]                 no items: nothing was enqueued here
                                                               g: heads g1 g2, tails g4 g3

    An activity without a call in the file was enqueued no earlier than its predecessor on the stream, which may be
    before the recording began (place -1).

    Where the recorder draws arrows between the nodes of a graph launch, its heads are those that no arrow leads to, its
    tails those from which none leads.
    """

    def __init__(
        self,
        trace: Trace,
        timeline: Timeline,
        activities: Ids,
        call: Ids,
        enqueue_stream: Ids,
        node_order: NodeOrder | None = None,
    ) -> None:
        """Order the work.

        Args:
            trace: the trace.
            timeline: its order of points.
            activities: all GPU activities.
            call: the call that launched each; -1 for orphans.
            enqueue_stream: the stream on which each was enqueued: its own, or the one that its graph was launched on.
            node_order: recorded arrows between nodes of graphs.
        """
        self._shown_on = trace.events.lane
        lane = trace.events.lane[activities]
        by_stream = np.lexsort((timeline.position[start_point(activities)], lane))
        self.rows = freeze(activities[by_stream])
        self.lane = freeze(lane[by_stream])
        self.enqueue_stream = freeze(enqueue_stream[by_stream])
        self._is_orphan = call[by_stream] < 0
        self._end = trace.events.end[self.rows]
        self._scale = len(timeline.order) + 2  # places run from -1 to len(order)
        # Work is enqueued when its call starts; an orphan's call may lie before the recording.
        place = np.where(self._is_orphan, -1, timeline.position[start_point(call[by_stream])]).astype(np.int64)
        self.place = freeze(np.where(self._is_orphan, self._running_place(place), place))
        # Rows show in the order in which they ran; sorted by place they can be searched for what was enqueued before.
        self._by_lane = np.argsort(self.key(self.lane, self.place), kind="stable")
        self._lane_key = self.key(self.lane, self.place)[self._by_lane]
        self._collect_items(call[by_stream], node_order or NodeOrder.empty())

    def key(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Combine stream and place into one sortable number."""
        return lane.astype(np.int64) * self._scale + place + 1

    def _running_place(self, place: Ints) -> Ints:
        # The key holds the stream above the place, so one running maximum starts anew at each stream by itself.
        key = self.key(self.lane, place)
        return (np.maximum.accumulate(key) if len(key) else key) - self.key(self.lane, np.zeros(len(place), np.int64))

    def _collect_items(self, call: Ids, node_order: NodeOrder) -> None:
        """Collect the items: their stream, place, heads and tails."""
        key = self.key(self.enqueue_stream, self.place)
        order = np.lexsort((np.arange(len(key)), self.lane, key))
        item_key, lane = key[order], self.lane[order]
        new_item = first_of_runs(item_key)
        is_head, is_tail = first_of_runs(item_key, lane), last_of_runs(item_key, lane)
        self.is_ordered = np.zeros(int(np.count_nonzero(new_item)), np.bool_)
        if len(node_order):
            own, arrows = self.rows[order], (node_order.target, node_order.source)
            ordered = distinct(call[is_among(self.rows, node_order.target)])
            by_arrows = is_among(call[order], ordered[ordered >= 0])
            is_head, is_tail = (
                np.where(by_arrows, ~is_among(own, joined), shown)
                for joined, shown in zip(arrows, (is_head, is_tail), strict=True)
            )
            self.is_ordered = np.logical_or.reduceat(by_arrows, np.flatnonzero(new_item))
        self._item_key = item_key[new_item]
        number = np.cumsum(new_item) - 1
        # An item's rows stand together, stream by stream: the first of each stream's are its heads, the last its tails.
        self.heads = _rows_by_item(self.rows[order[is_head]], number[is_head], len(self._item_key))
        self.tails = _rows_by_item(self.rows[order[is_tail]], number[is_tail], len(self._item_key))
        self.item_lane = (self._item_key // self._scale).astype(np.int32)
        self.item_place = self._item_key % self._scale - 1

    def attribution(self, activity: Ids, lane: Ids) -> Codes:
        """Return why activities count as a stream's work: recorded where they show on it, else by a graph's rule."""
        shown_there = self._shown_on[activity] == lane
        return np.where(shown_there, EdgeRule.RECORDED, EdgeRule.GRAPH_IN_LAUNCHING_STREAM).astype(np.int8)

    @cached_property
    def latest(self) -> Ints:
        """For each row, the one of its stream up to here that ends last."""
        return freeze(rows_with_latest_end(self._end, self.lane))

    def is_stream_start(self) -> Bools:
        """Mark the first row of each stream in ``rows``."""
        return first_of_runs(self.lane)

    def free_since(self, activity: Ids) -> Ints:
        """Return when streams had finished what is before each activity (ns); the least number where nothing is."""
        row = self._row_of(activity)
        return np.where(self.is_stream_start()[row], np.iinfo(np.int64).min, self._end[self.latest[row - 1]])

    def lanes(self) -> Ids:
        """Return the streams on which work shows."""
        lanes: Ids = self.lane[self.is_stream_start()]
        return lanes

    def enqueue_streams(self) -> Ids:
        """Return the streams on which work was enqueued."""
        return distinct(self.item_lane)

    def item_before(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Find the last item enqueued on each stream before a place; -1 where there is none."""
        return self._on_own_lane(np.searchsorted(self._item_key, self.key(lane, place), side="left") - 1, lane)

    def item_after(self, lane: Ids | Ints, place: Ints) -> Ints:
        """Find the next item enqueued on each stream after a place; -1 where there is none."""
        return self._on_own_lane(np.searchsorted(self._item_key, self.key(lane, place), side="right"), lane)

    def _on_own_lane(self, item: Ints, lane: Ids | Ints) -> Ints:
        if not len(self.item_lane):
            return np.full(len(item), -1, np.int64)
        inside = (item >= 0) & (item < len(self.item_lane))
        inside &= self.item_lane[item.clip(0, len(self.item_lane) - 1)] == lane
        return np.where(inside, item, -1)

    def last_on(self, lane: Ids | Ints, place: Ints) -> Ids:
        """Find the last work that shows on each stream and was enqueued before a place; -1 where there is none."""
        if not len(self.rows):
            return np.full(len(lane), -1, np.int32)
        at = np.searchsorted(self._lane_key, self.key(lane, place), side="left") - 1
        row = self._by_lane[at.clip(min=0)]
        return np.where((at >= 0) & (self.lane[row] == lane), self.rows[row], -1).astype(np.int32)

    def not_after(self, activity: Ids, deadline: Ints) -> Ids:
        """Replace work without a call that ended after a deadline (ns) by the last earlier on its stream; -1 if none.

        When this work was enqueued is unknown, but what had not ended by then was not waited for.
        """
        row = self._row_of(activity)
        # Only an orphan can be late: of other work it is known that it was enqueued before the question's place.
        late = (activity >= 0) & self._is_orphan[row] & (self._end[row] > deadline) if len(self.rows) else activity > 0
        result = activity.copy()
        for at in np.flatnonzero(late).tolist():
            result[at] = self._earlier_ended(int(row[at]), int(deadline[at]))
        return result

    def _row_of(self, activity: Ids) -> Ints:
        number = np.zeros(int(self.rows.max(initial=0)) + 1, np.int64)
        number[self.rows] = np.arange(len(self.rows))
        return number[activity]

    def _earlier_ended(self, row: int, deadline: int) -> int:
        lane = self.lane[row]
        while row >= 0 and self.lane[row] == lane and self._is_orphan[row] and self._end[row] > deadline:
            row -= 1
        return int(self.rows[row]) if row >= 0 and self.lane[row] == lane else -1


def _rows_by_item(members: Ids, number: Ints, size: int) -> ItemRows:
    return ItemRows(freeze(np.searchsorted(number, np.arange(size + 1))), freeze(members))


def rows_with_latest_end(end: Ints, lane: Ids) -> Ints:
    """Return for each row the row of its stream up to here that ends last (of equal ends the first).

    >>> rows_with_latest_end(np.array([5, 9, 7, 3]), np.array([0, 0, 0, 1])).tolist()
    [0, 1, 1, 3]
    """
    if not len(end):
        return np.empty(0, np.int64)
    # Ranks rise with the stream, then with the end: their running maximum never looks back into an earlier stream.
    rank = np.empty(len(end), np.int64)
    rank[np.lexsort((-np.arange(len(end)), end, lane))] = np.arange(len(end))
    running = np.maximum.accumulate(rank)
    row_of_rank = np.empty(len(end), np.int64)
    row_of_rank[rank] = np.arange(len(end))
    return row_of_rank[running]


@dataclass(frozen=True, eq=False)
class ResolvedWaits(Columns):
    """At ``place`` stream ``lane`` was made to wait for what ``record_lane`` held at ``record_place``; by ``rule``.

    By ``call``; -1 where only the profiler's record is in the file.
    """

    lane: Ids
    place: Ints
    record_lane: Ids
    record_place: Ints
    rule: Codes
    call: Ids


@dataclass(frozen=True, eq=False)
class SyncScopes(Columns):
    """``call`` returned when ``lane`` had finished what it held at ``place``; by ``rule``."""

    call: Ids
    lane: Ids
    place: Ints
    rule: Codes


@dataclass(frozen=True, eq=False)
class CapturedWork(Columns):
    """Triples (number of the query, activity that it waits for, rule of the waits between them: 0 is recorded)."""

    query: Ints
    activity: Ids
    rule: Codes


class StreamWaits:
    """Resolved waits and what they capture.

    A record captures the last work enqueued on its stream before it, and the waits that are pending there: waits behind
    which nothing has been enqueued yet (CUDA stream semantics; no trace shows the pending ones as work).

        stream 7   [a] record e
        stream 8              wait e, record f          nothing is enqueued behind the wait before the record
        stream 9                               wait f [b]     so f holds what e holds: b waits for a
    """

    def __init__(self, queues: StreamQueues, waits: ResolvedWaits) -> None:
        self.waits = waits.take(np.lexsort((waits.place, waits.lane)))
        self._queues = queues
        self._key = queues.key(self.waits.lane, self.waits.place)
        self._enqueue_stream = (
            dict(zip(queues.rows.tolist(), queues.enqueue_stream.tolist(), strict=True)) if len(self._key) else {}
        )
        self._sources = self._capture_all()

    def _capture_all(self) -> list[dict[int, int]]:
        """Resolve the waits in the order in which they were issued: a record only captures waits before it.

        What belongs to the waiting stream itself adds nothing to stream order. What is reached by an inferred wait is
        itself inferred.
        """
        waits = self.waits
        # What each record holds as work: the last of its stream, here by wait (activity -> rule).
        item = self._queues.item_before(waits.record_lane, waits.record_place)
        low, high = self._pending_waits(waits.record_lane, waits.record_place, item)
        query, activity = self._queues.tails.expand(item)
        rule = np.where(
            waits.rule[query] > 0, waits.rule[query], self._attribution_of(query, activity, waits.record_lane)
        )
        direct: list[dict[int, int]] = [{} for _ in range(len(waits.lane))]
        for wait, source, own_rule in zip(query.tolist(), activity.tolist(), rule.tolist(), strict=True):
            direct[wait][source] = own_rule
        # And what it holds as waits: those pending there were issued earlier, so ``sources`` knows theirs already.
        sources: list[dict[int, int]] = [{} for _ in direct]
        rules, piles = waits.rule.tolist(), _CapturedByRanges(sources)
        for wait in np.argsort(waits.place, kind="stable").tolist():
            captured = direct[wait]
            # A record behind its wait is a fault: not all that is pending there is known yet.
            is_known = waits.record_place[wait] <= waits.place[wait]
            for source, source_rule in piles.first_of(int(low[wait]), int(high[wait]), is_known=is_known).items():
                captured.setdefault(source, rules[wait] or source_rule)
            own = int(waits.lane[wait])
            sources[wait] = {source: why for source, why in captured.items() if self._enqueue_stream[source] != own}
        return sources

    def _pending_waits(self, lane: Ids, place: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Find the range of waits that stand behind each stream's last item."""
        since = np.where(item >= 0, self._queues.item_place[item], -1) if len(self._queues.item_place) else item
        # Waits are sorted by stream and place: those behind the last item and before the place are one range.
        low = np.searchsorted(self._key, self._queues.key(lane, since), side="left")
        return low, np.searchsorted(self._key, self._queues.key(lane, place), side="left")

    def outstanding_at(self, lane: Ids, place: Ints) -> CapturedWork:
        """Find all that streams hold at places: the tails of their last item and what their pending waits captured."""
        query, activity = self._queues.tails.expand(self._queues.item_before(lane, place))
        last = CapturedWork(query, activity, self._attribution_of(query, activity, lane))
        return CapturedWork.join([last, self.pending_at(lane, place)])

    def _attribution_of(self, query: Ints, activity: Ids, lane: Ids) -> Codes:
        return self._queues.attribution(activity, lane[query])

    def pending_at(self, lane: Ids, place: Ints) -> CapturedWork:
        """Find what the pending waits of streams captured."""
        low, high = self._pending_waits(lane, place, self._queues.item_before(lane, place))
        piles = _CapturedByRanges(self._sources)
        some = np.flatnonzero(high > low)
        found = _captured_of([
            (at, *pair)
            for at in some[np.lexsort((high[some], low[some]))].tolist()
            for pair in piles.every_of(int(low[at]), int(high[at]))
        ])  # fmt: skip
        return found.take(np.argsort(found.query, kind="stable"))

    def captured_by_waits(self) -> CapturedWork:
        """Find what each wait holds its stream back for."""
        return _captured_of([(wait, *item) for wait, sources in enumerate(self._sources) for item in sources.items()])


class _CapturedByRanges:
    """What ranges of waits captured together: waits may pile up, and each question about a pile asks for more of it."""

    def __init__(self, sources: Sequence[Mapping[int, int]]) -> None:
        self._sources = sources
        self._known: dict[int, tuple[int, dict[int, int]]] = {}
        self._pairs: dict[int, tuple[int, dict[tuple[int, int], None]]] = {}

    def first_of(self, low: int, high: int, *, is_known: bool) -> Mapping[int, int]:
        """Return what waits from ``low`` to before ``high`` captured, each by the rule of the first; a view."""
        # Where nothing is pending another stream's pile may begin.
        if high <= low:
            return {}
        upto, found = self._known.get(low, (low, {}))
        if upto > high or not is_known:
            upto, found = low, {}
        for wait in range(upto, high):
            for source, rule in self._sources[wait].items():
                found.setdefault(source, rule)
        if is_known:
            self._known[low] = high, found
        return found

    def every_of(self, low: int, high: int) -> Iterable[tuple[int, int]]:
        """Return what waits from ``low`` to before ``high`` captured, with every rule once; a view."""
        upto, found = self._pairs.get(low, (low, {}))
        if upto > high:
            upto, found = low, {}
        for wait in range(upto, high):
            found.update(dict.fromkeys(self._sources[wait].items()))
        self._pairs[low] = high, found
        return found


def _captured_of(triples: list[tuple[int, int, int]]) -> CapturedWork:
    query, activity, rule = (np.array([triple[side] for triple in triples], np.int64) for side in range(3))
    return CapturedWork(query, activity.astype(np.int32), rule.astype(np.int8))
