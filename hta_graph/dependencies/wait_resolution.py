"""What a stream wait without ids refers to: by timing, else by what the thread did just before."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import Columns, distinct, find_sorted
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.latest_records import latest_records
from hta_graph.dependencies.stream_choice import NO_WORK, batches, ends_before, item_ends, nearest_stream
from hta_graph.dependencies.stream_waits import ResolvedWaits
from hta_graph.graph.chance import LEAST_LAG_NS
from hta_graph.model import Bools, Codes, Ids, Ints, Rule

__all__ = ["CLOSE_NS", "starts_of_next_work", "infer_records"]

CLOSE_NS = 10_000
"""Work that was held back starts within this time after what it waited for."""

CHANCE = 20
"""At most one in so many holes may end like this by chance, where only a row without ids tells of the wait."""

ENDED_TOO_LATE = NO_WORK - 1
"""In a table of ends: the stream's work ended after the work that would have waited for it began."""


@dataclass(frozen=True, eq=False)
class _OpenWaits(Columns):
    """Wait calls (-1: only a row), their waiting streams, likely records (-1: none), and the moments of both."""

    call: Ids
    lane: Ids
    record: Ids
    place: Ints
    record_place: Ints


@dataclass(frozen=True)
class _InferredRecord:
    """Per wait the recorded stream (a column of the streams, -1: unknown), the moment of its record, and the rule."""

    column: Ints
    moment: Ints
    rule: Codes

    def where_unknown(self, other: _InferredRecord) -> _InferredRecord:
        """Fill what is unknown from another answer."""
        take = (self.column < 0) & (other.column >= 0)
        mixed = [np.where(take, getattr(other, name), getattr(self, name)) for name in ("column", "moment", "rule")]
        return _InferredRecord(mixed[0], mixed[1], mixed[2].astype(np.int8))


@dataclass(frozen=True)
class _NextWork:
    """Work that a wait held back: its start, the earliest time it could have started without the wait (ns)."""

    start: Ints
    free: Ints
    exists: Bools


def infer_records(context: RuleContext, calls: Ids, lane: Ids, place: Ints, *, lane_is_known: Bools) -> ResolvedWaits:
    """Infer the recorded stream of waits, and the waiting one where it is not known.

    Of a wait whose call is not in the file (-1) nobody knows the thread: timing alone decides.

    The recorded stream is the other stream whose work ends just before the held-back work starts: its last work before
    the thread's latest record, else before the wait, else any. Where timing is silent it is the only other stream, else
    that of the thread's last launch before the record.

        stream 7   [......a......]              a ended at most 10 µs before b started: b waited for a
        stream 8   [...c...]
        stream 9          wait    [b            b could have started as soon as it was launched and its own stream
                       |free      |start        was free, but did not
    """
    questions = _open_waits(context, calls, lane, place)
    parts = batches(len(calls), len(context.queues.enqueue_streams()))
    return ResolvedWaits.join(_infer_batch(context, questions.take(of), lane_is_known[of]) for of in parts)


def _infer_batch(context: RuleContext, question: _OpenWaits, lane_is_known: Bools) -> ResolvedWaits:
    answer = _by_timing(context, question)
    # Where timing is silent the waiting stream itself may be wrong: try the one that the thread launches on next.
    other = np.where((answer.column < 0) & ~lane_is_known, _stream_launched_on_next(context, question), -1)
    if (other >= 0).any():
        question = replace(question, lane=np.where(other >= 0, other, question.lane).astype(np.int32))
        answer = _by_timing(context, question)
    answer = answer.where_unknown(_by_launch_order(context, question))
    found = np.flatnonzero(_next_work(context, question).exists & (answer.column >= 0))
    streams = context.queues.enqueue_streams()
    recorded = streams[answer.column] if len(streams) else question.lane
    waits = ResolvedWaits(question.lane, question.place, recorded, answer.moment, answer.rule, question.call)
    return waits.take(found)


def _open_waits(context: RuleContext, calls: Ids, lane: Ids, place: Ints) -> _OpenWaits:
    record = latest_records(context, calls, lane)
    return _OpenWaits(calls, lane, record, place, np.where(record >= 0, context.start_position(record), place))


def _stream_launched_on_next(context: RuleContext, question: _OpenWaits) -> Ids:
    """Return the next launch's stream other than the one just recorded, where nothing was launched since the record.

    A library that forks (cuDNN) records its stream, lets others wait and then goes on launching on its own.
    """
    last = context.last_launch_stream(question.call)
    own_record = question.record >= 0
    thread = context.trace.events.lane
    own_record &= thread[question.record] == thread[question.call]
    own_record &= context.last_launch_stream(question.record) == last
    launches, stream = context.launches
    result = np.full(len(question.call), -1, np.int32)
    for recorded in distinct(last[own_record & (last == question.lane)]).tolist():
        rows = np.flatnonzero(own_record & (last == recorded) & (question.lane == recorded))
        following = context.neighbour(launches[stream != recorded], question.call[rows], after=True)
        result[rows] = context.stream_of_launch(following)
    return result


def _by_timing(context: RuleContext, question: _OpenWaits) -> _InferredRecord:
    held = _next_work(context, question)
    # From what a record most likely held to anything that was enqueued before the wait.
    answer = _nearest_last_item(context, question, held, question.record_place)
    answer = answer.where_unknown(_nearest_last_item(context, question, held, question.place))
    return answer.where_unknown(_nearest_item(context, question, held))


def _close_ns(question: _OpenWaits, held: _NextWork, streams: int) -> Ints:
    """Return how near an end must lie: where nobody's thread tells what was enqueued, chance must be improbable too."""
    hole = held.start - held.free
    rare = np.where(
        hole >= CHANCE * streams * LEAST_LAG_NS, np.minimum(hole // (CHANCE * max(streams, 1)), CLOSE_NS), -1
    )
    return np.where(question.call >= 0, CLOSE_NS, rare)


def _ends_before(context: RuleContext, question: _OpenWaits, place: Ints) -> Ints:
    """Return when the last item of each other stream before each place ended."""
    streams = context.queues.enqueue_streams()
    ends = ends_before(context, streams, place)
    ends[streams[None, :] == question.lane[:, None]] = NO_WORK
    return ends


def _nearest_last_item(context: RuleContext, question: _OpenWaits, held: _NextWork, place: Ints) -> _InferredRecord:
    ends = _ends_before(context, question, place)
    column, rule = nearest_stream(ends, held.start, held.free, _close_ns(question, held, ends.shape[1]))
    return _InferredRecord(column, place, rule)


def _nearest_item(context: RuleContext, question: _OpenWaits, held: _NextWork) -> _InferredRecord:
    """Try all work enqueued before a wait: an event may have been recorded long before, with more work behind it."""
    queues, streams = context.queues, context.queues.enqueue_streams()
    ends = np.full((len(question.call), len(streams)), NO_WORK, np.int64)
    moments = np.zeros_like(ends)
    item_end = item_ends(context)
    first, past = (np.searchsorted(queues.item_lane, streams, side=side) for side in ("left", "right"))
    for column, stream in enumerate(streams.tolist()):
        items = np.arange(first[column], past[column])
        # Ends rise along a stream but where a graph's rows overlap; the running maximum keeps the search sound.
        at = np.searchsorted(np.maximum.accumulate(item_end[items]), held.start, side="right") - 1
        item = items[at.clip(min=0)]
        # Only what was enqueued before the wait can have been recorded before it.
        known = (at >= 0) & (queues.item_place[item] < question.place) & (question.lane != stream)
        ends[:, column] = np.where(known, item_end[item], NO_WORK)
        moments[:, column] = queues.item_place[item] + 1
    column_of, rule = nearest_stream(ends, held.start, held.free, _close_ns(question, held, len(streams)))
    moment = moments[np.arange(len(column_of)), column_of] if len(streams) else question.place
    return _InferredRecord(column_of, moment, rule)


def _by_launch_order(context: RuleContext, question: _OpenWaits) -> _InferredRecord:
    """Choose the only other stream with work, else the stream of the thread's last launch before the record."""
    streams, held = context.queues.enqueue_streams(), _next_work(context, question)
    if not len(streams):
        return _InferredRecord(np.full(len(question.call), -1), question.place, np.zeros(len(question.call), np.int8))
    ends = _ends_before(context, question, question.record_place)
    # Still busy when the held-back work began: not waited for, but it has work, which counts against "only".
    ends[ends > held.start[:, None]] = ENDED_TOO_LATE
    single = ((ends != NO_WORK).sum(axis=1) == 1) & (ends > NO_WORK).any(axis=1) & (question.call >= 0)
    only = _InferredRecord(
        np.where(single, (ends > NO_WORK).argmax(axis=1), -1),
        question.record_place,
        _repeated_rule(Rule.ONLY_OTHER_STREAM, ends),
    )
    before = np.where(question.record >= 0, question.record, question.call).astype(np.int32)
    last = context.last_launch_stream(before)
    at = find_sorted(last, streams)
    usable = (at >= 0) & (ends[np.arange(len(at)), at] > NO_WORK)
    habit = _InferredRecord(
        np.where(usable, at, -1), question.record_place, _repeated_rule(Rule.STREAM_OF_LAST_LAUNCH, ends)
    )
    return only.where_unknown(habit)


def _repeated_rule(rule: Rule, table: Ints) -> Codes:
    return np.full(len(table), rule, np.int8)


def starts_of_next_work(context: RuleContext, lane: Ids, place: Ints) -> Ints:
    """Return when the next work of each stream behind a place started (ns); before all times where none follows."""
    item = context.queues.item_after(lane, place)
    heads = context.queues.heads
    if not len(heads.members):
        return np.full(len(lane), NO_WORK)
    started = np.minimum.reduceat(context.trace.events.start[heads.members], heads.first[:-1])
    return np.where(item >= 0, started[item], NO_WORK)


def _next_work(context: RuleContext, question: _OpenWaits) -> _NextWork:
    """Find the next work on each waiting stream, and when its launch and its own stream would have let it start."""
    queues, events, streams = context.queues, context.trace.events, context.queues.enqueue_streams()
    item = queues.item_after(question.lane, question.place)
    if not len(streams):
        return _NextWork(question.place, question.place, item >= 0)
    start = np.minimum.reduceat(events.start[queues.heads.members], queues.heads.first[:-1])[item]
    launched = context.timeline.times[context.timeline.order[queues.item_place[item].clip(min=0)]]
    own = streams[None, :] == question.lane[:, None]
    # Without the wait the work would have started when it was launched and its own stream was free.
    ready = np.where(own, ends_before(context, streams, question.place), NO_WORK).max(axis=1)
    return _NextWork(start, np.maximum(launched, ready), item >= 0)
