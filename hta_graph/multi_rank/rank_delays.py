"""By how much each rank delays the others, step by step: what a thread loses, not the sum of waits that overlap.

rank 0   ──a──[1 ~~~~~~~~~|]      rank 0 asks for 2 while it waits for 1: both waits are for one delay of rank 1,
              └b──[2 ~~~~~~~|]    and the longer of them is what it loses
rank 1   ──── op ─────[1|]─[2|]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import first_of_runs, freeze, take_or
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, BoundBy, Floats, Ints
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.paths.intervals import union
from hta_graph.paths.rank_local_walks import LocalWalks

MOST_CELLS = 1 << 27
"""So many shares of waits, by wait and rank, are held at once; of more ranks only those that cause most are told."""
FEWEST_RANKS = 8

MUCH = 0.5
"""Of the ranks that wait for another one those count that lose at least this share of what any of them loses."""

EARLIEST_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class RankDelays:
    """How much (ns) ranks delay the others in some windows of a job.

    ``delay`` has a row per window and a column per rank of ``part``: what others that wait for it lose in the window
    because of what the rank does itself, passed-on waits included: the lower median of those that lose much, at most
    the window. ``length`` are those of the windows.
    """

    part: Ints
    delay: Ints
    length: Ints


def rank_delays(job: JobGraph, causes: WaitCauses, start: Ints, end: Ints) -> RankDelays:
    """Return by how much ranks delay each other in windows that follow one another.

    A communication belongs to the window in which its last member came. That a transfer takes long is no doing of one
    of its ranks. Of messages a rank delays others by no more than what it works longer than they do: that one stage of
    a pipeline waits for another, and that they fill and drain, is the schedule's.
    """
    waits, members = causes.waits, job.members
    came = take_or(members.arrival, waits.late, otherwise=EARLIEST_NS)
    window = np.searchsorted(end, came, side="left")
    inside = window < len(end)
    inside[inside] = came[inside] > start[window[inside]]
    part = _ranks_told(causes, len(waits), inside)
    share = causes.shares_of_ranks(part, own_work(causes))
    share *= waits.time[:, None]
    share[~inside] = 0
    excess = _excess_work(job, causes, start, end, part)
    lost = _lost_by_waiters(job, causes, share, np.where(inside, window, -1), len(end))
    with_messages, by_collectives = lost
    most = _usual_loss(by_collectives + np.minimum(with_messages - by_collectives, excess[:, None, :]))
    length = end - start
    return RankDelays(
        part, freeze(np.minimum(most.astype(np.int64), length[:, None])), freeze(length),
    )  # fmt: skip


def _usual_loss(lost: Floats) -> Floats:
    """Return what ranks lose by each rank of columns: the lower median of those that lose much by it, row by row.

    The step would end that much sooner, where all of them meet; one that came early by itself loses more.
    """
    descending = -np.sort(-lost, axis=1)
    much = (descending >= MUCH * descending[:, :1]).sum(axis=1)
    found: Floats = np.take_along_axis(descending, (much // 2)[:, None, :], axis=1)[:, 0]
    return found


def own_work(causes: WaitCauses) -> Bools:
    """Mark what a rank does by itself: all but transfers, which are of all ranks that take part."""
    found: Bools = np.array(causes.activities.bound, np.int8) != BoundBy.GPU_COMMUNICATION_BOUND
    return found


def _ranks_told(causes: WaitCauses, waits: int, inside: Bools) -> Ints:
    """Return the places of the ranks to look at: all, or of very many those that cause most."""
    job = causes.job
    count = len(job.rank_graphs)
    most = max(MOST_CELLS // max(waits, 1), FEWEST_RANKS)
    if count <= most:
        return np.arange(count)
    chosen = np.zeros(len(job.members), np.bool_)
    chosen[causes.waits.waiter[inside]] = True
    found = causes.attribute(chosen)
    known = found.take((found.activity >= 0) & (found.rank >= 0))
    place = np.searchsorted(job.rank_numbers, known.rank)
    caused = np.bincount(place, known.caused, count)
    return np.sort(np.argsort(-caused, kind="stable")[:most])


def _lost_by_waiters(
    job: JobGraph, causes: WaitCauses, amount: Floats, window: Ints, windows: int
) -> tuple[Floats, Floats]:
    """Return what each rank loses in each window because of each rank of columns: in all, and by collectives alone.

    Of the waits that a rank asked for without waiting between only the longest counts.
    """
    members, waiter = job.members, causes.waits.waiter
    since = last_resumed(causes.walks)[waiter]
    part = members.part[waiter].astype(np.int64)
    ranks, columns = len(job.rank_graphs), amount.shape[1]
    rows = np.flatnonzero(window >= 0)
    rows = rows[np.lexsort((since[rows], part[rows], window[rows]))]
    found = []
    for every in (rows, rows[~members.is_message[waiter[rows]]]):
        lost = np.zeros((windows * ranks, columns), amount.dtype)
        if len(every):
            first = np.flatnonzero(first_of_runs(window[every], part[every], since[every]))
            longest = np.maximum.reduceat(amount[every], first)
            np.add.at(lost, window[every[first]] * ranks + part[every[first]], longest)
        found.append(lost.reshape(windows, ranks, columns))
    return found[0], found[1]


def last_resumed(walks: LocalWalks) -> Ints:
    """Return for each walk which member its rank had waited for last when the walk begins (-1: none is recorded)."""
    stops = walks.resumed | (walks.before < 0)
    root = np.where(stops, np.arange(len(stops)), walks.before)
    while not np.array_equal(further := root[root], root):
        root = further
    found: Ints = take_or(walks.member, take_or(walks.before, root)).astype(np.int64)
    return np.where(walks.before[root] >= 0, found, -1)


def _excess_work(job: JobGraph, causes: WaitCauses, start: Ints, end: Ints, part: Ints) -> Ints:
    """Return how much longer (ns) ranks work in windows than the others, or than usual where that is more.

    A stage may always have less to do than others: what it does more of than in other windows, and others do not, is
    not the schedule's.
    """
    if not job.members.is_message[causes.waits.waiter].any():
        return np.zeros((len(end), len(part)), np.int64)
    work = working_time(job, causes, start, end)
    more = work - _median_of_others(work)
    unusual = work - np.median(work, axis=0)
    unusual = unusual - _median_of_others(unusual)
    found: Ints = np.maximum(np.maximum(more, unusual), 0)[:, part].astype(np.int64)
    return found


def _median_of_others(values: Floats | Ints) -> Floats:
    """Return for each column the median of the other ones, row by row."""
    columns = range(values.shape[1])
    return np.stack([np.median(np.delete(values, at, axis=1), axis=1) for at in columns], axis=1)


def working_time(job: JobGraph, causes: WaitCauses, start: Ints, end: Ints) -> Ints:
    """Return how long (ns) each rank works in windows, between what it waits for: a row per window."""
    walks = causes.walks
    length = causes.walk_times()
    known = np.flatnonzero(walks.before >= 0)
    part = job.members.part[walks.member[known]]
    begin, done = walks.before_ns[known], walks.before_ns[known] + length[known]
    ranks: Sequence[int] = range(len(job.rank_graphs))
    busy = [union(begin[part == place], done[part == place]) for place in ranks]
    return np.stack([own.covered_until(end) - own.covered_until(start) for own in busy], axis=1)
