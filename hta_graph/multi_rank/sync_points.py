"""Who waited for whom, and the last synchronization point from which both ranks continued."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, pair_key, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ints
from hta_graph.paths.rank_local_walks import LocalWalks

EARLIEST_NS = int(np.iinfo(np.int64).min)


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
class SyncInterval:
    """The walks of one rank, latest first, from a member back to its synchronization point, at ``since_ns``.

    ``waited`` are the members between that it had waited for; ``resumed``: it had waited for ``sync_member``, too. The
    first walk may lead to where it waits for a message that it asked for before (:func:`walks_to_waits`).
    """

    walks: Sequence[int]
    waited: Sequence[int]
    sync_member: int
    resumed: bool
    since_ns: int


def all_waits(job: DependencyGraph) -> Waits:
    """Return all waits, those for the latest rank first: what one of them is passed on to comes after it."""
    members = job.members
    matched = np.flatnonzero(members.number >= 0)
    key = pair_key(members.number[matched], members.part[matched])
    order = np.argsort(key)
    waiter = matched[members.wait[matched] > 0]
    at = find_sorted(pair_key(members.number[waiter], members.awaited[waiter]), key[order])
    late = take_or(matched[order], at)
    error = job.clock_table.error.clip(min=0)
    doubt = error[members.part[waiter]] + take_or(error, take_or(members.part, late), otherwise=0)
    waits = Waits(waiter, late, members.wait[waiter], (late >= 0) & (late != waiter) & (members.wait[waiter] > doubt))
    came = take_or(members.arrival, late)
    return waits.take(np.lexsort((waiter, -came)))


def walks_to_waits(job: DependencyGraph, walks: LocalWalks) -> Ints:
    """Return for each member the walk that leads to where its rank waits for it: mostly the one to its arrival."""
    found, busy = np.arange(len(job.members)), job.members.busy > 0
    further = np.arange(len(found), len(walks.member))
    further = further[busy[walks.member[further]]]
    found[walks.member[further]] = further
    return found


@dataclass(frozen=True)
class SyncIntervals:
    """What the rank that waited and the late one did since their last synchronization point.

    ``is_synchronized`` is false where no collective is recorded at which they had to wait for each other: then
    since the first one that both came to.
    """

    waiter: SyncInterval
    late: SyncInterval
    is_synchronized: bool


class SyncPointSearch:
    """Follows ranks back along their walks.

    Waits come by the rank that came last, so the walk of the late rank is followed once for all that waited for it.
    """

    def __init__(self, job: DependencyGraph, walks: LocalWalks) -> None:
        self._facts = _Lists.of(job, walks)
        self._late = _BackwardWalk(self._facts, -1)

    def since_last_sync(self, waiter: int, late: int) -> SyncIntervals | None:
        """Follow both ranks back to the last collective from which both continued; None if they have none in common.

        Who came last to a collective need not have waited for its end: for that rank it counts when it came.
        """
        facts = self._facts
        behind = facts.queued[waiter], facts.queued[late]
        if min(behind) >= 0 and facts.number[behind[0]] == facts.number[behind[1]] >= 0:
            return SyncIntervals(
                _interval_after(facts, behind[0]), _interval_after(facts, behind[1]), is_synchronized=True
            )
        if self._late.start != late:
            self._late = _BackwardWalk(facts, late)
        mine, theirs = _WalkCursor(_BackwardWalk(facts, facts.to_wait[waiter])), _WalkCursor(self._late)
        common = -1
        while (side := theirs if theirs.next_ns > mine.next_ns else mine).next_ns > EARLIEST_NS:
            number = side.advance()
            one, other = mine.sync_point(number), theirs.sync_point(number)
            if one is not None and other is not None:
                common = number
                if _both_resumed(facts, one, other):
                    return SyncIntervals(mine.walk.until(common), theirs.walk.until(common), is_synchronized=True)
        return (
            None
            if common < 0
            else SyncIntervals(mine.walk.until(common), theirs.walk.until(common), is_synchronized=False)
        )


@dataclass(frozen=True)
class _Lists:
    """What is looked up again and again, as lists: of walks, then of members. One number of an array is slow to get."""

    before: Sequence[int]
    before_ns: Sequence[int]
    resumed: Sequence[bool]
    member: Sequence[int]
    queued: Sequence[int]
    number: Sequence[int]
    is_last: Sequence[bool]
    arrival: Sequence[int]
    end: Sequence[int]
    error: Sequence[int]
    to_wait: Sequence[int]
    came_late: Sequence[bool]

    @classmethod
    def of(cls, job: DependencyGraph, walks: LocalWalks) -> _Lists:
        members = job.members
        before_ns = np.where(walks.before >= 0, walks.before_ns, EARLIEST_NS)
        columns = (
            *(walks.before, before_ns, walks.resumed, walks.member, walks.queued),
            *(members.number, members.is_last, members.arrival, job.event_table.end[members.row]),
            *(job.clock_table.error.clip(min=0)[members.part], walks_to_waits(job, walks)),
            (members.busy > 0) & (members.wait == 0),
        )
        return cls(*(column.tolist() for column in columns))


def _interval_after(facts: _Lists, member: int) -> SyncInterval:
    """Return the interval of a kernel that began when another communication had left its stream."""
    return SyncInterval((), (), member, resumed=True, since_ns=facts.end[member])


def _both_resumed(facts: _Lists, mine: _SyncPoint, theirs: _SyncPoint) -> bool:
    """Return whether neither rank left a collective before the other one had arrived: a root can."""
    one, other = mine.member, theirs.member
    first_end = min(facts.end[one], facts.end[other])
    last_arrival = max(facts.arrival[one], facts.arrival[other])
    doubt = facts.error[one] + facts.error[other]
    resumed = (mine.resumed or mine.is_last) and (theirs.resumed or theirs.is_last) and (mine.resumed or theirs.resumed)
    return resumed and first_end + doubt >= last_arrival


@dataclass(frozen=True, slots=True)
class _SyncPoint:
    """A collective on a rank's walk back: after how many walks it comes, at its end or before; if it came last."""

    after: int
    member: int
    resumed: bool
    is_last: bool
    time_ns: int


class _BackwardWalk:
    """One rank's walks, one after the other, as far as anybody followed them."""

    def __init__(self, facts: _Lists, start: int) -> None:
        self._facts, self.start = facts, start
        self.passed, self._waited = [start], list[tuple[int, int]]()
        self.numbers = [-1]
        """Of the collective that each walk leads to (-1: none)."""
        self.sync_points = dict[int, _SyncPoint]()
        """By the numbers of collectives."""

    def next_ns(self, after: int) -> int:
        """When the next walk begins after ``after`` others; NEVER where none is recorded."""
        return self._facts.before_ns[self.passed[after - 1]]

    def go_on(self) -> None:
        """Go on to the next walk."""
        facts, head = self._facts, self.passed[-1]
        walk, resumed, time_ns = facts.before[head], facts.resumed[head], facts.before_ns[head]
        member = facts.member[walk]
        number, after = facts.number[member], len(self.passed)
        self.passed.append(walk)
        if resumed:
            self._waited.append((after, member))
        own = walk > head and member == facts.member[head]  # its own walk from where it left the thread
        if own or (resumed and facts.came_late[member]):  # nobody waits for whom comes late to the end of a message
            number = -1
        elif number >= 0 and number not in self.sync_points:
            self.sync_points[number] = _SyncPoint(after, member, resumed, facts.is_last[member], time_ns)
        self.numbers.append(number)

    def until(self, number: int) -> SyncInterval:
        """Return what lies after a collective."""
        found = self.sync_points[number]
        waited = [member for after, member in self._waited if after < found.after]
        return SyncInterval(self.passed[: found.after], waited, found.member, found.resumed, found.time_ns)


class _WalkCursor:
    """How far a pair of ranks has looked along the walk of one of them."""

    def __init__(self, walk: _BackwardWalk) -> None:
        self.walk, self._after = walk, 1
        self.next_ns = walk.next_ns(1)

    def advance(self) -> int:
        """Go on to the next walk; return the number of the collective that it leads to (-1: none)."""
        if self._after == len(self.walk.passed):
            self.walk.go_on()
        number = self.walk.numbers[self._after]
        self._after += 1
        self.next_ns = self.walk.next_ns(self._after)
        return number

    def sync_point(self, number: int) -> _SyncPoint | None:
        """Return a synchronization point that lies on the walk so far."""
        found = self.walk.sync_points.get(number)
        return found if found is not None and found.after < self._after else None
