"""When a thread works for another one that waits: the autograd engine's thread, by the hand-off edges."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EdgeKind, Ids, Ints

__all__ = ["AutogradBursts"]

EARLIEST, LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class AutogradBursts:
    """The stretches in which a thread works for a waiting one; one may begin before the recording or outlast it."""

    def __init__(self, graph: DependencyGraph) -> None:
        self._graph = graph
        handoffs, lane = graph.edges_of(EdgeKind.THREAD_HANDOFF), graph.event_table.lane
        source, target = lane[handoffs.source], lane[handoffs.target]
        # A hand-off edge leads to the engine's thread or back from it; the engine's is the one that ran more autograd.
        there = self._autograd_count[target] > self._autograd_count[source]
        self._begin = (target[there], handoffs.target_ns[there], source[there])
        self._finish = (source[~there], handoffs.source_ns[~there], target[~there])

    @cached_property
    def _autograd_count(self) -> Ints:
        """How many autograd operators each lane ran: of two threads the engine's has more."""
        lanes = self._graph.event_table.lane[self._graph.marks.autograd]
        return np.bincount(lanes, minlength=len(self._graph.lanes.labels))

    def waiting_lane(self, rows: Ids) -> Ids:
        """Return the lane that waits for the burst in which each CPU row starts; -1 where none does."""
        events = self._graph.event_table
        found = np.full(len(rows), -1, np.int32)
        for lane in np.unique(np.concatenate([self._begin[0], self._finish[0]])).tolist():
            here = np.flatnonzero((rows >= 0) & (events.lane[rows] == lane))
            found[here] = self._within_bursts_of(lane, events.start[rows[here]])
        return found

    def _within_bursts_of(self, lane: int, time: Ints) -> Ids:
        """A row is in a burst if the last thing before it was a burst's begin, or the next thing is a burst's end."""
        begin, begun_for = self._of_lane(self._begin, lane)
        finish, ended_for = self._of_lane(self._finish, lane)
        last = np.searchsorted(begin, time, side="right") - 1
        coming = np.searchsorted(finish, time, side="right")
        began, ended_before = _picked_else(begin, last, EARLIEST), _picked_else(finish, coming - 1, EARLIEST)
        ends, begins_after = _picked_else(finish, coming, LATEST), _picked_else(begin, last + 1, LATEST)
        # A burst's end without its begin: the profiler was switched on in the middle of it.
        before_recording = np.where(ends <= begins_after, _picked_else(ended_for, coming, -1), -1)
        inside = (last >= 0) & (began >= ended_before)
        return np.where(inside, _picked_else(begun_for, last, -1), before_recording).astype(np.int32)

    @staticmethod
    def _of_lane(side: tuple[Ids, Ints, Ids], lane: int) -> tuple[Ints, Ids]:
        here = np.flatnonzero(side[0] == lane)
        order = here[np.argsort(side[1][here], kind="stable")]
        return side[1][order], side[2][order]


def _picked_else(values: Ids | Ints, at: Ints, otherwise: int) -> Ints:
    """Take values; another one where the place is outside."""
    known = (at >= 0) & (at < len(values))
    return np.append(values.astype(np.int64), otherwise)[np.where(known, at, len(values))]
