"""The GPU's activities: what kind of work each is, what hides what, copies, launch queues, idle time of streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import pairwise

import numpy as np

from hta_graph.base.arrays import Columns, first_of_runs, last_of_runs
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Bools, Codes, Floats, Ids, Ints
from hta_graph.paths.idle_gap_causes import Gaps
from hta_graph.paths.intervals import Intervals, union
from hta_graph.trace.table import FASTEST_GBPS, EventTable, Trace


class WorkType(IntEnum):
    """What a GPU activity does: compute, talk to other ranks, or move memory."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Activities(Columns):
    """GPU activities in canonical order: canonical row, times (ns), lane, type of work, launching call (-1: none)."""

    row: Ids
    start: Ints
    end: Ints
    lane: Ids
    type: Codes
    call: Ids

    def busy(self, *types: WorkType) -> Intervals:
        """Return when activities run, of some types or of all."""
        chosen = np.isin(self.type, types) if types else slice(None)
        return union(self.start[chosen], self.end[chosen])


@memoized
def activities(graph: DependencyGraph) -> Activities:
    """Return all GPU activities of a graph: kernels, copies and sets by category, whatever their stream.

    MTIA records stream waits and copies as kernels: the waits are not work, the copies are memory work.
    """
    flags, events = graph.event_flags, graph.event_table
    rows = np.flatnonzero(flags.gpu_work).astype(np.int32)
    types = np.full(len(rows), WorkType.COMPUTATION, np.int8)
    types[flags.moves_memory[rows]] = WorkType.MEMORY
    types[flags.communicates[rows]] = WorkType.COMMUNICATION
    calls = graph.launching_call[rows]
    return Activities(rows, events.start[rows], events.end[rows], events.lane[rows], types, calls)


@dataclass(frozen=True)
class Exposure:
    """Per activity (ns): hidden + exposed + shared = its duration.

    ``hidden`` overlaps with the work that hides; ``exposed`` does not; ``shared`` does not either, but counts as the
    exposed time of another activity of the set that started earlier and still runs.
    """

    hidden: Ints
    exposed: Ints
    shared: Ints


def exposure(work: Activities, hiding: Intervals) -> Exposure:
    """Divide the time of each activity of a set so that no instant is exposed twice.

    The sum of ``exposed`` is the length of the set's union outside ``hiding``, to the nanosecond. Where several
    activities of the set run at once, the time belongs to the one that started first (of equal starts the one that
    comes first in the set).

    >>> from hta_graph.paths.intervals import union
    >>> rows = np.zeros(2, np.int32)
    >>> work = Activities(rows, np.array([0, 4]), np.array([6, 9]), rows, rows.astype(np.int8), rows)
    >>> exposure(work, union(np.array([8]), np.array([20])))
    Exposure(hidden=array([0, 1]), exposed=array([6, 2]), shared=array([0, 2]))
    """
    order = np.argsort(work.start, kind="stable")
    own_from = np.empty(len(work), np.int64)
    own_from[order] = _first_running_from(work.start[order], work.end[order])
    hidden = hiding.covered_until(work.end) - hiding.covered_until(work.start)
    exposed = work.end - own_from - (hiding.covered_until(work.end) - hiding.covered_until(own_from))
    return Exposure(hidden, exposed, work.end - work.start - hidden - exposed)


def _first_running_from(start: Ints, end: Ints) -> Ints:
    """Return when each activity, ordered by start, is the first of those running; its end if it never is."""
    if not len(start):
        return start
    # What began earlier owns the time until it ends; an activity is first from the moment at which all of that is over.
    latest = np.maximum.accumulate(end)
    before = np.append(start[:1], latest[:-1])
    free: Ints = np.clip(before, start, end)
    return free


SHORTEST_DRAWN_NS = 1_000
FINE, COARSE = 73, 30
"""Sums of rates count in 2^-73 and 2^-30 GB/s: exact for rates from 2^-20 (1 kB/s) to 2^23 GB/s."""


@dataclass(frozen=True)
class Copies:
    """Copies and sets as columns: row, times (ns), kind (a code into ``kinds``, which are in alphabetical order).

    ``bytes`` is -1 and ``rate`` (GB/s, as recorded) NaN where the trace does not say.
    """

    kinds: list[str]
    row: Ids
    lane: Ids
    start: Ints
    end: Ints
    kind: Ids
    bytes: Ints
    rate: Floats

    def in_file_time(self, trace: Trace) -> Copies:
        """Return the copies with their times as the file has them, to be drawn or listed with its rows."""
        start, end = trace.in_file_time(self.row, self.start), trace.in_file_time(self.row, self.end, "end")
        return replace(self, start=start, end=end)

    @property
    def drawn_end(self) -> Ints:
        """When each ends in a drawing: what takes no time on the trace's clock takes 1 µs, so that it shows."""
        return np.where(self.end > self.start, self.end, self.start + SHORTEST_DRAWN_NS)


@dataclass(frozen=True, eq=False)
class RateSteps(Columns):
    """The changes of the rates, kind by kind in order of time: from ``time`` (ns) on copies of a kind run at ``rate``.

    ``change`` counts what changes it: entry i of the copies starts (i), or ends (their number + i).
    """

    time: Ints
    kind: Ids
    rate: Floats
    change: Ints

    def last_of_each_instant(self) -> RateSteps:
        """Return one entry per kind and time."""
        return self.take(last_of_runs(self.time, self.kind))


def copies_of(graph: DependencyGraph, work: Activities) -> Copies:
    """Pick the copies and sets among activities."""
    chosen = work.take(work.type == WorkType.MEMORY)
    kinds, kind = graph.event_flags.copy_kinds(chosen.row)
    recorded, size = graph.trace.copies, len(graph.event_table)
    moved, rate = np.full(size, -1, np.int64), np.full(size, np.nan)
    moved[recorded.event], rate[recorded.event] = recorded.bytes, recorded.bandwidth
    bytes_ = moved[chosen.row]
    # Clocks that tick in microseconds print what is shorter as nothing.
    bytes_[bytes_ > FASTEST_GBPS * np.maximum(chosen.end - chosen.start, 1_000)] = -1
    return Copies(kinds, chosen.row, chosen.lane, chosen.start, chosen.end, kind, bytes_, rate[chosen.row])


def rate_steps(copies: Copies, end: Ints, rate: Floats, chosen: Bools | slice = slice(None)) -> RateSteps:
    """Add up the rates of the copies of each kind that run together; at one instant ends come before starts.

    Args:
        copies: the copies.
        end: when each ends.
        rate: the rate of each.
        chosen: which of them count.
    """
    start, kind = copies.start[chosen], copies.kind[chosen]
    times, kinds = np.concatenate([start, end[chosen]]), np.tile(kind, 2)
    is_start = np.repeat([True, False], len(start))
    # Ends before starts: a copy that ends as another starts never ran together with it.
    order = np.lexsort((is_start, times, kinds))
    sums = exact_running_sums(np.concatenate([rate[chosen], -rate[chosen]])[order])
    return RateSteps(times[order], kinds[order], sums, order)


def exact_running_sums(values: Floats) -> Floats:
    """Sum floats one after another without error: each sum is rounded once, so what cancels is 0.

    >>> exact_running_sums(np.array([0.1, 0.2, -0.1, -0.2])).tolist()
    [0.1, 0.30000000000000004, 0.2, 0.0]
    """
    # A float's running sum forgets small rates beside large ones; two integers of 64 bits hold all of both.
    fine, coarse = np.modf(values * 2.0**COARSE)
    high, low = np.cumsum(coarse.astype(np.int64)), np.cumsum((fine * 2.0 ** (FINE - COARSE)).astype(np.int64))
    sums: Floats = high / 2.0**COARSE + low / 2.0**FINE
    return sums


@dataclass(frozen=True, eq=False)
class QueueSteps(Columns):
    """The changes of the queues, stream by stream in order of time.

    From ``time`` (ns) until the stream's next entry ``length`` launches wait; ``row`` is what changed it: the call that
    enqueued or the activity that started.
    """

    lane: Ids
    time: Ints
    length: Ints
    row: Ids

    def clip(self, start_ns: int, end_ns: int) -> QueueSteps:
        """Return the changes in a window; launches that already wait at its start count as a change there."""
        early = self.time < start_ns
        # Of the changes before the window each stream's last says what waits when the window begins.
        last_early = early & ~np.append(early[1:] & ~first_of_runs(self.lane)[1:], False)
        kept = self.take((~early | last_early) & (self.time <= end_ns))
        return QueueSteps(kept.lane, kept.time.clip(min=start_ns), kept.length, kept.row)

    def lasting(self, end_ns: int | None = None) -> Ints:
        """Return how long each entry lasts (ns): until the stream's next entry; the last one until ``end_ns``, or 0."""
        following = np.append(self.time[1:], 0)
        last = last_of_runs(self.lane)
        following[last] = self.time[last] if end_ns is None else end_ns
        lengths: Ints = following[: len(self)] - self.time
        return lengths

    def streams(self) -> list[tuple[int, slice]]:
        """List the streams (lane codes), each with its slice of the arrays."""
        first = np.flatnonzero(first_of_runs(self.lane))
        bounds = zip(first.tolist(), np.append(first[1:], len(self)).tolist(), strict=False)
        return [(int(self.lane[begin]), slice(begin, end)) for begin, end in bounds]


def queue_steps(events: EventTable, work: Activities) -> QueueSteps:
    """Count the queue of each stream up at the start of every launching call and down when the activity starts.

    A graph launch counts once for each activity that it launches, on the stream where that runs. Where an activity is
    stamped before its call (a clock fault) it never waited. At equal times launches come first.
    """
    launched = np.flatnonzero(work.call >= 0)
    call, row, start, lane = work.call[launched], work.row[launched], work.start[launched], work.lane[launched]
    lanes, times = np.tile(lane, 2), np.concatenate([np.minimum(events.start[call], start), start])
    rows: Ids = np.concatenate([call, row])
    change = np.repeat(np.array([1, -1]), len(row))
    order = np.lexsort((rows, -change, times, lanes))
    return QueueSteps(lanes[order], times[order], np.cumsum(change[order]), rows[order])


@dataclass(frozen=True, eq=False)
class StreamIntervals(Columns):
    """The time in front of each activity but the first of its stream, from when the stream was done with all before.

    By stream, then start. Where activities overlap the interval is empty, never negative.
    """

    start: Ints
    end: Ints
    row: Ids
    lane: Ids
    call: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start

    def gaps(self) -> tuple[Gaps, Ids]:
        """Return the intervals that are not empty, and their streams."""
        idle: Bools = self.end > self.start
        return Gaps(self.start[idle], self.end[idle], self.row[idle]), self.lane[idle]


def stream_intervals(work: Activities) -> StreamIntervals:
    """Return the intervals between the activities of each stream."""
    order = np.lexsort((work.start, work.lane))
    lane, start = work.lane[order], work.start[order]
    done = _running_maximum(work.end[order], lane)
    follows = np.flatnonzero(lane[1:] == lane[:-1]) + 1
    # Where the stream was still busy nothing was idle: the interval ends where it begins.
    begin = np.minimum(done[follows - 1], start[follows])
    return StreamIntervals(begin, start[follows], work.row[order][follows], lane[follows], work.call[order][follows])


def _running_maximum(end: Ints, lane: Ids) -> Ints:
    """Return the latest end so far within each run of equal lanes."""
    done = end.copy()
    begins = np.append(np.flatnonzero(first_of_runs(lane)), len(lane))
    for first, last in pairwise(begins.tolist()):
        np.maximum.accumulate(end[first:last], out=done[first:last])
    return done


def device_gaps(running: Activities, every: Activities, start_ns: int, end_ns: int) -> Gaps:
    """Return when nothing runs on any stream in [start, end), and what starts next.

    Args:
        running: the activities of the window, cut to it.
        every: all activities of the trace; what ends the last gap may lie behind the window.
        start_ns: the window's start.
        end_ns: the window's end.
    """
    idle = running.busy().gaps(start_ns, end_ns)
    order = np.argsort(every.start, kind="stable")
    at = np.searchsorted(every.start[order], idle.end, side="left")
    after = np.append(every.row[order], -1)[at]
    return Gaps(idle.start, idle.end, after.astype(np.int32))
