"""What the link rules share: the join of calls and activities, and the order in which work was enqueued."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from hta_graph.arrays import find_sorted, freeze, take_or
from hta_graph.dependencies.home_streams import enqueue_streams
from hta_graph.dependencies.stream_queues import StreamQueues
from hta_graph.dependencies.sync_records import SyncKind, SyncRows, sync_records
from hta_graph.graph.edges import WaitCalls
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.graph.launches import CallsByCorrelation
from hta_graph.graph.points import event_of, start_point
from hta_graph.model import Bools, EventKind, Ids, Ints
from hta_graph.trace.table import Trace

__all__ = ["RuleContext"]


class RuleContext:
    """A trace seen by the rules while a graph is built; everything here is computed once.

    Beside edges the rules leave two things behind: ``notes`` counts what they met, ``wait_calls`` are the calls behind
    the edges between streams.
    """

    def __init__(self, trace: Trace, timeline: Timeline) -> None:
        self.trace = trace
        self.timeline = timeline
        self.notes: Counter[str] = Counter()
        self.wait_calls = WaitCalls.empty()
        self.answers: dict[Callable[[Any], Any], Any] = {}

    @cached_property
    def activities(self) -> Ids:
        """The GPU activities, in canonical order."""
        return freeze(np.flatnonzero(self.trace.is_gpu).astype(np.int32))

    @cached_property
    def _calls_by_correlation(self) -> CallsByCorrelation:
        return CallsByCorrelation(self.trace.events)

    def calls_of(self, correlations: Ints) -> Ids:
        """Return the call with each correlation; -1 where the file has none."""
        return self._calls_by_correlation.of(correlations)

    def calls_named(self, pattern: re.Pattern[str]) -> Ids:
        """Return the calls whose name a pattern matches from its start."""
        calls = self._runtime_calls
        named: Ids = calls[self.trace.names_starting_with(pattern)[self.trace.events.name[calls]]]
        return named

    @cached_property
    def _runtime_calls(self) -> Ids:
        return freeze(np.flatnonzero(self.trace.events.kind == EventKind.RUNTIME).astype(np.int32))

    @cached_property
    def launch_call(self) -> Ids:
        """The call that launched each activity (aligned with :attr:`activities`); -1 for orphans."""
        return freeze(self.calls_of(self.trace.events.correlation[self.activities]))

    @cached_property
    def enqueue_stream(self) -> Ids:
        """The stream on which each activity was enqueued (aligned with :attr:`activities`)."""
        return enqueue_streams(self.trace, self.timeline, self.activities, self.launch_call)

    @cached_property
    def queues(self) -> StreamQueues:
        """The work of each stream in the order in which it was enqueued."""
        return StreamQueues(self.trace, self.timeline, self.activities, self.launch_call, self.enqueue_stream)

    def sync_rows(self, kind: SyncKind) -> SyncRows:
        """Return the profiler's synchronisation records of one kind."""
        return sync_records(self.trace, kind, self.calls_of)

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
        # The upper half of a key is the lane, the lower half the place: a neighbour on another lane is none.
        found = key[at.clip(0, len(key) - 1)]
        inside &= found >> 32 == own >> 32
        return np.where(inside, self.timeline.order[found & 0xFFFFFFFF], -1).astype(np.int32)
