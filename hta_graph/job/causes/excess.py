"""What a late rank did more of than a waiter since they last met, and its own waits meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.own_ways import OwnWays
from hta_graph.columns import summed_by
from hta_graph.graph.job_graph import JobGraph
from hta_graph.job.causes.intervals import Interval, since_they_met
from hta_graph.job.causes.profiles import Profile, Profiles
from hta_graph.model import Ints

__all__ = ["Excess", "excess_of"]


@dataclass(frozen=True)
class Excess:
    """Who is to be charged for a wait, in proportion to times (ns).

    ``done`` is what the late rank did more of than the waiter, ``waits`` the members that it waited as, for ``waited``;
    ``unknown`` is how late it was already where the recording first shows both.
    """

    done: Profile
    waits: Ints
    waited: Ints
    unknown: int


def excess_of(job: JobGraph, ways: OwnWays, found: Profiles, waiter: int, late: int) -> Excess | None:
    """Compare two ranks since they last met; None where the recording shows no meeting."""
    both = since_they_met(job, ways, waiter, late)
    if both is None:
        return None
    mine, theirs = both.waiter, both.late
    more = _time_in(job, found, theirs) - _time_in(job, found, mine)
    waits = np.array([*theirs.waited, theirs.meeting], np.int64)
    waited = job.members.wait[waits]
    left_later = max(0, theirs.since_ns - mine.since_ns)
    if both.held and mine.went_on and theirs.went_on:
        # Who left the meeting later had less time since: it waited on for others there, or took longer itself.
        until = int(job.members.arrival[theirs.meeting]) + int(waited[-1])
        waited[-1] = min(max(0, until - mine.since_ns), left_later)
        more[found.transfer[theirs.meeting]] += left_later - int(waited[-1])
    else:
        waited[-1] = 0
    doing, meets = np.flatnonzero(more > 0), waited > 0
    # Where neither had waited for the other, who was late already still is.
    return Excess(Profile(doing, more[doing]), waits[meets], waited[meets], 0 if both.held else left_later)


def _time_in(job: JobGraph, found: Profiles, interval: Interval) -> Ints:
    """Return how long a rank did what in an interval (ns per doing); its waits are not among it."""
    waited = np.array(interval.waited, np.int64)
    every = Profile.join([
        *(found.since[way] for way in interval.ways),
        *(found.lag[member] for member in (interval.ways[0], *interval.waited)),
        Profile(found.transfer[waited], job.members.transfer[waited]),
    ])  # fmt: skip
    return summed_by(every.doing, every.time, len(found.doings))
