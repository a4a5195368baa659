"""What the rules share while a graph is built: calls and what they launched, synchronization records, slow calls."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, distinct, find_sorted, first_of_runs, freeze, is_among, take_or
from hta_graph.base.errors import UsageError
from hta_graph.dependencies.clock_bounds import BoundFinder
from hta_graph.dependencies.clock_estimate import estimate_clocks
from hta_graph.dependencies.stream_queues import StreamQueues, enqueue_streams
from hta_graph.graph.edges import EdgeTable, WaitCalls, custom_rule
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, event_of, start_point
from hta_graph.graph.timeline import CallsByCorrelation, Timeline
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, CUSTOM_KINDS, WALKABLE, Bools, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.profiler_names import (
    CAPTURE_CALL,
    CAPTURE_END_CALL,
    COPY_BLOCKING_SYNCHRONOUS_CALL,
    COPY_TO_PAGEABLE,
    SYNCHRONOUS_COPY_CALL,
)
from hta_graph.trace.table import GpuClock, NodeOrder, Trace


class SyncKind(Enum):
    """The names under which the profiler writes them."""

    STREAM_WAIT = "Stream Wait Event"
    STREAM_SYNC = "Stream Sync"
    DEVICE_SYNC = "Context Sync"
    EVENT_SYNC = "Event Sync"


@dataclass(frozen=True, eq=False)
class SyncRows(Columns):
    """Records of one kind: CPU call, stream, call that recorded the event, recorded stream; -1 where unknown.

    ``row`` is the record itself, ``record_correlation`` the number of the recording call, in the file or not. A record
    may name a stream on which the trace shows no work at all: ``names_stream`` without ``record_lane``.
    """

    row: Ids
    call: Ids
    lane: Ids
    record_call: Ids
    record_correlation: Ints
    record_lane: Ids
    names_stream: Bools


def sync_records(trace: Trace, kind: SyncKind, calls_of: Callable[[Ints], Ids], meant: Ids) -> SyncRows:
    """Return the records of one kind in canonical order; source: pytorch/kineto, ``cuda_sync`` activities.

    Args:
        trace: the trace.
        kind: which records.
        calls_of: the join from correlations to calls.
        meant: the lane that a record of each lane means.
    """
    events, syncs = trace.events, trace.syncs
    chosen = trace.matching_names(re.compile(rf"^{kind.value}$"), EventKind.SYNC_RECORD)[events.name[syncs.event]]
    rows, lane = syncs.event[chosen], events.lane[syncs.event[chosen]]
    # Of an unnamed stream no other one may be made; only of a device any stream tells as much.
    names_lane = (trace.lanes.stream[lane] >= 0) | (kind == SyncKind.DEVICE_SYNC)
    return SyncRows(
        row=rows,
        call=calls_of(events.correlation[rows]),
        lane=np.where(names_lane, meant[lane], lane),
        record_call=calls_of(syncs.record_correlation[chosen]),
        record_correlation=syncs.record_correlation[chosen],
        names_stream=syncs.wait_on_stream[chosen] >= 0,
        record_lane=_recorded_lanes(trace, lane, syncs.wait_on_stream[chosen], meant),
    )


def _recorded_lanes(trace: Trace, rows: Ids, streams: Ints, meant: Ids) -> Ids:
    """Find the recorded stream: on the device and context of the record's lane, else the only stream of that number.

    The record names a number only, and events may come from another device; a number on several others is not believed.
    """
    if not len(streams):
        return np.empty(0, np.int32)
    lanes = trace.lanes
    numbers = np.flatnonzero(lanes.is_stream & (lanes.stream >= 0))
    # Stream numbers repeat on every device and context; the record's own come first.
    own = {(int(lanes.device[at]), int(lanes.context[at]), int(lanes.stream[at])): at for at in numbers.tolist()}
    meant_ones = distinct(meant[numbers])
    count = Counter(lanes.stream[meant_ones].tolist())
    only = {int(lanes.stream[at]): at for at in meant_ones.tolist() if count[int(lanes.stream[at])] == 1}
    found = np.array([only.get(stream, -1) for stream in streams.tolist()], np.int32)
    for places in (rows, meant[rows]):
        keys = zip(lanes.device[places].tolist(), lanes.context[places].tolist(), streams.tolist(), strict=True)
        there = np.array([own.get(key, -1) for key in keys], np.int32)
        found = np.where(there >= 0, there, found)
    return np.asarray(take_or(meant, found), np.int32)


MOST_ERROR_NS = 20_000
"""The interval of an offset counts up to this: wider ones say little."""


class LaunchedActivities:
    """The GPU activities of a trace and the calls that launched them."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace

    @cached_property
    def activities(self) -> Ids:
        """The GPU activities and other nodes of graphs, in canonical order."""
        return freeze(np.flatnonzero(self._trace.is_activity).astype(np.int32))

    @cached_property
    def by_correlation(self) -> CallsByCorrelation:
        """The calls by their correlation."""
        return CallsByCorrelation(self._trace.events)

    @cached_property
    def call(self) -> Ids:
        """The call that launched each activity; -1 for orphans."""
        return freeze(self.by_correlation.of(self._trace.events.correlation[self.activities]))

    def clocks(self) -> tuple[GpuClock, ...]:
        """Estimate how far the clock of each device is ahead of the host's."""
        on_gpu = self._trace.is_gpu[self.activities]
        work, call = self.activities[on_gpu], self.call[on_gpu]
        return estimate_clocks(BoundFinder(self._trace, work, call, self.by_correlation.of))


class RuleContext:
    """A trace seen by the rules while a graph is built; everything here is computed once.

    In addition to edges the rules leave ``notes``, which count what they met, ``wait_calls`` are the calls behind
    the edges between streams.
    """

    def __init__(self, trace: Trace, timeline: Timeline, launches: LaunchedActivities | None = None) -> None:
        self.trace = trace
        self.timeline = timeline
        self._joined = launches or LaunchedActivities(trace)
        self.notes: Counter[str] = Counter()
        self.wait_calls = WaitCalls.empty()
        self.answers: dict[Callable[..., Any], Any] = {}

    @property
    def activities(self) -> Ids:
        """The GPU activities and other nodes of graphs, in canonical order."""
        return self._joined.activities

    def calls_of(self, correlations: Ints) -> Ids:
        """Return the call with each correlation; -1 where the file has none."""
        return self._joined.by_correlation.of(correlations)

    @property
    def launch_call(self) -> Ids:
        """The call that launched each activity (aligned with :attr:`activities`); -1 for orphans."""
        return self._joined.call

    @cached_property
    def clock_noise(self) -> Ints:
        """How late (ns) an activity on each lane may seem to end, because its device's clock contradicts itself."""
        noise = np.zeros(len(self.trace.lanes.labels), np.int64)
        for clock in self.trace.gpu_clock:
            noise[self.trace.lanes.device == clock.device] = clock.noise_ns
        return noise

    @cached_property
    def clock_error(self) -> Ints:
        """How late and how early (ns) an activity on each lane may seem, as far as its clock is known; two rows."""
        error = np.stack([self.clock_noise, self.clock_noise])
        for clock in self.trace.gpu_clock:
            lanes = self.trace.lanes.device == clock.device
            late, early = clock.error_ns(MOST_ERROR_NS)
            error[:, lanes] = np.maximum(error[:, lanes], [[late], [early]])
        return error

    def ended_by(self, activities: Ids, times: Ints) -> Bools:
        """Mark the activities that had ended at a time of the host (ns), as far as the clocks are known."""
        events = self.trace.events
        ended: Bools = events.end[activities] - self.clock_error[0][events.lane[activities]] <= times
        return ended

    def calls_named(self, pattern: re.Pattern[str]) -> Ids:
        """Return the calls whose name a pattern matches from its start."""
        calls = self._runtime_calls
        named: Ids = calls[self.trace.names_starting_with(pattern, EventKind.RUNTIME)[self.trace.events.name[calls]]]
        return named

    @cached_property
    def _runtime_calls(self) -> Ids:
        return freeze(np.flatnonzero(self.trace.events.kind == EventKind.RUNTIME).astype(np.int32))

    @cached_property
    def enqueue_stream(self) -> Ids:
        """The stream on which each activity was enqueued (aligned with :attr:`activities`)."""
        return enqueue_streams(self.trace, self.timeline, self.activities, self.launch_call, self._named_lanes)

    def _named_lanes(self) -> Ids:
        """Return the lanes of which a record says that they waited or were waited for, outside of captures."""
        lanes, events = np.arange(len(self.trace.lanes.labels), dtype=np.int32), self.trace.events
        begins, ends = (
            np.sort(events.start[self.calls_named(pattern)]) for pattern in (CAPTURE_CALL, CAPTURE_END_CALL)
        )
        named = [lanes[:0]]
        for kind in (SyncKind.STREAM_WAIT, SyncKind.STREAM_SYNC, SyncKind.EVENT_SYNC):
            rows = sync_records(self.trace, kind, self.calls_of, lanes)
            start = events.start[rows.row]
            rows = rows.take(np.searchsorted(begins, start) <= np.searchsorted(ends, start))
            named += [rows.record_lane[rows.record_lane >= 0]] + [rows.lane] * (kind != SyncKind.EVENT_SYNC)
        return distinct(np.concatenate(named))

    @cached_property
    def queues(self) -> StreamQueues:
        """The work of each stream in the order in which it was enqueued."""
        work = self.activities, self.launch_call, self.enqueue_stream
        return StreamQueues(self.trace, self.timeline, *work, self.node_order)

    @cached_property
    def node_order(self) -> NodeOrder:
        """The recorded arrows between nodes of graphs that clocks allow; ends up to 1 ms late are clock faults."""
        found, events = self.trace.node_order, self.trace.events
        return found.take(events.end[found.source] - events.start[found.target] <= CLOCK_FAULT_LIMIT_NS)

    @cached_property
    def is_in_ordered_graph(self) -> Bools:
        """Mark the events whose launch has recorded arrows between its nodes: streams and times say no more there."""
        calls = np.full(len(self.trace.events), -1, np.int32)
        calls[self.activities] = self.launch_call
        ordered = distinct(calls[self.node_order.target])
        return freeze((calls >= 0) & is_among(calls, ordered[ordered >= 0]))

    def sync_rows(self, kind: SyncKind) -> SyncRows:
        """Return the profiler's synchronization records of one kind, each on the lane that its context says."""
        return self._sync_rows[kind]

    @cached_property
    def _sync_rows(self) -> dict[SyncKind, SyncRows]:
        """Read the records of each kind; count those that name another device than the work of their context."""
        meant, device = self._lanes_meant, self.trace.lanes.device
        lane = self.trace.events.lane[self.trace.syncs.event]
        self.notes["sync_records"] = len(lane)
        self.notes["sync_records_moved"] = int(np.count_nonzero(device[meant[lane]] != device[lane]))
        return {kind: sync_records(self.trace, kind, self.calls_of, meant) for kind in SyncKind}

    @cached_property
    def work_lanes(self) -> Ids:
        """The streams that have work in the file, shown there or enqueued there."""
        return freeze(distinct(np.append(self.queues.lanes(), self.queues.enqueue_streams())))

    @cached_property
    def _lanes_meant(self) -> Ids:
        """The lane that a record of each lane means: where that has no work, the one of its context that has.

        Nsight Systems writes device 0 into the records of every process. A context belongs to one device, so it shows
        which; records without a context mean the only device with work.

            record    device 0, context 2, stream 7          no work has this lane
            work      device 1, context 2, stream 7          this one is meant
        """
        lanes, work = self.trace.lanes, self.work_lanes
        meant = np.arange(len(lanes.labels), dtype=np.int32)
        only_device = len(distinct(lanes.device[work])) == 1
        for lane in np.flatnonzero(lanes.is_stream & ~np.isin(meant, work)).tolist():
            device, context, stream = int(lanes.device[lane]), int(lanes.context[lane]), int(lanes.stream[lane])
            near = work[(lanes.stream[work] == stream) | (stream < 0)]
            near = near[(lanes.context[near] == context) if context >= 0 else np.full(len(near), only_device)]
            devices = distinct(lanes.device[near])
            if len(devices) == 1 and devices[0] != device:
                meant[lane] = near[0]
        return freeze(meant)

    def custom_edges(
        self,
        label: str,
        source: Ids | Ints,
        target: Ids | Ints,
        *,
        from_end: Bools | bool = True,
        to_end: Bools | bool = False,
    ) -> EdgeTable:
        """Return inferred edges of a rule of your own, such as copies that share one copy engine.

        Their kind follows from what they join: ``custom_gpu_to_gpu``, ``custom_gpu_to_cpu``, ``custom_cpu_to_gpu`` or
        ``custom_cpu_to_cpu``. Paths, idle-time causes, replay, pictures and exports treat them by that kind.

        >>> def copy_turn(context):
        ...     events = context.trace.events
        ...     copies = np.flatnonzero(events.kind == EventKind.MEMCPY)
        ...     copies = copies[np.argsort(events.start[copies], kind="stable")]
        ...     return context.custom_edges("copy_turn", copies[:-1], copies[1:])

        Pass the rule to :func:`build_graph`, and select its edges by their label::

            graph = hg.build_graph(trace, [*hg.DEFAULT_RULES, copy_turn])
            graph.edges_of("copy_turn"), graph.edges.query("rule == 'copy_turn'")

        Args:
            label: what the edges are called, in ``graph.edges.rule`` and in :meth:`DependencyGraph.edges_of`.
            source: rows of ``trace.events``: what is waited for.
            target: as many rows: what waits.
            from_end: whether the wait is for the end of the source, else for its start.
            to_end: whether the end of the target waits, else its start.

        Raises:
            UsageError: the label is not available, the rows do not pair up, or an event has no place in a path.
        """
        rule, on_gpu = custom_rule(label), self.trace.is_activity
        sides = np.asarray(source, np.int32), np.asarray(target, np.int32)
        if sides[0].ndim != 1 or sides[0].shape != sides[1].shape:
            raise UsageError(f"custom rule {label!r}: give as many sources as targets, as rows of trace.events")
        for rows in sides:
            self._check_rows_of_rule(label, rows)
        kinds = np.array([[CUSTOM_KINDS[of, to] for to in (False, True)] for of in (False, True)], np.int8)
        first = np.where(from_end, end_point(sides[0]), start_point(sides[0]))
        last = np.where(to_end, end_point(sides[1]), start_point(sides[1]))
        return EdgeTable.of(
            source=first, target=last, kind=kinds[on_gpu[sides[0]].astype(np.int8), on_gpu[sides[1]].astype(np.int8)],
            rule=rule,
        )  # fmt: skip

    def _check_rows_of_rule(self, label: str, rows: Ids) -> None:
        """Refuse rows that are not there or that no edge can join."""
        events = self.trace.events
        if len(rows) and not 0 <= rows.min() <= rows.max() < len(events):
            raise UsageError(f"custom rule {label!r}: rows of trace.events are 0 to {len(events) - 1}")
        absent = rows[~kind_mask(events.kind[rows], WALKABLE)]
        if len(absent):
            kind = EventKind(int(events.kind[absent[0]])).label
            raise UsageError(
                f"custom rule {label!r}: event {events.index[absent[0]]} is of kind {kind}, which edges cannot join; "
                f"use events of kind {', '.join(member.label for member in WALKABLE)}"
            )

    @cached_property
    def names_events(self) -> bool:
        """Whether the profiler names the recorded events at all; where it does, a nameless one was never recorded."""
        kinds = (SyncKind.STREAM_WAIT, SyncKind.EVENT_SYNC)
        return any(bool((self.sync_rows(kind).record_call >= 0).any()) for kind in kinds)

    def start_position(self, events: Ids) -> Ints:
        """The place of events' starts in the global order; -1 for event -1."""
        position: Ints = take_or(self.timeline.position, np.where(events >= 0, start_point(events), -1)).astype(
            np.int64
        )
        return position

    def last_call_on_thread(self, pattern: re.Pattern[str], calls: Ids) -> Ids:
        """Return for each call the last earlier call on its thread whose name matches; -1 where there is none."""
        return self.neighbour(self.calls_named(pattern), calls, after=False)

    @cached_property
    def launches(self) -> tuple[Ids, Ids]:
        """The launching calls (unique, ascending) and the stream on which each enqueued."""
        launched = self.launch_call >= 0
        # A graph launch has hundreds of activities of one stream; any of them tells it.
        calls, first = np.unique(self.launch_call[launched], return_index=True)
        return calls, self.enqueue_stream[launched][first]

    def next_launch_stream(self, calls: Ids) -> Ids:
        """Return the stream of the next launch on each call's thread; -1 where there is none."""
        return self.stream_of_launch(self.neighbour(self.launches[0], calls, after=True))

    def last_launch_stream(self, calls: Ids) -> Ids:
        """Return the stream of the last launch before each call on its thread; -1 where there is none."""
        return self.stream_of_launch(self.neighbour(self.launches[0], calls, after=False))

    def stream_of_launch(self, launch: Ids) -> Ids:
        """Return the stream on which each launching call enqueued; -1 for call -1."""
        calls, stream = self.launches
        found: Ids = take_or(stream, find_sorted(launch, calls))
        return found

    def neighbour(self, among: Ids, calls: Ids, *, after: bool) -> Ids:
        """Return the nearest of ``among`` that starts before or after each call on its thread; -1: there is none."""
        starts = np.where(calls >= 0, start_point(calls), np.int32(-1))
        return event_of(self.neighbouring_point(start_point(among), starts, after=after))

    def neighbouring_point(self, among: Ids, points: Ids, *, after: bool) -> Ids:
        """Return the nearest of ``among`` before or after each point (-1: none) on its thread; -1: there is none."""
        key = np.sort(self.timeline.lane_key(among))
        if not len(key):
            return np.full(len(points), -1, np.int32)
        own = self.timeline.lane_key(points)
        at = np.searchsorted(key, own, side="right") if after else np.searchsorted(key, own, side="left") - 1
        inside: Bools = (at >= 0) & (at < len(key))
        # The upper half of a key is the lane, the lower half the place: a neighbor on another lane is none.
        found = key[at.clip(0, len(key) - 1)]
        inside &= found >> 32 == own >> 32
        return np.where(inside, self.timeline.order[found & 0xFFFFFFFF], -1).astype(np.int32)


SLOW_FACTOR = 5
SHORTEST_SLOW_NS = 10_000
MEDIAN = 0.5
QUICK = 0.1
"""Where most calls may have waited, the quickest tenth shows how long one takes that does not."""


@memoized
def blocking_copies(context: RuleContext) -> tuple[Ids, Ids]:
    """Return the copies that hold their call until the data has arrived, and these calls.

    A copy to pageable (or unnamed) host memory blocks even when the call is asynchronous: 26,066 of 26,087 such calls
    in public traces return after the copy. A call without ``Async`` in its name also waits for copies from and to
    pinned memory; from pageable memory it returns when the data is staged. The call must return after the copy's end.
    """
    trace = context.trace
    is_copy = trace.events.kind[context.activities] == EventKind.MEMCPY
    copies, calls = context.activities[is_copy], context.launch_call[is_copy]
    copies, calls = copies[calls >= 0], calls[calls >= 0]
    name, call_name = trace.events.name[copies], trace.events.name[calls]
    is_synchronous = trace.names_starting_with(SYNCHRONOUS_COPY_CALL)[call_name]
    may_block = trace.names_starting_with(COPY_TO_PAGEABLE)[name]
    may_block |= is_synchronous & trace.names_starting_with(COPY_BLOCKING_SYNCHRONOUS_CALL)[name]
    blocks = may_block & context.ended_by(copies, trace.events.end[calls])
    return copies[blocks], calls[blocks]


def slow_calls(
    context: RuleContext,
    calls: Ids,
    *,
    quantile: float = MEDIAN,
    longest_usual_ns: int | None = None,
    factor: int = SLOW_FACTOR,
    least_ns: int = SHORTEST_SLOW_NS,
) -> Ids:
    """Return the calls that took at least five times what their name usually takes, and 10 µs, not held by a copy.

    Usual is the median, or a lower quantile where most calls may have waited; at most ``longest_usual_ns`` where all
    may have.
    """
    events = context.trace.events
    name, length = events.name[calls], (events.end - events.start)[calls]
    usual = np.zeros(len(context.trace.names) + 1, np.int64)
    order = np.argsort(name, kind="stable")
    begins = np.flatnonzero(first_of_runs(name[order]))
    for code, own in zip(name[order[begins]].tolist(), np.split(length[order], begins[1:]), strict=False):
        # The same number for a half, but np.quantile is slower and loads numpy's masked arrays (5 ms).
        usual[code] = int(np.median(own) if quantile == MEDIAN else np.quantile(own, quantile))
    if longest_usual_ns is not None:
        usual = np.minimum(usual, longest_usual_ns)
    slow = (length >= factor * usual[name]) & (length >= least_ns)
    held = blocking_copies(context)[1]
    return calls[slow & ~is_among(calls, held)]
