"""For which record is each wait of a stream? By the profiler's record where there is one, else by timing and order.

```
thread       [launch a]                    [launch b]     without rows: cuEventRecord, cuStreamWaitEvent
number          11       12        13         14          the record's row names 12: a (11) is captured
stream 9                        [wait row]                its row stands at its time: b is the next work
```

The profiler writes a stream's number, and every device has a stream of that number. A stream that waits for its own
number waits for another device's stream: waiting for itself would hold back nothing. PyTorch's copies between GPUs do
so, whose default streams are all called 7.

```
stream 7 of GPU 0   [copy to GPU 1] record e
stream 7 of GPU 1                     wait e ("stream 7") [kernel]
```
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import (
    Columns,
    distinct,
    find_sorted,
    first_of_runs,
    hash_rows,
    is_among,
    last_of_runs,
    pair_key,
    percentiles_by,
    take_or,
)
from hta_graph.dependencies.context import RuleContext, SyncKind, SyncRows
from hta_graph.dependencies.stream_queues import ResolvedWaits, StreamWaits
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import start_point
from hta_graph.graph.significance import LEAST_LAG_NS, is_improbable
from hta_graph.model import Bools, Codes, EdgeRule, EventKind, Ids, Ints
from hta_graph.trace.profiler_names import EVENT_RECORD_CALL, STREAM_WAIT_CALL

CELLS = 1 << 22
"""How large a table of questions by streams may be: many of both would not fit into memory."""

NO_WORK = -(2**62)
"""In a table of ends (ns): the stream has no work. Times can be negative; this leaves room to subtract them."""


def ends_before(context: RuleContext, streams: Ids, place: Ints) -> Ints:
    """Return when each stream's last item before each place ended (ns); rows: places, columns: streams."""
    queues, item_end = context.queues, item_ends(context)
    table = np.full((len(place), len(streams)), NO_WORK, np.int64)
    # The longer side at once, the shorter one by one: there may be very many streams, or very many questions.
    if len(place) < len(streams):
        for row, moment in enumerate(place.tolist()):
            item = queues.item_before(streams, np.full(len(streams), moment))
            table[row] = np.where(item >= 0, item_end[item], NO_WORK)
        return table
    for column, stream in enumerate(streams.tolist()):
        item = queues.item_before(np.full(len(place), stream), place)
        table[:, column] = np.where(item >= 0, item_end[item], NO_WORK)
    return table


def batches(questions: int, streams: int) -> Iterator[slice]:
    """Divide questions so that a table of them by streams stays small."""
    size = max(CELLS // max(streams, 1), 1)
    return (slice(first, first + size) for first in range(0, questions, size))


def item_ends(context: RuleContext) -> Ints:
    """Return when each item ended (ns)."""
    tails = context.queues.tails
    ends = context.trace.events.end[tails.members]
    last: Ints = np.maximum.reduceat(ends, tails.first[:-1]) if len(ends) else ends
    return last


def nearest_stream(ends: Ints, until: Ints, since: Ints, close_ns: int | Ints) -> tuple[Ints, Codes]:
    """Choose per row the column whose end lies in [since, until], nearest to ``until``, at most ``close_ns`` before."""
    # Rows are questions, columns streams: all streams are tried for all questions at once.
    lag = until[:, None] - ends
    fits = (ends > NO_WORK) & (lag >= 0) & (lag <= np.reshape(close_ns, (-1, 1))) & (ends >= since[:, None])
    lag = np.where(fits, lag, np.iinfo(np.int64).max)
    chosen = np.argmin(lag, axis=1) if lag.shape[1] else np.zeros(len(lag), np.int64)
    found = fits.any(axis=1)
    return np.where(found, chosen, -1), np.where(found, EdgeRule.STREAM_BY_TIMING, 0).astype(np.int8)


def latest_records(context: RuleContext, calls: Ids, lane: Ids) -> Ids:
    """Return the likely record of each wait call; -1 where there is none.

    It is the thread's latest, right for 20 of 21 labelled waits, unless the same stream has waited since that record:
    no thread waits twice for one event. Then it is the latest record of another thread for which none has waited yet.
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
    free = records[~is_among(records, following)]
    free = free[np.argsort(context.start_position(free), kind="stable")]
    if not len(free):
        return np.full(len(calls), -1, np.int32)
    at = np.searchsorted(context.start_position(free), context.start_position(calls)) - 1
    own = (at >= 0) & (thread[free[at]] == thread[calls])
    # Step over the thread's own records: before a run of one thread's stands another's.
    run = np.maximum.accumulate(np.where(first_of_runs(thread[free]), np.arange(len(free)), 0))
    at = np.where(own, run[at] - 1, at)
    return np.where(at >= 0, free[at], -1).astype(np.int32)


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


CLOSE_NS = 10_000
"""Work that was held back starts within this time after what it waited for."""

MOST_FORKS, FEWEST_ROUNDS = 4, 3
"""How many streams more than the first one wait at a fork; how often timing must show what a loop's wait is for."""

CHANCE = 20
"""At most one hole in this many ends like this by chance, where only a row without ids shows the wait."""

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

    Of a wait whose call is not in the file (-1) the thread is unknown: timing alone decides.

    The recorded stream is the other stream whose work ends just before the held-back work starts: its last work before
    the thread's latest record, else before the wait, else any. Where timing is silent it is the only other stream, else
    that of the thread's last launch before the record.

        stream 7   [......a......]              a ended at most 10 µs before b started: b waited for a
        stream 8   [...c...]
        stream 9          wait    [b            b could have started as soon as it was launched and its own stream
                       |free      |start        was free, but did not
    """
    if not len(calls):
        return ResolvedWaits.empty()
    questions = _open_waits(context, calls, lane, place)
    parts = batches(len(calls), len(context.queues.enqueue_streams()))
    found = ResolvedWaits.join(_infer_batch(context, questions.take(of), lane_is_known[of]) for of in parts)
    return _as_in_other_rounds(context, _with_forks(context, found, calls[~lane_is_known]), calls[~lane_is_known])


def _with_forks(context: RuleContext, waits: ResolvedWaits, guessed: Ids) -> ResolvedWaits:
    """Let waits that repeat another one hold back the thread's next launch on another stream instead, where they did.

    No stream waits twice for the same work. Where several streams were made to wait before anything was launched on
    them, the next launch is the first one's, and each of the others holds back the next launch on yet another stream.
    Timing must show it, and not by chance: the other stream was held back until the same recorded work ended.

        thread     record  wait  wait  [launch b][launch c]      streams 8 and 9 wait for stream 7
        stream 7   [......a......]
        stream 8                  [b
        stream 9                  [c
    """
    taken, since = waits.lane.copy(), waits.call.copy()
    for _ in range(MOST_FORKS):
        item = context.queues.item_after(taken, waits.place)
        order = np.lexsort((waits.place, waits.record_lane, item))
        again = np.zeros(len(taken), np.bool_)
        again[order] = ~first_of_runs(item[order], waits.record_lane[order])
        at = np.flatnonzero(again & is_among(waits.call, np.sort(guessed)))
        launch = _launch_elsewhere(context, since[at], taken[at])
        lane = context.stream_of_launch(launch)
        held = (launch >= 0) & (lane != waits.record_lane[at])
        held[held] = _is_held_back(context, waits.take(at[held]), lane[held])
        if not held.any():
            break
        taken[at[held]], since[at[held]] = lane[held], launch[held]
    return replace(waits, lane=taken)


def _as_in_other_rounds(context: RuleContext, waits: ResolvedWaits, calls: Ids) -> ResolvedWaits:
    """Let waits that a loop repeats be for what timing shows for most of them, where no time contradicts it."""
    # Where the waiting stream's own work ends last, timing shows nothing, or another stream by chance.
    if not len(waits.call):
        return waits
    item_before, order = context.queues.item_before, np.argsort(waits.call)
    moment = context.start_position(context.last_call_on_thread(EVENT_RECORD_CALL, calls))
    found = waits.take(order[at := find_sorted(calls, waits.call[order])])
    by_timing = (at >= 0) & (found.rule == EdgeRule.STREAM_BY_TIMING)
    is_latest = item_before(found.record_lane, found.record_place) == item_before(found.record_lane, moment)
    streams = np.where(by_timing & is_latest, pair_key(found.lane, found.record_lane), -1)
    group = find_sorted(places := _places_in_loops(context, calls), groups := distinct(places))
    # What more than half of them show is their median.
    usual = percentiles_by(group[by_timing], streams[by_timing], len(groups), 50)[group]
    agree = np.bincount(group[by_timing & (streams == usual)], minlength=len(groups))[group]
    is_most = 2 * agree > np.bincount(group[by_timing], minlength=len(groups))[group]
    other = is_most & (agree >= FEWEST_ROUNDS) & (usual >= 0) & (streams != usual)
    lane, record_lane = (usual >> 32).astype(np.int32), (usual & 0xFFFF_FFFF).astype(np.int32)
    rule, place = np.full(len(calls), EdgeRule.SAME_IN_OTHER_ROUNDS, np.int8), context.start_position(calls)
    own = ResolvedWaits(lane, place, record_lane, moment, rule, calls).take(other)
    item, starts = item_before(own.record_lane, own.record_place), starts_of_next_work(context, own.lane, own.place)
    own = own.take((item >= 0) & (take_or(item_ends(context), item) <= starts))
    return ResolvedWaits.join([waits.take(~is_among(waits.call, own.call)), own])


def _places_in_loops(context: RuleContext, calls: Ids) -> Ints:
    """Return a number for the place of each call: between the launches of which work, behind how many event calls."""
    events, lane_key = context.trace.events, context.timeline.lane_key
    launches, first = np.unique(context.launch_call, return_index=True)
    last, following = (context.neighbour(context.launches[0], calls, after=after) for after in (False, True))
    work = [take_or(context.activities[first], find_sorted(launch, launches)) for launch in (last, following)]
    of_events = np.concatenate([context.calls_named(pattern) for pattern in (EVENT_RECORD_CALL, STREAM_WAIT_CALL)])
    keys = np.sort(lane_key(start_point(of_events)))
    since, upto = (np.searchsorted(keys, lane_key(start_point(of))) for of in (last, calls))
    return hash_rows(upto - since, *(take_or(column, row) for row in work for column in (events.name, events.lane)))


def _launch_elsewhere(context: RuleContext, since: Ids, lane: Ids) -> Ids:
    """Return each thread's next launch since a call that is not on this stream; -1 where there is none."""
    launches, stream = context.launches
    found = np.full(len(since), -1, np.int32)
    for own in distinct(lane).tolist():
        rows = np.flatnonzero(lane == own)
        found[rows] = context.neighbour(launches[stream != own], since[rows], after=True)
    return found


def _is_held_back(context: RuleContext, waits: ResolvedWaits, lane: Ids) -> Bools:
    """Mark the waits that held back the next work of these streams instead, by more than chance."""
    streams = context.queues.enqueue_streams()
    held_back = np.zeros(len(lane), np.bool_)
    for some in batches(len(lane), len(streams)):
        place, record_place = waits.place[some], waits.record_place[some]
        question = _OpenWaits(waits.call[some], lane[some], np.full_like(lane[some], -1), place, record_place)
        held = _next_work(context, question)
        ends = _ends_before(context, question, question.record_place)
        column, _ = nearest_stream(ends, held.start, held.free, CLOSE_NS)
        lag = held.start - ends[np.arange(len(column)), column]
        count = ((ends >= held.free[:, None]) & (ends <= held.start[:, None])).sum(axis=1)
        is_shown = (column >= 0) & is_improbable(count, lag, held.start - held.free, CHANCE)
        held_back[some] = held.exists & is_shown & (streams[column] == waits.record_lane[some])
    return held_back


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

    A library that forks (cuDNN) records its stream, lets others wait and then continues launching on its own.
    """
    last = context.last_launch_stream(question.call)
    own_record = question.record >= 0
    thread = context.trace.events.lane
    own_record &= thread[question.record] == thread[question.call]
    own_record &= context.last_launch_stream(question.record) == last
    own_record &= last == question.lane
    following = _launch_elsewhere(context, question.call, question.lane)
    return np.where(own_record, context.stream_of_launch(following), -1)


def _by_timing(context: RuleContext, question: _OpenWaits) -> _InferredRecord:
    held = _next_work(context, question)
    # From what a record most likely held to anything that was enqueued before the wait.
    answer = _nearest_last_item(context, question, held, question.record_place)
    answer = answer.where_unknown(_nearest_last_item(context, question, held, question.place))
    return answer.where_unknown(_nearest_item(context, question, held))


def _close_ns(question: _OpenWaits, held: _NextWork, streams: int) -> Ints:
    """Return how near an end must lie: where no thread shows what was enqueued, chance must be improbable, too."""
    rare = (held.start - held.free) // (CHANCE * max(streams, 1))
    return np.where(question.call >= 0, CLOSE_NS, np.where(rare >= LEAST_LAG_NS, rare.clip(max=CLOSE_NS), -1))


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
        _repeated_rule(EdgeRule.ONLY_OTHER_STREAM, ends),
    )
    before = np.where(question.record >= 0, question.record, question.call).astype(np.int32)
    last = context.last_launch_stream(before)
    at = find_sorted(last, streams)
    usable = (at >= 0) & (ends[np.arange(len(at)), at] > NO_WORK)
    habit = _InferredRecord(
        np.where(usable, at, -1), question.record_place, _repeated_rule(EdgeRule.STREAM_OF_LAST_LAUNCH, ends)
    )
    return only.where_unknown(habit)


def _repeated_rule(rule: EdgeRule, table: Ints) -> Codes:
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


def names_own_stream(context: RuleContext, rows: SyncRows) -> Bools:
    """Mark the waits that name the waiting stream itself, where other devices have a stream of that number."""
    lanes, streams = context.trace.lanes, context.queues.enqueue_streams()
    itself = (rows.record_lane >= 0) & (rows.record_lane == rows.lane)
    # There may be very many waits and streams: of each number the first and the last device say whether another has it.
    order = np.lexsort((lanes.device[streams], lanes.stream[streams]))
    number, device = lanes.stream[streams][order], lanes.device[streams][order]
    at = find_sorted(lanes.stream[rows.lane], number[first_of_runs(number)])
    own = lanes.device[rows.lane]
    first, last = (take_or(device[of_number(number)], at, otherwise=-1) for of_number in (first_of_runs, last_of_runs))
    found: Bools = itself & (at >= 0) & ((first != own) | (last != own))
    return found


def cross_device_waits(context: RuleContext, rows: SyncRows, place: Ints, record_place: Ints) -> ResolvedWaits:
    """Find the device that such waits meant: the only other one, of several that whose work ended just before.

    Work that ended after what was held back had begun was not waited for.
    """
    streams = context.queues.enqueue_streams()
    start = starts_of_next_work(context, rows.lane, place)
    chosen = [
        _stream_of_other_device(context, rows.lane[some], start[some], record_place[some], streams)
        for some in batches(len(rows.lane), len(streams))
    ]
    if not chosen:
        return ResolvedWaits.empty()
    column, rule = (np.concatenate(parts) for parts in zip(*chosen, strict=True))
    found = ResolvedWaits(rows.lane, place, streams[column], record_place, rule, rows.call)
    return found.take(column >= 0)


def _stream_of_other_device(
    context: RuleContext, lane: Ids, start: Ints, record_place: Ints, streams: Ids
) -> tuple[Ints, Codes]:
    """Return which of all streams each wait meant (-1: none), and by which rule."""
    lanes = context.trace.lanes
    is_other = lanes.stream[lane][:, None] == lanes.stream[streams]
    is_other &= lanes.device[lane][:, None] != lanes.device[streams]
    ends = np.where(is_other, ends_before(context, streams, record_place), NO_WORK)
    ends[ends > start[:, None]] = NO_WORK
    column, rule = nearest_stream(ends, start, np.full(len(start), NO_WORK), CLOSE_NS)
    single = (ends > NO_WORK).sum(axis=1) == 1
    column = np.where(single, (ends > NO_WORK).argmax(axis=1), column)
    return column, np.where(single, EdgeRule.ONLY_OTHER_STREAM, rule).astype(np.int8)


def stream_waits(context: RuleContext) -> StreamWaits:
    """Return the stream waits whose record is known or can be inferred, and what they capture."""
    return _resolved_and_unresolved(context)[0]


def unresolved_wait_calls(context: RuleContext) -> Ids:
    """Return the wait calls, in order, that may hold back any stream: none where the profiler records what waits."""
    return _resolved_and_unresolved(context)[1]


@memoized
def _resolved_and_unresolved(context: RuleContext) -> tuple[StreamWaits, Ids]:
    waits, calls = _resolved_waits(context)
    return StreamWaits(context.queues, waits), calls


def _resolved_waits(context: RuleContext) -> tuple[ResolvedWaits, Ids]:
    """Find the waiting stream, the recorded stream and the moment of the record of every stream wait that can be known.

    Recorded ids count where the record was issued before the wait, also where the call of either is not in the file (a
    library that calls the driver itself leaves rows only). The others are inferred: rows that name a later record (of
    an event that was reused: Kineto keeps its latest record only, kineto#1339), the device where a stream names its own
    number (:mod:`hta_graph.dependencies.wait_resolution`), rows of a file in which none has ids (CUDA 12.9 and later;
    elsewhere that event was never recorded), and calls without a row where the file has no such rows or, as the
    profiler drops these (kineto#904), where the waiting stream had no work yet. Besides return the calls, in order,
    that may hold back any stream.
    """
    rows = context.sync_rows(SyncKind.STREAM_WAIT)
    place, record_place = wait_positions(context, rows), record_positions(context, rows)
    resolved = rows.names_stream & recorded_before_wait(context, rows, place, record_place)
    elsewhere = resolved & names_own_stream(context, rows)
    known = resolved & (rows.record_lane >= 0) & ~elsewhere
    by_record = np.zeros(len(place), np.int8)
    recorded = ResolvedWaits(rows.lane, place, rows.record_lane, record_place, by_record, rows.call).take(known)
    other_devices = cross_device_waits(context, rows.take(elsewhere), place[elsewhere], record_place[elsewhere])
    names_later = rows.names_stream & (rows.record_correlation > 0)
    open_rows = np.flatnonzero(~resolved & (names_later | (not context.names_events)))
    # The profiler writes no row for a wait of a stream on which nothing ran yet: the call alone shows it.
    calls, lane = _calls_without_rows(context, rows.call)
    asked = lane >= 0
    inferred = infer_records(
        context,
        np.append(rows.call[open_rows], calls[asked]),
        np.append(rows.lane[open_rows], lane[asked]),
        np.append(place[open_rows], context.start_position(calls[asked])),
        lane_is_known=np.arange(len(open_rows) + np.count_nonzero(asked)) < len(open_rows),
    )
    # Where the thread launches on other streams first, only timing tells that it was the wait of this one.
    later = calls[lane != context.next_launch_stream(calls)]
    inferred = inferred.take(~is_among(inferred.call, later) | (inferred.rule == EdgeRule.STREAM_BY_TIMING))
    context.notes["sync_records_without_call"] += int(np.count_nonzero(rows.call < 0))
    context.notes["event_waits"] = len(rows.call) + len(calls)
    context.notes["event_waits_for_nothing"] = int(np.count_nonzero(resolved & (rows.record_lane < 0)))
    context.notes["event_waits_unresolved"] = int(np.count_nonzero(~resolved)) + len(calls) - len(inferred.lane)
    is_open = calls if not len(rows.call) else calls[:0]
    return ResolvedWaits.join([recorded, other_devices, inferred]), _unresolved(context, is_open, inferred)


def _calls_without_rows(context: RuleContext, with_row: Ids) -> tuple[Ids, Ids]:
    """Return the wait calls to infer and their waiting streams: that of the thread's next launch; -1 without one."""
    calls = context.calls_named(STREAM_WAIT_CALL)
    calls = calls[~np.isin(calls, with_row)]
    launches, stream = context.launches
    if len(with_row):
        # With rows in the file only calls lack theirs whose stream had no work yet, or whose event was never recorded.
        launches = launches[context.queues.item_before(stream, context.start_position(launches)) < 0]
    lane = context.stream_of_launch(context.neighbour(launches, calls, after=True))
    asked = (lane >= 0) | (len(with_row) == 0)
    return calls[asked], lane[asked]


def _unresolved(context: RuleContext, calls: Ids, waits: ResolvedWaits) -> Ids:
    """Return the calls for which no wait was found, in order."""
    unknown = calls[~is_among(calls, waits.call)]
    return unknown[np.argsort(context.start_position(unknown), kind="stable")]
