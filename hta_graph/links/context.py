"""What the link rules share: the join of calls and activities, and the order in which work was enqueued."""

from __future__ import annotations

from collections import Counter
from functools import cached_property

import numpy as np

from hta_graph.links.queues import StreamQueues
from hta_graph.links.sync_records import SyncKind, SyncRows, sync_records
from hta_graph.links.waits import StreamWaits
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.timeline import Timeline
from hta_graph.trace.table import Trace, freeze

__all__ = ["LinkContext"]


class LinkContext:
    """A trace seen by the rules; everything here is computed once and never changed. ``notes`` counts what they met."""

    def __init__(self, trace: Trace, timeline: Timeline) -> None:
        self.trace = trace
        self.timeline = timeline
        self.notes: Counter[str] = Counter()

    @cached_property
    def activities(self) -> Ids:
        """The GPU activities, in canonical order."""
        return freeze(np.flatnonzero(self.trace.is_gpu).astype(np.int32))

    @cached_property
    def _calls(self) -> tuple[Ints, Ids]:
        """Correlations (sorted, unique) and their calls; of two calls with one correlation the outermost."""
        events = self.trace.events
        calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.correlation > 0))
        correlations, first = np.unique(events.correlation[calls], return_index=True)
        return correlations, calls[first].astype(np.int32)

    def calls_of(self, correlations: Ints) -> Ids:
        """Return the call with each correlation; -1 where the file has none."""
        known, calls = self._calls
        if not len(known):
            return np.full(len(correlations), -1, np.int32)
        at = np.searchsorted(known, correlations).clip(max=len(known) - 1)
        return np.where(known[at] == correlations, calls[at], -1).astype(np.int32)

    @cached_property
    def launch_call(self) -> Ids:
        """The call that launched each activity (aligned with :attr:`activities`); -1 for orphans."""
        return freeze(self.calls_of(self.trace.events.correlation[self.activities]))

    @cached_property
    def queues(self) -> StreamQueues:
        """The work of each stream in the order in which it was enqueued."""
        return StreamQueues(self.trace, self.timeline, self.activities, self.launch_call)

    @cached_property
    def waits(self) -> StreamWaits:
        """The stream waits whose record call and recorded stream the trace names.

        A record issued after the wait is a later one of a reused event (pytorch/kineto#1339) and is not believed.
        """
        rows = self.sync_rows(SyncKind.STREAM_WAIT)
        place, record_place = self.start_position(rows.call), self.start_position(rows.record_call)
        resolved = (rows.call >= 0) & (rows.record_call >= 0) & rows.names_stream & (record_place < place)
        known = resolved & (rows.record_lane >= 0)
        self.notes["event_waits_recorded"] = len(known)
        self.notes["event_waits_unresolved"] = int(np.count_nonzero(~resolved))
        self.notes["event_waits_for_nothing"] = int(np.count_nonzero(resolved & ~known))
        return StreamWaits(self.queues, rows.lane[known], place[known], rows.record_lane[known], record_place[known])

    def sync_rows(self, kind: SyncKind) -> SyncRows:
        """Return the profiler's synchronisation records of one kind."""
        return sync_records(self.trace, kind, self.calls_of)

    def start_position(self, events: Ids) -> Ints:
        """The place of events' starts in the global order; -1 for event -1."""
        return np.where(events >= 0, self.timeline.position[2 * events], -1).astype(np.int64)
