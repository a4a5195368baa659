"""What late ranks did more of than those that waited since they last synchronized, and their own waits meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, pair_key, summed_by
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Ints
from hta_graph.multi_rank.profiles import WalkProfiles
from hta_graph.multi_rank.sync_points import SyncInterval, SyncPointSearch, Waits
from hta_graph.paths.rank_local_walks import LocalWalks

__all__ = ["Excesses", "wait_excesses"]

ROWS_AT_ONCE = 1 << 15
"""So many parts of what ranks did are summed up at once: those of all waits of a large job would not fit memory."""


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
    not meet before, or that is not known well enough, there is nothing.
    """

    done: ExcessTimes
    passed_on: PropagatedWaits
    unknown: Ints


def wait_excesses(job: JobGraph, walks: LocalWalks, found: WalkProfiles, waits: Waits) -> Excesses:
    """Compare the two ranks of each wait since their last synchronization point."""
    comparison = _Comparison(job, walks, found, len(waits))
    pairs = zip(waits.waiter.tolist(), waits.late.tolist(), waits.is_known.tolist(), strict=True)
    for at, (waiter, late, is_known) in enumerate(pairs):
        if is_known:
            comparison.compare(at, waiter, late)
    return comparison.result()


class _Comparison:
    """Compares ranks wait by wait, and sums up what they did many waits at once."""

    def __init__(self, job: JobGraph, walks: LocalWalks, found: WalkProfiles, waits: int) -> None:
        self._found, self._back = found, SyncPointSearch(job, walks)
        self._wait, self._arrival = job.members.wait.tolist(), job.members.arrival.tolist()
        # What a member's own time counts as, in lists: see :class:`SyncPointSearch`.
        self._transfer = found.profile.activity[found.first[found.itself(0) : -1]].tolist()
        self._unknown = [0] * waits
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
        self._parts += [(at, part, 1) for part in self._parts_of(theirs)]
        self._parts += [(at, part, -1) for part in self._parts_of(mine)]
        waits = [*theirs.waited, theirs.sync_member]
        waited = [self._wait[member] for member in waits]
        left_later = max(0, theirs.since_ns - mine.since_ns)
        if both.is_synchronized and mine.resumed and theirs.resumed:
            # Who left the collective later had less time since: it waited on for others there, or took longer itself.
            until = self._arrival[theirs.sync_member] + waited[-1]
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
        lags = [found.lag(member) for member in (*walks[:1], *waited)]
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
        return Excesses(ExcessTimes.join(self._done), passed, np.array(self._unknown, np.int64))
