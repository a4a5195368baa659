"""A trace's points in time: their times, their order, and the nesting of rows on each lane.

Nesting says who is innermost when, and who is around whom; a common correlation, which call launched what.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import (
    Columns,
    find_sorted,
    freeze,
    last_at_most,
    last_of_runs,
    pair_key,
    stable_order,
    take_or,
)
from hta_graph.graph.points import event_of, is_end, ordered_points, point_times
from hta_graph.model import CPU_KINDS, Bools, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import EventTable, Trace

USUAL_DEPTH = 64
"""So far rows climb one by one; in deeper nestings all of them at once."""


@dataclass(frozen=True)
class Nesting:
    """The points of the chosen rows, lane by lane in order, and who is innermost after each.

    ``owner[i]`` is the innermost open row between ``points[i]`` and ``points[i + 1]`` (-1: none, or the lane ends);
    ``parent[event]`` is the row around an event (-1: none); ``first[lane]`` is where a lane begins in ``points``.

        row A      |--------------|
        row B         |-----|
        points     A  B     B     A
        owner      A  B     A    -1
    """

    points: Ids
    owner: Ids
    parent: Ids
    first: Ints
    violations: int
    point_times: Ints
    """The times (ns) of all points of the trace."""

    @cached_property
    def event(self) -> Ids:
        """The event of each point."""
        return freeze(event_of(self.points))

    @cached_property
    def is_end(self) -> Bools:
        """Whether each point is an end."""
        return freeze(is_end(self.points))

    @cached_property
    def time(self) -> Ints:
        """The time of each point (ns)."""
        return freeze(self.point_times[self.points])

    def lane_slice(self, lane: int) -> slice:
        """Return the part of the points that belongs to a lane."""
        return slice(int(self.first[lane]), int(self.first[lane + 1]))

    def run_starts(self, chosen: Bools) -> Ints:
        """Return for each point where the run of chosen rows begins that follow each other on its lane; else itself."""
        mine = chosen[self.event]
        follows = np.append(False, mine[1:] & mine[:-1])[: len(mine)]
        follows[self.first[self.first < len(mine)]] = False
        begins: Ints = np.maximum.accumulate(np.where(follows, 0, np.arange(len(mine))))
        return begins

    def changes(self, lane: int) -> tuple[Ints, Ids]:
        """Return the times (ns) at which a lane's innermost row may change, and that row from there on (-1: none)."""
        part = self.lane_slice(lane)
        return self.time[part], self.owner[part]

    def open_at(self, lanes: Ids, times: Ints) -> Ids:
        """Return the innermost row that is open on each lane (-1: none) just after each time; -1 where none is."""
        known = np.flatnonzero(lanes >= 0)
        first = self.first[lanes[known]]
        at = last_at_most(self.time, first, self.first[lanes[known] + 1], times[known])
        found = np.full(len(lanes), -1, np.int32)
        inside = at >= first
        found[known[inside]] = self.owner[at[inside]]
        return found


@dataclass(frozen=True, eq=False)
class Innermost(Columns):
    """Which row is innermost on each lane (-1: none) from each time (ns) on, lane by lane in order of time."""

    lane: Ids
    time: Ints
    owner: Ids

    def span_of(self, lanes: Ids) -> tuple[Ints, Ints]:
        """Return where the changes of each lane begin, and where they end."""
        return np.searchsorted(self.lane, lanes, side="left"), np.searchsorted(self.lane, lanes, side="right")


def innermost_of(nestings: Sequence[Nesting]) -> Innermost:
    """Return when each lane's innermost row changes, and that row; an earlier nesting's goes first."""
    lane, time = (
        np.concatenate(columns)
        for columns in (
            [np.repeat(np.arange(len(one.first) - 1), np.diff(one.first)) for one in nestings],
            [one.time for one in nestings],
        )
    )
    order = np.lexsort((time, lane))
    is_last = last_of_runs(lane[order], time[order])
    lanes: Ids = lane[order[is_last]].astype(np.int32)
    nesting_of = np.repeat(np.arange(len(nestings), dtype=np.int8), [len(one.owner) for one in nestings])[order]
    found = np.full(len(lanes), -1, np.int32)
    for number, nesting in enumerate(nestings):
        # Each nesting's points stand in its own order: so many of them came until then.
        at = np.cumsum(nesting_of == number)[is_last] - 1
        # A later nesting speaks only where all earlier ones are silent.
        speaks = (found < 0) & (at >= nesting.first[lanes])
        found[speaks] = nesting.owner[at[speaks]]
    return Innermost(lanes, time[order[is_last]], found)


def nearest_around(parent: Ids, rows: Ids, wanted: Bools) -> Ids:
    """Walk from rows (-1: none) to the nearest wanted row around them, themselves included; -1 where there is none.

    >>> nearest_around(np.array([-1, 0, 1]), np.array([2, 0, -1]), np.array([True, False, False])).tolist()
    [0, 0, -1]
    """
    found = rows.copy()
    pending = np.flatnonzero(found >= 0)
    for _ in range(USUAL_DEPTH):
        pending = pending[~wanted[found[pending]]]
        if not len(pending):
            return found
        found[pending] = parent[found[pending]]
        pending = pending[found[pending] >= 0]
    # Twice as far each time: as many rounds as the logarithm of the deepest nesting. Behind the last row stands none.
    goal = np.append(np.where(wanted, np.arange(len(parent)), parent), -1)
    while (goal != (further := goal[goal])).any():
        goal = further
    found[pending] = goal[found[pending]]
    return found


def nest(events: EventTable, times: Ints, ordered: Ids, lane_count: int) -> Nesting:
    """Find the innermost row after each point and each row's parent.

    Args:
        events: the trace's events.
        times: the times of all points (ns).
        ordered: the points of the rows to nest, in global order.
        lane_count: how many lanes there are.
    """
    lane = events.lane[event_of(ordered)]
    points = ordered[stable_order(lane)]
    first = np.searchsorted(events.lane[event_of(points)], np.arange(lane_count + 1))
    owner, broken = _owners_by_depth(points)
    if broken.any():
        _repair_overlaps(points, owner, broken)
    parent = np.full(len(events), -1, np.int32)
    # Who owned the time before a row began is around it; before a lane's first point nobody does.
    starts = np.flatnonzero(~is_end(points))
    inner = starts[~np.isin(starts, first)]
    parent[event_of(points[inner])] = owner[inner - 1]
    child = np.flatnonzero(parent >= 0)
    # A row that outlives the one around it: rounded clocks, or rows that a profiler put on the wrong thread.
    violations = int(np.count_nonzero(events.end[child] > events.end[parent[child]]))
    return Nesting(freeze(points), freeze(owner), freeze(parent), freeze(first), violations, times)


def _owners_by_depth(points: Ids) -> tuple[Ids, Bools]:
    """Take as owner the last row opened at the present depth, right where rows nest; mark ends where they do not."""
    is_start = ~is_end(points)
    depth = np.cumsum(np.where(is_start, 1, -1), dtype=np.int32)
    # Among the points of one depth, in order, the latest start before a point opened the row that is on top there.
    by_depth = np.argsort(depth.astype(np.int16) if depth.max(initial=0) < 2**15 else depth, kind="stable")
    opened = np.where(is_start[by_depth], np.arange(len(points)), 0)
    last_opened = by_depth[np.maximum.accumulate(opened)]
    owner = np.empty(len(points), np.int32)
    owner[by_depth] = event_of(points[last_opened])
    owner[depth <= 0] = -1
    # Where rows nest, each end closes the row that owned the time before it.
    broken = ~is_start
    broken[1:] &= owner[:-1] != event_of(points[1:])
    return owner, broken


def _repair_overlaps(points: Ids, owner: Ids, broken: Bools) -> None:
    """Where rows overlap without nesting, let the open one that started last own the interval.

    Rows whose ends are not broken nest in all others. So it is the later one of what of these is open, and of what of
    the others is (rare, so row by row).
    """
    event, start = event_of(points), ~is_end(points)
    overlaps = np.zeros(int(event.max()) + 1, np.bool_)
    overlaps[event[broken]] = True
    apart = overlaps[event]
    open_rows: list[int] = []
    is_open: set[int] = set()
    latest = [-1]
    for row, begins in zip(event[apart].tolist(), start[apart].tolist(), strict=True):
        if begins:
            open_rows.append(row)
            is_open.add(row)
        else:
            is_open.discard(row)
        # Rows that ended out of turn leave the stack only when they come to its top.
        while open_rows and open_rows[-1] not in is_open:
            open_rows.pop()
        latest.append(open_rows[-1] if open_rows else -1)
    of_apart = np.array(latest, np.int32)[np.cumsum(apart)]
    of_others = np.append(np.int32(-1), _owners_by_depth(points[~apart])[0])[np.cumsum(~apart)]
    began = np.full(len(overlaps) + 1, -1, np.int64)
    began[event[start]] = np.flatnonzero(start)
    owner[:] = np.where(began[of_apart] > began[of_others], of_apart, of_others)


class Timeline:
    """The points of a trace's walkable rows in one global order, and the nesting of rows on each thread."""

    def __init__(self, trace: Trace) -> None:
        self._events = trace.events
        self._lane_count = len(trace.lanes.labels)
        self._is_activity = trace.is_activity
        self.times = freeze(point_times(trace.events))

    def set_known(self, order: Ids, position: Ids, calls: Nesting) -> None:
        """Take :attr:`order`, :attr:`position` and :attr:`calls` as they were found before."""
        vars(self).update(order=order, position=position, calls=calls)

    @cached_property
    def order(self) -> Ids:
        """All points of walkable rows in the order in which they happened (:func:`ordered_points`)."""
        return self._in_order(np.flatnonzero(kind_mask(self._events.kind, CPU_KINDS) | self._is_activity))

    @cached_property
    def position(self) -> Ids:
        """The place of each point in :attr:`order`; -1 for points that are not walked."""
        position = np.full(2 * len(self._events), -1, np.int32)
        position[self.order] = np.arange(len(self.order), dtype=np.int32)
        return freeze(position)

    @cached_property
    def calls(self) -> Nesting:
        """The nesting of operators and runtime calls on each thread."""
        on_cpu = kind_mask(self._events.kind, CPU_KINDS)[event_of(self.order)]
        return nest(self._events, self.times, self.order[on_cpu], self._lane_count)

    def lane_key(self, points: Ids) -> Ints:
        """Combine each point's lane and place in :attr:`order` into one sortable number; -1 for point -1."""
        # The lane above, the place below: what is next to each other on a lane is so among the sorted keys.
        key = pair_key(self._events.lane[event_of(points)], self.position[points])
        return np.where(points >= 0, key, -1)

    def lookups(self, *kinds: EventKind) -> Nesting:
        """Nest rows of kinds that are looked up and never walked (annotations, Python frames)."""
        if kinds not in self._lookups:
            rows = np.flatnonzero(kind_mask(self._events.kind, kinds))
            self._lookups[kinds] = nest(self._events, self.times, self._in_order(rows), self._lane_count)
        return self._lookups[kinds]

    @cached_property
    def _lookups(self) -> dict[tuple[EventKind, ...], Nesting]:
        return {}

    @cached_property
    def by_lane(self) -> Ids:
        """All points lane by lane in order: threads, then streams, then those that are not walked."""
        on_stream = self.order[self._is_activity[event_of(self.order)]]
        lane = self._events.lane[event_of(on_stream)]
        not_walked = np.flatnonzero(self.position < 0).astype(np.int32)
        return freeze(np.concatenate([self.calls.points, on_stream[stable_order(lane)], not_walked]))

    @cached_property
    def position_by_lane(self) -> Ids:
        """Where each point stands in :attr:`by_lane`."""
        place = np.empty(len(self.times), np.int32)
        place[self.by_lane] = np.arange(len(self.by_lane), dtype=np.int32)
        return freeze(place)

    def position_on_thread(self, points: Ids) -> Ids:
        """Return where points stand among those of :attr:`calls`; -1 for what is on no thread and for point -1."""
        place: Ids = take_or(self.position_by_lane, points)
        return np.where(place < len(self.calls.points), place, np.int32(-1))

    def _in_order(self, rows: Ints) -> Ids:
        return ordered_points(self._events, rows, self._is_activity)


class CallsByCorrelation:
    """Runtime calls by their correlation; of two calls with one correlation the outermost.

    In traces of the profiler before Kineto, which have no calls, operators stand for them.
    """

    def __init__(self, events: EventTable) -> None:
        has_id = events.correlation > 0
        calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & has_id)
        if not len(calls):
            calls = np.flatnonzero((events.kind == EventKind.CPU_OP) & has_id)
        self._correlation, first = np.unique(events.correlation[calls], return_index=True)
        self._call = calls[first].astype(np.int32)

    def of(self, correlations: Ints) -> Ids:
        """Return the call with each correlation; -1 where the file has none."""
        calls: Ids = take_or(self._call, find_sorted(correlations, self._correlation))
        return calls


def launching_calls(trace: Trace) -> Ids:
    """Return for every event (canonical row) the call that launched it; -1 for orphans and for what is on a thread."""
    activities = np.flatnonzero(trace.is_activity)
    calls = np.full(len(trace.events), -1, np.int32)
    calls[activities] = CallsByCorrelation(trace.events).of(trace.events.correlation[activities])
    return freeze(calls)


class Launches:
    """The calls that launched events and the operators around, each found when it is first asked for.

    It knows no graph, which keeps it and what asks it: so each goes when no one needs it any more.
    """

    def __init__(self, events: EventTable, timeline: Timeline, calls: Callable[[], Ids]) -> None:
        self._events, self._timeline, self._calls = events, timeline, calls

    @cached_property
    def call(self) -> Ids:
        """The call that launched each event; -1 for none."""
        return self._calls()

    @cached_property
    def operator_around(self) -> Ids:
        """The innermost operator around each operator and runtime call; -1 for none."""
        around = self._timeline.calls.parent.copy()
        kind = self._events.kind
        while (inside_call := (around >= 0) & (kind[around] == EventKind.RUNTIME)).any():
            around[inside_call] = around[around[inside_call]]
        return freeze(around)

    @cached_property
    def operator(self) -> Ids:
        """The innermost operator around the launch call of each GPU activity; -1 for none."""
        return freeze(take_or(self.operator_around, self.call))


def launched_before_recording(events: EventTable, work: Ids) -> Bools:
    """Mark work with a correlation below that of every call in the file: drivers count up, so its launch is older."""
    calls = (events.kind == EventKind.RUNTIME) & (events.correlation > 0)
    lowest = events.correlation[calls].min(initial=np.iinfo(np.int64).max)
    older: Bools = (events.correlation[work] > 0) & (events.correlation[work] < lowest) & calls.any()
    return older
