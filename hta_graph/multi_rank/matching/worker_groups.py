"""Which process group each of Gloo's workers serves, where the files leave that open.

A rank's header lists its groups, and each group has two workers, made one after the other; but a group that is never
called leaves no row. So the groups are found by what the ranks did together. A worker's rows, or those of two
neighbors, are of a group if every other rank of that group has such rows as well: the same collectives in one order,
in none of which a rank left before another one came.

    header     0 [0, 1, 2, 3]    1 [0, 1]
    rank 0     workers 1, 2   |=a=|    |=b=|        of group 1: rank 1 did the same at that time,
    rank 1     workers 1, 2     |a|  |==b==|        of group 0 they are not: rank 2 came to its first one after
    rank 2     workers 1, 2             |=a=|  |=b=|    rank 0 had left

What more than one group explains stays open: no collective is made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from hta_graph.model import Ints
from hta_graph.multi_rank.matching.align_rank_sequences import (
    Alignment,
    CommunicationSequence,
    align_at_offset,
    align_sequences,
)
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    GROUP_DESCRIPTION,
    ROOT,
    THREADS_PER_GROUP,
    WORKER,
    RankCommunications,
    listed_ranks,
)
from hta_graph.multi_rank.matching.gloo_events import awaited_rank
from hta_graph.multi_rank.matching.pair_clocks import MAX_DRIFT

Workers = tuple[int, ...]
"""One worker of a rank or two neighbors, by number."""

ONE_CLOCK_NS = 10_000
"""By how much a rank may seem to leave before another one's row began, on one clock: of 10,296 recorded members none
left less than 24 µs after the last row began; processes convert the clock's ticks to some microseconds."""

MAX_ROWS_ALONE = 2
"""How many rows of a group may be those of one worker: the two take turns (in 280 recorded groups both had one of the
first three rows; in all, 35 of 12,066 runs of rows on one worker were longer than two)."""

MAX_LOST_SHARE = 0.05
"""What share of their rows two ranks of a group may lack, of those between two that both have."""

EDGE_ROWS = 4
"""How many rows one rank may have to itself before the first pair and after the last one: at either end of the other
rank's recording its two workers may be at work on some that it does not show."""

MIN_SHARED = 0.5
"""What share of the rows of the rank that has fewer the other one has to have."""

PROVEN_FIT = 12.0
"""By how much (the logarithm of their likelihood) ends have to fit one group better than what else may be. Of 3,400
windows of 8 to 24 recorded collectives of pairs, a larger group was possible by chance in 115 and fitted so much better
in one; of 7,680 windows of larger groups two thirds fit so much better than their parts, and none so much worse."""

MIN_ROWS_FITTED = 8
"""Of how many collectives ends have to be compared."""

MIN_TRANSFER_NS = 1_000
MIN_SPREAD = 0.1
"""How short transfers, and how much alike their logarithms, are at least: many times are whole microseconds."""

MAX_PEERS = 31
"""With how many other ranks of a group each one is compared."""

MAX_COVERS = 256
"""How many ways of sharing a rank's workers among its groups are looked at."""


class Candidate(NamedTuple):
    """Rows that may be of one group: those of a rank's workers or, where that is not open, of a group."""

    rank: int
    workers: Workers
    group: str


Cover = tuple[tuple[Workers, str], ...]
"""All workers of a rank, and the group that each serves."""


def with_worker_groups(ranks: Mapping[int, RankCommunications]) -> dict[int, RankCommunications]:
    """Name the groups of collectives on the CPU that files alone leave open, where all ranks together show them.

    The simplest explanation holds: the clocks of one host agree, and no row is lost, unless no groups fit then.
    """
    # Of more workers than its groups have, some are of groups that nothing names.
    opened = {
        rank: own
        for rank, own in ranks.items()
        if own.recording.groups and 0 < _workers_of(own) <= THREADS_PER_GROUP * len(own.recording.groups)
    }
    if not opened:
        return dict(ranks)
    for is_one_clock, edge_rows in product((True, False), (0, EDGE_ROWS)):
        search = _GroupSearch(ranks, opened, edge_rows, is_one_clock=is_one_clock)
        if all(search.covers.values()):
            break
    named = {rank: name_groups(rank, own, search.decided(rank)) for rank, own in opened.items()}
    return {rank: named.get(rank, own) for rank, own in ranks.items()}


def _workers_of(own: RankCommunications) -> int:
    """Count the workers whose group is open."""
    return 1 + max((worker for worker in own.arguments[WORKER] if worker is not None), default=-1)


@dataclass(frozen=True, eq=False)
class _Rows:
    """A candidate's rows: what was done, how often, and from when to when its rank was recorded (ns)."""

    happened: CommunicationSequence
    contents: Counter[tuple[int, int]]
    begin: int
    end: int


class _Meeting(NamedTuple):
    """Which rows of two ranks are the same collectives, and how far the second clock is ahead (ns)."""

    left: Ints
    right: Ints
    ahead: int


class _GroupSearch:
    """Excludes, step by step, which workers can be of which group; ``covers`` are the ways that are left per rank."""

    def __init__(
        self,
        ranks: Mapping[int, RankCommunications],
        opened: Mapping[int, RankCommunications],
        edge_rows: int,
        *,
        is_one_clock: bool,
    ) -> None:
        self._ranks, self._edge_rows, self._is_one_clock = ranks, edge_rows, is_one_clock
        self._groups = {rank: own.recording.groups for rank, own in opened.items()}
        self._count = {rank: _workers_of(own) for rank, own in opened.items()}
        self._does = _codes(own.name for own in ranks.values())
        self._types = _codes(map(str, own.arguments["dtype"]) for own in ranks.values())
        self._rows: dict[Candidate, _Rows] = {}
        self._meetings: dict[tuple[Candidate, Candidate], _Meeting | None] = {}
        self._peers = {group: self._members(group) for groups in self._groups.values() for group in groups}
        self._possible: dict[tuple[int, str], set[Candidate]] = {
            (rank, group): set(self._all_candidates(rank, group))
            for group, members in self._peers.items()
            for rank in members
        }
        self.covers: dict[int, list[Cover]] = {rank: [] for rank in opened}
        self._exclude()
        while self._exclude_unlikely():
            self._exclude()

    def _members(self, group: str) -> list[int]:
        """Return the given ranks of a group that know it."""
        listed = listed_ranks(group[group.rindex("[") :])
        named = set(self._ranks) & set(listed)
        return sorted(rank for rank in named if group in self._groups.get(rank, (group,)))

    def _all_candidates(self, rank: int, group: str) -> Iterator[Candidate]:
        if rank not in self._groups:
            yield Candidate(rank, (), group)
            return
        rows = Counter(self._ranks[rank].arguments[WORKER])
        for worker in range(self._count[rank]):
            if rows[worker] <= MAX_ROWS_ALONE:
                yield Candidate(rank, (worker,), "")
            if worker + 1 < self._count[rank]:
                yield Candidate(rank, (worker, worker + 1), "")

    def _exclude(self) -> None:
        """Leave out what has no partner on another rank, or leaves a worker without a group, until nothing changes."""
        before = -1
        while before != (before := sum(map(len, self._possible.values())) + sum(map(len, self.covers.values()))):
            for (rank, group), own in self._possible.items():
                if own:
                    near = self._near(rank, group)
                    own &= {one for one in own if all(self._has_partner(one, other, group) for other in near)}
            self.covers = {rank: self._covers_of(rank) for rank in self.covers}
            for rank, covers in self.covers.items():
                if len(covers) < MAX_COVERS:
                    neighbors = {other for group in self._groups[rank] for other in self._near(rank, group)}
                    covers[:] = [cover for cover in covers if all(self._agrees(rank, cover, at) for at in neighbors)]
                    used = {(workers, group) for cover in covers for workers, group in cover}
                    for group in self._groups[rank]:
                        self._possible[rank, group] &= {Candidate(rank, own, "") for own, of in used if of == group}

    def _near(self, rank: int, group: str) -> list[int]:
        """Return the other ranks of a group with which one is compared."""
        return [other for other in self._peers[group] if other != rank][:MAX_PEERS]

    def _agrees(self, rank: int, cover: Cover, other: int) -> bool:
        """Return whether another rank can call the same of the groups that both have: who calls one, calls it too."""
        shared = {group for group in self._groups[rank] if other in self._peers[group]}
        mine = {group: Candidate(rank, workers, "") for workers, group in cover if group in shared}
        if other not in self._groups:
            fixed = {group: Candidate(other, (), group) for group in shared}
            theirs = [{group: one for group, one in fixed.items() if self._rows_of(one).contents}]
        elif len(self.covers[other]) >= MAX_COVERS:
            return True
        else:
            theirs = [
                {group: Candidate(other, workers, "") for workers, group in own if group in shared}
                for own in self.covers[other]
            ]
        return any(
            mine.keys() == own.keys() and all(self._meets(mine[group], own[group]) for group in mine) for own in theirs
        )

    def _has_partner(self, one: Candidate, rank: int, group: str) -> bool:
        return any(self._meets(one, other) is not None for other in self._possible[rank, group])

    def _exclude_unlikely(self) -> bool:
        """Leave out groups that explain ends clearly worse than others; return whether there were any.

        A transfer begins when the last rank has come, and those of one kind and size take about the same time. Where a
        larger group is the true one, the smaller ones leave long waits unexplained; where a smaller one is, the larger
        one makes some transfers too short.
        """
        for group, ranks in self._peers.items():
            for one in sorted(self._possible[ranks[0], group]):
                cluster = self._partners(one, group)
                rivals = {rank: self._rivals(other, group) for rank, other in cluster.items()}
                divisions = self._divisions(rivals)
                if len(cluster) < 2 or not divisions or len(self._rows_of(one).happened) < MIN_ROWS_FITTED:
                    continue
                fits = {
                    rank: self._fits(other, {group: cluster, **{of: self._partners(other, of) for of in rivals[rank]}})
                    for rank, other in cluster.items()
                }
                better = [sum(fits[rank][group] - fits[rank][of[rank]] for rank in of) for of in divisions]
                if -PROVEN_FIT < min(better) < PROVEN_FIT:
                    continue
                for rank, others in rivals.items():
                    for unlikely in others if min(better) > 0 else [group]:
                        self._possible[rank, unlikely].discard(cluster[rank])
                return True
        return False

    def _divisions(self, rivals: Mapping[int, Sequence[str]]) -> list[dict[int, str]]:
        """List the ways in which ranks can be divided among other groups, all given ranks of which take part."""
        found: list[dict[int, str]] = []
        begun: list[dict[int, str]] = [{}]
        while begun and len(begun) + len(found) < MAX_COVERS:
            own = begun.pop()
            rank = next((rank for rank in rivals if rank not in own), None)
            if rank is None:
                found.append(own)
                continue
            for group in rivals[rank]:
                ranks = self._peers[group]
                if all(group in rivals.get(other, ()) and other not in own for other in ranks):
                    begun.append(own | dict.fromkeys(ranks, group))
        return [] if begun else found

    def _partners(self, one: Candidate, group: str) -> dict[int, Candidate]:
        """Return the one candidate of each given rank of a group that may go with another; nothing if it has none."""
        found = {one.rank: [one]}
        for rank in self._peers[group]:
            if rank != one.rank:
                found[rank] = [other for other in self._possible[rank, group] if self._meets(one, other)]
        if len(found) > MAX_PEERS or any(len(own) != 1 for own in found.values()):
            return {}
        return {rank: own[0] for rank, own in found.items()}

    def _rivals(self, one: Candidate, group: str) -> list[str]:
        """Return the other groups that the rows of a candidate may be of, with other ranks; known ones are of one."""
        return [
            other
            for other in self._groups.get(one.rank, ())
            if self._peers[other] != self._peers[group]
            and one in self._possible[one.rank, other]
            and self._partners(one, other)
        ]

    def _fits(self, one: Candidate, clusters: Mapping[str, Mapping[int, Candidate]]) -> dict[str, float]:
        """Return how likely the ends of a candidate's rows are in each of some groups (the logarithm).

        Args:
            one: the candidate.
            clusters: the candidates of all ranks of each group.
        """
        own = self._rows_of(one).happened
        came = {one: own.start}
        for other in {other for cluster in clusters.values() for other in cluster.values()} - {one}:
            came[other] = self._arrivals_beside(one, other)
        known = own.waits & np.all([times > NEVER_NS for times in came.values()], axis=0)
        last = {
            group: np.max([came[other] for other in cluster.values()], axis=0) for group, cluster in clusters.items()
        }
        return {group: _log_likelihood(own.take(known), times[known]) for group, times in last.items()}

    def _arrivals_beside(self, one: Candidate, other: Candidate) -> Ints:
        """Return when the other rank came to each row of one, by its clock (never: it has none)."""
        came = np.full(len(self._rows_of(one).happened), NEVER_NS)
        found = self._meets(one, other)
        if found is not None:
            theirs = self._rows_of(other).happened.start
            if one.rank < other.rank:
                came[found.left] = theirs[found.right] - found.ahead
            else:
                came[found.right] = theirs[found.left] + found.ahead
        return came

    def _covers_of(self, rank: int) -> list[Cover]:
        """List the ways in which a rank's workers, in order, can be of different groups: too many are cut short."""
        found: list[Cover] = []
        begun: list[Cover] = [()]
        while begun and len(begun) + len(found) < MAX_COVERS:
            further: list[Cover] = []
            for cover in begun:
                at = cover[-1][0][-1] + 1 if cover else 0
                if at == self._count[rank]:
                    found.append(cover)
                    continue
                served = {group for _, group in cover}
                further += [
                    (*cover, (workers, group))
                    for group in self._groups[rank]
                    if group not in served
                    for workers in ((at,), (at, at + 1))
                    if Candidate(rank, workers, "") in self._possible[rank, group]
                ]
            begun = further
        return (found + begun)[:MAX_COVERS]

    def decided(self, rank: int) -> dict[Workers, str]:
        """Return the groups of the workers for which all ways that are left agree; of several ways the one in order.

        Groups of the same ranks explain the same: where nothing else distinguishes them, the ranks alone are named.
        """
        covers = self.covers[rank]
        if len(covers) > 1:
            place = {group: at for at, group in enumerate(self._groups[rank])}
            in_order = [cover for cover in covers if _ascends([place[group] for _, group in cover])]
            covers = in_order if len(in_order) == 1 else covers
        if not covers or len(covers) >= MAX_COVERS:
            return {}
        told: dict[Workers, set[str]] = {}
        for cover in covers:
            for workers, group in cover:
                told.setdefault(workers, set()).add(group)
        ways = Counter(workers for cover in covers for workers, _ in cover)
        named = {
            workers: next(iter(groups)) if len(groups) == 1 else self._shared_ranks(groups)
            for workers, groups in told.items()
            if ways[workers] == len(covers)
        }
        often = Counter(named.values())
        return {workers: group for workers, group in named.items() if group and often[group] == 1}

    def _shared_ranks(self, groups: Iterable[str]) -> str:
        """Return the ranks of groups that differ in name alone; "" if they differ."""
        ranks = {group[group.rindex("[") :] for group in groups}
        return ranks.pop() if len(ranks) == 1 else ""

    # -- two candidates -----------------------------------------------------------------------------------------------

    def _meets(self, one: Candidate, other: Candidate) -> _Meeting | None:
        """Return which rows of two ranks, the lower one first, are the same if they can be of one group; else None."""
        if one.rank > other.rank:
            one, other = other, one
        if (one, other) not in self._meetings:
            self._meetings[one, other] = self._compare(self._rows_of(one), self._rows_of(other), one.rank, other.rank)
        return self._meetings[one, other]

    def _compare(self, left: _Rows, right: _Rows, rank: int, other: int) -> _Meeting | None:
        least = min(len(left.happened), len(right.happened))
        if (left.contents & right.contents).total() < (1 - MAX_LOST_SHARE) * MIN_SHARED * least or not least:
            return None
        one, two = left.happened, right.happened
        is_one_host = self._ranks[rank].recording.host == self._ranks[other].recording.host
        if self._is_one_clock and is_one_host:
            found, ahead = align_at_offset(one, two, 0, ONE_CLOCK_NS), 0
        else:
            found = _in_order(one, two) or align_sequences(one, two)[0]
            most = MAX_HOST_OFFSET_NS if is_one_host else UNKNOWN_CLOCK_NS
            distance = _distance_of_clocks(one.take(found.left), two.take(found.right), most)
            if distance is None:
                return None
            ahead = distance
        if not _explains(found, left, right, ahead, self._edge_rows):
            return None
        return _Meeting(found.left, found.right, ahead)

    def _rows_of(self, of: Candidate) -> _Rows:
        if of not in self._rows:
            self._rows[of] = self._read_rows(of)
        return self._rows[of]

    def _read_rows(self, of: Candidate) -> _Rows:
        own = self._ranks[of.rank]
        workers = own.arguments[WORKER]
        chosen = (
            [at for at, worker in enumerate(workers) if worker in of.workers]
            if of.workers
            else [at for at, group in enumerate(own.group) if group == of.group and not own.is_message[at]]
        )
        sizes = [own.arguments["In msg nelems"][at] for at in chosen]
        places = np.array(chosen, np.int64)
        happened = CommunicationSequence.of(
            what=np.array([self._does[own.name[at]] for at in chosen], np.int32),
            elements=np.array([size if isinstance(size, int) else -1 for size in sizes], np.int64),
            kind=np.array([self._types[str(own.arguments["dtype"][at])] for at in chosen], np.int64),
            number=-1,
            start=own.start[places],
            end=own.end[places],
            waits=own.needed[places] == ALL_RANKS,
        )
        contents = Counter(zip(happened.what.tolist(), happened.elements.tolist(), strict=True))
        return _Rows(happened, contents, own.recording.begin, own.recording.end)


MAX_HOST_OFFSET_NS = 128_000_000
"""How far the clocks of two ranks of one host may seem to differ. One host has one clock, but machines may share a
name; where they keep time together NTP sets a clock that is further off (its step threshold is 128 ms)."""

UNKNOWN_CLOCK_NS = 1 << 61
NEVER_NS = -(1 << 62)


def _codes(texts: Iterable[Iterable[str]]) -> dict[str, int]:
    """Number texts; what is not known (None) has no number."""
    listed = sorted({text for own in texts for text in own} - {"None"})
    return {text: at for at, text in enumerate(listed)} | {"None": -1}


def _ascends(places: Sequence[int]) -> bool:
    return list(places) == sorted(places)


def _in_order(one: CommunicationSequence, other: CommunicationSequence) -> Alignment | None:
    """Return the pairs of equal places where both did the same throughout: that needs no clocks; else None."""
    alike = len(one) == len(other) and (one.what == other.what).all()
    if not alike or not ((one.elements == other.elements) | (one.elements < 0) | (other.elements < 0)).all():
        return None
    every = np.arange(len(one))
    return Alignment(every, every, 0.0)


def _distance_of_clocks(one: CommunicationSequence, other: CommunicationSequence, most: int) -> int | None:
    """Return by how much the second clock is ahead (ns), in the middle of what waiting allows; None: nothing is.

    Two clocks drift apart by no more than :data:`MAX_DRIFT`.
    """
    low = int(np.where(one.waits, other.start - one.end, -UNKNOWN_CLOCK_NS).max(initial=-most))
    high = int(np.where(other.waits, other.end - one.start, UNKNOWN_CLOCK_NS).min(initial=most))
    if low > high + ONE_CLOCK_NS + MAX_DRIFT * int(np.ptp(one.end) if len(one) else 0):
        return None
    is_bound = low > -UNKNOWN_CLOCK_NS and high < UNKNOWN_CLOCK_NS
    return (low + high) // 2 if is_bound else max(low, min(0, high))


def _explains(found: Alignment, left: _Rows, right: _Rows, ahead: int, edge_rows: int) -> bool:
    """Return whether two ranks' rows are those of one group, as far as both were recorded.

    Between two pairs nothing stays alone on both sides, which could not have met; on one side it may be lost.
    """
    if not len(found.left) or len(found.left) < MIN_SHARED * min(len(left.happened), len(right.happened)):
        return False
    alone_left, alone_right = (
        np.setdiff1d(np.arange(len(own.happened)), paired) for own, paired in ((left, found.left), (right, found.right))
    )
    count = len(found.left) + 1
    gaps = [
        np.bincount(np.searchsorted(paired, alone), minlength=count)
        for paired, alone in ((found.left, alone_left), (found.right, alone_right))
    ]
    if np.minimum(*gaps).any():
        return False
    lost = sum(int(own[1:-1].sum()) for own in gaps)
    edges = _rows_inside(left, alone_left, found.left, right, -ahead) + _rows_inside(
        right, alone_right, found.right, left, ahead
    )
    return lost <= MAX_LOST_SHARE * 2 * len(found.left) and edges <= edge_rows


def _rows_inside(own: _Rows, alone: Ints, paired: Ints, other: _Rows, ahead: int) -> int:
    """Count the rows before the first pair and after the last one for which the other rank was recorded."""
    outer = alone[(alone < paired[0]) | (alone > paired[-1])]
    begin, end = own.happened.start[outer] - ahead, own.happened.end[outer] - ahead
    return int(((begin >= other.begin) & (end <= other.end)).sum())


def _log_likelihood(own: CommunicationSequence, last: Ints) -> float:
    """Return how likely ends are, given when the last rank came: transfers of a content have one usual time.

    Their logarithms scatter around its own by the Laplace distribution, which rare long ones do not spoil.
    """
    if not len(own):
        return 0.0
    lasts = np.log(np.maximum(own.end - last, MIN_TRANSFER_NS))
    content = np.unique(np.stack((own.what, own.elements)), axis=1, return_inverse=True)[1].reshape(-1)
    found = 0.0
    for which in np.unique(content).tolist():
        mine = lasts[content == which]
        spread = max(float(np.abs(mine - np.median(mine)).mean()), MIN_SPREAD)
        found -= float(mine.sum()) + len(mine) * float(np.log(spread))
    return found


def name_groups(rank: int | None, own: RankCommunications, groups: Mapping[Workers, str]) -> RankCommunications:
    """Write down the groups of a rank's workers."""
    of_worker = {worker: group for workers, group in groups.items() for worker in workers}
    if not of_worker:
        return own
    told = dict(zip(own.recording.groups, own.recording.group_descriptions, strict=True))
    arguments: dict[str, list[Any]] = {key: [*values] for key, values in own.arguments.items()}
    named, needed = [*own.group], own.needed.copy()
    for at, worker in enumerate(own.arguments[WORKER]):
        group = of_worker.get(worker)
        if group is None:
            continue
        name, _, listed = group.rpartition("[")
        ranks = listed_ranks(f"[{listed}")
        arguments[WORKER][at] = None
        arguments["Process Group Name"][at] = name.strip() or None
        arguments["Process Group Ranks"][at] = f"[{listed}"
        arguments[GROUP_DESCRIPTION][at] = told.get(group)
        size = arguments["In msg nelems"][at]
        if own.name[at] == "gloo:all_gather" and size is not None:
            arguments["Out msg nelems"][at] = size * len(ranks)
        named[at] = group
        needed[at] = awaited_rank(own.name[at], rank, arguments[ROOT][at], ranks)
    return replace(own, group=named, needed=needed, arguments=arguments)
