"""Sets of time: unions, intersections and who runs alone, on integer nanoseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import distinct
from hta_graph.model import Bools, Ints


@dataclass(frozen=True)
class Intervals:
    """Disjoint intervals [start, end) in order of time; those that touch are one."""

    start: Ints
    end: Ints

    @property
    def total(self) -> int:
        """The length of all together (ns)."""
        return int((self.end - self.start).sum())

    def clip(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the part inside a window.

        >>> union(np.array([0, 5]), np.array([3, 9])).clip(2, 6)
        Intervals(start=array([2, 5]), end=array([3, 6]))
        """
        return union(self.start.clip(start_ns, end_ns), self.end.clip(start_ns, end_ns))

    def subtract(self, other: Intervals) -> Intervals:
        """Return where this is and the other is not.

        >>> union(np.array([0]), np.array([9])).subtract(union(np.array([2, 7]), np.array([4, 12])))
        Intervals(start=array([0, 4]), end=array([2, 7]))
        """
        return _union_where([self, other], lambda running: running[0] & ~running[1])

    def both(self, other: Intervals) -> Intervals:
        """Return where both are.

        >>> union(np.array([0]), np.array([9])).both(union(np.array([2, 7]), np.array([4, 12])))
        Intervals(start=array([2, 7]), end=array([4, 9]))
        """
        return _union_where([self, other], lambda running: running[0] & running[1])

    def gaps(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the parts of a window that these do not cover.

        >>> union(np.array([2]), np.array([4])).gaps(0, 9)
        Intervals(start=array([0, 4]), end=array([2, 9]))
        """
        return union(np.array([start_ns]), np.array([end_ns])).subtract(self)

    def covered_until(self, times: Ints) -> Ints:
        """Return how much of these lies before each time (ns); the difference of two is the part between them."""
        if not len(self.start):
            return np.zeros(len(times), np.int64)
        before = np.concatenate([[0], np.cumsum(self.end - self.start)])
        at = np.searchsorted(self.start, times, side="right") - 1
        inside = np.minimum(times, self.end[at]) - self.start[at]
        return np.where(at >= 0, before[at] + inside, 0)


def union(start: Ints, end: Ints, *, keep_empty: bool = False) -> Intervals:
    """Merge intervals that overlap or touch; empty ones vanish, or stay where nothing else is.

    >>> union(np.array([5, 0, 1, 7]), np.array([6, 2, 3, 7]))
    Intervals(start=array([0, 5]), end=array([3, 6]))
    >>> union(np.array([5, 0]), np.array([5, 2]), keep_empty=True)
    Intervals(start=array([0, 5]), end=array([2, 5]))
    """
    kept = (end > start) | keep_empty
    order = np.argsort(start[kept], kind="stable")
    start, end = start[kept][order].astype(np.int64), end[kept][order].astype(np.int64)
    if not len(start):
        return Intervals(start, end)
    # A new interval opens where nothing that began before still runs.
    reach = np.maximum.accumulate(end)
    opens = np.concatenate([[True], start[1:] > reach[:-1]])
    closes = np.concatenate([opens[1:], [True]])
    return Intervals(start[opens], reach[closes])


def union_of(sets: Sequence[Intervals]) -> Intervals:
    """Return when any of several sets runs."""
    filled = [one for one in sets if len(one.start)]
    if len(filled) < 2:
        return filled[0] if filled else sets[0]
    return union(np.concatenate([one.start for one in filled]), np.concatenate([one.end for one in filled]))


def time_by_combination(sets: Sequence[Intervals]) -> Ints:
    """Return for every combination of the sets how long exactly these run (ns).

    The combination is a bit mask: bit i stands for ``sets[i]``; entry 0 is zero.

    >>> time_by_combination([union(np.array([0]), np.array([5])), union(np.array([3]), np.array([9]))]).tolist()
    [0, 3, 4, 2]
    """
    times, running = _sweep_line(sets)
    mask = sum((running[at].astype(np.int64) << at for at in range(len(sets))), np.zeros(len(times), np.int64))
    # From each boundary to the next; behind the last one nothing runs.
    lengths = np.diff(times, append=times[-1:])
    found = np.zeros(1 << len(sets), np.int64)
    np.add.at(found, mask, lengths)
    found[0] = 0
    return found


def _union_where(sets: Sequence[Intervals], wanted: Callable[[list[Bools]], Bools]) -> Intervals:
    times, running = _sweep_line(sets)
    # Each boundary but the last begins a stretch in which nothing changes.
    chosen = wanted(running)[:-1]
    return union(times[:-1][chosen], times[1:][chosen])


def _sweep_line(sets: Sequence[Intervals]) -> tuple[Ints, list[Bools]]:
    """Return all boundaries in order, and for each set whether it runs from each boundary on."""
    times = distinct(np.concatenate([np.concatenate([item.start, item.end]) for item in sets]))
    return times, [_runs_at(item, times) for item in sets]


def _runs_at(item: Intervals, times: Ints) -> Bools:
    if not len(item.start):
        return np.zeros(len(times), np.bool_)
    at = np.searchsorted(item.start, times, side="right") - 1
    running: Bools = (at >= 0) & (times < item.end[at])
    return running
