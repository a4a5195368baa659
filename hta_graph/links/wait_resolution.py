"""Which record does a stream wait refer to? From the profiler's record where it says so, else by rules."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from hta_graph.links.records import latest_records
from hta_graph.links.scopes import item_ends, nearest_stream, tail_ends
from hta_graph.links.sync_records import SyncKind
from hta_graph.links.waits import Waits
from hta_graph.model import Bools, Codes, Ids, Ints, Rule
from hta_graph.trace.vocabulary import STREAM_WAIT_CALL

if TYPE_CHECKING:
    from hta_graph.links.context import LinkContext

__all__ = ["resolve_waits"]

IMPOSSIBLE = -2
"""Marks a stream whose work ended after the work that would have waited for it began."""

CLOSE_NS = 10_000
"""Work that was held back starts within this time after what it waited for."""


def resolve_waits(context: LinkContext) -> Waits:
    """Find the waiting stream, the recorded stream and the moment of the record of every stream wait that can be known.

    Recorded ids count where the record was issued before the wait (a later one is of a reused event, kineto#1339). The
    others are inferred: rows of a file in which none has ids (CUDA 12.9 and later; elsewhere such an event was never
    recorded), and calls without a row where the file has no such rows or, as the profiler drops these (kineto#904),
    where the waiting stream had no work yet.
    """
    rows = context.sync_rows(SyncKind.STREAM_WAIT)
    place, record_place = context.start_position(rows.call), context.start_position(rows.record_call)
    resolved = (rows.call >= 0) & (rows.record_call >= 0) & rows.names_stream & (record_place < place)
    known = resolved & (rows.record_lane >= 0)
    recorded = Waits(rows.lane, place, rows.record_lane, record_place, np.zeros(len(place), np.int8)).take(
        np.flatnonzero(known)
    )
    open_rows = np.flatnonzero(~resolved & (rows.call >= 0) & (not context.names_events))
    calls, lane = _calls_without_rows(context, rows.call)
    inferred = _infer(context, np.append(rows.call[open_rows], calls), np.append(rows.lane[open_rows], lane))
    context.notes["event_waits"] = len(rows.call) + len(calls)
    context.notes["event_waits_for_nothing"] = int(np.count_nonzero(resolved & ~known))
    context.notes["event_waits_unresolved"] = int(np.count_nonzero(~resolved)) + len(calls) - len(inferred.lane)
    return Waits(*(np.concatenate([getattr(recorded, f), getattr(inferred, f)]) for f in Waits.__dataclass_fields__))


def _calls_without_rows(context: LinkContext, with_row: Ids) -> tuple[Ids, Ids]:
    """Return the wait calls to infer and their waiting streams: those of each thread's next launch."""
    calls = np.setdiff1d(context.calls_named(STREAM_WAIT_CALL), with_row).astype(np.int32)
    lane = context.next_launch_stream(calls)
    if len(with_row):
        first = context.queues.item_before(lane, context.start_position(calls)) < 0
        calls, lane = calls[first], lane[first]
    return calls[lane >= 0], lane[lane >= 0]


def _any_moment(
    context: LinkContext, streams: Ids, lane: Ids, place: Ints, start: Ints, since: Ints
) -> tuple[Ints, Ints, Codes]:
    """Try all work enqueued before a wait: an event may have been recorded long before, with more work behind it."""
    queues = context.queues
    ends = np.full((len(place), len(streams)), -1, np.int64)
    moments = np.zeros_like(ends)
    item_end = item_ends(context)
    for column, stream in enumerate(streams.tolist()):
        items = np.flatnonzero(queues.item_lane == stream)
        latest = np.maximum.accumulate(item_end[items])
        at = np.searchsorted(latest, start, side="right") - 1
        item = items[at.clip(min=0)]
        known = (at >= 0) & (queues.item_place[item] < place) & (lane != stream)
        ends[:, column] = np.where(known, item_end[item], -1)
        moments[:, column] = queues.item_place[item] + 1
    chosen, rule = nearest_stream(ends, start, since, CLOSE_NS)
    moment = moments[np.arange(len(place)), chosen] if len(streams) else place
    return moment, chosen, rule


@dataclass(frozen=True)
class _Held:
    """Work that a wait held back: its start, its launch, and the end of what its own stream did before (ns)."""

    start: Ints
    launched: Ints
    ready: Ints
    exists: Bools


def _infer(context: LinkContext, calls: Ids, lane: Ids) -> Waits:
    """Choose the recorded stream: the one whose last work before the record ends just before the held-back work starts.

    The record is the thread's latest, or another thread's; where neither explains the start, the moment of the wait
    itself is tried, for all that was enqueued until then, and at last any earlier moment.
    """
    place = context.start_position(calls)
    record = latest_records(context, calls, lane)
    streams, held = context.queues.homes(), _held_back(context, lane, place)
    since = np.maximum(held.launched, held.ready)
    choices = []
    for moment in (np.where(record >= 0, context.start_position(record), place), place):
        ends = tail_ends(context, streams, moment)
        ends[streams[None, :] == lane[:, None]] = -1
        choices.append((moment, *nearest_stream(ends, held.start, since, CLOSE_NS)))
    choices.append(_any_moment(context, streams, lane, place, held.start, since))
    moment, chosen, rule = choices[0]
    for later, by_timing, timing_rule in choices[1:]:
        better = (chosen < 0) & (by_timing >= 0)
        moment, chosen = np.where(better, later, moment), np.where(better, by_timing, chosen)
        rule = np.where(better, timing_rule, rule).astype(np.int8)
    ends = tail_ends(context, streams, choices[0][0])
    ends[streams[None, :] == lane[:, None]] = -1
    ends[ends > held.start[:, None]] = IMPOSSIBLE
    chosen, rule = _without_timing(context, chosen, rule, ends, record, calls, streams)
    found = np.flatnonzero(held.exists & (chosen >= 0))
    waits = Waits(lane, place, streams[chosen] if len(streams) else chosen.astype(np.int32), moment, rule)
    return waits.take(found)


def _held_back(context: LinkContext, lane: Ids, place: Ints) -> _Held:
    queues, events = context.queues, context.trace.events
    item = queues.item_after(lane, place)
    if not len(queues.item_lane):
        none = np.zeros(len(lane), np.int64)
        return _Held(none, none, none, none > 0)
    starts = np.minimum.reduceat(events.start[queues.heads.members], queues.heads.first[:-1])[item]
    launch_place = queues.item_place[item]
    launched = context.timeline.times[context.timeline.order[launch_place.clip(min=0)]]
    ready = tail_ends(context, queues.homes(), place)
    own = queues.homes()[None, :] == lane[:, None]
    return _Held(starts, launched, np.where(own, ready, -1).max(axis=1), item >= 0)


def _without_timing(
    context: LinkContext, chosen: Ints, rule: Codes, ends: Ints, record: Ids, calls: Ids, streams: Ids
) -> tuple[Ints, Codes]:
    """Where timing does not tell: the only other stream with work, else the stream of the thread's last launch."""
    candidates = ends >= 0
    single = (chosen < 0) & ((ends != -1).sum(axis=1) == 1) & candidates.any(axis=1)
    chosen = np.where(single, candidates.argmax(axis=1) if len(streams) else -1, chosen)
    rule = np.where(single, Rule.ONLY_OTHER_STREAM, rule).astype(np.int8)
    last = context.last_launch_stream(np.where(record >= 0, record, calls).astype(np.int32))
    at = np.searchsorted(streams, last).clip(max=max(len(streams) - 1, 0))
    usable = (chosen < 0) & (last >= 0)
    if len(streams):
        usable &= (streams[at] == last) & candidates[np.arange(len(at)), at]
    return np.where(usable, at, chosen), np.where(usable, Rule.STREAM_OF_LAST_LAUNCH, rule).astype(np.int8)
