"""What the synchronising rules share: edges from what streams hold at a moment to the return of a call."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, looked_up
from hta_graph.dependencies.context import LinkContext
from hta_graph.dependencies.stream_choice import NO_WORK, nearest_stream, table_rows, tail_ends
from hta_graph.dependencies.stream_waits import Captured
from hta_graph.dependencies.sync_records import SyncRows
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, Codes, EdgeKind, Ids, Ints, Rule

__all__ = ["Scopes", "calls_to_infer", "edges_to_return", "recorded_scopes", "streams_by_timing"]

RETURN_NS = 100_000
"""A blocking call returns within this time after what it waited for (public traces: median 8 µs, 90 % below 75 µs)."""


@dataclass(frozen=True, eq=False)
class Scopes(Columns):
    """``call`` returned when ``lane`` had finished what it held at ``place``; by ``rule``."""

    call: Ids
    lane: Ids
    place: Ints
    rule: Codes


def recorded_scopes(context: LinkContext, call: Ids, lane: Ids, place: Ints) -> Scopes:
    """Take the profiler's word; rows whose call is not in the file are counted and left out."""
    known = call >= 0
    context.notes["sync_records_without_call"] += int(np.count_nonzero(~known))
    return Scopes(call[known], lane[known], place[known], np.zeros(np.count_nonzero(known), np.int8))


def calls_to_infer(context: LinkContext, pattern: re.Pattern[str], rows: SyncRows) -> Ids:
    """Return the calls whose scope must be inferred: all of them, where the file has no record of their kind."""
    return context.calls_named(pattern) if not len(rows.call) else np.empty(0, np.int32)


def edges_to_return(context: LinkContext, kind: EdgeKind, scopes: Scopes, held: Captured) -> EdgeTable:
    """Link what the scopes hold to the return of their calls, each pair once."""
    events = context.trace.events
    call = scopes.call[held.query]
    activity = context.queues.not_after(held.activity, events.end[call] + CLOCK_FAULT_LIMIT_NS)
    some = activity >= 0
    source, target = end_point(activity[some]), end_point(call[some])
    scope_rule = scopes.rule[held.query]
    rule = np.where(scope_rule == Rule.RECORDED, held.rule, scope_rule)[some]
    return EdgeTable.distinct(kind, source, target, rule)


def streams_by_timing(context: LinkContext, call: Ids, place: Ints, hint: Ids) -> Scopes:
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
        return Scopes(call[:0], hint[:0], place[:0], np.empty(0, np.int8))
    parts = table_rows(len(call), len(streams))
    return Scopes.join(_chosen_streams(context, call[of], place[of], hint[of]) for of in parts)


def _chosen_streams(context: LinkContext, call: Ids, place: Ints, hint: Ids) -> Scopes:
    streams, events = context.queues.enqueue_streams(), context.trace.events
    ends = tail_ends(context, streams, place)
    chosen, rule = nearest_stream(ends, events.end[call], events.start[call], RETURN_NS)
    # By timing first; then where only one stream has work at all; then where the thread launched last.
    possible = (ends > NO_WORK) & (ends <= events.end[call][:, None])
    single = (chosen < 0) & ((ends > NO_WORK).sum(axis=1) == 1) & (possible.sum(axis=1) == 1)
    chosen, rule = np.where(single, possible.argmax(axis=1), chosen), np.where(single, Rule.ONLY_OTHER_STREAM, rule)
    at = looked_up(hint, streams)
    by_hint = (chosen < 0) & (at >= 0) & possible[np.arange(len(at)), at]
    chosen, rule = np.where(by_hint, at, chosen), np.where(by_hint, Rule.STREAM_OF_LAST_LAUNCH, rule)
    found = np.flatnonzero(chosen >= 0)
    return Scopes(call[found], streams[chosen[found]], place[found], rule[found].astype(np.int8))
