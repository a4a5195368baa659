"""Stream waits without a record, inferred if a coincidence is improbable (``docs/reading/inferred_waits.md``).

           since                           start
stream 7    work] ......... hole .......... [delayed       enqueued in time, nothing known delays it
stream 20      [nccl ~~~]  [nccl ~~~~~~~]<lag>             it waited for the last one: 2 × lag / hole is small
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, distinct, find_sorted, last_of_runs, pair_key, take_or
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.wait_resolution import NO_WORK, item_ends, unresolved_wait_calls
from hta_graph.graph.edges import EdgeTable, WaitCalls
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.significance import LEAST_LAG_NS, RELEASED_WITHIN_NS, is_improbable
from hta_graph.graph.timeline import launched_before_recording
from hta_graph.model import Bools, EdgeKind, EdgeRule, EventKind, Ids, Ints
from hta_graph.trace.profiler_names import GRAPH_LAUNCH_CALL

ONCE, AS_USUAL = 100, 20
"""At most one hole in this many ends like this by chance; more where the streams are known to wait with this lag."""

MIN_LAGS = 3
"""This many waits of one stream for another show their usual lag."""

NO_ROOM_NS = 100_000
"""Work may wait so much longer where its stream is free but the device is full: after what was launched last."""

FITS, AGREES = 3, 2
"""Up to this factor a lag does not contradict the usual one, or agrees with it."""

NO_LAG = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class _Delayed(Columns):
    """Work that stood still ``since`` (ns) for no known cause.

    What it waited for was launched before the ``deadline`` (a correlation): before the wait's ``call``; where that is
    not in the file (-1) before the work itself.
    """

    work: Ids
    since: Ints
    call: Ids
    deadline: Ints


@dataclass(frozen=True, eq=False)
class _ReleasingEnds(Columns):
    """The last end of another stream in each hole: whose (-1: none may be meant), how long before the hole's end.

    ``count`` ends might have been near by chance; ``is_latest`` marks what was launched last before the wait.
    """

    source: Ids
    lag: Ints
    count: Ints
    is_latest: Bools


def inferred_waits(context: RuleContext, known: EdgeTable) -> tuple[EdgeTable, WaitCalls]:
    """Link work that stood still to another stream's work that ended just before, given the waits that are known.

    Returns the edges and the calls behind them, where these are in the file.
    """
    since = _last_known_causes(context, known)
    held = _delayed_work(context, since)
    if not len(held):
        return EdgeTable.empty(), WaitCalls.empty()
    release = _releasing_ends(context, held)
    events = context.trace.events
    hole = events.start[held.work] - held.since
    pair = pair_key(take_or(events.lane, release.source), events.lane[held.work])
    pairs, lags = _binding_lags(context, known, since)
    usual = _usual_lags(pair, pairs, lags)
    sure = is_improbable(release.count, release.lag, hole, ONCE) & ((usual < 0) | _within(FITS, release.lag, usual))
    sure |= release.is_latest & is_improbable(release.count, release.lag, hole, ONCE, NO_ROOM_NS)
    # What was just believed shows a usual lag too.
    usual = _usual_lags(pair, np.append(pairs, pair[sure]), np.append(lags, release.lag[sure]))
    sure |= is_improbable(release.count, release.lag, hole, AS_USUAL) & _within(AGREES, release.lag, usual)
    return _wait_edges(context, held.take(sure), release.take(sure))


def _wait_edges(context: RuleContext, held: _Delayed, release: _ReleasingEnds) -> tuple[EdgeTable, WaitCalls]:
    """Make the edges; a wait call that is now understood is no longer unresolved."""
    calls = WaitCalls(release.source, held.work, held.call).take(held.call >= 0)
    context.notes["event_waits_unresolved"] -= len(distinct(calls.call))
    source, target = end_point(release.source), start_point(held.work)
    return EdgeTable.of_kind(EdgeKind.EVENT_WAIT, source, target, EdgeRule.END_OF_OTHER_STREAM), calls


def _last_known_causes(context: RuleContext, known: EdgeTable) -> Ints:
    """Return for each activity (by stream, then start) when the last known cause let it start; ``NO_WORK`` if none."""
    queues, events = context.queues, context.trace.events
    since = np.full(len(events), NO_WORK, np.int64)
    follows = np.flatnonzero(~queues.is_stream_start())
    since[queues.rows[follows]] = events.end[queues.rows[queues.latest[follows - 1]]]
    launched = context.launch_call >= 0
    work, call = context.activities[launched], context.launch_call[launched]
    since[work] = np.maximum(since[work], events.end[call])
    np.maximum.at(since, event_of(known.target), context.timeline.times[known.source])
    return since


def _delayed_work(context: RuleContext, since: Ints) -> _Delayed:
    """Find the work that was enqueued in time and yet stood still for long; nodes of graphs wait for each other."""
    events = context.trace.events
    work = context.activities
    long = events.start[work] - since[work] >= AS_USUAL * LEAST_LAG_NS
    work, call = work[long], context.launch_call[long]
    held = _Delayed.join([
        _launched_before_recording(context, work[call < 0], since),
        _launched_after_wait(context, work[call >= 0], call[call >= 0], since),
    ])  # fmt: skip
    return held.take(~_is_node(context, held.work)) if len(held) else held


def _is_node(context: RuleContext, work: Ids) -> Bools:
    """Mark work that was launched together with other work, or by a graph's launch."""
    numbers = context.trace.events.correlation
    launched = np.sort(numbers[context.activities])
    together = np.searchsorted(launched, numbers[work], side="right") - np.searchsorted(launched, numbers[work]) > 1
    launches_graph = context.trace.matching_names(GRAPH_LAUNCH_CALL)[context.trace.events.name]
    node: Bools = together | take_or(launches_graph, context.calls_of(numbers[work]), otherwise=False)
    return node


def _launched_before_recording(context: RuleContext, work: Ids, since: Ints) -> _Delayed:
    """Take what was launched before the recording, and so before the first call in the file."""
    events = context.trace.events
    work = work[launched_before_recording(events, work)] if len(work) else work
    if not len(work):
        return _Delayed.empty()
    calls = events.start[(events.kind == EventKind.RUNTIME) & (events.correlation > 0)]
    begins = calls.min(initial=NO_LAG)
    return _Delayed(work, np.maximum(since[work], begins), np.full(len(work), -1, np.int32), events.correlation[work])


def _launched_after_wait(context: RuleContext, work: Ids, launch: Ids, since: Ints) -> _Delayed:
    """Take what was launched after a wait whose waiting stream is unknown: later than its stream's earlier work."""
    queues, events = context.queues, context.trace.events
    waits = unresolved_wait_calls(context)
    if not len(waits) or not len(work):
        return _Delayed.empty()
    place, wait_place = context.start_position(launch), context.start_position(waits)
    item = queues.item_before(events.lane[work], place)
    earlier = np.where(item >= 0, queues.item_place[item], -1)
    at = np.searchsorted(wait_place, place) - 1
    free = np.maximum(since[work], np.where(item >= 0, item_ends(context)[item], NO_WORK))
    rows = np.flatnonzero((at >= 0) & (take_or(wait_place, at) > earlier))
    call = waits[at[rows]]
    return _Delayed(work[rows], free[rows], call, events.correlation[call])


def _releasing_ends(context: RuleContext, held: _Delayed) -> _ReleasingEnds:
    """Find the last end of another stream of the device in each hole; none where two streams may be meant."""
    queues, events = context.queues, context.trace.events
    start, hole = events.start[held.work], events.start[held.work] - held.since
    device = context.trace.lanes.device
    lanes = queues.lanes()
    source = np.full((len(held), len(lanes)), -1, np.int32)
    count, is_latest = np.zeros(len(held), np.int64), np.zeros(source.shape, np.bool_)
    for column, lane in enumerate(lanes.tolist()):
        other = (events.lane[held.work] != lane) & (device[events.lane[held.work]] == device[lane])
        found, ends, is_latest[:, column] = _last_end(context, lane, held, start)
        source[:, column] = np.where(other & _may_release(context, found, held.work), found, -1)
        count += np.where(other, ends, 0)
    lag = np.where(source >= 0, start[:, None] - take_or(events.end, source), NO_LAG)
    nearest = np.argmin(lag, axis=1)
    several = is_improbable(count[:, None], lag, hole[:, None], AS_USUAL).sum(axis=1) > 1
    each = np.arange(len(held))
    return _ReleasingEnds(
        np.where(several, -1, source[each, nearest]).astype(np.int32),
        np.where(several, NO_LAG, lag[each, nearest]),
        count,
        is_latest[each, nearest],
    )


def _last_end(context: RuleContext, lane: int, held: _Delayed, start: Ints) -> tuple[Ids, Ints, Bools]:
    """Return what ended last on a stream before each start and was launched before the deadline.

    Besides how many ends might have been near, and whether it is what was launched last before the deadline.
    """
    queues, events = context.queues, context.trace.events
    rows = np.flatnonzero(queues.lane == lane)
    latest, own = queues.rows[queues.latest[rows]], queues.rows[rows]
    # Running maxima: a stream's work may overlap.
    ends, numbers = events.end[latest], np.maximum.accumulate(events.correlation[own])
    ended, launched = np.searchsorted(ends, start, side="right"), np.searchsorted(numbers, held.deadline)
    at = np.minimum(ended, launched) - 1
    # An event captures whole graphs, never some of their nodes.
    whole = take_or(last_of_runs(events.correlation[own]) | (events.correlation[own] <= 0), at, otherwise=False)
    in_hole = (at + 1 - np.searchsorted(ends, held.since, side="right")).clip(min=0)
    # An event usually captures what was launched last before the wait; any other end is one of many that may be near.
    is_latest = launched <= ended
    return np.where(whole, take_or(latest, at), -1), np.where(is_latest, np.minimum(in_hole, 1), in_hole), is_latest


def _may_release(context: RuleContext, source: Ids, work: Ids) -> Bools:
    """Return whether work may wait for an event behind other work; two copies may just share an engine."""
    kind = context.trace.events.kind
    copies: Bools = (take_or(kind, source) == EventKind.MEMCPY) & (kind[work] == EventKind.MEMCPY)
    return ~copies


def _binding_lags(context: RuleContext, known: EdgeTable, since: Ints) -> tuple[Ints, Ints]:
    """Return the pairs of streams of the known waits that held their work back last, and their lags (ns)."""
    times, lane = context.timeline.times, context.trace.events.lane
    lag = times[known.target] - times[known.source]
    binds = (times[known.source] == since[event_of(known.target)]) & (lag >= 0) & (lag <= RELEASED_WITHIN_NS)
    pairs = pair_key(lane[event_of(known.source)], lane[event_of(known.target)])
    return pairs[binds], lag[binds]


def _usual_lags(pair: Ints, pairs: Ints, lags: Ints) -> Ints:
    """Return the median lag (ns) of each pair of streams; -1 where few are known."""
    asked = distinct(pair)
    usual = np.full(len(asked), -1, np.int64)
    for at, number in enumerate(asked.tolist()):
        own = lags[pairs == number]
        usual[at] = int(np.median(own)) if len(own) >= MIN_LAGS else -1
    found: Ints = usual[find_sorted(pair, asked)]
    return found


def _within(factor: int, lag: Ints, usual: Ints) -> Bools:
    """Return whether lags are at most a factor longer or shorter than the usual ones (-1: unknown)."""
    own, common = np.maximum(lag, LEAST_LAG_NS), np.maximum(usual, LEAST_LAG_NS)
    near: Bools = (usual >= 0) & (own <= factor * common) & (common <= factor * own)
    return near
