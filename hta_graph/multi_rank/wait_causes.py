"""Causes of waits: every wait of a job attributed to what the late rank did more of, to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, first_of_runs, pair_key, summed_by, take_or, unique_rows
from hta_graph.graph.conversion import labels, none_where
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import held_elsewhere
from hta_graph.model import Bools, BoundBy, Floats, Ints
from hta_graph.multi_rank.rank_activity import ActivityProfile, WalkProfiles, walks_and_profiles
from hta_graph.multi_rank.sync_points import SyncInterval, SyncPointSearch, Waits, all_waits
from hta_graph.paths.rank_local_walks import LocalWalks

ROWS_AT_ONCE = 1 << 15
"""This many parts of what ranks did are added up at once: those of all waits of a large job would not fit memory."""

LEAST_PASSED_ON = 1e-4
"""Smaller shares of waits are not followed further."""


@dataclass(frozen=True, eq=False)
class ExcessTimes(Columns):
    """What a late rank did more of than who waited for it (the place of the wait), in order of both."""

    wait: Ints
    activity: Ints
    time: Ints


@dataclass(frozen=True, eq=False)
class PropagatedWaits(Columns):
    """The members that a late rank waited as itself, and for how long (ns), latest first; by the place of the wait."""

    wait: Ints
    member: Ints
    time: Ints


@dataclass(frozen=True)
class Excesses:
    """To whom each wait is attributed, in proportion to times (ns).

    ``unknown`` is how late the rank was already where the recording first shows both. Of a wait for a rank that it did
    not meet before, or that is not known well enough, there is nothing. ``since`` is from when on the waiter (row 0)
    and the late rank (1) are compared.
    """

    done: ExcessTimes
    passed_on: PropagatedWaits
    unknown: Ints
    since: Ints


def wait_excesses(job: DependencyGraph, walks: LocalWalks, found: WalkProfiles, waits: Waits) -> Excesses:
    """Compare the two ranks of each wait since their last synchronization point."""
    comparison = _Comparison(job, walks, found, len(waits))
    pairs = zip(waits.waiter.tolist(), waits.late.tolist(), waits.is_known.tolist(), strict=True)
    for at, (waiter, late, is_known) in enumerate(pairs):
        if is_known:
            comparison.compare(at, waiter, late)
    return comparison.result()


class _Comparison:
    """Compares ranks wait by wait, and sums up what they did many waits at once."""

    def __init__(self, job: DependencyGraph, walks: LocalWalks, found: WalkProfiles, waits: int) -> None:
        self._found, self._back = found, SyncPointSearch(job, walks)
        self._wait, self._since = job.members.wait.tolist(), job.members.waits_since.tolist()
        self._member = walks.member.tolist()
        # What a member's own time counts as, in lists: see :class:`SyncPointSearch`.
        self._transfer = found.profile.activity[found.first[found.itself(0) : -1]].tolist()
        self._unknown = [0] * waits
        self._compared_since = np.zeros((2, waits), np.int64)
        self._passed: list[tuple[int, int, int]] = []
        self._done: list[ExcessTimes] = []
        self._parts: list[tuple[int, int, int]] = []
        """Wait, part of what was done, and whether it counts for the late rank (1) or for the waiter (−1)."""
        self._longer: list[tuple[int, int, int]] = []
        """Wait, what, and for how much longer the late rank did it besides (ns)."""

    def compare(self, at: int, waiter: int, late: int) -> None:
        """Compare the two ranks of a wait."""
        both = self._back.since_last_sync(waiter, late)
        if both is None:
            return
        mine, theirs = both.waiter, both.late
        self._compared_since[:, at] = mine.since_ns, theirs.since_ns
        self._parts += [(at, part, 1) for part in self._parts_of(theirs)]
        self._parts += [(at, part, -1) for part in self._parts_of(mine)]
        waits = [*theirs.waited, theirs.sync_member]
        waited = [self._wait[member] for member in waits]
        left_later = max(0, theirs.since_ns - mine.since_ns)
        if both.is_synchronized and mine.resumed and theirs.resumed:
            # Who left the collective later had less time since: it waited on for others there, or took longer itself.
            until = self._since[theirs.sync_member] + waited[-1]
            waited[-1] = min(max(0, until - mine.since_ns), left_later)
            self._longer.append((at, self._transfer[theirs.sync_member], left_later - waited[-1]))
        else:
            waited[-1] = 0
        self._passed += [(at, member, ns) for member, ns in zip(waits, waited, strict=True) if ns > 0]
        # Where neither had waited for the other, who was late already still is.
        self._unknown[at] = 0 if both.is_synchronized else left_later
        if len(self._parts) > ROWS_AT_ONCE:
            self._sum_up()

    def _parts_of(self, interval: SyncInterval) -> list[int]:
        """Return what a rank did in an interval; its waits are not among it."""
        found, walks, waited = self._found, interval.walks, interval.waited
        lags = [found.lag(member) for member in (*map(self._member.__getitem__, walks[:1]), *waited)]
        return [*walks, *lags, *(found.itself(member) for member in waited)]

    def _sum_up(self) -> None:
        wait, part, sign = np.array(self._parts, np.int64).reshape(-1, 3).T
        at, rows = self._found.rows(part)
        more = np.concatenate([
            np.stack([wait[at], rows.activity, sign[at] * rows.time], axis=1),
            np.array(self._longer, np.int64).reshape(-1, 3),
        ])  # fmt: skip
        key, group = np.unique(pair_key(more[:, 0], more[:, 1]), return_inverse=True)
        time = summed_by(group, more[:, 2], len(key))
        self._done.append(ExcessTimes(key >> 32, key & 0xFFFF_FFFF, time).take(time > 0))
        self._parts, self._longer = [], []

    def result(self) -> Excesses:
        """Return what all comparisons found."""
        self._sum_up()
        passed = PropagatedWaits(*np.array(self._passed, np.int64).reshape(-1, 3).T)
        return Excesses(ExcessTimes.join(self._done), passed, np.array(self._unknown, np.int64), self._compared_since)


@dataclass(frozen=True, eq=False)
class AttributedWaits(Columns):
    """Waiting (ns) by its cause: the rank, and what it did (-1: not known); largest first, what is not known last.

    ``direct`` is that of ranks that waited for this one, ``propagated`` what reached others through ranks that had
    waited for it themselves; ``collectives`` counts where they waited.
    """

    rank: Ints
    activity: Ints
    direct: Ints
    propagated: Ints
    collectives: Ints

    @property
    def caused(self) -> Ints:
        """Waiting of others, direct and passed on (ns)."""
        return self.direct + self.propagated


@dataclass(frozen=True, eq=False)
class _Shares(Columns):
    """Shares of waits: to whom, how much (ns), and at which collective it was waited."""

    part: Ints
    activity: Ints
    direct: Ints
    propagated: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class _Weights(Columns):
    """What waits (by place) are attributed to: activities (-1: not known), or other members' waits (-1: none)."""

    wait: Ints
    activity: Ints
    member: Ints
    weight: Ints


@dataclass(frozen=True, eq=False)
class RowShares(Columns):
    """Shares of waits (by place) that lie in rows, parts of a job's time; ``column``: because of which rank."""

    wait: Ints
    column: Ints
    row: Ints
    share: Floats

    def summed(self, least: float = 0.0) -> RowShares:
        """Add up what belongs together, in order of the waits; shares below the least one are left out."""
        first, group = unique_rows(self.wait, self.column, self.row)
        found = replace(self.take(first), share=np.bincount(group, self.share, len(first)).astype(np.float64))
        return found.take(found.share > least)


class WaitCauses:
    """Attributes the waits of a job to their causes.

    A wait is attributed, over the time since both ranks last left a collective, to what the late one did more
    of than the waiter, by call path, name and class, and to the late one's own waits in that time, which are passed on
    to their causes; in proportion to their times (Böhme et al., ACM TOPC 3(2), 2016). All that is waited is attributed:
    not known is the cause of what lies before the first collective, is shorter than the clocks are uncertain, or shows
    no excess.

    ``data_load`` are expressions of operators and annotations that mean data loading, PyTorch's if none are given.
    """

    def __init__(self, job: DependencyGraph, data_load: Sequence[str] = ()) -> None:
        self._job = held_elsewhere(job)
        self._ways, self._profiles = walks_and_profiles(job, data_load)
        self.waits: Waits = all_waits(job)

    @property
    def job(self) -> DependencyGraph:
        """The job, which keeps the causes of its waits and is not kept by them."""
        return self._job()

    @property
    def walks(self) -> LocalWalks:
        """How ranks came to what they did with others."""
        return self._ways

    @property
    def activities(self) -> ActivityProfile:
        """What ranks did."""
        return self._profiles.activities

    @cached_property
    def include_messages(self) -> bool:
        """Whether ranks wait for messages: then what a stage does at all may be the schedule's."""
        return bool(self.job.members.is_message[self.waits.waiter].any())

    def walk_times(self) -> Ints:
        """Return how long each walk takes (ns)."""
        return self._profiles.walk_times()

    def times_of(self, activity: int) -> tuple[Ints, Ints, Ints]:
        """Return before which members' arrivals something was done, since when (ns), and for how long."""
        found, walks, came = self._profiles, self._ways, self.job.members.arrival
        at, rows = found.rows(np.arange(found.walks + found.members))
        mine = rows.activity == activity
        since = np.append(np.where(walks.before >= 0, walks.before_ns, came[walks.member]), came)
        of = at[mine]
        return np.append(walks.member, np.arange(found.members))[of], since[of], rows.time[mine]

    def shares_of_ranks(self, parts: Ints, counted: Bools, done: RowShares) -> RowShares:
        """Return the shares of waits that go back to what some ranks did, by the row in which they did it.

        Args:
            parts: the places of the ranks, which are the columns.
            counted: marks the activities that count.
            done: in which rows of its own time the late rank of each wait did more, by wait.
        """
        weighed, turn = self._weighed, self._turn_of_member
        column = np.full(len(self.job.rank_graphs), -1, np.int64)
        column[parts] = np.arange(len(parts))
        share = weighed.weight / np.maximum(summed_by(weighed.wait, weighed.weight, len(turn)), 1)[weighed.wait]
        mine = take_or(column, take_or(self.job.members.part, self.waits.late[weighed.wait]))
        counts = np.flatnonzero(
            (weighed.member < 0) & (mine >= 0) & take_or(counted, weighed.activity, otherwise=False)
        )
        at, row = _rows_of_keys(done.wait, weighed.wait[counts])
        own = RowShares(weighed.wait[counts[at]], mine[counts[at]], done.row[row], share[counts[at]] * done.share[row])
        passed = np.flatnonzero(weighed.member >= 0)
        passed = passed[np.argsort(turn[weighed.member[passed]], kind="stable")]
        source, found = turn[weighed.member[passed]], [own.summed(LEAST_PASSED_ON)]
        # What a wait is passed on to has a later turn: this ends.
        while len(now := found[-1]):
            at, row = _rows_of_keys(source, now.wait)
            reached = replace(now.take(at), wait=weighed.wait[passed[row]], share=now.share[at] * share[passed[row]])
            found.append(reached.summed(LEAST_PASSED_ON))
        return RowShares.join(found).summed()

    @property
    def since(self) -> Ints:
        """From when on (ns) the waiter (row 0) and the late rank (1) of each wait are compared."""
        return self._compared[1]

    @cached_property
    def _turn_of_member(self) -> Ints:
        """The turn of each member's wait; behind the last one where it has none."""
        turn = np.full(len(self.job.members), len(self.waits), np.int64)
        turn[self.waits.waiter] = np.arange(len(self.waits))
        return turn

    @property
    def _weighed(self) -> _Weights:
        """What each wait is attributed to, and the waits that it is passed on to, with their weights; by wait."""
        return self._compared[0]

    @cached_property
    def _compared(self) -> tuple[_Weights, Ints]:
        found, every = wait_excesses(self.job, self._ways, self._profiles, self.waits), np.arange(len(self.waits))
        passed, turn = found.passed_on, self._turn_of_member
        later = turn[passed.member]
        passed = passed.take((later > passed.wait) & (later < len(every)))  # all are, but where clocks are wrong
        parts = [
            _Weights.of(wait=found.done.wait, activity=found.done.activity, member=-1, weight=found.done.time),
            _Weights.of(wait=every, activity=-1, member=-1, weight=found.unknown),
            _Weights.of(wait=passed.wait, activity=-1, member=passed.member, weight=passed.time),
        ]
        weighed = _Weights.join(parts)
        weighed = weighed.take(np.argsort(weighed.wait, kind="stable"))
        nothing = summed_by(weighed.wait, weighed.weight, len(every)) == 0
        is_unknown = (weighed.activity < 0) & (weighed.member < 0)
        return replace(weighed, weight=weighed.weight + (is_unknown & nothing[weighed.wait])), found.since

    def attribute(self, chosen: Bools | None = None, time: Ints | None = None) -> AttributedWaits:
        """Attribute the waits of some of the job's members, or of all; of each a part (ns) where one is given."""
        waits, weighed = self.waits, self._weighed
        time = waits.time if time is None else time
        direct = time if chosen is None else np.where(chosen[waits.waiter], time, 0)
        own = apportion(direct, weighed.wait, weighed.weight)
        inherited = self._inherited(own)
        late = waits.late[weighed.wait]
        shares = _Shares(
            take_or(self.job.members.part.astype(np.int64), late), weighed.activity, own, inherited,
            self.job.members.number[waits.waiter[weighed.wait]],
        )  # fmt: skip
        return self._summed(shares.take(weighed.member < 0))

    def columns_of(self, attributed: AttributedWaits) -> dict[str, Any]:
        """Return attributed waits as columns of output; None where a rank, or what it did, is not known.

        Columns: rank, name, call_path, bound_by, caused_ns, direct_ns, propagated_ns, collectives.
        """
        activities, unknown = self.activities, attributed.activity < 0
        name, path = (np.array([*texts, None], object) for texts in (activities.name, activities.call_path))
        bound = take_or(np.array(activities.bound, np.int8), attributed.activity, otherwise=BoundBy.UNEXPLAINED)
        return {
            "rank": none_where(attributed.rank.astype(object), attributed.rank < 0),
            "name": name[attributed.activity],
            "call_path": none_where(path[attributed.activity], unknown),
            "bound_by": labels(BoundBy, bound),
            "caused_ns": attributed.caused,
            "direct_ns": attributed.direct,
            "propagated_ns": attributed.propagated,
            "collectives": attributed.collectives,
        }

    def _inherited(self, own: Ints) -> Ints:
        """Return the shares of what was passed on to each wait, given those of the waits themselves.

        Waits for the latest rank go first: what is passed on to an earlier one is known when its turn comes.
        """
        weighed, found = self._weighed, np.zeros_like(own)
        passed = np.zeros(len(self.job.members), np.int64)
        first = np.searchsorted(weighed.wait, np.arange(len(self.waits) + 1))
        for begin, end in pairwise(self._turns):
            rows = slice(int(first[begin]), int(first[end]))
            amount = passed[self.waits.waiter[begin:end]]
            if amount.any():
                found[rows] = apportion(amount, weighed.wait[rows] - begin, weighed.weight[rows])
            goes_on = np.flatnonzero(weighed.member[rows] >= 0) + rows.start
            np.add.at(passed, weighed.member[goes_on], (own + found)[goes_on])
        return found

    @cached_property
    def _turns(self) -> list[int]:
        """Where waits begin none of which is passed on to another one of its turn, and where the last one ends."""
        weighed, count, turn = self._weighed, len(self.waits), self._turn_of_member
        reaches = np.full(count, count)
        goes_on = weighed.member >= 0
        np.minimum.at(reaches, weighed.wait[goes_on], turn[weighed.member[goes_on]])
        turns, until = [0], count
        for at, reached in enumerate(reaches.tolist()):
            if at >= until:
                turns.append(at)
                until = count
            until = min(until, reached)
        return [*turns, count]

    def _summed(self, shares: _Shares) -> AttributedWaits:
        shares = shares.take((shares.direct > 0) | (shares.propagated > 0))
        shares = shares.take(np.lexsort((shares.number, shares.activity, shares.part)))
        is_first = first_of_runs(shares.part, shares.activity)
        row, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
        meets = first_of_runs(shares.part, shares.activity, shares.number).astype(np.int64)
        part = shares.part[first]
        found = AttributedWaits(
            np.where(part >= 0, self.job.rank_numbers[part], -1),
            shares.activity[first],
            *(summed_by(row, column, len(first)) for column in (shares.direct, shares.propagated, meets)),
        )
        return found.take(np.lexsort((found.activity, found.rank, -found.caused, found.activity < 0)))


def _rows_of_keys(keys: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """Return the places of wanted keys among sorted ones, and for each which of the wanted ones it is, first."""
    first = np.searchsorted(keys, wanted)
    return expand_ranges(first, np.searchsorted(keys, wanted, "right") - first)


def apportion(amount: Ints, group: Ints, weights: Ints) -> Ints:
    """Divide the whole number of each group in proportion to weights, one at least positive; its parts sum to it.

    Groups stand one after the other.

    >>> apportion(np.array([10, 7]), np.array([0, 0, 0, 1, 1]), np.array([1, 1, 1, 0, 5])).tolist()
    [4, 3, 3, 0, 7]
    """
    exact = amount[group] * (weights / summed_by(group, weights, len(amount))[group])
    parts: Ints = np.floor(exact).astype(np.int64)
    left = amount - summed_by(group, parts, len(amount))
    # The largest remainders get what is left.
    order = np.lexsort((parts - exact, group))
    first = np.searchsorted(group, np.arange(len(amount)))
    parts[order[np.arange(len(order)) - first[group] < left[group]]] += 1
    return parts
