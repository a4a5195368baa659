"""What physics allows of a GPU's clock: bounds from launches, and from returns whose cause needs no timing.

Let the GPU's clock be ahead of the host's by δ. No activity starts before its launch call began, and no blocking call
returns before what it certainly waited for has ended:

    host    [launch]            [copy to pageable memory....]
            |begin                                          |return
    GPU        |start [kernel]   [copy         ]|end
    δ ≤ start − begin                           δ ≥ end − return
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import Columns, distinct, first_of_runs, stable_order, take_or
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.profiler_names import (
    COPY_TO_HOST,
    DEVICE_SYNC_CALL,
    DEVICE_SYNC_RECORD,
    STREAM_SYNC_CALL,
    STREAM_SYNC_RECORD,
    SYNCHRONOUS_COPY_CALL,
    TO_PAGEABLE_MEMORY,
)
from hta_graph.trace.table import Trace

WAITED_NS = 10_000
"""A shorter call may have synchronized a stream without work; this long only one with work takes."""

CONTRADICTS_NS = 20_000
"""A record whose activity ended so much later than launches allow is wrong, not the clock."""

QUEUE_DEPTHS = range(1_000, 1_031)
"""Launches that a stream holds before the next one waits: 1,013 to 1,024 in public NVIDIA traces."""

FEWEST_QUEUED, QUEUE_SPREAD_NS = 20, 5_000
"""The depth of a queue shows in at least 20 slow launches, if the middle half of them returns within this time of each
other after their slots were freed, and at no other depth."""

SAMPLED = 1_000
"""About this number of a stream's launches is looked at for that."""


@dataclass(frozen=True, eq=False)
class ClockBounds(Columns):
    """Bounds of one device: its clock is ahead by ``value`` (ns) at most or, where ``is_lower``, at least.

    ``time`` is when the activity started by its own clock, ascending.
    """

    time: Ints
    value: Ints
    is_lower: Bools


@dataclass(frozen=True, eq=False)
class _Ends(Columns):
    """Activities that had ended, or started, when calls returned, and how much later (ns) it was by their clock."""

    work: Ids
    late: Ints


class BoundFinder:
    """Finds the bounds in a trace whose GPU events are in their own time."""

    def __init__(self, trace: Trace, activities: Ids, launch_call: Ids, calls_of: Callable[[Ints], Ids]) -> None:
        """Take a trace, its GPU activities, the call that launched each (-1: none) and calls by correlation."""
        self._trace, self._events, self._calls_of = trace, trace.events, calls_of
        launched = launch_call >= 0
        self._work, self._call = activities[launched], launch_call[launched]
        self._lane_device = trace.lanes.device
        self._lanes = distinct(self._events.lane[activities])

    def devices(self) -> list[int]:
        """Return the devices on which work shows."""
        found: list[int] = distinct(self._lane_device[self._lanes]).tolist()
        return found

    def bounds(self, device: int) -> ClockBounds:
        """Return the bounds of a device's clock, in order of its time."""
        events = self._events
        first, call = self._first_of_calls
        own = self._is_on(first, device)
        first, launches = first[own], events.start[first[own]] - events.start[call[own]]
        ends = self._ends.take(self._is_on(self._ends.work, device))
        recorded = self._recorded_syncs.take(self._is_on(self._recorded_syncs.work, device))
        latest = int(launches.min(initial=np.iinfo(np.int64).max - CONTRADICTS_NS)) + CONTRADICTS_NS
        ends = _Ends.join([ends, recorded.take(recorded.late <= latest)])
        time = np.concatenate([events.start[first], events.start[ends.work]])
        order = np.argsort(time, kind="stable")
        return ClockBounds(time[order], np.concatenate([launches, ends.late])[order], order >= len(first))

    def _is_on(self, work: Ids, device: int) -> Bools:
        on_device: Bools = self._lane_device[self._events.lane[work]] == device
        return on_device

    @cached_property
    def _first_of_calls(self) -> tuple[Ids, Ids]:
        """The first activity of each launching call, and the call, in order of calls."""
        first = np.full(len(self._events), -1, np.int32)
        # Of one call's activities the last assignment stays: backwards that is the earliest.
        first[self._call[::-1]] = self._work[::-1]
        call = np.flatnonzero(first >= 0).astype(np.int32)
        return first[call], call

    @cached_property
    def _ends(self) -> _Ends:
        parts = [self._copies_to_host(), self._syncs_behind_copies(), self._syncs_of_all_work(), self._full_queues()]
        return _Ends.join(parts)

    def _before_return(self, work: Ids, call: Ids) -> _Ends:
        return _Ends(work, self._events.end[work] - self._events.end[call])

    def _named(self, rows: Ids, pattern: re.Pattern[str]) -> Bools:
        marked: Bools = self._trace.names_starting_with(pattern)[self._events.name[rows]]
        return marked

    @cached_property
    def _copies(self) -> tuple[Ids, Ids]:
        """The copies and their calls."""
        copies = self._events.kind[self._work] == EventKind.MEMCPY
        return self._work[copies], self._call[copies]

    def _copies_to_host(self) -> _Ends:
        """Find copies to pageable memory, and those to the host by a synchronous call: their calls wait for them."""
        work, call = self._copies
        holds = self._named(work, TO_PAGEABLE_MEMORY)
        holds |= self._named(work, COPY_TO_HOST) & self._named(call, SYNCHRONOUS_COPY_CALL)
        return self._before_return(work[holds], call[holds])

    def _syncs_behind_copies(self) -> _Ends:
        """Find copies right behind which their thread synchronizes a stream: that is the copy's.

        So in all 15,111 such pairs of 82 public traces; where it is recorded (104) it is the copy's stream.
        """
        sync = self._calls_named(STREAM_SYNC_CALL)
        if not len(sync):
            return _Ends.empty()
        copy_of = np.full(len(self._events), -1, np.int32)
        copy_of[self._copies[1]] = self._copies[0]
        copy = take_or(copy_of, call_before(self._trace, sync))
        return self._before_return(copy[copy >= 0], sync[copy >= 0])

    def _calls_named(self, pattern: re.Pattern[str]) -> Ids:
        # By name first: few names, many events.
        named = self._trace.names_starting_with(pattern)
        if not named.any():
            return np.empty(0, np.int32)
        found = named[self._events.name] & (self._events.kind == EventKind.RUNTIME)
        return np.flatnonzero(found).astype(np.int32)

    def _syncs_of_all_work(self) -> _Ends:
        """Find what ended last of all that was launched before the only device, or stream, was synchronized."""
        syncs = [np.empty(0, np.int32)]
        if len(self.devices()) == 1:
            syncs.append(self._calls_named(DEVICE_SYNC_CALL))
        if len(self._lanes) == 1:
            sync = self._calls_named(STREAM_SYNC_CALL)
            syncs.append(sync[self._events.end[sync] - self._events.start[sync] >= WAITED_NS])
        return self._last_launched(np.arange(len(self._work)), np.concatenate(syncs))

    @cached_property
    def _recorded_syncs(self) -> _Ends:
        """What ended last of all that was launched on a recorded stream or device before its synchronization."""
        events, lanes = self._events, self._trace.lanes
        rows = np.flatnonzero(events.kind == EventKind.SYNC_RECORD).astype(np.int32)
        call = self._calls_of(events.correlation[rows])
        waited = (call >= 0) & (take_or(events.end - events.start, call, otherwise=0) >= WAITED_NS)
        rows, call = rows[waited], call[waited]
        lane, own = events.lane[rows], events.lane[self._work]
        of_stream, of_device = self._named(rows, STREAM_SYNC_RECORD), self._named(rows, DEVICE_SYNC_RECORD)
        parts = [_Ends.empty()]
        for at in distinct(lane[of_stream | of_device]).tolist():
            parts.append(self._last_launched(np.flatnonzero(own == at), call[of_stream & (lane == at)]))
            on_device = (lanes.device == lanes.device[at]) & (lanes.context == lanes.context[at])
            parts.append(self._last_launched(np.flatnonzero(on_device[own]), call[of_device & (lane == at)]))
        return _Ends.join(parts)

    def _last_launched(self, among: Ints, sync: Ids) -> _Ends:
        """Return of some work what ended last of all whose launch call had returned before each synchronization."""
        if not len(sync) or not len(among):
            return _Ends.empty()
        events = self._events
        returned = events.end[self._call[among]]
        order = np.argsort(returned, kind="stable")
        work = self._work[among][order]
        end = events.end[work]
        latest = np.maximum.accumulate(end)
        # The place of the latest end so far: that of the last row that raised it.
        place = np.maximum.accumulate(np.where(first_of_runs(latest), np.arange(len(end)), 0))
        before = np.searchsorted(returned[order], events.start[sync], side="right") - 1
        some = before >= 0
        return self._before_return(work[place[before[some]]], sync[some])

    def _full_queues(self) -> _Ends:
        """Find activities whose start freed the slot that a launch waited for, where a stream's queue is full.

        Then each launch returns within microseconds after the start of the one as far before it as the queue is deep.
        """
        if len(self._call) < QUEUE_DEPTHS.start + FEWEST_QUEUED:
            return _Ends.empty()
        first, call = self._first_of_calls
        lane = self._events.lane[first]
        parts = [self._full_queue(first[lane == at], call[lane == at]) for at in self._lanes.tolist()]
        return _Ends.join(parts)

    def _full_queue(self, work: Ids, call: Ids) -> _Ends:
        start, returned = self._events.start[work], self._events.end[call]
        waited = np.flatnonzero(returned - self._events.start[call] >= WAITED_NS)
        depth = queue_depth(start, returned, waited)
        waited = waited[waited >= depth] if depth else waited[:0]
        return _Ends(work[waited - depth], start[waited - depth] - returned[waited])


def queue_depth(start: Ints, returned: Ints, waited: Ints) -> int:
    """Return how many launches a stream's queue holds; 0 where it was never full, or the depth does not show.

    Where it is full, a launch returns within microseconds after the start of the one so far before it, whatever the
    clocks: in three public traces these delays spread by 1 to 2 µs at a depth of 1,021, and by 68 µs at the next best.

    Args:
        start: when the work of each launch of the stream starts (ns, the GPU's clock), in the order of the launches.
        returned: when each launch returned (ns).
        waited: the launches that took long.
    """
    waited = waited[waited >= QUEUE_DEPTHS.stop]
    sample = waited[:: max(len(waited) // SAMPLED, 1)]
    if len(waited) < FEWEST_QUEUED:
        return 0
    late = np.sort([start[sample - depth] - returned[sample] for depth in QUEUE_DEPTHS], axis=1)
    spread = late[:, 3 * len(sample) // 4] - late[:, len(sample) // 4]
    best = int(np.argmin(spread))
    # Where activities alternate evenly, all depths look alike.
    is_plain = spread[best] <= QUEUE_SPREAD_NS < np.delete(spread, best).min()
    return QUEUE_DEPTHS[best] if is_plain else 0


def call_before(trace: Trace, calls: Ids) -> Ids:
    """Return the runtime call before each on its thread; -1 where there is none."""
    events = trace.events
    every = np.flatnonzero(events.kind == EventKind.RUNTIME).astype(np.int32)
    by_thread = every[stable_order(events.lane[every])]
    before = np.full(len(events), -1, np.int32)
    same = ~first_of_runs(events.lane[by_thread])[1:]
    before[by_thread[1:][same]] = by_thread[:-1][same]
    return before[calls]
