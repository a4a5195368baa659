"""Hosts that wait by asking: queries in a loop, of which the last comes after the end of the work that they ask for.

```
thread    [launch][record] [q] [q] [q] [q] [q] [q] [next operator
stream           [kernel ======================]
                                           |<-->|   the end lies between the last but one query and the last one
```
"""

from __future__ import annotations

import math
import re

import numpy as np

from hta_graph.base.arrays import distinct, find_sorted, first_of_runs, last_of_runs, take_or
from hta_graph.dependencies.context import RuleContext, SyncKind
from hta_graph.dependencies.stream_queues import SyncScopes
from hta_graph.dependencies.wait_resolution import CHANCE, CLOSE_NS, NO_WORK, batches, ends_before, nearest_stream
from hta_graph.model import Bools, EdgeRule, EventKind, Floats, Ids, Ints
from hta_graph.trace.profiler_names import EVENT_QUERY_CALL, EVENT_RECORD_CALL, POLLING_CALL, STREAM_QUERY_CALL

FEWEST_QUERIES = 3
"""Two queries may ask for two things."""

RECORDS_BEFORE = 3
"""The event is one of this number that the thread recorded last: a loop may ask for that of the iteration before."""

USUALLY = 0.8
"""This part of a thread's loops that could show it must end behind work."""


def polled_events(context: RuleContext) -> SyncScopes:
    """Return what threads waited for in loops that query events: what one of the last records holds."""
    loops = _Loops(context, EVENT_QUERY_CALL)
    if not len(loops.last):
        nowhere = context.start_position(loops.last)
        return loops.waits([nowhere], nowhere)
    record, places = loops.first, list[Ints]()
    for _ in range(RECORDS_BEFORE):
        record = context.last_call_on_thread(EVENT_RECORD_CALL, record)
        # Without a record on the thread the event holds at most what was enqueued before the first query.
        places.append(context.start_position(np.where((record < 0) & (not places), loops.first, record)))
    rows = context.sync_rows(SyncKind.EVENT_SYNC)
    order = np.argsort(rows.call, kind="stable")
    at = find_sorted(loops.last, rows.call[order])
    named, lane = (take_or(column[order], at) for column in (rows.record_call, rows.record_lane))
    known = (lane >= 0) & (named >= 0) & (context.start_position(named) < context.start_position(loops.first))
    # The profiler's word for the last query says which event is meant.
    places = [np.where(known, context.start_position(named), place) for place in places]
    return loops.waits(places, np.where(known, lane, -1))


def polled_streams(context: RuleContext) -> SyncScopes:
    """Return what threads waited for in loops that query a stream: all that it holds."""
    loops = _Loops(context, STREAM_QUERY_CALL)
    return loops.waits([context.start_position(loops.last)], np.full(len(loops.last), -1))


class _Loops:
    """Queries that follow each other on a thread that then continues; of each loop the first, last and last but one.

    A thread that neither launches nor runs operators is a watchdog: nothing waits for what it learns.
    """

    def __init__(self, context: RuleContext, pattern: re.Pattern[str]) -> None:
        self._context = context
        events, calls, trace = context.trace.events, context.timeline.calls, context.trace
        names = [trace.names_starting_with(one, EventKind.RUNTIME)[events.name] for one in (POLLING_CALL, pattern)]
        polls, queries = (named & (events.kind == EventKind.RUNTIME) for named in names)
        begins = calls.run_starts(polls)
        query = np.flatnonzero(queries[calls.event] & ~calls.is_end)
        loop = begins[query]
        first, last = np.flatnonzero(first_of_runs(loop)), np.flatnonzero(last_of_runs(loop))
        works = distinct(np.append(events.lane[events.kind == EventKind.CPU_OP], events.lane[context.launches[0]]))
        lane = events.lane[calls.event[query[last]]]
        goes_on = np.searchsorted(begins, loop[last], side="right") < calls.first[lane + 1]
        chosen = goes_on & (last - first + 1 >= FEWEST_QUERIES) & np.isin(lane, works)
        self.first, self.before, self.last = (
            calls.event[query[at[chosen]]] for at in (first, np.maximum(last - 1, 0), last)
        )

    def waits(self, places: list[Ints], named: Ints) -> SyncScopes:
        """Return the loops that waited, given places at which what they asked for was enqueued, and its stream or -1.

        Chance must be improbable: a loop that asks for nothing ends anywhere. The work of the places that had not
        ended when a loop began ends in its last period with a probability of period over length, for each of it. Of
        all loops of a thread that are long enough to show it nearly all must end so, and not by chance.
        """
        streams = self._context.queues.enqueue_streams()
        width = len(streams) * len(places)
        parts = [
            self._nearest(of, streams, [place[of] for place in places], named[of])
            for of in batches(len(self.last), width)
        ]
        column, chance = (np.concatenate(side) for side in zip(*parts, strict=True)) if parts else (named, named)
        believed = np.zeros(len(self.last), np.bool_)
        lane, shows = self._context.trace.events.lane[self.last], chance <= 1 / 2
        for thread in distinct(lane[shows]).tolist():
            own = shows & (lane == thread)
            believed[own] = (column[own] >= 0) & ends_are_no_chance(column[own] >= 0, chance[own])
        found = np.flatnonzero(believed)
        self._context.notes["polled_waits"] += len(found)
        place = np.stack(places)[column[found] // max(len(streams), 1), found]
        rule = np.full(len(found), EdgeRule.POLLED_UNTIL_WORK_END, np.int8)
        stream = streams[column[found] % max(len(streams), 1)]
        return SyncScopes(self.last[found], stream, place, rule)

    def _nearest(self, of: slice, streams: Ids, places: list[Ints], named: Ints) -> tuple[Ints, Floats]:
        """Return which work ended in each loop's last period (-1: none), and how probable that is by chance."""
        events, first, before, last = self._context.trace.events, self.first[of], self.before[of], self.last[of]
        ends = np.concatenate([ends_before(self._context, streams, place) for place in places], axis=1)
        every = np.tile(streams, len(places))
        ends[(named >= 0)[:, None] & (every[None, :] != named[:, None])] = NO_WORK
        until, noise = events.end[last], self._context.clock_noise[every]
        ends = np.where((ends > until[:, None]) & (ends <= until[:, None] + noise), until[:, None], ends)
        # A query may miss an end that is a few microseconds old.
        since = np.minimum(events.start[before], until - CLOSE_NS)
        column, _ = nearest_stream(ends, until, since, until - since)
        open_ends = np.sort(np.where(ends > events.end[first][:, None], ends, NO_WORK), axis=1)
        count = ((open_ends > NO_WORK) & (np.diff(open_ends, axis=1, prepend=NO_WORK) > 0)).sum(axis=1)
        length = np.maximum(until - events.start[first], 1)
        return column, np.where(count > 0, np.minimum(count * (until - since) / length, 1), 1)


def ends_are_no_chance(ended: Bools, chance: Floats) -> bool:
    """Return whether this number of loops hardly ends behind work by chance."""
    hits, count = int(np.count_nonzero(ended)), len(ended)
    odds = math.comb(count, hits) * math.exp(float(np.log(np.maximum(chance[ended], 1e-6)).sum()))
    return hits >= USUALLY * count and odds * CHANCE <= 1
