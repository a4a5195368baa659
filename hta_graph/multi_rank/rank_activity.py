"""What each rank's time between its communications went to: by call path, name and class; of all ranks as a job's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.attribution.call_paths import FRAMES, STANDALONE_NUMBER, CallPaths
from hta_graph.base.arrays import Columns, expand_ranges, freeze, rows_by_value, summed_by, take_or, unique_rows
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.event_flags import is_step
from hta_graph.graph.rank_summary import RankSummary
from hta_graph.model import Bools, BoundBy, Codes, Ids, Ints, kind_mask
from hta_graph.paths.binding_edges import WalkSpans
from hta_graph.paths.intervals import Intervals, union
from hta_graph.paths.rank_local_walks import LocalWalks, rank_local_walks
from hta_graph.paths.segments import owners_and_classes
from hta_graph.paths.time_accounting import TimeAccounting

ADDRESS = re.compile(r"\b0x[0-9a-fA-F]+")

NO_ROW_NAME = "(no row)"
"""What a thread's time that no row lies over is called."""

STEP_ROW_NAME = "ProfilerStep"
"""What time in a step that nothing else owns is called: steps differ by their numbers only."""


@dataclass(frozen=True)
class ActivityProfile:
    """What ranks may do more of than others, in order of its texts: where, what, of which class."""

    call_path: Sequence[str]
    name: Sequence[str]
    bound: Sequence[BoundBy]

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, eq=False)
class ActivityTimes(Columns):
    """How long (ns) what was done; what recurs comes several times."""

    activity: Ints
    time: Ints


@dataclass(frozen=True)
class WalkProfiles:
    """What ranks did on each of their walks, until each member arrived (its lag), and in each member itself.

    Those are parts, numbered through: part ``number`` is ``profile`` from ``first[number]`` to ``first[number + 1]``.
    """

    activities: ActivityProfile
    profile: ActivityTimes
    first: Ints
    walks: int
    members: int

    def lag(self, member: int) -> int:
        """Return which part is what a rank did until its member arrived."""
        return self.walks + member

    def itself(self, member: int) -> int:
        """Return which part is the member's own time that is no wait."""
        return self.walks + self.members + member

    def rows(self, parts: Ints) -> tuple[Ints, ActivityTimes]:
        """Lay parts end to end; return for each row the place of its part besides."""
        at, row = expand_ranges(self.first[parts], self.first[parts + 1] - self.first[parts])
        return at, self.profile.take(row)

    def walk_times(self) -> Ints:
        """Return how long each walk takes (ns)."""
        at, rows = self.rows(np.arange(self.walks))
        return summed_by(at, rows.time, self.walks)


def walk_profiles(job: DependencyGraph, walks: LocalWalks, data_load: Sequence[str] = ()) -> WalkProfiles:
    """Add up the time of walks by call path, name and class.

    Numbers that stand alone in names are read as ``#``: they count steps and iterations.
    """
    graph, count = job.independent_ranks, len(walks.member)
    walk_count = count + len(job.members)
    spans = WalkSpans.join([walks.since, replace(walks.lag, walk=walks.lag.walk + count)])
    ever = np.iinfo(np.int64)
    accounts = TimeAccounting(graph, data_load).divide(
        spans, np.full(walk_count, ever.min), np.full(walk_count, ever.max)
    )
    owner, bound = owners_and_classes(graph, accounts, spans)
    transfers = np.full(len(job.members), BoundBy.GPU_COMMUNICATION_BOUND, np.int8)
    activities, activity = _numbered_activities(job, np.append(owner, job.members.row), np.append(bound, transfers))
    members: Ints = np.arange(len(job.members))
    walk = np.append(spans.walk[accounts.span], walk_count + members)
    time = np.append(accounts.end - accounts.start, job.members.transfer)
    rows, group = unique_rows(walk, activity)
    summed = ActivityTimes(activity[rows], summed_by(group, time, len(rows)))
    first = np.searchsorted(walk[rows], np.arange(walk_count + len(members) + 1))
    return WalkProfiles(activities, summed, first, count, len(members))


def _numbered_activities(job: DependencyGraph, owner: Ids, bound: Codes) -> tuple[ActivityProfile, Ints]:
    """Number what is done by whom (canonical row; -1: no event), in the order of its texts."""
    paths, classes = CallPaths(), len(BoundBy)
    # One row is behind many parts of time: its place is looked up once.
    rows, of_row = _distinct_below(len(job.event_table) + 1, owner + 1)
    path, name = _call_paths(job, paths, rows - 1), take_or(job.event_table.name, rows - 1)
    first, of_place = unique_rows(path, name + 1)
    keys, place = _distinct_below(len(first) * classes, of_place[of_row] * classes + bound)
    at = first[keys // classes]
    listed = zip(path[at].tolist(), name[at].tolist(), (keys % classes).tolist(), strict=True)
    texts = [(paths.label(around), _name_of_code(job, code), BoundBy(bound)) for around, code, bound in listed]
    number = {text: at for at, text in enumerate(sorted(set(texts)))}
    activities = ActivityProfile(
        [path for path, _, _ in number], [name for _, name, _ in number], [bound for *_, bound in number]
    )
    return activities, np.array([number[text] for text in texts], np.int64)[place]


def _distinct_below(limit: int, values: Ids | Ints) -> tuple[Ids, Ids]:
    """Return the values that occur, ascending, all of them below a limit, and the place of each among them.

    >>> [found.tolist() for found in _distinct_below(9, np.array([7, 2, 7]))]
    [[2, 7], [1, 0, 1]]
    """
    occurs = np.zeros(limit, np.bool_)
    occurs[values] = True
    found = np.flatnonzero(occurs).astype(np.int32)
    place = np.empty(limit, np.int32)
    place[found] = np.arange(len(found), dtype=np.int32)
    return found, place[values]


def _name_of_code(job: DependencyGraph, code: int) -> str:
    return NO_ROW_NAME if code < 0 else _generic_name(job.names[code])


def _generic_name(name: str) -> str:
    """Read what differs between steps and processes as ``#``.

    >>> _generic_name("ProfilerStep#3"), _generic_name("forward 2"), _generic_name("<built-in mm at 0x7efd448c>")
    ('ProfilerStep', 'forward #', '<built-in mm at 0x#>')
    """
    return STEP_ROW_NAME if is_step(name) else ADDRESS.sub("0x#", STANDALONE_NUMBER.sub("#", name))


def _call_paths(job: DependencyGraph, paths: CallPaths, rows: Ids) -> Ids:
    """Return the path around each row: of an activity that around the call that asked for it."""
    nesting = job.nesting(*FRAMES)
    call = job.launching_call.copy()
    call[job.members.row] = np.maximum(call[job.members.row], job.members.call)
    asked = take_or(job.is_activity, rows, otherwise=False)
    on_cpu = np.where(asked, take_or(call, rows), rows)
    is_frame = ~asked & take_or(kind_mask(job.event_table.kind, FRAMES), rows, otherwise=False)
    around = np.where(is_frame, take_or(nesting.parent, rows), job.enclosing(on_cpu, *FRAMES))
    found: Ids = take_or(paths.of(job, around), around, otherwise=0)
    return found


EARLIEST_NS = int(np.iinfo(np.int64).min)


@dataclass(frozen=True, eq=False)
class WalkColumns(Columns):
    """The walks of a rank, as :class:`LocalWalks` has them; ``before_ns`` is the earliest time where there is none."""

    member: Ids
    before: Ids
    resumed: Bools
    before_ns: Ints


@dataclass(frozen=True, eq=False)
class ActivityColumns(Columns):
    """How long (ns) what was done on which walk: first the walks, behind them the lags of members."""

    walk: Ints
    activity: Ints
    time: Ints


@dataclass(frozen=True)
class RankActivity:
    """One rank's walks and profiles; ``call_path``, ``name`` and ``bound`` are what was done, by its number.

    ``gpu_work`` is when its GPU does anything but communicate where no walk of the rank is: of few intervals, and with
    the walks as much as all of it.
    """

    walks: WalkColumns
    queued: Ids
    transfer: Ints
    done: ActivityColumns
    call_path: tuple[str, ...]
    name: tuple[str, ...]
    bound: tuple[int, ...]
    gpu_work: Intervals

    def moved(self, ahead: int) -> RankActivity:
        """Return the same where all times are so much (ns) earlier."""
        known = self.walks.before >= 0
        before = np.where(known, self.walks.before_ns - ahead, self.walks.before_ns)
        work = Intervals(freeze(self.gpu_work.start - ahead), freeze(self.gpu_work.end - ahead))
        return replace(self, walks=replace(self.walks, before_ns=freeze(before)), gpu_work=work)


def rank_activity(alone: DependencyGraph, most: int) -> RankActivity:
    """Return the walks of a rank, given as a job of its own; what it did least of is added up by its class.

    Args:
        alone: the rank.
        most: how many things that it did are listed on their own: those that took longest.
    """
    walks = rank_local_walks(alone)
    found = walk_profiles(alone, walks)
    parts = found.walks + found.members
    walk, rows = found.rows(np.arange(parts))
    done = ActivityColumns.of(walk=walk, activity=rows.activity, time=rows.time)
    _, itself = found.rows(parts + np.arange(found.members))
    columns = WalkColumns.of(
        member=walks.member, before=walks.before, resumed=walks.resumed,
        before_ns=np.where(walks.before >= 0, walks.before_ns, EARLIEST_NS),
    )  # fmt: skip
    gpu_work = gpu_work_of_ranks(alone)[0].subtract(union(*walk_ends(walks, found.walk_times())))
    whole = RankActivity(
        columns, freeze(walks.queued), freeze(itself.activity), done, tuple(found.activities.call_path),
        tuple(found.activities.name), tuple(map(int, found.activities.bound)), gpu_work,
    )  # fmt: skip
    return whole if len(whole.name) <= most else _merge_smaller(whole, most)


SMALLER_NAME = "(smaller ones)"
"""The name of all that a rank did least of, where it did too much to list."""


def _merge_smaller(walks: RankActivity, most: int) -> RankActivity:
    """Keep only what took longest; the rest is added up by class."""
    total = np.bincount(walks.done.activity, walks.done.time, len(walks.name))
    total[walks.transfer] = np.inf  # what members are is always told
    kept = np.zeros(len(total), np.bool_)
    kept[np.argsort(-total, kind="stable")[:most]] = True
    kept[walks.transfer] = True
    texts = zip(walks.call_path, walks.name, walks.bound, kept.tolist(), strict=True)
    listed = [(path, name, bound) if keeps else ("", SMALLER_NAME, bound) for path, name, bound, keeps in texts]
    number = {text: at for at, text in enumerate(sorted(set(listed)))}
    new = np.array([number[text] for text in listed], np.int64)
    key, place = np.unique(np.stack([walks.done.walk, new[walks.done.activity]]), axis=1, return_inverse=True)
    sums = np.zeros(key.shape[1], np.int64)
    np.add.at(sums, place.reshape(-1), walks.done.time)
    paths, names, bounds = zip(*number, strict=True)
    return replace(
        walks, transfer=freeze(new[walks.transfer]), done=ActivityColumns.of(walk=key[0], activity=key[1], time=sums),
        call_path=paths, name=names, bound=bounds,
    )  # fmt: skip


def walks_and_profiles(job: DependencyGraph, data_load: Sequence[str] = ()) -> tuple[LocalWalks, WalkProfiles]:
    """Return the walks of a job's ranks, and what they did on them; of ranks of few rows as it was found before."""
    known = [job.graph(part.rank).attached(RankActivity) for part in job.rank_graphs]
    if all(walks is not None for walks in known):
        moved = zip(known, job.rank_graphs, job.clock_table.offset.tolist(), strict=True)
        every = [walks.moved(_clock_offset(part, offset)) for walks, part, offset in moved if walks is not None]
        return _join_walks(every, job.members.transfer)
    walks = rank_local_walks(job)
    return walks, walk_profiles(job, walks, data_load)


def walk_ends(walks: LocalWalks, length: Ints) -> tuple[Ints, Ints]:
    """Return when walks of a known begin start and end, given how long they take (ns)."""
    known = np.flatnonzero(walks.before >= 0)
    return walks.before_ns[known], walks.before_ns[known] + length[known]


def gpu_work_of_ranks(job: DependencyGraph) -> list[Intervals]:
    """Return when each rank's GPU does anything but communicate; of ranks of few rows while no walk is."""
    flags, lane, events = job.event_flags, job.event_table.lane, job.event_table
    is_work = flags.gpu_work & ~flags.communicates & ~job.lanes.is_communication[lane]
    rows = np.flatnonzero(is_work)
    of_rank, none, found = rows_by_value(job.rank_index_of(rows)), np.empty(0, np.int64), list[Intervals]()
    for place, (part, offset) in enumerate(zip(job.rank_graphs, job.clock_table.offset.tolist(), strict=True)):
        own = rows[of_rank.get(place, none)]
        known = job.graph(part.rank).attached(RankActivity)
        if known is None:
            found.append(union(events.start[own], events.end[own]))
        else:
            found.append(known.moved(_clock_offset(part, offset)).gpu_work)
    return found


def _clock_offset(part: RankGraph, offset: int) -> int:
    """Return by how much (ns) the times that are known of a rank are ahead of the job's."""
    answers = part.graph.attached(RankSummary)
    return 0 if answers is None or answers.is_in_job_time else offset


def _join_walks(ranks: Sequence[RankActivity], transfer_ns: Ints) -> tuple[LocalWalks, WalkProfiles]:
    """Return the walks and profiles of a job of those of its ranks, in order of rank, given what members took (ns)."""
    members = [len(rank.queued) for rank in ranks]
    first = np.cumsum([0, *members])
    further = np.cumsum([first[-1], *(len(rank.walks) - len(rank.queued) for rank in ranks)])
    numbers = [
        _job_numbers(rank, int(at), int(beyond)) for rank, at, beyond in zip(ranks, first, further, strict=False)
    ]
    activities, doing_of = _shared_activities(ranks)
    place = np.concatenate([np.empty(0, np.int64), *numbers]).argsort(kind="stable")
    columns = WalkColumns.join([
        replace(
            rank.walks, member=freeze((rank.walks.member + at).astype(np.int32)),
            before=freeze(_renumbered_walks(number, rank.walks.before)),
        )
        for rank, number, at in zip(ranks, numbers, first.tolist(), strict=False)
    ]).take(place)  # fmt: skip
    queued = [
        np.where(rank.queued >= 0, rank.queued + at, -1).astype(np.int32)
        for rank, at in zip(ranks, first.tolist(), strict=False)
    ]
    walks = LocalWalks(
        columns.member, columns.before, columns.resumed, columns.before_ns, WalkSpans.empty(), WalkSpans.empty(),
        np.concatenate([np.empty(0, np.int32), *queued]),
    )  # fmt: skip
    count = int(further[-1])
    since = [
        _renumbered_times(rank, np.concatenate([number, count + at + np.arange(size)]), own)
        for rank, number, at, size, own in zip(ranks, numbers, first.tolist(), members, doing_of, strict=False)
    ]
    parts = count + int(first[-1])
    transfer = np.concatenate([np.empty(0, np.int64), *(
        own[rank.transfer] for rank, own in zip(ranks, doing_of, strict=True)
    )])  # fmt: skip
    itself = ActivityColumns.of(walk=parts + np.arange(len(transfer)), activity=transfer, time=transfer_ns)
    done = ActivityColumns.join([*since, itself])
    done = done.take(np.lexsort((done.activity, done.walk)))
    bounds = np.searchsorted(done.walk, np.arange(parts + len(transfer) + 1))
    return walks, WalkProfiles(activities, ActivityTimes(done.activity, done.time), bounds, count, len(transfer))


def _job_numbers(rank: RankActivity, first: int, further: int) -> Ints:
    """Return the job's number of each walk of a rank: walks of members have the members' numbers."""
    own = np.arange(len(rank.walks), dtype=np.int64)
    size = len(rank.queued)
    return np.where(own < size, own + first, own - size + further)


def _renumbered_walks(number: Ints, walks: Ids) -> Ids:
    return np.where(walks >= 0, number[walks], -1).astype(np.int32) if len(number) else walks


def _renumbered_times(rank: RankActivity, number: Ints, activity: Ints) -> ActivityColumns:
    return replace(rank.done, walk=freeze(number[rank.done.walk]), activity=freeze(activity[rank.done.activity]))


def _shared_activities(ranks: Sequence[RankActivity]) -> tuple[ActivityProfile, list[Ints]]:
    """Number what any rank did, in the order of its texts; return for each rank the numbers of its own."""
    own = [list(zip(rank.call_path, rank.name, rank.bound, strict=True)) for rank in ranks]
    every = sorted({text for texts in own for text in texts})
    number = {text: at for at, text in enumerate(every)}
    activities = ActivityProfile(
        [path for path, _, _ in every], [name for _, name, _ in every], [BoundBy(bound) for *_, bound in every]
    )
    return activities, [np.array([number[text] for text in texts], np.int64) for texts in own]
