"""Who waited for whom, and what both did since both had last gone on from a meeting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.own_ways import OwnWays
from hta_graph.columns import Columns, picked
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, Ints

__all__ = ["Interval", "Waits", "common_intervals", "waits_of"]


NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class Waits(Columns):
    """Members that waited, each with the member that came last (both places among the job's members).

    ``is_known`` is false where the wait is no longer than the two clocks are uncertain.
    """

    waiter: Ints
    late: Ints
    time: Ints
    is_known: Bools


@dataclass(frozen=True)
class Interval:
    """The members that one rank's way back from ``member`` passed, down to where it met the other, latest first.

    Each is passed at its end (the rank had waited for it) or at its arrival; so is the meeting, at ``since_ns``.
    """

    member: int
    passed: Sequence[tuple[int, bool]]
    meeting: int
    went_on: bool
    since_ns: int


def waits_of(job: JobGraph) -> Waits:
    """Return all waits, those for whoever came latest first: what one of them is passed on to comes after it."""
    members = job.members
    matched = np.flatnonzero(members.number >= 0)
    last_of = np.full(int(members.number.max(initial=-1)) + 1, -1, np.int64)
    last = matched[members.is_last[matched]]
    last_of[members.number[last]] = last
    waiter = matched[members.wait[matched] > 0]
    late = last_of[members.number[waiter]]
    error = job.clock_table.error
    doubt = error[members.part[waiter]] + picked(error, picked(members.part, late), otherwise=0)
    waits = Waits(waiter, late, members.wait[waiter], (late >= 0) & (late != waiter) & (members.wait[waiter] > doubt))
    came = picked(members.arrival, late)
    return waits.take(np.lexsort((waiter, -came)))


def common_intervals(job: JobGraph, ways: OwnWays, waiter: int, late: int) -> tuple[Interval, Interval] | None:
    """Follow both ranks back to the last meeting from which both went on; None if they have none in common.

    Who came last to a meeting need not have waited for its end: for that rank it counts when it came. Where the
    recording shows no such meeting it is the first one that both came to, though it held neither.
    """
    mine, theirs = _Way(job, ways, waiter), _Way(job, ways, late)
    common = -1
    while (side := max(mine, theirs, key=lambda own: own.next_ns)).next_ns > NEVER:
        number = side.advance()
        if number in mine.met and number in theirs.met:
            common = number
            if _both_go_on(mine, theirs, number):
                break
    return None if common < 0 else (mine.until(common), theirs.until(common))


def _both_go_on(mine: _Way, theirs: _Way, number: int) -> bool:
    ways = mine.met[number], theirs.met[number]
    return all(at_end or is_last for _, at_end, is_last in ways) and any(at_end for _, at_end, _ in ways)


class _Way:
    """One rank's way back, member by member."""

    def __init__(self, job: JobGraph, ways: OwnWays, member: int) -> None:
        self._members, self._ways, self._member = job.members, ways, member
        self._head, self._passed = member, list[tuple[int, bool]]()
        self._times = list[int]()
        self.met = dict[int, tuple[int, bool, bool]]()
        """By number of a meeting: its place among the members passed, whether at its end, whether this rank came last."""

    @property
    def next_ns(self) -> int:
        """When the next member back is met; NEVER where the recording tells of none."""
        return int(self._ways.before_ns[self._head]) if self._ways.before[self._head] >= 0 else NEVER

    def advance(self) -> int:
        """Go back to the next member; return the number of its meeting (-1: with nobody)."""
        at_end = bool(self._ways.went_on[self._head])
        self._times.append(self.next_ns)
        self._head = int(self._ways.before[self._head])
        number = int(self._members.number[self._head])
        if number >= 0:
            self.met.setdefault(number, (len(self._passed), at_end, bool(self._members.is_last[self._head])))
        self._passed.append((self._head, at_end))
        return number

    def until(self, number: int) -> Interval:
        """Return what lies after a meeting."""
        place, at_end, _ = self.met[number]
        return Interval(self._member, self._passed[:place], self._passed[place][0], at_end, self._times[place])
