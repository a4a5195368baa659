"""Stream waits for events: what each record captured, and what is still pending on a stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.dependencies.stream_queues import StreamQueues
from hta_graph.model import Codes, Ids, Ints

__all__ = ["CapturedWork", "ResolvedWaits", "StreamWaits"]


@dataclass(frozen=True, eq=False)
class ResolvedWaits(Columns):
    """At ``place`` stream ``lane`` was told to wait for what ``record_lane`` held at ``record_place``; by ``rule``.

    By ``call``; -1 where only the profiler's record is in the file.
    """

    lane: Ids
    place: Ints
    record_lane: Ids
    record_place: Ints
    rule: Codes
    call: Ids


@dataclass(frozen=True, eq=False)
class CapturedWork(Columns):
    """Triples (number of the query, activity that it waits for, rule of the waits between them: 0 is recorded)."""

    query: Ints
    activity: Ids
    rule: Codes


class StreamWaits:
    """Resolved waits and what they capture.

    A record captures the last work enqueued on its stream before it, and the waits that are pending there: waits behind
    which nothing has been enqueued yet (CUDA stream semantics; no trace shows the pending ones as work).

        stream 7   [a] record e
        stream 8              wait e, record f          nothing is enqueued behind the wait before the record
        stream 9                               wait f [b]     so f holds what e holds: b waits for a
    """

    def __init__(self, queues: StreamQueues, waits: ResolvedWaits) -> None:
        self.waits = waits.take(np.lexsort((waits.place, waits.lane)))
        self._queues = queues
        self._key = queues.key(self.waits.lane, self.waits.place)
        self._enqueue_stream = (
            dict(zip(queues.rows.tolist(), queues.enqueue_stream.tolist(), strict=True)) if len(self._key) else {}
        )
        self._sources = self._capture_all()

    def _capture_all(self) -> list[dict[int, int]]:
        """Resolve the waits in the order in which they were issued: a record only captures waits before it.

        What belongs to the waiting stream itself adds nothing to stream order. What is reached by an inferred wait is
        itself inferred.
        """
        waits = self.waits
        # What each record holds as work: the last of its stream, here by wait (activity -> rule).
        item = self._queues.item_before(waits.record_lane, waits.record_place)
        low, high = self._pending_waits(waits.record_lane, waits.record_place, item)
        query, activity = self._queues.tails.expand(item)
        rule = np.where(
            waits.rule[query] > 0, waits.rule[query], self._attribution_of(query, activity, waits.record_lane)
        )
        direct: list[dict[int, int]] = [{} for _ in range(len(waits.lane))]
        for wait, source, own_rule in zip(query.tolist(), activity.tolist(), rule.tolist(), strict=True):
            direct[wait][source] = own_rule
        # And what it holds as waits: those pending there were issued earlier, so ``sources`` knows theirs already.
        sources: list[dict[int, int]] = [{} for _ in direct]
        rules, piles = waits.rule.tolist(), _CapturedByRanges(sources)
        for wait in np.argsort(waits.place, kind="stable").tolist():
            captured = direct[wait]
            # A record behind its wait is a fault: not all that is pending there is known yet.
            is_known = waits.record_place[wait] <= waits.place[wait]
            for source, source_rule in piles.first_of(int(low[wait]), int(high[wait]), is_known=is_known).items():
                captured.setdefault(source, rules[wait] or source_rule)
            own = int(waits.lane[wait])
            sources[wait] = {source: why for source, why in captured.items() if self._enqueue_stream[source] != own}
        return sources

    def _pending_waits(self, lane: Ids, place: Ints, item: Ints) -> tuple[Ints, Ints]:
        """Find the range of waits that stand behind each stream's last item."""
        since = np.where(item >= 0, self._queues.item_place[item], -1) if len(self._queues.item_place) else item
        # Waits are sorted by stream and place: those behind the last item and before the place are one range.
        low = np.searchsorted(self._key, self._queues.key(lane, since), side="left")
        return low, np.searchsorted(self._key, self._queues.key(lane, place), side="left")

    def outstanding_at(self, lane: Ids, place: Ints) -> CapturedWork:
        """Find all that streams hold at places: the tails of their last item and what their pending waits captured."""
        query, activity = self._queues.tails.expand(self._queues.item_before(lane, place))
        last = CapturedWork(query, activity, self._attribution_of(query, activity, lane))
        return CapturedWork.join([last, self.pending_at(lane, place)])

    def _attribution_of(self, query: Ints, activity: Ids, lane: Ids) -> Codes:
        return self._queues.attribution(activity, lane[query])

    def pending_at(self, lane: Ids, place: Ints) -> CapturedWork:
        """Find what the pending waits of streams captured."""
        low, high = self._pending_waits(lane, place, self._queues.item_before(lane, place))
        piles = _CapturedByRanges(self._sources)
        some = np.flatnonzero(high > low)
        found = _captured_of([
            (at, *pair)
            for at in some[np.lexsort((high[some], low[some]))].tolist()
            for pair in piles.every_of(int(low[at]), int(high[at]))
        ])  # fmt: skip
        return found.take(np.argsort(found.query, kind="stable"))

    def captured_by_waits(self) -> CapturedWork:
        """Find what each wait holds its stream back for."""
        return _captured_of([(wait, *item) for wait, sources in enumerate(self._sources) for item in sources.items()])


class _CapturedByRanges:
    """What ranges of waits captured together: waits may pile up, and each question about a pile asks for more of it."""

    def __init__(self, sources: Sequence[Mapping[int, int]]) -> None:
        self._sources = sources
        self._known: dict[int, tuple[int, dict[int, int]]] = {}
        self._pairs: dict[int, tuple[int, dict[tuple[int, int], None]]] = {}

    def first_of(self, low: int, high: int, *, is_known: bool) -> Mapping[int, int]:
        """Return what waits from ``low`` to before ``high`` captured, each by the rule of the first; a view."""
        # Where nothing is pending another stream's pile may begin.
        if high <= low:
            return {}
        upto, found = self._known.get(low, (low, {}))
        if upto > high or not is_known:
            upto, found = low, {}
        for wait in range(upto, high):
            for source, rule in self._sources[wait].items():
                found.setdefault(source, rule)
        if is_known:
            self._known[low] = high, found
        return found

    def every_of(self, low: int, high: int) -> Iterable[tuple[int, int]]:
        """Return what waits from ``low`` to before ``high`` captured, with every rule once; a view."""
        upto, found = self._pairs.get(low, (low, {}))
        if upto > high:
            upto, found = low, {}
        for wait in range(upto, high):
            found.update(dict.fromkeys(self._sources[wait].items()))
        self._pairs[low] = high, found
        return found


def _captured_of(triples: list[tuple[int, int, int]]) -> CapturedWork:
    query, activity, rule = (np.array([triple[side] for triple in triples], np.int64) for side in range(3))
    return CapturedWork(query, activity.astype(np.int32), rule.astype(np.int8))
