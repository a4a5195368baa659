"""Rules of what the host waits for: synchronizing calls, copies that block, memory that it polls.

A synchronizing call leads from what its streams held at a moment to its return.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import (
    Columns,
    distinct,
    find_sorted,
    first_of_runs,
    is_among,
    medians_by,
    take_or,
    unique_rows,
)
from hta_graph.dependencies.clock_bounds import call_before
from hta_graph.dependencies.context import (
    QUICK,
    SHORTEST_SLOW_NS,
    RuleContext,
    SyncKind,
    SyncRows,
    blocking_copies,
    slow_calls,
)
from hta_graph.dependencies.polling import ends_are_no_chance, polled_events, polled_streams
from hta_graph.dependencies.stream_queues import CapturedWork, SyncScopes
from hta_graph.dependencies.wait_resolution import (
    CLOSE_NS,
    NO_WORK,
    batches,
    ends_before,
    item_ends,
    nearest_stream,
    stream_waits,
)
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Bools, EdgeKind, EdgeRule, EventKind, Floats, Ids, Ints
from hta_graph.trace.profiler_names import (
    BLOCKING_CALL,
    COPY_CALL,
    DEVICE_SYNC_CALL,
    EVENT_RECORD_CALL,
    EVENT_SYNC_CALL,
    IMPLICIT_WAIT_CALL,
    KNOWN_RUNTIME_CALL,
    NON_BLOCKING_QUERY,
    STREAM_SYNC_CALL,
)

RETURN_LATENCY_NS = 100_000
"""A blocking call returns within this time after what it waited for (public traces: median 8 µs, 90% below 75 µs)."""


CONTRADICTED_NS = 20_000
"""Work that ends so long after a call's return was not what it waited for: corrected clocks differ by less."""

OUTLASTS_COPY_NS = 50_000
"""A call that waits for a copy returns within this time after it, unless its thread is delayed."""

QUICK_SYNC_NS = 10_000
"""A synchronization that finds nothing to wait for takes about as long (public traces: 3 to 30 µs)."""


def ends_too_late(end: Ints, returned: Ints, noise_ns: Ints | int = 0) -> Bools:
    """Return whether work ended too long after a call's return to be what it waited for, beyond the clock's noise."""
    late: Bools = end > returned + CONTRADICTED_NS + noise_ns
    return late


@dataclass(frozen=True)
class _Records:
    """The records of one kind: what those that match work say, and the calls of all that say something (-1: none).

    ``idle`` are the calls whose records match no work in the file.
    """

    scopes: SyncScopes
    named: Ids
    idle: Ids

    @classmethod
    def of(cls, call: Ids, lane: Ids, place: Ints, works: Bools) -> _Records:
        """Take the profiler's word where it matches work; rows whose call is not in the file say nothing of others."""
        recorded = (call >= 0) & works
        rule = np.zeros(np.count_nonzero(recorded), np.int8)
        scopes = SyncScopes(call[recorded], lane[recorded], place[recorded], rule)
        return cls(scopes, call, call[(call >= 0) & ~np.isin(call, scopes.call)])


@memoized
def _records(context: RuleContext) -> dict[SyncKind, _Records]:
    """Return the records of each kind; none of any kind where most contradict the times of the file.

    A single one that does may be a fault of the clock, or of a thread that launched meanwhile: it is kept.
    """
    found = {kind: read(context, context.sync_rows(kind)) for kind, read in RECORDS.items()}
    asked, late = 0, 0
    for kind, records in found.items():
        if not len(records.scopes.call):
            continue
        held = _held(context, kind, records.scopes)
        held = held.take(held.rule == EdgeRule.RECORDED)
        returned = context.trace.events.end[records.scopes.call[held.query]]
        # Of work without a call the latest that had ended by then is meant: it contradicts nothing.
        activity = context.queues.not_after(held.activity, returned)
        some = activity >= 0
        noise = context.clock_noise[context.trace.events.lane[activity[some]]]
        too_late = ends_too_late(context.trace.events.end[activity[some]], returned[some], noise)
        asked += len(distinct(held.query[some]))
        late += len(distinct(held.query[some][too_late]))
    if 2 * late <= asked:
        return found
    context.notes["sync_records_contradicted"] = late
    nothing = np.empty(0, np.int32)
    return {kind: _Records(records.scopes.take(nothing), nothing, nothing) for kind, records in found.items()}


def _stream_records(context: RuleContext, rows: SyncRows) -> _Records:
    names_stream = context.trace.lanes.stream[rows.lane] >= 0
    rows = rows.take(names_stream)
    return _Records.of(rows.call, rows.lane, context.start_position(rows.call), _has_work(context, rows.lane))


def _device_records(context: RuleContext, rows: SyncRows) -> _Records:
    lanes = context.trace.lanes
    rows = rows.take(lanes.device[rows.lane] >= 0)
    matching, _ = np.nonzero(_same_device(lanes.device, lanes.context, rows.lane, context.work_lanes))
    works = np.isin(np.arange(len(rows)), matching)
    return _Records.of(rows.call, rows.lane, context.start_position(rows.call), works)


def _event_records(context: RuleContext, rows: SyncRows) -> _Records:
    # Where the profiler names events at all, a nameless one was never recorded: its row says that nothing is awaited.
    resolved = _names_its_event(context, rows)
    rows = rows.take(resolved | (context.names_events & ~_is_query(context, rows.call)))
    works = _names_its_event(context, rows) & _has_work(context, rows.record_lane)
    return _Records.of(rows.call, rows.record_lane, context.start_position(rows.record_call), works)


def _names_its_event(context: RuleContext, rows: SyncRows) -> Bools:
    """Mark the rows of waiting calls whose event was recorded before; a later record is of a reuse (kineto#1339)."""
    place = context.start_position(rows.record_call)
    issued_before = (rows.record_call >= 0) & (place < context.start_position(rows.call))
    named: Bools = ~_is_query(context, rows.call) & rows.names_stream & issued_before
    return named


RECORDS = {
    SyncKind.STREAM_SYNC: _stream_records,
    SyncKind.DEVICE_SYNC: _device_records,
    SyncKind.EVENT_SYNC: _event_records,
}


def _has_work(context: RuleContext, lane: Ids) -> Bools:
    """Return whether streams have work in the file, or hold that of pending waits."""
    works: Bools = np.isin(lane, np.append(context.work_lanes, stream_waits(context).waits.lane))
    return works


def _is_query(context: RuleContext, call: Ids) -> Bools:
    names = context.trace.names_starting_with(NON_BLOCKING_QUERY)
    query: Bools = names[context.trace.events.name[call]] & (call >= 0)
    return query


def calls_without_records(context: RuleContext, pattern: re.Pattern[str], kind: SyncKind) -> Ids:
    """Return the calls whose scope must be inferred: all of them, where the file has no usable record of their kind.

    Elsewhere those that took long, though their record matches no work, or though they have none; short ones had
    nothing to wait for: the profiler drops the records of streams on which nothing ran (kineto#904).
    """
    records, calls = _records(context)[kind], context.calls_named(pattern)
    if not len(records.named):
        return calls
    open_calls = np.append(calls[~np.isin(calls, records.named)], records.idle)
    open_calls = distinct(open_calls[~_is_query(context, open_calls)])
    if not len(open_calls):
        return open_calls
    every = distinct(np.append(calls, open_calls))
    slow = np.isin(open_calls, slow_calls(context, every, quantile=QUICK, longest_usual_ns=QUICK_SYNC_NS))
    is_idle = np.isin(open_calls, records.idle)
    context.notes["sync_records_without_work"] += int(np.count_nonzero(slow & is_idle))
    # A call right behind a copy waits for it, however short that is.
    certain = ~is_idle & (kind == SyncKind.STREAM_SYNC) & (streams_of_copies(context, open_calls) >= 0)
    return open_calls[slow | certain]


def _held(context: RuleContext, kind: SyncKind, scopes: SyncScopes) -> CapturedWork:
    """Find what the scopes hold: what is outstanding on their streams, or on all streams of their devices."""
    if kind == SyncKind.DEVICE_SYNC:
        return _held_by_devices(context, scopes)
    return stream_waits(context).outstanding_at(scopes.lane, scopes.place)


def edges_to_return(context: RuleContext, edge: EdgeKind, kind: SyncKind, inferred: SyncScopes) -> EdgeTable:
    """Link what the recorded and the inferred scopes hold to the return of their calls, each pair once."""
    events = context.trace.events
    scopes = SyncScopes.join([_records(context)[kind].scopes, inferred])
    if not len(scopes.call):
        return EdgeTable.empty()
    held = _held(context, kind, scopes)
    call = scopes.call[held.query]
    activity = context.queues.not_after(held.activity, events.end[call] + CLOCK_FAULT_LIMIT_NS)
    some = activity >= 0
    source, target = end_point(activity[some]), end_point(call[some])
    scope_rule = scopes.rule[held.query]
    rule = np.where(scope_rule == EdgeRule.RECORDED, held.rule, scope_rule)[some]
    return EdgeTable.distinct(edge, source, target, rule)


def infer_synced_streams(
    context: RuleContext, call: Ids, place: Ints, hint: Ids, copied: Ids | None = None
) -> SyncScopes:
    """Choose the stream that each call waited for: that of the copy before it, else the one that ended just before.

    Where nothing ended inside the call there was nothing left to wait for: then the only stream with work is meant,
    else the ``hint``. A stream whose work ended after the return cannot be meant.

        thread     [cudaStreamSynchronize..............]
        stream 7          [work]                       |
        stream 8     [work..................]<-100 µs->|       the nearest end inside the call: this one is meant
        stream 9        [work..............................    still busy at the return: cannot be meant
    """
    streams = context.queues.enqueue_streams()
    if not len(streams):
        return SyncScopes(call[:0], hint[:0], place[:0], np.empty(0, np.int8))
    copied = np.full(len(call), -1, np.int32) if copied is None else copied
    parts = batches(len(call), len(streams))
    return SyncScopes.join(_synced_streams(context, call[of], place[of], hint[of], copied[of]) for of in parts)


def _synced_streams(context: RuleContext, call: Ids, place: Ints, hint: Ids, copied: Ids) -> SyncScopes:
    streams, events = context.queues.enqueue_streams(), context.trace.events
    ends, returned = ends_before(context, streams, place), events.end[call][:, None]
    # Where the clock contradicts itself by so much, what seems to end later may have ended in time.
    in_time = (ends > returned) & (ends <= returned + context.clock_noise[streams])
    ends = np.where(in_time, returned, ends)
    # By the program's order first, then by timing; then where only one stream has work at all; then where the thread
    # launched last.
    chosen, rule = nearest_stream(ends, events.end[call], events.start[call], RETURN_LATENCY_NS)
    at = find_sorted(copied, streams)
    by_copy = (at >= 0) & _may_wait_for_copy(
        context, call, ends[np.arange(len(at)), at], (chosen >= 0) & (chosen != at)
    )
    chosen, rule = np.where(by_copy, at, chosen), np.where(by_copy, EdgeRule.STREAM_OF_COPY, rule)
    possible = (ends > NO_WORK) & (ends <= returned)
    single = (chosen < 0) & ((ends > NO_WORK).sum(axis=1) == 1) & (possible.sum(axis=1) == 1)
    chosen, rule = np.where(single, possible.argmax(axis=1), chosen), np.where(single, EdgeRule.ONLY_OTHER_STREAM, rule)
    at = find_sorted(hint, streams)
    by_hint = (chosen < 0) & (at >= 0) & possible[np.arange(len(at)), at]
    chosen, rule = np.where(by_hint, at, chosen), np.where(by_hint, EdgeRule.STREAM_OF_LAST_LAUNCH, rule)
    found = np.flatnonzero(chosen >= 0)
    return SyncScopes(call[found], streams[chosen[found]], place[found], rule[found].astype(np.int8))


def _may_wait_for_copy(context: RuleContext, call: Ids, end: Ints, other_ended: Bools) -> Bools:
    """Return whether a call may have waited for the copy before it, whose stream's work ended at ``end``.

    Not where the call was too short to wait, or continued long after the copy until another stream's work ended.
    """
    events = context.trace.events
    returned = events.end[call]
    waited = (end <= returned) | (returned - events.start[call] >= SHORTEST_SLOW_NS)
    possible: Bools = waited & ~ends_too_late(end, returned) & ~(other_ended & (returned - end > OUTLASTS_COPY_NS))
    return possible


def streams_of_copies(context: RuleContext, calls: Ids) -> Ids:
    """Return the stream of the copy whose call directly precedes each call on its thread; -1 where there is none.

    Programs copy and wait for the copy; the evidence is next to the clock's bounds, which rest on the same pairs.
    """
    before = call_before(context.trace, calls)
    names = context.trace.names_starting_with(COPY_CALL)[context.trace.events.name[before]]
    return context.stream_of_launch(np.where(names, before, np.int32(-1)))


def stream_sync(context: RuleContext) -> EdgeTable:
    """Link the last work enqueued on the stream before the call, and its pending waits' work, to the call's return.

    Without a record of the profiler the stream is inferred: by the copy that the call follows, else by its return where
    it had to wait.
    """
    _count_records_without_call(context, context.sync_rows(SyncKind.STREAM_SYNC))
    calls = calls_without_records(context, STREAM_SYNC_CALL, SyncKind.STREAM_SYNC)
    hint, copied = context.last_launch_stream(calls), streams_of_copies(context, calls)
    inferred = infer_synced_streams(context, calls, context.start_position(calls), hint, copied)
    context.notes["stream_syncs_unresolved"] = len(calls) - len(inferred.call)
    unknown, _ = returned_with_work(context)
    context.notes["waits_of_unknown_calls"] = len(unknown)
    scopes = SyncScopes.join([inferred, unknown, polled_streams(context)])
    return edges_to_return(context, EdgeKind.STREAM_SYNC, SyncKind.STREAM_SYNC, scopes)


SHORTEST_UNKNOWN_NS = 50_000
"""Shorter calls do not show whether their name waits: their returns lie near too many ends of work."""
UNKNOWN_RETURN_NS = 30_000
"""So soon after the end of the work a waiting call returns (public traces: 90% of stream synchronizations in 23 µs)."""
WAITING_SHARE = 0.8
"""How many of a name's long calls, while work was outstanding, must have returned so."""
BY_CHANCE = 0.01
LEAST_LAG_SHARE, LEAST_SCATTER_NS = 0.02, 2_000
"""Calls that are all as long, as in a loop, are one coincidence: then their lag must be such a part of their length.

They differ if their lengths scatter more than the whole µs of old traces.
"""
FEWEST_IMPLICIT, FEWEST_VARIED = 3, 4
"""Fewer calls of a known name, which may wait or not, show nothing; fewer lengths do not show that they differ."""


@memoized
def returned_with_work(context: RuleContext) -> tuple[SyncScopes, SyncScopes]:
    """Find calls without a record that wait: again and again they return when the device has run out of work.

    Return those of unknown names, and those that are known to wait for a device if they wait.

        thread   [cudaFree.......................]
        stream    [work a][work b][work c       ]|       nothing that was enqueued before the call is left
                                                 |<->|   at most 30 µs, in calls of at least 50 µs

    New hardware has calls that no vocabulary knows, and calls such as ``cudaFree`` wait in some programs and not in
    others. A call that waits for nothing returns anywhere between its start and its end: the lags of a name's calls, as
    shares of the calls, must be so small together that chance makes them in 1 of 100 names at most (Fisher's method).
    Other calls of known runtimes are not guessed at. Where the profiler recorded that a call waited, it does. With the
    names of all calls hidden, 96 of 104 long synchronizations of public traces are found, and none of 2,700 other long
    calls.
    """
    events, streams = context.trace.events, context.queues.enqueue_streams()
    calls, implicit = _calls_that_may_wait(context)
    if not len(calls) or not len(streams):
        return SyncScopes.empty(), SyncScopes.empty()
    name, start, length = events.name[calls], events.start[calls], (events.end - events.start)[calls]
    place = context.start_position(calls)
    ended, stream = _last_end_of_device(context, calls, place)
    lag = events.end[calls] - ended
    follows = (lag >= -context.clock_noise[stream]) & (lag <= UNKNOWN_RETURN_NS)
    # Only long calls that found work to wait for say whether they do.
    shows = (length >= SHORTEST_UNKNOWN_NS) & (ended > start + SHORTEST_SLOW_NS)
    waiting = np.zeros(len(context.trace.names), np.bool_)
    for code in distinct(name[shows]).tolist():
        own = shows & (name == code)
        fewest = max(WAITING_SHARE * np.count_nonzero(own), FEWEST_IMPLICIT * int(implicit[code]))
        hits = own & follows
        waiting[code] = np.count_nonzero(hits) >= fewest and _is_no_chance(lag[hits].clip(min=0), length[hits])
    records = events.correlation[(events.kind == EventKind.SYNC_RECORD) & (events.correlation > 0)]
    is_recorded = np.isin(events.correlation[calls], records) & ~implicit[name]
    # What waits for a device does so however short it is: then there was nothing to wait for.
    believed = shows & follows & (waiting[name] | is_recorded)
    believed |= (waiting & implicit)[name] & (follows | (ended <= start)) & (ended > NO_WORK)
    found = SyncScopes(calls, stream, place, np.full(len(calls), EdgeRule.RETURNED_WITH_WORK, np.int8))
    return found.take(believed & ~implicit[name]), found.take(believed & implicit[name])


def _calls_that_may_wait(context: RuleContext) -> tuple[Ids, Bools]:
    """Return long calls of unknown names and all that may wait implicitly; and, by name, which ones are those."""
    events, names = context.trace.events, context.trace.names_starting_with
    known, waits, implicit = (
        names(one, EventKind.RUNTIME) for one in (KNOWN_RUNTIME_CALL, BLOCKING_CALL, IMPLICIT_WAIT_CALL)
    )
    is_long = events.end - events.start >= SHORTEST_UNKNOWN_NS
    chosen = (events.kind == EventKind.RUNTIME) & (implicit | ~(known | waits))[events.name]
    calls: Ids = np.flatnonzero(chosen & (is_long | implicit[events.name])).astype(np.int32)
    return calls[~is_among(calls, context.launches[0])], implicit


def _last_end_of_device(context: RuleContext, calls: Ids, place: Ints) -> tuple[Ints, Ids]:
    """Return when the last work enqueued before each place ended, and its stream: of the device that a thread uses."""
    streams, device = context.queues.enqueue_streams(), context.trace.lanes.device
    own = _device_stream(context, calls)
    ended, stream = np.full(len(calls), NO_WORK, np.int64), np.zeros(len(calls), np.int32)
    for part in batches(len(calls), len(streams)):
        ends = ends_before(context, streams, place[part])
        ends[(own[part] >= 0)[:, None] & (device[own[part]][:, None] != device[streams][None, :])] = NO_WORK
        ended[part], stream[part] = ends.max(axis=1), streams[ends.argmax(axis=1)]
    return ended, stream


def _is_no_chance(lag: Ints, length: Ints) -> bool:
    """Return whether calls of one name return so closely after the work's end that it is no chance."""
    shares, group = np.maximum(lag / length, 1e-6), np.zeros(len(lag), np.int32)
    usual = _scatter(group, length, 1)[0]
    varied = len(lag) >= FEWEST_VARIED and usual >= LEAST_SCATTER_NS and _scatter(group, lag, 1)[0] <= FOLLOWS * usual
    if not varied and np.median(shares) > LEAST_LAG_SHARE:
        return False
    # The probability that as many shares, anywhere between 0 and 1, have no larger product.
    log = float(-np.log(shares).sum())
    # It is the sum of log^k / k! · e^-log: of some hundred calls each factor alone is beyond floats.
    terms = np.cumsum(np.append(-log, np.log(log / np.arange(1, len(shares)))))
    return bool(np.logaddexp.reduce(terms) <= np.log(BY_CHANCE))


def _count_records_without_call(context: RuleContext, rows: SyncRows) -> None:
    context.notes["sync_records_without_call"] += int(np.count_nonzero(rows.call < 0))


def device_sync(context: RuleContext) -> EdgeTable:
    """Link the last work of each stream of the device, enqueued before the call, to the call's return.

    Without a record of the profiler the device is that of the thread's last launch, or the only one there is.
    """
    _count_records_without_call(context, context.sync_rows(SyncKind.DEVICE_SYNC))
    calls = calls_without_records(context, DEVICE_SYNC_CALL, SyncKind.DEVICE_SYNC)
    lane, rule = _device_stream(context, calls), np.full(len(calls), EdgeRule.EVERY_STREAM, np.int8)
    inferred = SyncScopes(calls, lane, context.start_position(calls), rule)
    _, implicit = returned_with_work(context)
    context.notes["implicit_waits"] = len(implicit)
    scopes = SyncScopes.join([inferred, implicit])
    return edges_to_return(context, EdgeKind.DEVICE_SYNC, SyncKind.DEVICE_SYNC, scopes)


def _held_by_devices(context: RuleContext, scopes: SyncScopes) -> CapturedWork:
    lanes, shown = context.trace.lanes, context.queues.lanes()
    query, stream = np.nonzero(_same_device(lanes.device, lanes.context, scopes.lane, shown))
    # By the streams on which work shows: a device waits for a graph's rows wherever they ran.
    activity = context.queues.last_on(shown[stream], scopes.place[query])
    some = np.flatnonzero(activity >= 0)
    # A stream that only waits has no work of its own, and yet it holds what its pending waits hold.
    streams = distinct(np.append(context.queues.enqueue_streams(), stream_waits(context).waits.lane))
    at, waiting = np.nonzero(_same_device(lanes.device, lanes.context, scopes.lane, streams))
    pending = stream_waits(context).pending_at(streams[waiting], scopes.place[at])
    shown_last = CapturedWork(query[some], activity[some], np.zeros(len(some), np.int8))
    return CapturedWork.join([shown_last, CapturedWork(at[pending.query], pending.activity, pending.rule)])


def _device_stream(context: RuleContext, calls: Ids) -> Ids:
    """Return any stream of each call's device; -1 where the device is unknown."""
    lane = context.last_launch_stream(calls)
    streams = context.queues.lanes()
    devices = distinct(context.trace.lanes.device[streams])
    return np.where((lane < 0) & (len(devices) == 1), streams[0], lane).astype(np.int32) if len(streams) else lane


def _same_device(
    device: Ints, context: Ints, scope: Ids, streams: Ids
) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """Compare each scope's device, and its context where both are known, with each stream's."""
    known = (scope >= 0)[:, None] & (device[scope][:, None] == device[streams][None, :])
    left, right = context[scope][:, None], context[streams][None, :]
    same: np.ndarray[tuple[int, int], np.dtype[np.bool_]] = known & ((left == right) | (left < 0) | (right < 0))
    return same


def event_sync(context: RuleContext) -> EdgeTable:
    """Link the work that the record captured to the return of the waiting call, or of the last query of a loop.

    The profiler writes the same record for cudaEventQuery, which returns at once. Without ids the record is the
    thread's last one before the call, and its stream is inferred from the call's return.
    """
    rows = context.sync_rows(SyncKind.EVENT_SYNC)
    is_query = _is_query(context, rows.call)
    nameless = rows.call[(rows.call >= 0) & ~is_query & ~_names_its_event(context, rows)]
    calls = calls_without_records(context, EVENT_SYNC_CALL, SyncKind.EVENT_SYNC)
    inferred = _infer_recorded_scopes(context, calls)
    _count_records_without_call(context, rows)
    context.notes["event_queries"] = int(np.count_nonzero(is_query))
    unresolved = np.append(nameless, calls)
    context.notes["event_syncs_unresolved"] = len(distinct(unresolved[~np.isin(unresolved, inferred.call)]))
    inferred = SyncScopes.join([inferred, polled_events(context)])
    return edges_to_return(context, EdgeKind.EVENT_SYNC, SyncKind.EVENT_SYNC, inferred)


def _infer_recorded_scopes(context: RuleContext, calls: Ids) -> SyncScopes:
    if not len(calls):
        return SyncScopes.empty()
    record = context.last_call_on_thread(EVENT_RECORD_CALL, calls)
    # Without a record on the thread the event holds at most what was enqueued before the call.
    moment = np.where(record >= 0, record, calls).astype(np.int32)
    found = infer_synced_streams(context, calls, context.start_position(moment), context.last_launch_stream(moment))
    other = _recorded_by_others(context, calls)
    # The thread's own record is meant where its work ended right before the return.
    item = context.queues.item_before(found.lane, found.place)
    lag = context.trace.events.end[found.call] - take_or(item_ends(context), item, otherwise=NO_WORK)
    own = found.call[(record[np.searchsorted(calls, found.call)] >= 0) & (lag >= 0) & (lag <= CLOSE_NS)]
    other = other.take(~np.isin(other.call, own))
    return SyncScopes.join([found.take(~np.isin(found.call, other.call)), other])


def _recorded_by_others(context: RuleContext, calls: Ids) -> SyncScopes:
    """Find the records of any thread whose work ended right before calls that wait for an event returned.

        thread A   [launch a] record e  [launch b] record f  [launch c]
        stream 7      [a ========][b ===========][c ======]
        thread B            [wait for e ..]         |            returns at most 10 µs after a has ended

    Of all calls of a thread that are long enough to show it nearly all must return so, and not by chance. Where several
    streams may be meant, it is the one whose work ended the thread's usual time before.
    """
    events = context.trace.events
    thread, length = events.lane[calls], (events.end - events.start)[calls]
    found = _last_recorded(context, calls, np.zeros(len(calls), np.int64))
    ended, group = found.lane >= 0, np.searchsorted(distinct(thread), thread).astype(np.int32)
    if not ended.any():
        return SyncScopes.empty()
    usual = medians_by(group[ended], found.lag[ended], int(group.max()) + 1)
    found = _last_recorded(context, calls, np.rint(usual).astype(np.int64)[group])
    chance, shows = np.minimum(found.count * CLOSE_NS / np.maximum(length, 1), 1), length >= 2 * CLOSE_NS
    believed = np.zeros(len(calls), np.bool_)
    for number in distinct(group[shows & ended]).tolist():
        own = shows & (group == number)
        believed[own] = ended[own] & ends_are_no_chance(ended[own], chance[own])
    rule = np.full(len(calls), EdgeRule.STREAM_BY_TIMING, np.int8)
    return SyncScopes(calls, found.lane, found.place, rule).take(believed)


@dataclass(frozen=True, eq=False)
class _RecordedEnds(Columns):
    """Of each call: the stream of work that ended right before its return (-1: none) and that a record held.

    ``place`` is that of the record, ``lag`` from the end to the return (ns), ``count`` how many such ends the call saw.
    """

    lane: Ids
    place: Ints
    lag: Ints
    count: Ints


def _last_recorded(context: RuleContext, calls: Ids, usual: Ints) -> _RecordedEnds:
    """Find what records before the calls held and what ended at most 10 µs before their return, best a usual time."""
    events, queues = context.trace.events, context.queues
    records = np.sort(context.start_position(context.calls_named(EVENT_RECORD_CALL)))
    start, returned, place = events.start[calls], events.end[calls], context.start_position(calls)
    lane, (best, moment, lags, count) = np.full(len(calls), -1, np.int32), np.zeros((4, len(calls)), np.int64)
    ends = item_ends(context)
    for stream in queues.enqueue_streams().tolist() if len(records) else ():
        item = queues.item_before(np.full(len(records), stream), records)
        first = np.flatnonzero(first_of_runs(item) & (item >= 0))
        end, recorded = np.maximum.accumulate(ends[item[first]]), records[first]
        at = np.minimum(np.searchsorted(end, returned, side="right"), np.searchsorted(recorded, place)) - 1
        lag = returned - take_or(end, at, otherwise=NO_WORK)
        count += (at + 1 - np.searchsorted(end, start, side="right")).clip(min=0)
        is_best = (lag <= CLOSE_NS) & (returned - lag > start) & ((lane < 0) | (np.abs(lag - usual) < best))
        lane[is_best], moment[is_best] = stream, recorded[at[is_best]]
        best[is_best], lags[is_best] = np.abs(lag - usual)[is_best], lag[is_best]
    return _RecordedEnds(lane, moment, lags, count)


def blocking_copy(context: RuleContext) -> EdgeTable:
    """Link the end of a copy to the return of its call where direction, host kind and timing say that it blocks."""
    copies, calls = blocking_copies(context)
    return EdgeTable.of_kind(
        EdgeKind.BLOCKING_COPY, end_point(copies), end_point(calls), EdgeRule.COPY_DIRECTION_AND_TIMING
    )


SPIN_BEGINS_NS = 10_000
"""The thread becomes idle within this time after the launch has returned, and stays so for longer."""

LAST_PART_NS = 100_000
"""It continues in the last part of the kernel, which writes for the host before it ends."""

RELEASED_NS = 10_000
"""With this habit, a host continues at most this long after the kernel: Python that leaves no row may come first."""

MIN_KERNEL_NS = 2 * LAST_PART_NS
"""Of a shorter kernel the last part says little: nearly any host would go on in it."""

MIN_SPINS, MIN_SPIN_SHARE = 3, 0.8
"""How many launches of a kernel a thread must have spun after, and which share of all its launches of that kernel."""

MIN_FOLLOWED, FOLLOWS = 8, 0.5
"""Of kernels of any length: how many, and how far the distances to their ends scatter against the silences themselves.

The silences of a host that does not wait scatter less than their distances to ends that they do not depend on: by
chance eight of them follow so closely in 0.2% of cases at most, and twelve in 0.01%.
"""

USUAL = 3
"""A silence counts as at most this multiple of the median: a single long one proves nothing of the others."""


@dataclass(frozen=True, eq=False)
class _HostSilences(Columns):
    """Times in which a thread is idle: its point before, its launching call before that, the host's next point."""

    before: Ids
    after: Ids
    call: Ids


def host_poll(context: RuleContext) -> EdgeTable:
    """Link the start of a kernel to the point at which the host, which spun until the kernel released it, continues.

        thread    [launch]__________________[next operator
        stream         [kernel~~~~~~~~~~~~~~~~~~]
                                            |---| at most 100 µs

    Where that thread stays idle, the host continues at the first call of another one that launches and was idle, too.
    Spinning leaves no row, and one such silence may be chance. It counts where a thread is idle like this after
    nearly all its launches of kernels of one name: communication libraries wait so for sizes that a kernel receives
    (DeepEP's dispatch). That these are no chance is shown by long kernels, or by silences that are longer and shorter
    as the kernels end later and earlier; then it is so for all kernels of that name.
    """
    events, times = context.trace.events, context.timeline.times
    kernels, calls = _lone_kernels(context)
    silences = _host_silences(context)
    silences = silences.take(is_among(silences.call, calls))
    silences = silences.take(times[silences.before] - events.end[silences.call] <= SPIN_BEGINS_NS)
    silences = _ended_by_other_threads(context, silences, kernels[np.searchsorted(calls, silences.call)])
    launch = np.searchsorted(calls, silences.call)
    kernel = kernels[launch]
    began, goes_on, end = times[silences.before], times[silences.after], events.end[kernel]
    spins = (goes_on > events.start[kernel]) & (goes_on > end - LAST_PART_NS)
    late = goes_on - end - context.clock_error[1][events.lane[kernel]]
    spins &= late <= RELEASED_NS
    silences, launch, kernel, late = silences.take(spins), launch[spins], kernel[spins], late[spins]
    silence, distance = (goes_on - began)[spins], (goes_on - end)[spins]
    # Of each kernel's launches by each thread: after how many does the thread spin?
    group = unique_rows(events.name[kernels], events.lane[calls])[1].astype(np.int32)
    groups = int(group.max(initial=-1)) + 1
    is_long = events.end[kernels] - events.start[kernels] >= MIN_KERNEL_NS
    # A silence that lasts beyond the kernel's end shows no habit: that may be a synchronization, or chance.
    spun, shows = group[launch], late <= 0
    in_long = shows & is_long[launch] & (silence >= LAST_PART_NS)
    is_habit = _is_habit(spun[in_long], group[is_long], groups, MIN_SPINS)
    is_habit |= _is_habit(spun[shows], group, groups, MIN_FOLLOWED) & _follows_ends(spun, silence, distance, groups)
    found = is_habit[spun]
    return EdgeTable.of_kind(
        EdgeKind.HOST_POLL, start_point(kernel[found]), silences.after[found], EdgeRule.SILENCE_UNTIL_KERNEL_END
    )


def _is_habit(spun: Ids, launched: Ids, groups: int, fewest: int) -> Bools:
    """Mark the groups in which a thread spins after nearly all launches, given the group of each of both."""
    count = np.bincount(spun, minlength=groups)
    habit: Bools = (count >= fewest) & (count >= MIN_SPIN_SHARE * np.bincount(launched, minlength=groups))
    return habit


def _follows_ends(group: Ids, silence: Ints, distance: Ints, groups: int) -> Bools:
    """Mark the groups whose silences are as long as the kernels take, and differ by more than a thread's own times."""
    usual = np.minimum(silence, USUAL * medians_by(group, silence, groups)[group])
    scatter, rest = _scatter(group, usual, groups), _scatter(group, distance, groups)
    follows: Bools = (scatter >= SPIN_BEGINS_NS) & (rest <= FOLLOWS * scatter)
    return follows


def _scatter(group: Ids, values: Ints | Floats, groups: int) -> Floats:
    """Return how far the values of each group are from their median in the mean."""
    distance = np.abs(values - medians_by(group, values, groups)[group])
    mean: Floats = np.bincount(group, distance, groups) / np.maximum(np.bincount(group, minlength=groups), 1)
    return mean


def _lone_kernels(context: RuleContext) -> tuple[Ids, Ids]:
    """Return the kernels whose calls launched nothing else, and these calls, by call."""
    events = context.trace.events
    of_call, first, count = np.unique(context.launch_call, return_index=True, return_counts=True)
    kernel = context.activities[first]
    chosen = (of_call >= 0) & (count == 1) & (events.kind[kernel] == EventKind.KERNEL)
    return kernel[chosen], of_call[chosen]


def _host_silences(context: RuleContext) -> _HostSilences:
    """Find where threads are idle, outside runtime calls, for as long as a host that spins."""
    calls, kind = context.timeline.calls, context.trace.events.kind
    within_a_lane = ~first_of_runs(context.trace.events.lane[calls.event])[1:]
    silent = np.flatnonzero(within_a_lane & (np.diff(calls.time) > SPIN_BEGINS_NS))
    # A long runtime call waits inside the driver, which other rules explain; a host that spins is in none.
    silent = silent[(calls.owner[silent] < 0) | (kind[calls.owner[silent]] != EventKind.RUNTIME)]
    before, after = calls.points[silent], calls.points[silent + 1]
    launched = context.neighbouring_point(end_point(context.launches[0]), after, after=False)
    return _HostSilences(before, after, event_of(launched))


def _ended_by_other_threads(context: RuleContext, silences: _HostSilences, kernel: Ids) -> _HostSilences:
    """Let silences that outlast their kernel end at the host's next point, where that is another launching thread's."""
    nesting, events, times = context.timeline.calls, context.trace.events, context.timeline.times
    released = events.end[kernel] + context.clock_error[1][events.lane[kernel]] + RELEASED_NS
    which = np.flatnonzero(times[silences.after] > released)
    launching = np.zeros(len(context.trace.lanes.labels), np.bool_)
    launching[events.lane[context.launches[0]]] = True
    if not len(which) or np.count_nonzero(launching) < 2:
        return silences
    points = np.flatnonzero(launching[events.lane[nesting.event]])
    points = points[np.argsort(nesting.time[points], kind="stable")]
    at = np.searchsorted(nesting.time[points], times[silences.before[which]], side="right")
    # The thread itself goes on later: there is a next point.
    place = points[at]
    # A thread that was inside a call waited in the driver; one without any point before begins then.
    around = np.where(place > nesting.first[events.lane[nesting.event[place]]], nesting.owner[place - 1], -1)
    waited = take_or(events.kind, around, otherwise=EventKind.CPU_OP) == EventKind.RUNTIME
    ends = (nesting.time[place] <= released[which]) & ~waited
    after = silences.after.copy()
    after[which[ends]] = nesting.points[place[ends]]
    return replace(silences, after=after)
