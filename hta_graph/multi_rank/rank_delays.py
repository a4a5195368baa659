"""By how much each rank delays the others, step by step: what a thread loses, not the sum of waits that overlap.

rank 0   ──a──[1 ~~~~~~~~~|]      rank 0 asks for 2 while it waits for 1: both waits are for one delay of rank 1,
              └b──[2 ~~~~~~~|]    and the longer of them is what it loses
rank 1   ──── op ─────[1|]─[2|]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import expand_ranges, first_of_runs, freeze, rows_by_value, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Floats, Ids, Ints
from hta_graph.multi_rank.rank_activity import gpu_work_of_ranks, walk_ends
from hta_graph.multi_rank.sync_points import walks_to_waits
from hta_graph.multi_rank.wait_causes import RowShares, WaitCauses
from hta_graph.paths.intervals import Intervals, union
from hta_graph.paths.rank_local_walks import LocalWalks

MOST_CELLS = 1 << 24
"""How many shares of waits, by wait and rank, are held at once; of more ranks only those that cause most are known."""
FEWEST_RANKS = 8

MUCH = 0.5
"""Of the ranks that wait for another one those count that lose at least this share of what any of them loses."""

EARLIEST_NS, LATEST_NS = (int(limit) for limit in (np.iinfo(np.int64).min, np.iinfo(np.int64).max))


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
        """Return in which part of a rank's time each of some moments lies: of earlier ones the first, of later none."""
        found = np.full(len(came), -1, np.int64)
        for place, mine in rows_by_value(part).items():
            if place >= 0:
                found[mine] = np.searchsorted(self.latest[:, place], came[mine], side="left")
        return found

    def divided(self, part: Ids | Ints, since: Ints, until: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Divide times between two moments of ranks among parts; return which time, the part, its start and its end.

        What is before the first part belongs to that, what is after the last one to another one.
        """
        last = self.rows_of(part, until)
        first = np.minimum(self.rows_of(part, since), last)
        at, row = expand_ranges(first, last - first + 1)
        return at, row, *self.inside(part[at], row, since[at], until[at])

    def inside(self, part: Ids | Ints, row: Ints, since: Ints, until: Ints) -> tuple[Ints, Ints]:
        """Return from when to when times between two moments of ranks lie in a part."""
        ever = np.full(self.end.shape[1], LATEST_NS)
        ends = np.vstack([-ever, self.latest, ever])
        return np.clip(ends[row, part], since, until), np.clip(ends[row + 1, part], since, until)

    @cached_property
    def latest(self) -> Ints:
        """When each part has ended on each rank, whether the rank has it or not."""
        found: Ints = np.maximum.accumulate(self.end, axis=0)
        return found


@dataclass(frozen=True, eq=False)
class RankDelays:
    """How much (ns) ranks delay the others in parts of a job's time.

    ``delay`` has a row per part and a column per rank of ``part``: what others that wait for it lose, then or later,
    because of what the rank does itself in that part of its own time, passed-on waits included: the lower median of
    those that lose much, at most ``length``, that of the part on the rank itself. ``shares`` are those of each wait
    that lie in parts: where the late rank worked longer, or else came. ``hidden`` is how much later a rank comes and
    longer it works than the others, beyond what it delays them by: these wait for another rank meanwhile. ``shown`` is
    what was hidden in ``delay``. ``lost`` is what each rank (second axis) loses by each of ``part`` (third).
    """

    part: Ints
    delay: Ints
    length: Ints
    shares: RowShares
    hidden: Ints
    shown: Ints
    lost: Floats

    def without(self, column: int) -> RankDelays:
        """Return the same as if one rank were on time: the others wait for who was hidden behind it."""
        delay, hidden, shown = self.delay.copy(), self.hidden.copy(), self.shown.copy()
        own, each = delay[:, column].copy(), np.arange(len(delay))
        delay[:, column] = hidden[:, column] = shown[:, column] = 0
        behind = hidden.argmax(axis=1)
        more = np.minimum(own, hidden[each, behind])
        for amount, change in ((delay, more), (shown, more), (hidden, -more)):
            amount[each, behind] += change
        return replace(self, delay=freeze(delay), hidden=freeze(hidden), shown=freeze(shown))

    def by_all(self, columns: Sequence[int]) -> Ints:
        """Return what a rank that is none of some others loses by all of these, part by part."""
        beside = np.setdiff1d(np.arange(self.lost.shape[1]), self.part[columns])
        if not len(beside):
            return freeze(self.delay[:, columns].sum(axis=1))
        lost = _usual_loss(self.lost[:, beside][:, :, columns].sum(axis=2, keepdims=True))[:, 0]
        return freeze(lost.astype(np.int64) + self.shown[:, columns].sum(axis=1))

    def times_in(self, rows: Ints, waits: Ints) -> Ints:
        """Return how much (ns) of each wait, given how long it is, lies in some parts."""
        mine = self.shares.take(np.isin(self.shares.row, rows))
        found: Ints = np.rint(np.bincount(mine.wait, mine.share, len(waits)).clip(0, 1) * waits).astype(np.int64)
        return found


def rank_delays(job: DependencyGraph, causes: WaitCauses, spans: RankSpans) -> RankDelays:
    """Return by how much ranks delay each other.

    A wait belongs to the steps in which the late rank did what the others wait for, by that rank's own time: who does
    something at the end of a step makes the others wait in the next one, and groups that never meet drift apart.
    That a transfer takes long is no doing of one of its ranks. Of messages a rank delays others by no more than what it
    works longer than they do: that one stage of a pipeline waits for another, and that they fill and drain, is the
    schedule's. Nor by more than what it works longer than others that exchange messages with the same, fewer ranks: a
    server that receives from one worker after the other would wait for the next one instead.
    """
    waits, busy = causes.waits, _busy_times(job, causes)
    own = _rows_of_work(job, causes, spans, busy)
    part = _ranks_looked_at(causes, max(len(waits), spans.end.size), own)
    shares = causes.shares_of_ranks(part, own_work(causes), own)
    with_messages, by_collectives = _lost_by_waiters(job, causes, shares, (*spans.end.shape, len(part)))
    excess = _excess_work(job, spans, busy, has_messages=causes.include_messages)[:, part]
    lost = by_collectives + np.minimum(with_messages - by_collectives, excess[:, None, :])
    length = spans.length[:, part]
    delay = np.minimum(_usual_loss(lost).astype(np.int64), length)
    if len(delay) > 1 and spans.end.shape[1] > 1:
        unseen = np.minimum(_work_at_the_end(job, spans)[part], delay[:-1].max(axis=0))
        delay[-1] = np.clip(unseen, delay[-1], length[-1])
    hidden = np.minimum(excess - delay, _lateness(job, spans)[:, part]).clip(0)
    if causes.include_messages:
        hidden[:] = 0  # What else a rank that exchanges messages would delay is a matter of the schedule.
    return RankDelays(
        part, freeze(delay), freeze(length), _with_the_rest(shares, own), freeze(hidden),
        freeze(np.zeros_like(delay)), freeze(lost.astype(np.float32)),
    )  # fmt: skip


def _lateness(job: DependencyGraph, spans: RankSpans) -> Ints:
    """Return how much later (ns) each rank came to collectives than half of the others, or one of two; a row per part.

    What a rank works longer without coming later delays no other rank.
    """
    members, found = job.members, np.zeros((len(spans.end) + 1, spans.end.shape[1]), np.int64)
    rows = np.flatnonzero((members.number >= 0) & ~members.is_message)
    rows = rows[np.lexsort((members.arrival[rows], members.number[rows]))]
    came, part, begins = members.arrival[rows], members.part[rows], np.flatnonzero(first_of_runs(members.number[rows]))
    size = np.diff(np.append(begins, len(rows)))
    # Of those who come later than the lower median of the others, it is the same one.
    usual = np.repeat(came[begins + (size - 2).clip(0) // 2], size)
    np.add.at(found, (spans.rows_of(part, came), part), (came - usual).clip(0))
    return found[:-1]


def _rows_of_work(job: DependencyGraph, causes: WaitCauses, spans: RankSpans, busy: Sequence[Intervals]) -> RowShares:
    """Return in which parts of its own time the late rank of each wait worked longer than the waiter, and which share.

    Both are compared since they last met. Where the late rank worked longer in none of them, the wait belongs to the
    one in which it came.
    """
    waits, came = causes.waits, job.members.arrival
    late, waiter = (take_or(job.members.part, member).astype(np.int64) for member in (waits.late, waits.waiter))
    begins = spans.start.min(axis=0, initial=LATEST_NS, where=spans.start < spans.end)
    waited = np.flatnonzero((late >= 0) & (take_or(came, waits.late) > take_or(begins, late)))
    at, row, low, high = spans.divided(late[waited], causes.since[1][waited], came[waits.late[waited]])
    wait, is_last = waited[at], np.diff(at, append=-1) != 0
    share = is_last.astype(np.float64)
    several = np.flatnonzero(~is_last | (np.diff(at, prepend=-1) == 0))
    if len(several):
        of = wait[several]
        other = spans.inside(waiter[of], row[several], causes.since[0][of], job.members.waits_since[waits.waiter[of]])
        own = _time_inside(busy, late[of], low[several], high[several])
        more = (own - _time_inside(busy, waiter[of], *other)).clip(0)
        total = np.bincount(of, more, len(waits))[of]
        share[several] = np.where(total > 0, more / np.maximum(total, 1), share[several])
    found = RowShares(wait, np.zeros(len(wait), np.int64), row, share)
    return found.take((row < len(spans.end)) & (share > 0))


def _time_inside(busy: Sequence[Intervals], part: Ints, low: Ints, high: Ints) -> Ints:
    """Return how long (ns) ranks work between two times."""
    found = np.zeros(len(part), np.int64)
    for place, mine in rows_by_value(part).items():
        found[mine] = busy[place].covered_until(high[mine]) - busy[place].covered_until(low[mine])
    return found


def _with_the_rest(shares: RowShares, own: RowShares) -> RowShares:
    """Return the shares of waits by row alone, with what goes back to no rank, which is where the late rank worked."""
    known = np.bincount(shares.wait, shares.share, int(own.wait.max(initial=-1)) + 1)
    rest = replace(own, share=own.share * (1 - known[own.wait]).clip(0))
    whole = RowShares.join([shares, rest])
    return replace(whole, column=np.zeros_like(whole.column)).summed()


def _work_at_the_end(job: DependencyGraph, spans: RankSpans) -> Ints:
    """Return how much longer (ns) than any other one each rank continues after the last communication.

    No rank is recorded to wait for that, as others do for the same in earlier steps.
    """
    members, left = job.members, spans.start[-1].copy()
    np.maximum.at(left, members.part, members.arrival + members.wait)
    after = np.where(spans.length[-1] > 0, spans.end[-1] - left, 0)[None]
    found: Ints = (after - _most_of_others(after))[0].clip(0).astype(np.int64)
    return found


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


def _ranks_looked_at(causes: WaitCauses, rows: int, inside: RowShares) -> Ints:
    """Return the places of the ranks to look at: all, or of very many those that cause most."""
    job = causes.job
    count = len(job.rank_graphs)
    most = max(MOST_CELLS // max(rows, 1), FEWEST_RANKS)
    if count <= most:
        return np.arange(count)
    chosen = np.zeros(len(job.members), np.bool_)
    chosen[causes.waits.waiter[inside.wait]] = True
    found = causes.attribute(chosen)
    known = found.take((found.activity >= 0) & (found.rank >= 0))
    place = np.searchsorted(job.rank_numbers, known.rank)
    caused = np.bincount(place, known.caused, count)
    return np.sort(np.argsort(-caused, kind="stable")[:most])


def _lost_by_waiters(
    job: DependencyGraph, causes: WaitCauses, shares: RowShares, shape: tuple[int, int, int]
) -> tuple[Floats, Floats]:
    """Return what each rank loses in each row because of each rank of columns: in all, and by collectives alone.

    Of the waits that a rank asked for without waiting between only the longest counts.
    """
    members, waiter = job.members, causes.waits.waiter[shares.wait]
    since = last_resumed(causes.walks)[walks_to_waits(job, causes.walks)[waiter]]
    part = members.part[waiter].astype(np.int64)
    amount, cell = shares.share * causes.waits.time[shares.wait], np.stack([shares.row, part, shares.column])
    order = np.lexsort((since, *cell))
    found = []
    for every in (order, order[~members.is_message[waiter[order]]]):
        lost = np.zeros(shape)
        if len(every):
            first = np.flatnonzero(first_of_runs(*cell[:, every], since[every]))
            np.add.at(lost, tuple(cell[:, every[first]]), np.maximum.reduceat(amount[every], first))
        found.append(lost)
    return found[0], found[1]


def last_resumed(walks: LocalWalks) -> Ints:
    """Return for each walk which member its rank had waited for last when the walk begins (-1: none is recorded)."""
    stops = walks.resumed | (walks.before < 0)
    root = np.where(stops, np.arange(len(stops)), walks.before)
    while not np.array_equal(further := root[root], root):
        root = further
    found: Ints = take_or(walks.member, take_or(walks.before, root)).astype(np.int64)
    return np.where(walks.before[root] >= 0, found, -1)


def _excess_work(job: DependencyGraph, spans: RankSpans, busy: Sequence[Intervals], *, has_messages: bool) -> Ints:
    """Return how much longer (ns) each rank works than the others, or than usual where that is more.

    A stage may always have less to do than others: what it does more of than in other steps, and others do not, is not
    the schedule's. Without messages what half of the others, or one of two, do not do is more: these wait for it.
    """
    work, alike = _work_of_spans(busy, spans), _ranks_served_in_turn(job)
    if work.shape[1] < 2:
        return np.zeros_like(work)
    if not has_messages:
        return (work - _median_of_others(work, lower=True)).clip(0).astype(np.int64)
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


def _median_of_others(values: Floats | Ints, *, lower: bool = False) -> Floats:
    """Return for each column the median of the other ones, row by row: without itself each rank moves up by one.

    >>> _median_of_others(np.array([[1, 9, 5, 3]])).tolist()
    [[5.0, 3.0, 3.0, 5.0]]
    """
    order = np.argsort(values, axis=1, kind="stable")
    ranked, place = np.take_along_axis(values, order, axis=1), np.empty_like(order)
    np.put_along_axis(place, order, np.arange(values.shape[1])[None, :], axis=1)
    others = values.shape[1] - 1
    middle = [at + (place <= at) for at in ((others - 1) // 2, others // 2)]
    low, high = (np.take_along_axis(ranked, at, axis=1).astype(np.float64) for at in middle)
    found: Floats = low if lower else (low + high) / 2
    return found


def working_time(job: DependencyGraph, causes: WaitCauses, spans: RankSpans) -> Ints:
    """Return how long (ns) each rank works in parts of its time."""
    return _work_of_spans(_busy_times(job, causes), spans)


def _work_of_spans(busy: Sequence[Intervals], spans: RankSpans) -> Ints:
    start = np.minimum(spans.start, spans.end)
    part = np.broadcast_to(np.arange(len(busy)), start.shape)
    return _time_inside(busy, *(each.ravel() for each in (part, start, spans.end))).reshape(start.shape)


def _busy_times(job: DependencyGraph, causes: WaitCauses) -> list[Intervals]:
    """Return when each rank works: between its waits.

    What a GPU computes counts, too, while a receive that was asked for before waits: whether that hides it is a matter
    of the schedule.
    """
    walks = causes.walks
    begin, done = walk_ends(walks, causes.walk_times())
    of_rank, none = rows_by_value(job.members.part[walks.member[walks.before >= 0]]), np.empty(0, np.int64)
    mine = [of_rank.get(place, none) for place in range(len(job.rank_graphs))]
    return [
        union(np.append(begin[rows], computed.start), np.append(done[rows], computed.end))
        for rows, computed in zip(mine, gpu_work_of_ranks(job), strict=True)
    ]
