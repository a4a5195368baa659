"""A thread's recorded time, cut into the pieces that become CPU nodes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.algorithms.who.threads import working_threads
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import end_point
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints

__all__ = ["CpuWork"]

NO_WAIT = np.iinfo(np.int64).min
"""Stands for the time of what a point waits for, where it waits for nothing."""

HOLDING = (
    EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC, EdgeKind.BLOCKING_COPY,
    EdgeKind.THREAD_HANDOFF, EdgeKind.RUNTIME_LOCK, EdgeKind.QUEUE_FULL,
)  # fmt: skip
"""Edges whose target is a CPU point until which its thread was held."""


class CpuWork:
    """Pieces of the threads that work, in order of thread and time: each becomes a CPU node.

    A piece begins where an operator starts, where a call that launched something has returned, where a wait or a
    silence begins; so all that it causes comes at its end, and all that it waits for at its beginning. What follows a
    launch or a wait belongs to the next operator's piece. It lasts from ``begin`` to ``end``; the thread works from
    ``start`` on, before that it waits or is idle. ``row`` is the event that gives the piece its name.
    """

    def __init__(self, graph: DependencyGraph) -> None:
        self._graph = graph
        self._events = graph.trace.events
        calls = graph.timeline.calls
        working = working_threads(graph)[self._events.lane[calls.points >> 1]]
        self._points, self._owner = calls.points[working], calls.owner[working]
        self._time = graph.timeline.times[self._points]
        self._at = np.full(2 * len(self._events), -1, np.int64)
        self._at[self._points] = np.arange(len(self._points))
        lane = self._events.lane[self._points >> 1]
        self._is_first, self._is_last = np.ones(len(lane), np.bool_), np.ones(len(lane), np.bool_)
        self._is_first[1:] = lane[1:] != lane[:-1]
        self._is_last[:-1] = self._is_first[1:]
        begins = self._begins()
        self._piece = np.cumsum(begins) - 1
        self._first = np.flatnonzero(begins)
        follows = np.append(self._first[1:], len(lane))
        self._end = np.where(np.append(self._is_first, True)[follows], follows - 1, follows)[: len(self._first)]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def lane(self) -> Ids:
        """The thread of each piece."""
        lane: Ids = self._events.lane[self._points[self._first] >> 1]
        return lane

    @property
    def begin(self) -> Ints:
        """When each piece begins (ns)."""
        begin: Ints = self._time[self._first]
        return begin

    @property
    def end(self) -> Ints:
        """When each piece ends (ns)."""
        end: Ints = self._time[self._end]
        return end

    @property
    def start(self) -> Ints:
        """When its thread starts to work (ns)."""
        first, second = self._time[self._first], self._time[self._first + 1]
        until = np.clip(self._held_until[self._points[self._first + 1]], first, second)
        start: Ints = np.where(self._is_idle[self._first], second, until)
        return start

    @property
    def row(self) -> Ids:
        """The operator that starts in each piece, else the one around it, else its first call or the one around."""
        owner = self._owner[self._first]
        in_call = (owner >= 0) & (self._events.kind[owner] == EventKind.RUNTIME)
        around = np.where(in_call, self._graph.operator_around[owner], owner)
        call = self._first_start(self._points & 1 == 0)
        other = np.where(around >= 0, around, np.where(call >= 0, call, owner))
        return np.where(self.operator >= 0, self.operator, other).astype(np.int32)

    @cached_property
    def operator(self) -> Ids:
        """The operator that starts in each piece; -1 where none does."""
        return self._first_start(self._starts_operator)

    def _first_start(self, marks: Bools) -> Ids:
        """Return the event of the first marked point in each piece; -1 where there is none."""
        place = _next(marks)[self._first]
        found = self._points[place.clip(max=len(self._points) - 1)] >> 1
        return np.where(place < self._end, found, -1).astype(np.int32)

    def until(self, points: Ids | Ints) -> Ints:
        """Return the piece that contains the time just before each point; -1 where its thread begins there."""
        at = self._at[points]
        known = (at >= 0) & ~self._is_first[at]
        return np.where(known, self._piece[at - 1], -1)

    def since(self, points: Ids | Ints) -> Ints:
        """Return the piece that contains the time just after each point; of a thread's last point the one before."""
        at = self._at[points]
        return np.where(at >= 0, self._piece[at - self._is_last[at]], -1)

    def launching(self, calls: Ids) -> Ints:
        """Return the piece at whose end each call has launched; -1 where the call is its thread's first row."""
        end = end_point(calls)
        return self.until(np.where(self._held_until[end] > NO_WAIT, end - 1, end))

    def holding(self, points: Ids | Ints) -> Ints:
        """Return the piece that begins with the wait that ends at each point."""
        held = self.until(points)
        return np.where(held >= 0, held, self.since(points))

    @cached_property
    def _held_until(self) -> Ints:
        """For each point when the last of what it waited for was there (ns)."""
        edges, times = self._graph.edge_table, self._graph.timeline.times
        held = np.full(2 * len(self._events), NO_WAIT)
        holding = np.isin(edges.kind, HOLDING)
        np.maximum.at(held, edges.target[holding], times[edges.source[holding]])
        return held

    @cached_property
    def _is_idle(self) -> Bools:
        idle: Bools = (self._owner < 0) & ~self._is_last
        idle[:-1] &= self._time[1:] > self._time[:-1]
        return idle

    @cached_property
    def _starts_operator(self) -> Bools:
        starts: Bools = (self._points & 1 == 0) & (self._events.kind[self._points >> 1] == EventKind.CPU_OP)
        return starts

    def _begins(self) -> Bools:
        """Mark the points at which a piece begins."""
        points, place = self._points, np.arange(len(self._points))
        marks = self._is_first | self._is_idle | self._has_launched() | self._hands_over()
        waits = np.flatnonzero((self._held_until[points] > NO_WAIT) & ~self._is_first)
        marks[waits - 1] = True
        last_mark = np.maximum.accumulate(np.where(marks, place, -1))
        last_operator = np.maximum.accumulate(np.where(self._starts_operator, place, -1))
        unnamed = last_mark > np.append(-1, last_operator[:-1])
        begins: Bools = (marks | (self._starts_operator & ~unnamed)) & ~self._is_last
        return begins

    def _has_launched(self) -> Bools:
        """Mark the ends of calls that launched something and did not wait for it."""
        edges = self._graph.edge_table
        launching = np.zeros(len(self._events), np.bool_)
        launching[edges.source[edges.kind == EdgeKind.LAUNCH] >> 1] = True
        returns = (self._points & 1 == 1) & (self._held_until[self._points] == NO_WAIT)
        marks: Bools = returns & launching[self._points >> 1]
        return marks

    def _hands_over(self) -> Bools:
        edges = self._graph.edge_table
        handing = np.zeros(2 * len(self._events), np.bool_)
        handing[edges.source[edges.kind == EdgeKind.THREAD_HANDOFF]] = True
        marks: Bools = handing[self._points]
        return marks


def _next(marks: Bools) -> Ints:
    """Return for each place the first marked one from there on; the length if there is none."""
    place = np.where(marks, np.arange(len(marks)), len(marks))
    return np.minimum.accumulate(place[::-1])[::-1]
