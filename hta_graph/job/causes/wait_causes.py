"""The composer of causes: every wait of a job charged to what somebody did, to the nanosecond."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.columns import Columns, first_of_runs, summed_by
from hta_graph.graph.job_graph import JobGraph
from hta_graph.job.causes.excess import Excess, excess_of
from hta_graph.job.causes.met_before import Waits, waits_of
from hta_graph.job.causes.profiles import Doings
from hta_graph.job.causes.rank_ways import ways_and_profiles
from hta_graph.model import Bools, Ints

__all__ = ["Charges", "WaitCauses"]


@dataclass(frozen=True, eq=False)
class Charges(Columns):
    """Waiting (ns) by its cause: the rank, and what it did (-1: not known); largest first, what is not known last.

    ``direct`` is that of ranks that waited for this one, ``propagated`` what reached others through ranks that had
    waited for it themselves; ``collectives`` counts where they waited.
    """

    rank: Ints
    doing: Ints
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
    doing: Ints
    direct: Ints
    propagated: Ints
    number: Ints


class WaitCauses:
    """Charges the waits of a job.

    A wait is charged, over the time since both ranks last went on from a meeting, to what the late one did more of than
    the waiter, by call path, name and class, and to the late one's own waits in that time, which are passed on to their
    causes; in proportion to their times (Böhme et al., ACM TOPC 3(2), 2016). All that is waited is charged: not known
    is the cause of what lies before the first meeting, is shorter than the clocks are uncertain, or shows no excess.

    ``data_load`` are expressions of operators and annotations that mean data loading, PyTorch's if none are given.
    """

    def __init__(self, job: JobGraph, data_load: Sequence[str] = ()) -> None:
        self._job = job
        self._ways, self._profiles = ways_and_profiles(job, data_load)
        self.waits: Waits = waits_of(job)

    @property
    def doings(self) -> Doings:
        """What ranks did."""
        return self._profiles.doings

    @cached_property
    def _excesses(self) -> list[Excess | None]:
        pairs = zip(self.waits.waiter.tolist(), self.waits.late.tolist(), self.waits.is_known.tolist(), strict=True)
        return [
            excess_of(self._job, self._ways, self._profiles, waiter, late) if known else None
            for waiter, late, known in pairs
        ]

    def charge(self, chosen: Bools | None = None) -> Charges:
        """Charge the waits of some of the job's members, or of all."""
        count = len(self._job.members)
        direct, passed = np.zeros(count, np.int64), np.zeros(count, np.int64)
        direct[self.waits.waiter] = self.waits.time
        if chosen is not None:
            direct[~chosen] = 0
        shares = []
        # Those for whoever came latest first: what is passed on to an earlier wait is known when that one's turn comes.
        for at, waiter in enumerate(self.waits.waiter.tolist()):
            if direct[waiter] or passed[waiter]:
                shares.append(self._charged(at, int(direct[waiter]), passed))
        return self._summed(_Shares.join(shares))

    def _charged(self, at: int, direct: int, passed: Ints) -> _Shares:
        """Charge one wait and what was passed on to it; what it passes on itself is added to ``passed``."""
        waiter, late = int(self.waits.waiter[at]), int(self.waits.late[at])
        doing, waits, weights = self._weights(at)
        own, inherited = (apportioned(amount, weights) for amount in (direct, int(passed[waiter])))
        passed[waits] += (own + inherited)[len(doing) :]
        members = self._job.members
        return _Shares.of(
            part=members.part[late] if late >= 0 else -1, doing=doing, direct=own[: len(doing)],
            propagated=inherited[: len(doing)], number=members.number[waiter],
        )  # fmt: skip

    def _weights(self, at: int) -> tuple[Ints, Ints, Ints]:
        """Return what a wait is charged to, the waits (members) that it is passed on to, and the weights of both."""
        excess, nobody = self._excesses[at], np.array([-1])
        if excess is None:
            return nobody, nobody[:0], np.ones(1, np.int64)
        later = self._turn[excess.waits] > at  # but where clocks are wrong it always is
        waits, waited = excess.waits[later], excess.waited[later]
        weights = np.concatenate([excess.done.time, [excess.unknown], waited])
        weights[len(excess.done)] += not weights.any()
        return np.append(excess.done.doing, nobody), waits, weights

    @cached_property
    def _turn(self) -> Ints:
        """When each member's wait is charged (-1: never)."""
        turn = np.full(len(self._job.members), -1, np.int64)
        turn[self.waits.waiter] = np.arange(len(self.waits))
        return turn

    def _summed(self, shares: _Shares) -> Charges:
        shares = shares.take((shares.direct > 0) | (shares.propagated > 0))
        shares = shares.take(np.lexsort((shares.number, shares.doing, shares.part)))
        is_first = first_of_runs(shares.part, shares.doing)
        row, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
        meets = first_of_runs(shares.part, shares.doing, shares.number).astype(np.int64)
        part = shares.part[first]
        found = Charges(
            np.where(part >= 0, self._job.rank_of_part[part], -1),
            shares.doing[first],
            *(summed_by(row, column, len(first)) for column in (shares.direct, shares.propagated, meets)),
        )
        return found.take(np.lexsort((found.doing, found.rank, -found.caused, found.doing < 0)))


def apportioned(amount: int, weights: Ints) -> Ints:
    """Divide a whole number in proportion to weights, of which one at least is positive; the parts sum to it.

    >>> apportioned(10, np.array([1, 1, 1])).tolist(), apportioned(7, np.array([0, 5])).tolist()
    ([4, 3, 3], [0, 7])
    """
    exact = amount * (weights / weights.sum())
    parts: Ints = np.floor(exact).astype(np.int64)
    # The largest remainders get what is left.
    parts[np.argsort(parts - exact, kind="stable")[: amount - int(parts.sum())]] += 1
    return parts
