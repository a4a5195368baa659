"""How one rank came to its members and what it did meanwhile, as columns; those of all ranks as a job's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import Columns, freeze
from hta_graph.graph.dependency_graph import RankPart
from hta_graph.graph.job_graph import JobGraph
from hta_graph.graph.rank_summary import WholeAnswers
from hta_graph.model import Bools, BoundBy, Ids, Ints
from hta_graph.multi_rank.profiles import Doings, Profile, Profiles, profiles
from hta_graph.paths.binding_edges import Stretches
from hta_graph.paths.rank_local_walks import OwnWays, own_ways

__all__ = ["DoneColumns", "RankWays", "WayColumns", "ways_and_profiles", "ways_of_rank"]

NEVER = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class WayColumns(Columns):
    """The walks of a rank, as :class:`OwnWays` has them; ``before_ns`` is the earliest time where there is none."""

    member: Ids
    before: Ids
    went_on: Bools
    before_ns: Ints


@dataclass(frozen=True, eq=False)
class DoneColumns(Columns):
    """How long (ns) what was done on which walk: first the walks, behind them the lags of members."""

    walk: Ints
    activity: Ints
    time: Ints


@dataclass(frozen=True)
class RankWays:
    """One rank's walks and profiles; ``call_path``, ``name`` and ``bound`` are what was done, by its number."""

    walks: WayColumns
    queued: Ids
    transfer: Ints
    done: DoneColumns
    call_path: tuple[str, ...]
    name: tuple[str, ...]
    bound: tuple[int, ...]

    def moved(self, ahead: int) -> RankWays:
        """Return the same where all times are so much (ns) earlier."""
        known = self.walks.before >= 0
        before = np.where(known, self.walks.before_ns - ahead, self.walks.before_ns)
        return replace(self, walks=replace(self.walks, before_ns=freeze(before)))


def ways_of_rank(alone: JobGraph, most: int) -> RankWays:
    """Return the walks of a rank, given as a job of its own; what it did least of is added up by its class.

    Args:
        alone: the rank.
        most: how many things that it did are told apart, those that took longest.
    """
    walks = own_ways(alone)
    found = profiles(alone, walks)
    parts = found.walks + found.members
    walk, rows = found.rows(np.arange(parts))
    done = DoneColumns.of(walk=walk, activity=rows.activity, time=rows.time)
    _, itself = found.rows(parts + np.arange(found.members))
    columns = WayColumns.of(
        member=walks.member, before=walks.before, went_on=walks.went_on,
        before_ns=np.where(walks.before >= 0, walks.before_ns, NEVER),
    )  # fmt: skip
    whole = RankWays(
        columns, freeze(walks.queued), freeze(itself.activity), done, tuple(found.activities.call_path),
        tuple(found.activities.name), tuple(map(int, found.activities.bound)),
    )  # fmt: skip
    return whole if len(whole.name) <= most else _with_fewer(whole, most)


SMALLER = "(smaller ones)"
"""What is called what a rank did least of, where it did too much to tell it all apart."""


def _with_fewer(walks: RankWays, most: int) -> RankWays:
    """Tell apart only what took longest; the rest is added up by class."""
    total = np.bincount(walks.done.activity, walks.done.time, len(walks.name))
    total[walks.transfer] = np.inf  # what members are is always told
    kept = np.zeros(len(total), np.bool_)
    kept[np.argsort(-total, kind="stable")[:most]] = True
    kept[walks.transfer] = True
    texts = zip(walks.call_path, walks.name, walks.bound, kept.tolist(), strict=True)
    listed = [(path, name, bound) if keeps else ("", SMALLER, bound) for path, name, bound, keeps in texts]
    number = {text: at for at, text in enumerate(sorted(set(listed)))}
    new = np.array([number[text] for text in listed], np.int64)
    key, place = np.unique(np.stack([walks.done.walk, new[walks.done.activity]]), axis=1, return_inverse=True)
    sums = np.zeros(key.shape[1], np.int64)
    np.add.at(sums, place.reshape(-1), walks.done.time)
    paths, names, bounds = zip(*number, strict=True)
    return replace(
        walks, transfer=freeze(new[walks.transfer]), done=DoneColumns.of(walk=key[0], activity=key[1], time=sums),
        call_path=paths, name=names, bound=bounds,
    )  # fmt: skip


def ways_and_profiles(job: JobGraph, data_load: Sequence[str] = ()) -> tuple[OwnWays, Profiles]:
    """Return the walks of a job's ranks, and what they did on them; of ranks of few rows as it was found before."""
    known = [job.graph(part.rank).attached(RankWays) for part in job.parts]
    if all(walks is not None for walks in known):
        moved = zip(known, job.parts, job.clock_table.offset.tolist(), strict=True)
        every = [walks.moved(_ahead(part, offset)) for walks, part, offset in moved if walks is not None]
        return _joined_ways(every, job.members.transfer)
    walks = own_ways(job)
    return walks, profiles(job, walks, data_load)


def _ahead(part: RankPart, offset: int) -> int:
    """Return by how much (ns) the times that are known of a rank are ahead of the job's."""
    answers = part.graph.attached(WholeAnswers)
    return 0 if answers is None or answers.is_moved else offset


def _joined_ways(ranks: Sequence[RankWays], transfer_ns: Ints) -> tuple[OwnWays, Profiles]:
    """Return the walks and profiles of a job of those of its ranks, in order of rank, given what members took (ns)."""
    members = [len(rank.queued) for rank in ranks]
    first = np.cumsum([0, *members])
    further = np.cumsum([first[-1], *(len(rank.walks) - len(rank.queued) for rank in ranks)])
    numbers = [_numbers(rank, int(at), int(beyond)) for rank, at, beyond in zip(ranks, first, further, strict=False)]
    activities, doing_of = _shared_doings(ranks)
    place = np.concatenate([np.empty(0, np.int64), *numbers]).argsort(kind="stable")
    columns = WayColumns.join([
        replace(
            rank.walks, member=freeze((rank.walks.member + at).astype(np.int32)),
            before=freeze(_mapped(number, rank.walks.before)),
        )
        for rank, number, at in zip(ranks, numbers, first.tolist(), strict=False)
    ]).take(place)  # fmt: skip
    queued = [
        np.where(rank.queued >= 0, rank.queued + at, -1).astype(np.int32)
        for rank, at in zip(ranks, first.tolist(), strict=False)
    ]
    walks = OwnWays(
        columns.member, columns.before, columns.went_on, columns.before_ns, Stretches.empty(), Stretches.empty(),
        np.concatenate([np.empty(0, np.int32), *queued]),
    )  # fmt: skip
    count = int(further[-1])
    since = [
        _moved_walks(rank, np.concatenate([number, count + at + np.arange(size)]), own)
        for rank, number, at, size, own in zip(ranks, numbers, first.tolist(), members, doing_of, strict=False)
    ]
    parts = count + int(first[-1])
    transfer = np.concatenate([np.empty(0, np.int64), *(
        own[rank.transfer] for rank, own in zip(ranks, doing_of, strict=True)
    )])  # fmt: skip
    itself = DoneColumns.of(walk=parts + np.arange(len(transfer)), activity=transfer, time=transfer_ns)
    done = DoneColumns.join([*since, itself])
    done = done.take(np.lexsort((done.activity, done.walk)))
    bounds = np.searchsorted(done.walk, np.arange(parts + len(transfer) + 1))
    return walks, Profiles(activities, Profile(done.activity, done.time), bounds, count, len(transfer))


def _numbers(rank: RankWays, first: int, further: int) -> Ints:
    """Return the job's number of each walk of a rank: walks of members have the members' numbers."""
    own = np.arange(len(rank.walks), dtype=np.int64)
    size = len(rank.queued)
    return np.where(own < size, own + first, own - size + further)


def _mapped(number: Ints, walks: Ids) -> Ids:
    return np.where(walks >= 0, number[walks], -1).astype(np.int32) if len(number) else walks


def _moved_walks(rank: RankWays, number: Ints, activity: Ints) -> DoneColumns:
    return replace(rank.done, walk=freeze(number[rank.done.walk]), activity=freeze(activity[rank.done.activity]))


def _shared_doings(ranks: Sequence[RankWays]) -> tuple[Doings, list[Ints]]:
    """Number what any rank did, in the order of its texts; return for each rank the numbers of its own."""
    own = [list(zip(rank.call_path, rank.name, rank.bound, strict=True)) for rank in ranks]
    every = sorted({text for texts in own for text in texts})
    number = {text: at for at, text in enumerate(every)}
    activities = Doings(
        [path for path, _, _ in every], [name for _, name, _ in every], [BoundBy(bound) for *_, bound in every]
    )
    return activities, [np.array([number[text] for text in texts], np.int64) for texts in own]
