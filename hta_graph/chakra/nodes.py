"""A thread's recorded time, cut into the segments that become CPU nodes."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from hta_graph.arrays import first_of_runs, freeze, last_of_runs, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, EdgeKind, EventKind, Ids, Ints, edge_kinds
from hta_graph.paths.threads import working_threads

__all__ = ["BLOCKING_EDGES", "CpuSegments"]

NO_WAIT = np.iinfo(np.int64).min
"""Stands for the time of what a point waits for, where it waits for nothing."""

LONG_CALL_NS = 20_000
"""Launching takes some µs; a call that takes longer does something else first."""

BLOCKING_EDGES = edge_kinds(lambda meaning: meaning.holds)
"""Edges whose target is on the CPU and until which its thread was held."""


class CpuSegments:
    """Segments of the threads that work, in order of thread and time: each becomes a CPU node.

    A segment begins where an operator starts, where a call launches something, where a wait or a silence begins; so all
    that it causes comes at its end, and all that it waits for at its beginning. What follows a launch or a wait belongs
    to the next operator's segment. It lasts from ``begin`` to ``end``; the thread works from ``start`` on, before that
    it waits or is idle. ``row`` is the event that gives the segment its name.

        operators   |---------------------------|     |-----------|
        calls          |launch|  |synchronise|           |launch|
        segments    |1 |2        |3             |4       |5       |     3 waits, then works; 4 is idle, then works
    """

    def __init__(self, graph: DependencyGraph) -> None:
        self._graph = graph
        self._events = graph.event_table
        # The working threads' starts and ends in order of thread and time; all columns below have one entry for each.
        calls = graph.calls
        chosen = np.flatnonzero(working_threads(graph)[self._events.lane[calls.event]])
        self._event, self._is_end, self._time = calls.event[chosen], calls.is_end[chosen], calls.time[chosen]
        self._owner, self._lane = calls.owner[chosen], self._events.lane[calls.event[chosen]]
        self._is_first, self._is_last = first_of_runs(self._lane), last_of_runs(self._lane)
        self._place = np.full((2, len(self._events)), -1, np.int64)
        self._place[self._is_end.astype(np.int8), self._event] = np.arange(len(chosen))
        begins = self._segment_begins()
        self._segment = np.cumsum(begins) - 1
        self._first = np.flatnonzero(begins)
        # A segment ends where the next begins; its thread's last one at the thread's last moment.
        follows = np.append(self._first[1:], len(chosen))
        self._end = np.where(np.append(self._is_first, True)[follows], follows - 1, follows)[: len(self._first)]

    def __len__(self) -> int:
        return len(self._first)

    @property
    def lane(self) -> Ids:
        """The thread of each segment."""
        lane: Ids = self._lane[self._first]
        return lane

    @property
    def begin(self) -> Ints:
        """When each segment begins (ns)."""
        begin: Ints = self._time[self._first]
        return begin

    @property
    def end(self) -> Ints:
        """When each segment ends (ns)."""
        end: Ints = self._time[self._end]
        return end

    @property
    def start(self) -> Ints:
        """When its thread starts to work (ns)."""
        first, second = self._time[self._first], self._time[self._first + 1]
        until = np.clip(self._wait_ends[self._first + 1], first, second)
        start: Ints = np.where(self._is_idle[self._first], second, until)
        return start

    @property
    def place(self) -> Ints:
        """The place, in the order of all that happened, from which on each segment can work: where its wait ends."""
        first = self._first + (self._wait_ends[self._first + 1] > NO_WAIT)
        return self._graph.place(self._event[first], self._is_end[first])

    @property
    def row(self) -> Ids:
        """The operator that starts in each segment, else the one around it, else its first call or the one around."""
        owner = self._owner[self._first]
        in_call = (owner >= 0) & (self._events.kind[owner] == EventKind.RUNTIME)
        around = np.where(in_call, self._graph.operator_around[owner], owner)
        call = self._first_marked(~self._is_end)
        other = np.where(around >= 0, around, np.where(call >= 0, call, owner))
        return np.where(self.operator >= 0, self.operator, other).astype(np.int32)

    @cached_property
    def operator(self) -> Ids:
        """The operator that starts in each segment; -1 where none does."""
        return self._first_marked(self._starts_operator)

    def _first_marked(self, marks: Bools) -> Ids:
        """Return the event of the first marked start or end in each segment; -1 where there is none."""
        size = len(marks)
        following = np.minimum.accumulate(np.where(marks, np.arange(size), size)[::-1])[::-1]
        place = following[self._first]
        return np.where(place < self._end, self._event[place.clip(max=size - 1)], -1).astype(np.int32)

    def segment_before(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        """Return the segment before each event's start or end; -1 where its thread begins there or does not work."""
        place = self._places_of(events, at_end=at_end)
        known = (place >= 0) & ~take_or(self._is_first, place)
        before: Ints = take_or(self._segment, np.where(known, place - 1, -1))
        return before

    def segment_after(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        """Return the segment after each event's start or end; of a thread's last moment the one before it."""
        place = self._places_of(events, at_end=at_end)
        after: Ints = take_or(self._segment, place - take_or(self._is_last, place, otherwise=False))
        return after

    def launching_segment(self, calls: Ids) -> Ints:
        """Return the segment at whose end each call launches; -1 where the call is its thread's first row.

        That is where the call starts: work may begin before it returns, and holds its return where it waits. A call
        that takes long, waits for nothing and returns about when its work begins (it loads a module) launches at its
        end; so does a thread's first row.
        """
        return self.segment_before(calls, at_end=self._launches_late[calls])

    def waiting_segment(self, events: Ids, *, at_end: Bools) -> Ints:
        """Return the segment that begins with the wait that ends at each event's start or end."""
        ends = self.segment_before(events, at_end=at_end)
        return np.where(ends >= 0, ends, self.segment_after(events, at_end=at_end))

    def _places_of(self, events: Ids | Ints, *, at_end: Bools | bool) -> Ints:
        places: Ints = self._place[np.asarray(at_end, np.int8), events]
        return places

    @cached_property
    def _wait_ends(self) -> Ints:
        """When the last of what each start or end waited for was there (ns)."""
        ends = np.full(len(self._event), NO_WAIT)
        edges = self._graph.edges_of(*BLOCKING_EDGES)
        place = self._places_of(edges.target, at_end=edges.to_end)
        np.maximum.at(ends, place[place >= 0], edges.source_ns[place >= 0])
        return ends

    @cached_property
    def _is_idle(self) -> Bools:
        """Mark where a silence begins: no operator and no call is open until the next start."""
        idle: Bools = (self._owner < 0) & ~self._is_last
        idle[:-1] &= self._time[1:] > self._time[:-1]
        return idle

    @cached_property
    def _starts_operator(self) -> Bools:
        starts: Bools = ~self._is_end & (self._events.kind[self._event] == EventKind.CPU_OP)
        return starts

    def _segment_begins(self) -> Bools:
        """Mark the starts and ends at which a segment begins."""
        marks = self._is_first | self._is_idle | self._launches() | self._handoffs()
        waits = np.flatnonzero((self._wait_ends > NO_WAIT) & ~self._is_first)
        marks[waits - 1] = True
        # After a mark that is no operator's start the segment has no name yet: the next operator gives it its own and
        # begins none.
        place = np.arange(len(marks))
        last_mark = np.maximum.accumulate(np.where(marks, place, -1))
        last_operator = np.maximum.accumulate(np.where(self._starts_operator, place, -1))
        unnamed = last_mark > np.append(-1, last_operator[:-1])
        begins: Bools = (marks | (self._starts_operator & ~unnamed)) & ~self._is_last
        return begins

    @cached_property
    def _launches_late(self) -> Bools:
        """Mark the calls (by event) that launch when they return."""
        events, edges = self._events, self._graph.edges_of(EdgeKind.LAUNCH)
        first = np.full(len(events), np.iinfo(np.int64).max)
        np.minimum.at(first, edges.source, events.start[edges.target])
        late = (events.end - events.start > LONG_CALL_NS) & (first > events.end - LONG_CALL_NS)
        thread_begins = self._event[self._is_first]
        late[thread_begins] |= first[thread_begins] >= events.end[thread_begins]
        begin, end = (self._places_of(edges.source, at_end=side) for side in (False, True))
        # What is inside the call might wait for what it launched; then the launch must not wait for it.
        late[edges.source] &= (end == begin + 1) & (self._wait_ends[end] == NO_WAIT)
        return freeze(late)

    def _launches(self) -> Bools:
        """Mark where calls launch something: at their starts, or their ends."""
        launches = np.zeros(len(self._events), np.bool_)
        launches[self._graph.edges_of(EdgeKind.LAUNCH).source] = True
        marks: Bools = launches[self._event] & (self._is_end == self._launches_late[self._event])
        return marks

    def _handoffs(self) -> Bools:
        """Mark where a thread hands work to another one, and where backward needs what forward has made."""
        marks = np.zeros(len(self._event), np.bool_)
        kinds = (EdgeKind.THREAD_HANDOFF, EdgeKind.FORWARD_BACKWARD, EdgeKind.THREAD_ORDER)
        handed, needed, followed = (self._graph.edges_of(kind) for kind in kinds)
        # Messages to other ranks are on no thread: what follows the point that asks for one does not wait for it.
        asks = self._graph.is_activity[followed.target] & ~self._graph.is_activity[followed.source]
        for place in (
            self._places_of(handed.source, at_end=handed.from_end),
            self._places_of(followed.source[asks], at_end=followed.from_end[asks]),
            self._places_of(needed.target, at_end=needed.to_end),
        ):
            marks[place[place >= 0]] = True
        return marks
