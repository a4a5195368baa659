"""Stream waits for events: what each record captured, and what is still pending on a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.links.queues import StreamQueues
from hta_graph.model import Ids, Ints

__all__ = ["Captured", "StreamWaits"]


@dataclass(frozen=True)
class Captured:
    """Pairs (number of the query, activity that it waits for)."""

    query: Ints
    activity: Ids


class StreamWaits:
    """Resolved waits: at ``place`` stream ``lane`` was told to wait for what ``record_lane`` held at ``record_place``.

    A record captures the last work enqueued on its stream before it, and the waits that are pending there: waits behind
    which nothing has been enqueued yet (CUDA stream semantics; no trace shows the pending ones as work).
    """

    def __init__(self, queues: StreamQueues, lane: Ids, place: Ints, record_lane: Ids, record_place: Ints) -> None:
        order = np.lexsort((place, lane))
        self._queues = queues
        self.lane, self.place = lane[order], place[order]
        self._record_lane, self._record_place = record_lane[order], record_place[order]
        self._sources = self._capture_all()

    def _capture_all(self) -> list[tuple[int, ...]]:
        """Resolve the waits in the order in which they were issued: a record only captures waits before it."""
        activity, low, high = self._held_by(self._record_lane, self._record_place, None)
        sources: list[tuple[int, ...]] = [()] * len(self.lane)
        for wait in np.argsort(self.place, kind="stable").tolist():
            captured = dict.fromkeys([int(activity[wait])] if activity[wait] >= 0 else [])
            for pending in range(low[wait], high[wait]):
                captured.update(dict.fromkeys(sources[pending]))
            sources[wait] = tuple(captured)
        return sources

    def _held_by(self, lane: Ids, place: Ints, deadline: Ints | None) -> tuple[Ids, Ints, Ints]:
        """Find the last work before each place and the range of waits that stand behind it."""
        activity, enqueued = self._queues.last_before(lane, place, deadline)
        key = self._queues.key
        keys = key(self.lane, self.place)
        low = np.searchsorted(keys, key(lane, enqueued), side="left")
        return activity, low, np.searchsorted(keys, key(lane, place), side="left")

    def captured(self, lane: Ids, place: Ints, deadline: Ints) -> Captured:
        """Find all that streams hold at places: their last work and what their pending waits captured."""
        activity, low, high = self._held_by(lane, place, deadline)
        query = np.flatnonzero(activity >= 0)
        pairs = list(zip(query.tolist(), activity[query].tolist(), strict=True))
        for at in np.flatnonzero(high > low).tolist():
            pairs += [(at, source) for wait in range(low[at], high[at]) for source in self._sources[wait]]
        return _pairs(pairs)

    def captured_by_waits(self) -> Captured:
        """Find what each wait holds its stream back for."""
        return _pairs([(wait, source) for wait, sources in enumerate(self._sources) for source in sources])


def _pairs(pairs: list[tuple[int, int]]) -> Captured:
    unique = list(dict.fromkeys(pairs))
    return Captured(np.array([q for q, _ in unique], np.int64), np.array([a for _, a in unique], np.int32))
