"""Stream waits for events: what each record captured, and what is still pending on a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.links.queues import StreamQueues
from hta_graph.model import Codes, Ids, Ints

__all__ = ["Captured", "StreamWaits", "Waits"]


@dataclass(frozen=True)
class Waits:
    """At ``place`` stream ``lane`` was told to wait for what ``record_lane`` held at ``record_place``; by ``rule``."""

    lane: Ids
    place: Ints
    record_lane: Ids
    record_place: Ints
    rule: Codes

    def take(self, rows: Ints) -> Waits:
        """Select waits."""
        return Waits(*(getattr(self, name)[rows] for name in self.__dataclass_fields__))


@dataclass(frozen=True)
class Captured:
    """Pairs (number of the query, activity that it waits for)."""

    query: Ints
    activity: Ids


class StreamWaits:
    """Resolved waits and what they capture.

    A record captures the last work enqueued on its stream before it, and the waits that are pending there: waits behind
    which nothing has been enqueued yet (CUDA stream semantics; no trace shows the pending ones as work).
    """

    def __init__(self, queues: StreamQueues, waits: Waits) -> None:
        self.waits = waits.take(np.lexsort((waits.place, waits.lane)))
        self._queues = queues
        self._key = queues.key(self.waits.lane, self.waits.place)
        self._home = dict(zip(queues.rows.tolist(), queues.home.tolist(), strict=True)) if len(self._key) else {}
        self._sources = self._capture_all()

    def _capture_all(self) -> list[tuple[int, ...]]:
        """Resolve the waits in the order in which they were issued: a record only captures waits before it.

        What belongs to the waiting stream itself adds nothing to stream order.
        """
        waits = self.waits
        item = self._queues.item_before(waits.record_lane, waits.record_place)
        low, high = self._pending(waits.record_lane, waits.record_place, item)
        direct: list[list[int]] = [[] for _ in range(len(waits.lane))]
        for wait, activity in zip(*(column.tolist() for column in self._queues.tails.expand(item)), strict=True):
            direct[wait].append(activity)
        sources: list[tuple[int, ...]] = [()] * len(direct)
        for wait in np.argsort(waits.place, kind="stable").tolist():
            captured = dict.fromkeys(direct[wait])
            for pending in range(low[wait], high[wait]):
                captured.update(dict.fromkeys(sources[pending]))
            own = int(waits.lane[wait])
            sources[wait] = tuple(activity for activity in captured if self._home[activity] != own)
        return sources

    def _pending(self, lane: Ids, place: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Find the range of waits that stand behind each stream's last item."""
        since = np.where(item >= 0, self._queues.item_place[item], -1) if len(self._queues.item_place) else item
        low = np.searchsorted(self._key, self._queues.key(lane, since), side="left")
        return low, np.searchsorted(self._key, self._queues.key(lane, place), side="left")

    def held_by(self, lane: Ids, place: Ints) -> Captured:
        """Find all that streams hold at places: the tails of their last item and what their pending waits captured."""
        item = self._queues.item_before(lane, place)
        query, activity = self._queues.tails.expand(item)
        pending = self.pending_at(lane, place)
        return Captured(np.concatenate([query, pending.query]), np.concatenate([activity, pending.activity]))

    def pending_at(self, lane: Ids, place: Ints) -> Captured:
        """Find what the pending waits of streams captured."""
        low, high = self._pending(lane, place, self._queues.item_before(lane, place))
        pairs = [
            (at, source)
            for at in np.flatnonzero(high > low).tolist()
            for wait in range(low[at], high[at])
            for source in self._sources[wait]
        ]
        return _captured(pairs)

    def captured_by_waits(self) -> Captured:
        """Find what each wait holds its stream back for."""
        return _captured([(wait, source) for wait, sources in enumerate(self._sources) for source in sources])


def _captured(pairs: list[tuple[int, int]]) -> Captured:
    unique = list(dict.fromkeys(pairs))
    return Captured(np.array([q for q, _ in unique], np.int64), np.array([a for _, a in unique], np.int32))
