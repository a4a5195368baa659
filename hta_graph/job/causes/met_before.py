"""Who waited for whom, and what both did since both had last gone on from a meeting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.own_ways import OwnWays
from hta_graph.columns import Columns, picked
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, Ints

__all__ = ["Interval", "Pair", "Waits", "WaysBack", "waits_of"]


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


class WaysBack:
    """Follows ranks back along their ways.

    Waits come by whoever came last, so the way of the late rank is followed once for all that waited for it.
    """

    def __init__(self, job: JobGraph, ways: OwnWays) -> None:
        self._facts = _Facts.of(job, ways)
        self._late = _WayBack(self._facts, -1)

    def since_they_met(self, waiter: int, late: int) -> Pair | None:
        """Follow both ranks back to the last meeting from which both went on; None if they have none in common.

        Who came last to a meeting need not have waited for its end: for that rank it counts when it came.
        """
        facts = self._facts
        behind = facts.queued[waiter], facts.queued[late]
        if min(behind) >= 0 and facts.number[behind[0]] == facts.number[behind[1]] >= 0:
            return Pair(_right_after(facts, behind[0]), _right_after(facts, behind[1]), held=True)
        if self._late.start != late:
            self._late = _WayBack(facts, late)
        mine, theirs = _Walker(_WayBack(facts, waiter)), _Walker(self._late)
        common = -1
        while (side := theirs if theirs.next_ns > mine.next_ns else mine).next_ns > NEVER:
            number = side.advance()
            one, other = mine.met(number), theirs.met(number)
            if one is not None and other is not None:
                common = number
                if _both_go_on(facts, one, other):
                    return Pair(mine.way.until(common), theirs.way.until(common), held=True)
        return None if common < 0 else Pair(mine.way.until(common), theirs.way.until(common), held=False)


@dataclass(frozen=True)
class _Facts:
    """What is asked again and again, as lists: of ways, then of members. One number of an array is slow to get."""

    before: Sequence[int]
    before_ns: Sequence[int]
    went_on: Sequence[bool]
    member: Sequence[int]
    queued: Sequence[int]
    number: Sequence[int]
    is_last: Sequence[bool]
    arrival: Sequence[int]
    end: Sequence[int]
    error: Sequence[int]

    @classmethod
    def of(cls, job: JobGraph, ways: OwnWays) -> _Facts:
        members = job.members
        before_ns = np.where(ways.before >= 0, ways.before_ns, NEVER)
        columns = (
            *(ways.before, before_ns, ways.went_on, ways.member, ways.queued),
            *(members.number, members.is_last, members.arrival, job.event_table.end[members.row]),
            job.clock_table.error.clip(min=0)[members.part],
        )
        return cls(*(column.tolist() for column in columns))


def _right_after(facts: _Facts, meeting: int) -> Interval:
    """Return the interval of a kernel that began when another communication had left its stream."""
    return Interval((), (), meeting, went_on=True, since_ns=facts.end[meeting])


def _both_go_on(facts: _Facts, mine: _Met, theirs: _Met) -> bool:
    """Tell whether neither rank went on from a meeting before the other one had come: a root may."""
    one, other = mine.member, theirs.member
    first_end = min(facts.end[one], facts.end[other])
    last_arrival = max(facts.arrival[one], facts.arrival[other])
    doubt = facts.error[one] + facts.error[other]
    went_on = (mine.went_on or mine.is_last) and (theirs.went_on or theirs.is_last) and (mine.went_on or theirs.went_on)
    return went_on and first_end + doubt >= last_arrival


@dataclass(frozen=True, slots=True)
class _Met:
    """A meeting on a rank's way back: after how many ways it comes, at its end or before; if the rank came last."""

    after: int
    member: int
    went_on: bool
    is_last: bool
    time_ns: int


class _WayBack:
    """One rank's ways, one after the other, as far as anybody followed them."""

    def __init__(self, facts: _Facts, start: int) -> None:
        self._facts, self.start = facts, start
        self.passed, self._waited = [start], list[tuple[int, int]]()
        self.numbers = [-1]
        """Of the meeting that each way leads to (-1: none)."""
        self.met = dict[int, _Met]()
        """By the numbers of meetings."""

    def next_ns(self, after: int) -> int:
        """When the next way is met after so many; NEVER where the recording tells of none."""
        return self._facts.before_ns[self.passed[after - 1]]

    def go_on(self) -> None:
        """Go on to the next way."""
        facts, head = self._facts, self.passed[-1]
        way, went_on, time_ns = facts.before[head], facts.went_on[head], facts.before_ns[head]
        member = facts.member[way]
        number, after = facts.number[member], len(self.passed)
        self.passed.append(way)
        if went_on:
            self._waited.append((after, member))
        if member == facts.member[head]:  # its own way from where it left the thread
            number = -1
        elif number >= 0 and number not in self.met:
            self.met[number] = _Met(after, member, went_on, facts.is_last[member], time_ns)
        self.numbers.append(number)

    def until(self, number: int) -> Interval:
        """Return what lies after a meeting."""
        met = self.met[number]
        waited = [member for after, member in self._waited if after < met.after]
        return Interval(self.passed[: met.after], waited, met.member, met.went_on, met.time_ns)


class _Walker:
    """How far a pair of ranks has looked along the way of one of them."""

    def __init__(self, way: _WayBack) -> None:
        self.way, self._after = way, 1
        self.next_ns = way.next_ns(1)

    def advance(self) -> int:
        """Go on to the next way; return the number of the meeting that it leads to (-1: none)."""
        if self._after == len(self.way.passed):
            self.way.go_on()
        number = self.way.numbers[self._after]
        self._after += 1
        self.next_ns = self.way.next_ns(self._after)
        return number

    def met(self, number: int) -> _Met | None:
        """Return a meeting that lies on the way so far."""
        found = self.way.met.get(number)
        return found if found is not None and found.after < self._after else None
