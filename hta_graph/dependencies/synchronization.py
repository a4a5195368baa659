"""What the synchronising rules share: edges from what streams hold at a moment to the return of a call."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, find_sorted
from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.stream_choice import NO_WORK, batches, ends_before, nearest_stream
from hta_graph.dependencies.stream_waits import CapturedWork
from hta_graph.dependencies.sync_records import SyncRows
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Codes, EdgeKind, Ids, Ints, Rule

__all__ = ["SyncScopes", "calls_without_records", "edges_to_return", "recorded_scopes", "infer_synced_streams"]

RETURN_LATENCY_NS = 100_000
"""A blocking call returns within this time after what it waited for (public traces: median 8 µs, 90 % below 75 µs)."""


@dataclass(frozen=True, eq=False)
class SyncScopes(Columns):
    """``call`` returned when ``lane`` had finished what it held at ``place``; by ``rule``."""

    call: Ids
    lane: Ids
    place: Ints
    rule: Codes


def recorded_scopes(context: RuleContext, call: Ids, lane: Ids, place: Ints) -> SyncScopes:
    """Take the profiler's word; rows whose call is not in the file are counted and left out."""
    known = call >= 0
    context.notes["sync_records_without_call"] += int(np.count_nonzero(~known))
    return SyncScopes(call[known], lane[known], place[known], np.zeros(np.count_nonzero(known), np.int8))


def calls_without_records(context: RuleContext, pattern: re.Pattern[str], rows: SyncRows) -> Ids:
    """Return the calls whose scope must be inferred: all of them, where the file has no record of their kind."""
    return context.calls_named(pattern) if not len(rows.call) else np.empty(0, np.int32)


def edges_to_return(context: RuleContext, kind: EdgeKind, scopes: SyncScopes, held: CapturedWork) -> EdgeTable:
    """Link what the scopes hold to the return of their calls, each pair once."""
    events = context.trace.events
    call = scopes.call[held.query]
    activity = context.queues.not_after(held.activity, events.end[call] + CLOCK_FAULT_LIMIT_NS)
    some = activity >= 0
    source, target = end_point(activity[some]), end_point(call[some])
    scope_rule = scopes.rule[held.query]
    rule = np.where(scope_rule == Rule.RECORDED, held.rule, scope_rule)[some]
    return EdgeTable.distinct(kind, source, target, rule)


def infer_synced_streams(context: RuleContext, call: Ids, place: Ints, hint: Ids) -> SyncScopes:
    """Choose the stream that each call waited for: the one whose held work ended just before the return.

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
    parts = batches(len(call), len(streams))
    return SyncScopes.join(_synced_streams(context, call[of], place[of], hint[of]) for of in parts)


def _synced_streams(context: RuleContext, call: Ids, place: Ints, hint: Ids) -> SyncScopes:
    streams, events = context.queues.enqueue_streams(), context.trace.events
    ends = ends_before(context, streams, place)
    chosen, rule = nearest_stream(ends, events.end[call], events.start[call], RETURN_LATENCY_NS)
    # By timing first; then where only one stream has work at all; then where the thread launched last.
    possible = (ends > NO_WORK) & (ends <= events.end[call][:, None])
    single = (chosen < 0) & ((ends > NO_WORK).sum(axis=1) == 1) & (possible.sum(axis=1) == 1)
    chosen, rule = np.where(single, possible.argmax(axis=1), chosen), np.where(single, Rule.ONLY_OTHER_STREAM, rule)
    at = find_sorted(hint, streams)
    by_hint = (chosen < 0) & (at >= 0) & possible[np.arange(len(at)), at]
    chosen, rule = np.where(by_hint, at, chosen), np.where(by_hint, Rule.STREAM_OF_LAST_LAUNCH, rule)
    found = np.flatnonzero(chosen >= 0)
    return SyncScopes(call[found], streams[chosen[found]], place[found], rule[found].astype(np.int8))
