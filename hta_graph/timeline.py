"""The order of points in time and on each thread, and which row is innermost where."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.model import CPU_KINDS, GPU_KINDS, WALKABLE, Bools, EventKind, Ids, Ints, kind_mask
from hta_graph.trace.table import EventTable, freeze

__all__ = ["Nesting", "Timeline", "end_point", "nest", "point_times", "start_point"]

# Classes of points at one instant, in the order in which they happen.
GPU_END, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO, GPU_ZERO, GPU_START = range(7)


def start_point(events: Ids | Ints) -> Ids:
    """Return the start points of events."""
    return (2 * events).astype(np.int32)


def end_point(events: Ids | Ints) -> Ids:
    """Return the end points of events."""
    return (2 * events + 1).astype(np.int32)


def point_times(events: EventTable) -> Ints:
    """Return the time of every point (ns); length twice the number of events."""
    times = np.empty(2 * len(events), np.int64)
    times[0::2] = events.start
    times[1::2] = events.end
    return times


@dataclass(frozen=True)
class Nesting:
    """The points of the chosen rows, lane by lane in order, and who is innermost after each.

    ``owner[i]`` is the innermost open row between ``points[i]`` and ``points[i + 1]`` (-1: none, or the lane ends);
    ``parent[event]`` is the row around an event (-1: none); ``first[lane]`` is where a lane begins in ``points``.
    """

    points: Ids
    owner: Ids
    parent: Ids
    first: Ints
    violations: int

    def lane_slice(self, lane: int) -> slice:
        """Return the part of ``points`` and ``owner`` that belongs to a lane."""
        return slice(int(self.first[lane]), int(self.first[lane + 1]))


class Timeline:
    """The points of a trace's walkable rows in one global order, and the nesting of rows on each thread."""

    def __init__(self, events: EventTable, lane_count: int) -> None:
        self._events = events
        self._lane_count = lane_count
        self.times = freeze(point_times(events))

    @cached_property
    def order(self) -> Ids:
        """All points of walkable rows in the order in which they happened.

        At equal times on a thread: ends, then starts, outer before inner; a zero-length row on a boundary lies inside
        the row that ends there. GPU ends come before and GPU starts after what the CPU does at that instant.
        """
        return _ordered_points(self._events, np.flatnonzero(kind_mask(self._events.kind, WALKABLE)))

    @cached_property
    def position(self) -> Ids:
        """The place of each point in :attr:`order`; -1 for points that are not walked."""
        position = np.full(2 * len(self._events), -1, np.int32)
        position[self.order] = np.arange(len(self.order), dtype=np.int32)
        return freeze(position)

    @cached_property
    def calls(self) -> Nesting:
        """The nesting of operators and runtime calls on each thread."""
        return nest(
            self._events, self.order[kind_mask(self._events.kind, CPU_KINDS)[self.order >> 1]], self._lane_count
        )

    def lookups(self, *kinds: EventKind) -> Nesting:
        """Nest rows of kinds that are looked up and never walked (annotations, Python frames)."""
        return nest(
            self._events,
            _ordered_points(self._events, np.flatnonzero(kind_mask(self._events.kind, kinds))),
            self._lane_count,
        )


def _ordered_points(events: EventTable, rows: Ints) -> Ids:
    """Merge ends, zero-length rows and starts; a stable sort keeps starts outer first and ends inner first."""
    zero = events.start[rows] == events.end[rows]
    starts, zeros, ends = rows[~zero], rows[zero], rows[~zero][::-1]
    items = np.concatenate([ends, zeros, starts])
    gpu = kind_mask(events.kind, GPU_KINDS)
    group = np.concatenate([
        np.where(gpu[ends], GPU_END, CPU_END),
        np.where(gpu[zeros], GPU_ZERO, np.where(_at_an_end(events, zeros, ends), CPU_ZERO_AT_END, CPU_ZERO)),
        np.where(gpu[starts], GPU_START, CPU_START),
    ])  # fmt: skip
    time = np.concatenate([events.end[ends], events.start[zeros], events.start[starts]])
    origin = time.min() if len(time) else 0
    first_point = np.concatenate([2 * ends + 1, 2 * zeros, 2 * starts])
    is_pair = np.zeros(len(items), np.bool_)
    is_pair[len(ends) : len(ends) + len(zeros)] = True
    order = np.argsort((time - origin) * 8 + group, kind="stable")
    repeats = np.where(is_pair[order], 2, 1)
    points = np.repeat(first_point[order], repeats)
    second = np.cumsum(repeats)[is_pair[order]] - 1
    points[second] += 1
    return freeze(points.astype(np.int32))


def _at_an_end(events: EventTable, zeros: Ints, ends: Ints) -> Bools:
    """Mark the zero-length rows at whose instant another row of their lane ends."""
    marked = np.zeros(len(zeros), np.bool_)
    candidates = np.flatnonzero(_among(events.start[zeros], np.sort(events.end[ends])))
    if len(candidates):
        near = ends[_among(events.end[ends], np.sort(events.start[zeros[candidates]]))]
        seen = set(zip(events.lane[near].tolist(), events.end[near].tolist(), strict=True))
        here = zip(events.lane[zeros[candidates]].tolist(), events.start[zeros[candidates]].tolist(), strict=True)
        marked[candidates] = [key in seen for key in here]
    return marked


def _among(values: Ints, ordered: Ints) -> Bools:
    """Mark the values that are among some sorted ones; faster than ``np.isin``, which sorts both or hashes."""
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    found: Bools = ordered[np.searchsorted(ordered, values).clip(max=len(ordered) - 1)] == values
    return found


def nest(events: EventTable, ordered: Ids, lane_count: int) -> Nesting:
    """Find the innermost row after each point and each row's parent; ``ordered`` holds points in global order."""
    lane = events.lane[ordered >> 1]
    points = ordered[np.argsort(lane.astype(np.int16) if lane_count < 2**15 else lane, kind="stable")]
    first = np.searchsorted(events.lane[points >> 1], np.arange(lane_count + 1))
    owner, broken = _owners_by_depth(points)
    if broken.any():
        _repair(points, owner, broken)
    parent = np.full(len(events), -1, np.int32)
    starts = np.flatnonzero(points & 1 == 0)
    inner = starts[~np.isin(starts, first)]
    parent[points[inner] >> 1] = owner[inner - 1]
    child = np.flatnonzero(parent >= 0)
    violations = int(np.count_nonzero(events.end[child] > events.end[parent[child]]))
    return Nesting(freeze(points), freeze(owner), freeze(parent), freeze(first), violations)


def _owners_by_depth(points: Ids) -> tuple[Ids, Bools]:
    """Take as owner the last row opened at the present depth, right where rows nest; mark ends where they do not."""
    is_start = points & 1 == 0
    depth = np.cumsum(np.where(is_start, 1, -1), dtype=np.int32)
    by_depth = np.argsort(depth.astype(np.int16) if depth.max(initial=0) < 2**15 else depth, kind="stable")
    opened = np.where(is_start[by_depth], np.arange(len(points)), 0)
    last_opened = by_depth[np.maximum.accumulate(opened)]
    owner = np.empty(len(points), np.int32)
    owner[by_depth] = points[last_opened] >> 1
    owner[depth <= 0] = -1
    broken = ~is_start
    broken[1:] &= owner[:-1] != points[1:] >> 1
    return owner, broken


def _repair(points: Ids, owner: Ids, broken: Bools) -> None:
    """Where rows overlap without nesting, let the open one that started last own the interval (rare, so row by row)."""
    closed_before = np.concatenate([[True], owner[:-1] == -1]) & (points & 1 == 0)
    cluster = np.cumsum(closed_before)
    hit = np.zeros(cluster[-1] + 1, np.bool_)
    hit[cluster[broken]] = True
    open_rows: list[int] = []
    is_open: set[int] = set()
    for at in np.flatnonzero(hit[cluster]).tolist():
        point = int(points[at])
        if closed_before[at]:
            open_rows.clear()
            is_open.clear()
        if point & 1 == 0:
            open_rows.append(point >> 1)
            is_open.add(point >> 1)
        else:
            is_open.discard(point >> 1)
        while open_rows and open_rows[-1] not in is_open:
            open_rows.pop()
        owner[at] = open_rows[-1] if open_rows else -1
