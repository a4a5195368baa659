"""Who waited for whom, and what both did since both had last gone on from a meeting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.own_ways import OwnWays
from hta_graph.columns import Columns, picked
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, Ints

__all__ = ["Interval", "Pair", "Waits", "since_they_met", "waits_of"]


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
    """The ways of one rank, latest first, from a member back to where it met another rank, at ``since_ns``.

    ``waited`` are the members between that it had waited for; ``went_on`` tells whether it had for ``meeting`` too.
    """

    ways: Sequence[int]
    waited: Sequence[int]
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
    error = job.clock_table.error.clip(min=0)
    doubt = error[members.part[waiter]] + picked(error, picked(members.part, late), otherwise=0)
    waits = Waits(waiter, late, members.wait[waiter], (late >= 0) & (late != waiter) & (members.wait[waiter] > doubt))
    came = picked(members.arrival, late)
    return waits.take(np.lexsort((waiter, -came)))


@dataclass(frozen=True)
class Pair:
    """What the rank that waited and the late one did since they last met.

    ``held`` is false where the recording shows no meeting at which they had to wait for each other: then since the
    first one that both came to.
    """

    waiter: Interval
    late: Interval
    held: bool


def since_they_met(job: JobGraph, ways: OwnWays, waiter: int, late: int) -> Pair | None:
    """Follow both ranks back to the last meeting from which both went on; None if they have none in common.

    Who came last to a meeting need not have waited for its end: for that rank it counts when it came.
    """
    mine, theirs = _WayBack(job, ways, waiter), _WayBack(job, ways, late)
    common = -1
    while (side := max(mine, theirs, key=lambda own: own.next_ns)).next_ns > NEVER:
        number = side.advance()
        if number in mine.met and number in theirs.met:
            common = number
            if _both_go_on(job, mine.met[number], theirs.met[number]):
                return Pair(mine.until(common), theirs.until(common), held=True)
    return None if common < 0 else Pair(mine.until(common), theirs.until(common), held=False)


def _both_go_on(job: JobGraph, mine: _Met, theirs: _Met) -> bool:
    """Tell whether neither rank went on from a meeting before the other one had come: a root may."""
    members, events = job.members, job.event_table
    sides = mine, theirs
    first_end = min(int(events.end[members.row[side.member]]) for side in sides)
    last_arrival = max(int(members.arrival[side.member]) for side in sides)
    doubt = sum(int(job.clock_table.error[members.part[side.member]].clip(min=0)) for side in sides)
    went_on = all(side.went_on or side.is_last for side in sides) and any(side.went_on for side in sides)
    return went_on and first_end + doubt >= last_arrival


@dataclass(frozen=True)
class _Met:
    """A meeting on a rank's way back: after how many ways it comes, at its end or before; if the rank came last."""

    after: int
    member: int
    went_on: bool
    is_last: bool
    time_ns: int


class _WayBack:
    """One rank's ways, one after the other."""

    def __init__(self, job: JobGraph, ways: OwnWays, member: int) -> None:
        self._members, self._ways = job.members, ways
        self._passed, self._waited = [member], list[tuple[int, int]]()
        self.met = dict[int, _Met]()
        """By the numbers of meetings."""

    @property
    def next_ns(self) -> int:
        """When the next way is met; NEVER where the recording tells of none."""
        head = self._passed[-1]
        return int(self._ways.before_ns[head]) if self._ways.before[head] >= 0 else NEVER

    def advance(self) -> int:
        """Go on to the next way; return the number of the meeting that it leads to (-1: none)."""
        head = self._passed[-1]
        way, went_on, time_ns = int(self._ways.before[head]), bool(self._ways.went_on[head]), self.next_ns
        member = int(self._ways.member[way])
        number, after = int(self._members.number[member]), len(self._passed)
        self._passed.append(way)
        if went_on:
            self._waited.append((after, member))
        if member == self._ways.member[head]:  # its own way from where it left the thread
            return -1
        if number >= 0:
            self.met.setdefault(number, _Met(after, member, went_on, bool(self._members.is_last[member]), time_ns))
        return number

    def until(self, number: int) -> Interval:
        """Return what lies after a meeting."""
        met = self.met[number]
        waited = [member for after, member in self._waited if after < met.after]
        return Interval(self._passed[: met.after], waited, met.member, met.went_on, met.time_ns)
