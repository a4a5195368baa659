"""Charge each wait to what the late rank did more of than the waiter, and to its own waits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.own_ways import OwnWays
from hta_graph.columns import Columns, picked, summed_by
from hta_graph.graph.job_graph import JobGraph
from hta_graph.job.causes.intervals import Interval, Waits, common_intervals
from hta_graph.job.causes.profiles import Profile, Profiles
from hta_graph.model import Ints

__all__ = ["Excess", "apportioned", "excess_of", "time_in"]


@dataclass(frozen=True)
class Excess:
    """What a wait is charged to: what the late rank did more of, its own waits (members), and what is not known (ns)."""

    done: Profile
    waits: Ints
    waited: Ints
    unknown: int


def excess_of(job: JobGraph, ways: OwnWays, found: Profiles, waiter: int, late: int) -> Excess | None:
    """Compare two ranks since they last met; None where the recording shows no meeting."""
    both = common_intervals(job, ways, waiter, late)
    if both is None:
        return None
    mine, theirs = both
    more = time_in(job, found, theirs) - time_in(job, found, mine)
    unknown = 0
    if theirs.went_on and mine.went_on:
        # Who left the meeting later had less time since.
        more[found.transfer[theirs.meeting]] += theirs.since_ns - mine.since_ns
    elif not (theirs.went_on or mine.went_on):
        # Neither was held: who was late there already still is.
        unknown = max(0, theirs.since_ns - mine.since_ns)
    doing = np.flatnonzero(more > 0)
    waits = np.array([member for member, at_end in theirs.passed if at_end and job.members.wait[member]], np.int64)
    return Excess(Profile(doing, more[doing]), waits, job.members.wait[waits], unknown)


def time_in(job: JobGraph, found: Profiles, interval: Interval) -> Ints:
    """Return how long a rank did what in an interval (ns per doing); its waits are not among it."""
    parts = [found.lag[interval.member], found.since[interval.member]]
    passed = np.array([member for member, at_end in interval.passed if at_end], np.int64)
    parts += [found.since[member] for member, _ in interval.passed]
    parts += [found.lag[member] for member in passed.tolist()]
    parts.append(Profile(found.transfer[passed], job.members.transfer[passed]))
    every = Profile.join(parts)
    return summed_by(every.doing, every.time, len(found.doings))


def apportioned(amount: int, weights: Ints) -> Ints:
    """Divide a whole number in proportion to weights, of which one at least is positive; the parts sum to it.

    >>> apportioned(10, np.array([1, 1, 1])).tolist(), apportioned(7, np.array([0, 5])).tolist()
    ([4, 3, 3], [0, 7])
    """
    exact = amount * (weights / weights.sum())
    parts = np.floor(exact).astype(np.int64)
    left = amount - int(parts.sum())
    parts[np.argsort(parts - exact, kind="stable")[:left]] += 1
    return parts
