"""By how much each rank delays the others, step by step: what a thread loses, not the sum of waits that overlap.

rank 0   ──a──[1 ~~~~~~~~~|]      rank 0 asks for 2 while it waits for 1: both waits are for one delay of rank 1,
              └b──[2 ~~~~~~~|]    and the longer of them is what it loses
rank 1   ──── op ─────[1|]─[2|]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import first_of_runs, freeze, rows_by_value, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Floats, Ids, Ints
from hta_graph.multi_rank.rank_activity import gpu_work_of_ranks, walk_ends
from hta_graph.multi_rank.sync_points import walks_to_waits
from hta_graph.multi_rank.wait_causes import WaitCauses
from hta_graph.paths.intervals import union
from hta_graph.paths.rank_local_walks import LocalWalks

MOST_CELLS = 1 << 24
"""How many shares of waits, by wait and rank, are held at once; of more ranks only those that cause most are known."""
FEWEST_RANKS = 8

MUCH = 0.5
"""Of the ranks that wait for another one those count that lose at least this share of what any of them loses."""

EARLIEST_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class RankSpans:
    """Parts of a job's time that follow one another, such as steps, on each rank: a row per part, a column per rank."""

    start: Ints
    end: Ints

    @property
    def length(self) -> Ints:
        """How long each part is on each rank; 0 where the rank lacks it."""
        found: Ints = np.maximum(self.end - self.start, 0)
        return found

    def rows_of(self, part: Ids | Ints, came: Ints) -> Ints:
        """Return in which part of a rank's time each of some moments lies; -1 in none."""
        found = np.full(len(came), -1, np.int64)
        for place, mine in rows_by_value(part).items():
            if place < 0:
                continue
            latest = np.maximum.accumulate(self.end[:, place])
            row = np.searchsorted(latest, came[mine], side="left")
            inside = row < len(latest)
            inside[inside] = came[mine[inside]] > self.start[row[inside], place]
            found[mine[inside]] = row[inside]
        return found


@dataclass(frozen=True, eq=False)
class RankDelays:
    """How much (ns) ranks delay the others in parts of a job's time.

    ``delay`` has a row per part and a column per rank of ``part``: what others that wait for it lose meanwhile because
    of what the rank does itself, passed-on waits included: the lower median of those that lose much, at most
    ``length``, that of the part on the rank that loses most; ``own_length`` is that on the rank itself, which may end
    one part late and so delay the next one. ``row`` is for each wait the part in which the rank came that was waited
    for (-1: none).
    """

    part: Ints
    delay: Ints
    length: Ints
    own_length: Ints
    row: Ints


def rank_delays(job: DependencyGraph, causes: WaitCauses, spans: RankSpans) -> RankDelays:
    """Return by how much ranks delay each other.

    A wait belongs to the step of the rank that came last, by that rank's own time: groups that never meet drift apart.
    That a transfer takes long is no doing of one of its ranks. Of messages a rank delays others by no more than what it
    works longer than they do: that one stage of a pipeline waits for another, and that they fill and drain, is the
    schedule's. Nor by more than what it works longer than others that exchange messages with the same, fewer ranks: a
    server that receives from one worker after the other would wait for the next one instead.
    """
    waits, members = causes.waits, job.members
    late = take_or(members.part, waits.late)
    row = spans.rows_of(late, take_or(members.arrival, waits.late, otherwise=EARLIEST_NS))
    part = _ranks_looked_at(causes, max(len(waits), spans.end.size), row >= 0)
    share = causes.shares_of_ranks(part, own_work(causes))
    share *= waits.time[:, None]
    share[row < 0] = 0
    with_messages, by_collectives = _lost_by_waiters(job, causes, share, row, len(spans.end))
    excess = _excess_work(job, causes, spans)[:, part]
    lost = by_collectives + np.minimum(with_messages - by_collectives, excess[:, None, :])
    own_length = spans.length[:, part]
    loses_most = np.take_along_axis(spans.length, lost.argmax(axis=1), axis=1)
    length = np.where(lost.any(axis=1), loses_most, own_length)
    delay = np.minimum(_usual_loss(lost).astype(np.int64), length)
    return RankDelays(part, freeze(delay), freeze(length), freeze(own_length), freeze(row))


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


def _ranks_looked_at(causes: WaitCauses, rows: int, inside: Bools) -> Ints:
    """Return the places of the ranks to look at: all, or of very many those that cause most."""
    job = causes.job
    count = len(job.rank_graphs)
    most = max(MOST_CELLS // max(rows, 1), FEWEST_RANKS)
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
    job: DependencyGraph, causes: WaitCauses, amount: Floats, window: Ints, windows: int
) -> tuple[Floats, Floats]:
    """Return what each rank loses in each window because of each rank of columns: in all, and by collectives alone.

    Of the waits that a rank asked for without waiting between only the longest counts.
    """
    members, waiter = job.members, causes.waits.waiter
    since = last_resumed(causes.walks)[walks_to_waits(job, causes.walks)[waiter]]
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


def _excess_work(job: DependencyGraph, causes: WaitCauses, spans: RankSpans) -> Ints:
    """Return how much longer (ns) each rank works than the others, or than usual where that is more.

    A stage may always have less to do than others: what it does more of than in other steps, and others do not, is not
    the schedule's.
    """
    if not job.members.is_message[causes.waits.waiter].any():
        return np.zeros(spans.end.shape, np.int64)
    work, alike = working_time(job, causes, spans), _ranks_served_in_turn(job)
    found = np.zeros(work.shape)
    for time in (work, work - np.median(work, axis=0)):
        more = time - _median_of_others(time)
        for ranks in alike:
            more[:, ranks] = np.minimum(more[:, ranks], time[:, ranks] - _most_of_others(time[:, ranks]))
        found = np.maximum(found, more)
    return found.astype(np.int64)


def _ranks_served_in_turn(job: DependencyGraph) -> list[list[int]]:
    """Return the places of ranks that exchange messages with the same other ranks, which are fewer than they.

    Neighbors in a ring or in a pipeline may have the same partners, but are not served in turn.
    """
    members = job.members.take(job.members.is_message & (job.members.number >= 0))
    members = members.take(np.argsort(members.number, kind="stable"))
    first = np.flatnonzero(first_of_runs(members.number))
    ends = np.stack([np.minimum.reduceat(members.part, first), np.maximum.reduceat(members.part, first)])
    pairs = np.unique(np.concatenate([ends, ends[::-1]], axis=1).astype(np.int64), axis=1)
    alike: dict[tuple[int, ...], list[int]] = {}
    for place, mine in rows_by_value(pairs[0]).items():
        alike.setdefault(tuple(pairs[1, mine].tolist()), []).append(place)
    return [ranks for partners, ranks in alike.items() if len(ranks) > len(partners)]


def _most_of_others(values: Floats | Ints) -> Floats:
    """Return for each of several columns the largest of the other ones, row by row.

    >>> _most_of_others(np.array([[1, 9, 5]])).tolist()
    [[9.0, 5.0, 9.0]]
    """
    second, largest = np.sort(values, axis=1)[:, -2:].astype(np.float64).T
    is_largest = np.arange(values.shape[1]) == values.argmax(axis=1)[:, None]
    found: Floats = np.where(is_largest, second[:, None], largest[:, None])
    return found


def _median_of_others(values: Floats | Ints) -> Floats:
    """Return for each column the median of the other ones, row by row: without itself each rank moves up by one.

    >>> _median_of_others(np.array([[1, 9, 5, 3]])).tolist()
    [[5.0, 3.0, 3.0, 5.0]]
    """
    order = np.argsort(values, axis=1, kind="stable")
    ranked, place = np.take_along_axis(values, order, axis=1), np.empty_like(order)
    np.put_along_axis(place, order, np.arange(values.shape[1])[None, :], axis=1)
    others = values.shape[1] - 1
    middle = [at + (place <= at) for at in ((others - 1) // 2, others // 2)]
    lower, upper = (np.take_along_axis(ranked, at, axis=1).astype(np.float64) for at in middle)
    found: Floats = (lower + upper) / 2
    return found


def working_time(job: DependencyGraph, causes: WaitCauses, spans: RankSpans) -> Ints:
    """Return how long (ns) each rank works in parts of its time: between its waits.

    What a GPU computes counts, too, while a receive that was asked for before waits: whether that hides it is a matter
    of the schedule.
    """
    walks = causes.walks
    begin, done = walk_ends(walks, causes.walk_times())
    of_rank, none = rows_by_value(job.members.part[walks.member[walks.before >= 0]]), np.empty(0, np.int64)
    mine = [of_rank.get(place, none) for place in range(len(job.rank_graphs))]
    busy = [
        union(np.append(begin[rows], computed.start), np.append(done[rows], computed.end))
        for rows, computed in zip(mine, gpu_work_of_ranks(job), strict=True)
    ]
    ends, starts = spans.end, np.minimum(spans.start, spans.end)
    pairs = zip(busy, ends.T, starts.T, strict=True)
    return np.stack([own.covered_until(end) - own.covered_until(start) for own, end, start in pairs], axis=1)
