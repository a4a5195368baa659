"""Which threads work for a waiting one, and when: the backward pass on autograd's threads."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.base.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import EdgeKind, Ids, Ints

EARLIEST, LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class AutogradBursts:
    """The times in which a thread works for a waiting one; one may begin before the recording or outlast it."""

    def __init__(self, graph: DependencyGraph) -> None:
        # Not the graph itself, which keeps these bursts: either would wait for the other to go.
        self._events = graph.event_table
        handoffs, lane = graph.edges_of(EdgeKind.THREAD_HANDOFF), graph.event_table.lane
        source, target = lane[handoffs.source], lane[handoffs.target]
        # A hand-off edge leads to the engine's thread or back from it; the engine's is the one that ran more autograd,
        # of others, which an imported graph may have, the one that got work first.
        ran = np.bincount(lane[graph.event_flags.autograd], minlength=len(graph.lanes.labels))
        more = ran[target] - ran[source]
        got_work = np.full(len(graph.lanes.labels), LATEST)
        np.minimum.at(got_work, target, handoffs.target_ns)
        there = (more > 0) | ((more == 0) & (got_work[target] < got_work[source]))
        self._begin = (target[there], handoffs.target_ns[there], source[there])
        self._finish = (source[~there], handoffs.source_ns[~there], target[~there])

    @cached_property
    def _by_worker(self) -> dict[int, tuple[Ints, Ids, Ints, Ids]]:
        """For each thread that works for others when its bursts begin and for whom, and when they end and for whom."""
        lanes = distinct(np.concatenate([self._begin[0], self._finish[0]])).tolist()
        return {lane: (*_of_lane(self._begin, lane), *_of_lane(self._finish, lane)) for lane in lanes}

    def waiting_lane(self, rows: Ids) -> Ids:
        """Return the lane that waits for the burst in which each CPU row starts; -1 where none does."""
        events = self._events
        found = np.full(len(rows), -1, np.int32)
        for lane in self._by_worker:
            here = np.flatnonzero((rows >= 0) & (events.lane[rows] == lane))
            found[here] = self._within_bursts_of(lane, events.start[rows[here]])
        return found

    def workers(self, lane: int, start_ns: int, end_ns: int) -> Ids:
        """Return the threads of which a burst for a waiting one lies, at least in part, between two times."""
        between, found = np.array([start_ns, end_ns], np.int64), []
        for worker, (begin, begun_for, finish, ended_for) in self._by_worker.items():
            begun = begun_for[slice(*np.searchsorted(begin, between))]
            ended = ended_for[slice(*np.searchsorted(finish, between, side="right"))]
            if lane in begun or lane in ended or lane in self._within_bursts_of(worker, between[:1]):
                found.append(worker)
        return np.array(found, np.int32)

    def _within_bursts_of(self, lane: int, time: Ints) -> Ids:
        """A row is in a burst if the last thing before it was a burst's begin, or the next thing is a burst's end."""
        begin, begun_for, finish, ended_for = self._by_worker[lane]
        last = np.searchsorted(begin, time, side="right") - 1
        coming = np.searchsorted(finish, time, side="right")
        began, ended_before = _take_or_else(begin, last, EARLIEST), _take_or_else(finish, coming - 1, EARLIEST)
        ends, begins_after = _take_or_else(finish, coming, LATEST), _take_or_else(begin, last + 1, LATEST)
        # A burst's end without its begin: the profiler was switched on in the middle of it.
        before_recording = np.where(ends <= begins_after, _take_or_else(ended_for, coming, -1), -1)
        inside = (last >= 0) & (began >= ended_before)
        return np.where(inside, _take_or_else(begun_for, last, -1), before_recording).astype(np.int32)


@memoized
def autograd_bursts(graph: DependencyGraph) -> AutogradBursts:
    """Return when the graph's threads work for waiting ones."""
    return AutogradBursts(graph)


def _of_lane(side: tuple[Ids, Ints, Ids], lane: int) -> tuple[Ints, Ids]:
    here = np.flatnonzero(side[0] == lane)
    order = here[np.argsort(side[1][here], kind="stable")]
    return side[1][order], side[2][order]


def _take_or_else(values: Ids | Ints, at: Ints, otherwise: int) -> Ints:
    """Take values; another one where the place is outside."""
    known = (at >= 0) & (at < len(values))
    return np.append(values.astype(np.int64), otherwise)[np.where(known, at, len(values))]
