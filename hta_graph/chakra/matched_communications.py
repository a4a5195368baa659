"""The communications of all ranks: matched with each other, then given one schedule for all ranks.

The job's matcher matches what order and contents leave open: communication on CPUs, and what no simulator can
compute. The latter is written as recorded: ranks wait for each other, and then the time passes that the transfer took.
All others match by their channel. The schedule says each communication's number, bytes and duration, what is cut, and
one order of the collectives for all ranks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from hta_graph.base.text.formatting import join_first
from hta_graph.chakra.communications import Communication, Group, GroupChannel, WorkloadCommunications
from hta_graph.chakra.topological_order import topological_order
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.collectives import Collectives, match_grouped_collectives
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    NO_RANK,
    UNKNOWN_RANK,
    Label,
    Match,
    RankCommunications,
    RankRecord,
    RankRecording,
)
from hta_graph.multi_rank.matching.job_clocks import JobClocks, clocks_from_arrivals
from hta_graph.multi_rank.matching.match_ranks import MatchedChannel, match_ranks
from hta_graph.multi_rank.matching.pair_clocks import ArrivalsAndEnds

RENDEZVOUS_KIND, RENDEZVOUS_BYTES = "ALL_GATHER", 64
"""What ranks do to wait for each other: of all that ASTRA-sim runs it costs least; of fewer than 4 bytes it hangs."""


@dataclass(frozen=True)
class MatchedWorkload:
    """Per rank its communications, matched where order alone is ambiguous, and how many of them are as recorded.

    ``unmatched`` are the events (canonical rows) that have no partner, of which something is unknown or on the CPU.
    """

    known: dict[int, list[Communication]]
    recorded: dict[int, int]
    unmatched: dict[int, set[int]]
    clocks: JobClocks


def matched_communications(
    found: Mapping[int, WorkloadCommunications], members: Mapping[int, RankCommunications], *, as_recorded: bool
) -> MatchedWorkload:
    """Match what is unknown and what ran on CPUs with all other communications, as analyses do.

    On the CPU ends scatter too much for order and contents alone. Where one rank does not know what it did, it is as
    recorded on all that did it. So are broadcasts: ASTRA-sim takes their recorded time, but no rank waits for the root.

    Args:
        found: what is known of each rank's communications.
        members: the same as the job's matcher looks at them, with the groups that all ranks together show.
        as_recorded: whether to keep what is unknown.
    """
    matched = match_grouped_collectives(members)
    known = {rank: {item.event: item for item in own.known} for rank, own in found.items()}
    unknown = {rank: {row for row, _ in own.unknown} for rank, own in found.items()}
    on_cpu = {rank: set(own.row[~own.on_gpu].tolist()) for rank, own in members.items()}
    matched_items: dict[int, dict[int, Communication]] = {rank: {} for rank in found}
    for number in range(len(matched)):
        match = _MatchedGroup.of(number, matched, members, known)
        if as_recorded and match.needs_recorded_time(unknown):
            items = match.as_recorded()
        elif match.any_event_in(on_cpu) and match.is_complete(found):
            items = match.as_known()
        else:
            continue
        for rank, item in zip(match.ranks, items, strict=True):
            matched_items[rank][item.event] = item
    return MatchedWorkload(
        {
            rank: [item for row, item in own.items() if row not in on_cpu[rank] and row not in matched_items[rank]]
            + [*matched_items[rank].values()]
            for rank, own in known.items()
        },
        {rank: sum(item.is_recorded for item in own.values()) for rank, own in matched_items.items()},
        {rank: (unknown[rank] | (known[rank].keys() & on_cpu[rank])) - matched_items[rank].keys() for rank in found},
        matched.clocks,
    )


@dataclass(frozen=True)
class _MatchedGroup:
    """What several ranks did together: per member its rank, event, what is known of it, whom it waits for, its times.

    ``start`` and ``end`` of the work are in the job's time (ns).
    """

    number: int
    ranks: list[int]
    rows: list[int]
    items: list[Communication | None]
    needed: list[int]
    start: Ints
    end: Ints
    on_gpu: bool
    is_message: bool

    @classmethod
    def of(
        cls,
        number: int,
        matched: Collectives,
        members: Mapping[int, RankCommunications],
        known: Mapping[int, Mapping[int, Communication]],
    ) -> _MatchedGroup:
        end = matched.first[number + 1] if number + 1 < len(matched) else len(matched.number)
        at = slice(matched.first[number], end)
        ranks, places = matched.rank[at].tolist(), matched.place[at].tolist()
        own = list(zip([members[rank] for rank in ranks], places, strict=True))
        rows = [int(member.row[place]) for member, place in own]
        is_message = own[0][0].is_message[places[0]]
        needed = [int(member.needed[place]) for member, place in own]
        if is_message:
            # A sender waits for nobody.
            receives = [member.arguments["Collective name"][place] == "recv" for member, place in own]
            needed = [one if waits else NO_RANK for one, waits in zip(needed, receives, strict=True)]
        items = [known[rank].get(row) for rank, row in zip(ranks, rows, strict=True)]
        on_gpu = all(bool(member.on_gpu[place]) for member, place in own)
        # A message is on its way from the call on.
        start = (matched.arrival if is_message else matched.start)[at]
        return cls(number, ranks, rows, items, needed, start, matched.end[at], on_gpu, is_message)

    def any_event_in(self, rows: Mapping[int, Collection[int]]) -> bool:
        """Return whether any member's event is one of these."""
        return any(row in rows[rank] for rank, row in zip(self.ranks, self.rows, strict=True))

    def needs_recorded_time(self, unknown: Mapping[int, Collection[int]]) -> bool:
        """Return whether a simulator could not compute it, and all members take part in the workload."""
        members = list(zip(self.ranks, self.rows, self.items, strict=True))
        needs = self.any_event_in(unknown) or any(item is not None and item.kind == "BROADCAST" for item in self.items)
        return needs and all(item is not None or row in unknown[rank] for rank, row, item in members)

    def is_complete(self, given: Collection[int]) -> bool:
        """Return whether all members know what they did, and none that is given is missing."""
        items = [item for item in self.items if item is not None]
        if len(items) < len(self.items) or len({item.group.ranks for item in items}) > 1:
            return False
        ranks = {items[0].peer, *self.ranks} if self.is_message else items[0].group.ranks
        return set(ranks) & set(given) <= set(self.ranks)

    def as_known(self) -> list[Communication]:
        """Return what is known of it, with how long the transfer took each member."""
        transfers = self._transfers()
        if self.is_message:
            # A message is one transfer, from when it was sent to when it was received.
            receives = [one != NO_RANK for one in self.needed]
            transfers = np.full(2, max(int(self.end[receives].max() - self.start[np.invert(receives)].min()), 0))
        items = [item for item in self.items if item is not None]
        return [
            replace(item, match=self.number, transfer=ns) for item, ns in zip(items, transfers.tolist(), strict=True)
        ]

    def as_recorded(self) -> list[Communication]:
        """Return it as the simulator only replays it."""
        group = Group("", tuple(sorted(self.ranks)))
        roles = _send_receive_roles(self.ranks, self.needed)
        transfers = self._transfers()
        if self.on_gpu and not roles:
            # The kernel of the rank that came last waited for nobody, whatever the clocks say.
            transfers = np.full(len(transfers), (self.end - self.start).min())
        return [
            Communication(
                row,
                kind,
                RENDEZVOUS_BYTES,
                group,
                match=self.number,
                transfer=ns,
                is_recorded=True,
                peers=peers,
                on_cpu=not self.on_gpu,
            )
            for row, ns, (kind, peers) in zip(
                self.rows,
                transfers.tolist(),
                [roles.get(rank, (RENDEZVOUS_KIND, ())) for rank in self.ranks],
                strict=True,
            )
        ]

    def _transfers(self) -> Ints:
        """Return how long each member's work took once those were there for whom it waits (ns)."""
        start = dict(zip(self.ranks, self.start.tolist(), strict=True))
        last = int(self.start.max())
        came = [start.get(one, last) if one != NO_RANK else 0 for one in self.needed]
        transfers: Ints = np.clip(self.end - np.array(came), 0, self.end - self.start)
        if self.is_message and not self.on_gpu:
            # The row of a send on the CPU goes on until somebody asks whether it arrived.
            transfers[[one == NO_RANK for one in self.needed]] = 0
        return transfers


def _send_receive_roles(ranks: Sequence[int], needed: Sequence[int]) -> dict[int, tuple[str, tuple[int, ...]]]:
    """Return who sends to whom, and who receives from whom, where not all wait for all; else nothing.

    >>> _send_receive_roles([0, 1, 2], [0, 0, 0])
    {0: ('SEND', (1, 2)), 1: ('RECV', (0,)), 2: ('RECV', (0,))}
    >>> _send_receive_roles([0, 1, 2], [NO_RANK, NO_RANK, ALL_RANKS])
    {0: ('SEND', (2,)), 1: ('SEND', (2,)), 2: ('RECV', (0, 1))}
    >>> _send_receive_roles([0, 1], [ALL_RANKS, ALL_RANKS])
    {}
    """
    awaited = {one for one in needed if one >= 0}
    roots = awaited or {rank for rank, one in zip(ranks, needed, strict=True) if one == ALL_RANKS}
    if len(roots) != 1 or not roots <= set(ranks) or (not awaited and needed.count(NO_RANK) < len(ranks) - 1):
        return {}
    (root,) = roots
    leaves = tuple(rank for rank in ranks if rank != root)
    one, other = ("SEND", "RECV") if awaited else ("RECV", "SEND")
    return {rank: (one, leaves) if rank == root else (other, (root,)) for rank in ranks}


CommunicationPlace = tuple[int, int]
"""A rank, and the place of a communication among its known ones."""


@dataclass(frozen=True)
class RecordedRank:
    """One rank's communications in the order in which they were launched, and when each ran (ns, the rank's clock).

    ``begin`` is when the rank's recording began.
    """

    rank: int
    begin: int
    known: Sequence[Communication]
    start: Ints
    end: Ints

    @cached_property
    def record(self) -> RankRecord[GroupChannel]:
        """What it did with whom."""
        return RankRecord(self.rank, [item.label(self.rank) for item in self.known], self.start, self.end)

    @property
    def unmatched(self) -> RankRecord[GroupChannel]:
        """The same, without comparing what the job's matcher has already matched."""
        labels = zip(self.known, self.record.labels, strict=True)
        return replace(self.record, labels=[label if item.match < 0 else Label(None) for item, label in labels])

    @property
    def attendance(self) -> ArrivalsAndEnds:
        """Bounds of its clock from its collectives; in a broadcast not all ranks wait for all."""
        needed = [UNKNOWN_RANK if item.kind == "BROADCAST" or item.peers else ALL_RANKS for item in self.known]
        return ArrivalsAndEnds(self.start, self.end, np.array(needed, np.int64), np.zeros(len(needed), np.bool_))


@dataclass
class CommonSchedule:
    """What the ranks have in common.

    ``number`` is a communication's number in its channel, ``size`` its bytes, ``duration`` its shortest recorded one
    (ns): that of the rank that came last, which did not wait. ``exclusive_ns`` is how long a collective was the
    only one of its rank. ``cut`` are each rank's places of communications that not all recorded. ``order`` are each
    rank's places of collectives in the one order in which all ranks issue theirs. ``clock`` is what to subtract from a
    rank's times: then they count from the beginning of the first recording, and ranks that share a communication can be
    compared. ``notes`` are for the user.
    """

    number: dict[CommunicationPlace, int] = field(default_factory=dict)
    size: dict[CommunicationPlace, int] = field(default_factory=dict)
    duration: dict[CommunicationPlace, int] = field(default_factory=dict)
    exclusive_ns: dict[CommunicationPlace, int] = field(default_factory=dict)
    cut: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    order: dict[int, list[int]] = field(default_factory=dict)
    clock: dict[int, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def common_schedule(ranks: Sequence[RecordedRank], clocks: JobClocks | None = None) -> CommonSchedule:
    """Bring the communications of all ranks together.

    Args:
        ranks: what each rank did.
        clocks: how far the ranks' clocks are apart, where the job's matcher found it; else from their collectives.

    Raises:
        CollectiveError: the ranks disagree; the message names the ranks, which one, and what both are.
    """
    recorded = {item.rank: item for item in ranks}
    schedule = CommonSchedule()
    collectives: list[Match] = []
    for matched in match_ranks([item.unmatched for item in ranks], strict=True):
        for rank, cut in matched.unmatched.items():
            schedule.cut[rank] += cut
        schedule.notes += _cut_notes(matched)
        _settle_sizes(enumerate(matched.matches), recorded, schedule)
        if matched.channel.is_collective:
            collectives += matched.matches
    by_job = _already_matched(ranks)
    _settle_sizes(by_job.items(), recorded, schedule)
    collectives += [match for match in by_job.values() if all(map(_is_collective, _members_of(match, recorded)))]
    schedule.clock = _common_clock(recorded, clocks or _compared_clocks(recorded, collectives))
    schedule.order = _common_order(recorded, collectives, schedule)
    _settle_transfers(collectives, recorded, schedule)
    return schedule


def _already_matched(ranks: Sequence[RecordedRank]) -> dict[int, Match]:
    """Return what the job's matcher brought together, by number."""
    matched: dict[int, dict[int, int]] = defaultdict(dict)
    for own in ranks:
        for at, item in enumerate(own.known):
            if item.match >= 0:
                matched[item.match][own.rank] = at
    return dict(matched)


def _members_of(match: Match, recorded: Mapping[int, RecordedRank]) -> list[Communication]:
    return [recorded[rank].known[at] for rank, at in match.items()]


def _is_collective(item: Communication) -> bool:
    """Return whether a simulated rank waits in it until all others have come."""
    return item.peer < 0 and not item.peers


def _compared_clocks(recorded: Mapping[int, RecordedRank], collectives: Sequence[Match]) -> JobClocks:
    attended = {rank: own.attendance for rank, own in recorded.items()}
    return clocks_from_arrivals(collectives, attended, dict.fromkeys(recorded, RankRecording()))


def _common_clock(recorded: Mapping[int, RecordedRank], compared: JobClocks) -> dict[int, int]:
    """Return what to subtract from each rank's times so that they count from the beginning of the first recording."""
    clocks = compared.by_rank
    begin: dict[int, int] = {}
    for rank, clock in clocks.items():
        own = recorded[rank].begin - clock.line.ahead
        begin[clock.reference] = min(begin.get(clock.reference, own), own)
    # Ranks that share nothing with others are taken to have begun recording at the same time as those.
    return {rank: clock.line.ahead + begin[clock.reference] for rank, clock in clocks.items()}


def _cut_notes(matched: MatchedChannel[GroupChannel]) -> list[str]:
    counts = {rank: len(cut) for rank, cut in matched.unmatched.items() if cut}
    if not counts:
        return []
    listed = join_first([f"{count} of {len(matched.recorded[rank])} on rank {rank}" for rank, count in counts.items()])
    return [f"{matched.channel}: communication that some ranks did not record waits for no rank: {listed}"]


def _settle_sizes(
    together: Iterable[tuple[int, Match]], recorded: Mapping[int, RecordedRank], schedule: CommonSchedule
) -> None:
    """Give each communication its number, the most bytes and the shortest duration that any rank recorded."""
    uneven = 0
    for number, match in together:
        items = _members_of(match, recorded)
        sizes = {item.size for item in items}
        duration = min(int(recorded[rank].end[at] - recorded[rank].start[at]) for rank, at in match.items())
        uneven += len(sizes) > 1
        for item, place in zip(items, match.items(), strict=True):
            schedule.number[place], schedule.size[place] = number, max(sizes)
            schedule.duration[place] = item.transfer if item.match >= 0 else duration
    if uneven:
        schedule.notes.append(f"{uneven} all-to-alls whose sizes differ between ranks get the largest size")


def _settle_transfers(
    collectives: Sequence[Match], recorded: Mapping[int, RecordedRank], schedule: CommonSchedule
) -> None:
    """Take from each collective the time in which the one before it in the common order still ran.

    A rank of a simulator does one after the other:

        first     |=======|
        second        |=======|         takes the time from the end of the first one

    On CPUs members leave at different times, so each has its own time from when the last one could begin.
    """
    begin: dict[CommunicationPlace, int] = {}
    for rank, order in schedule.order.items():
        end, places = recorded[rank].end[order], [(rank, at) for at in order]
        before = np.maximum.accumulate(np.append(np.iinfo(np.int64).min, end))[:-1]
        could_begin = np.maximum(recorded[rank].start[order], np.minimum(before, end))
        begin |= dict(zip(places, could_begin.tolist(), strict=True))
        schedule.exclusive_ns |= dict(zip(places, (end - could_begin).tolist(), strict=True))
    for match in collectives:
        least = min(schedule.exclusive_ns[place] for place in match.items())
        last = max(begin[place] - schedule.clock[place[0]] for place in match.items())
        for item, place in zip(_members_of(match, recorded), match.items(), strict=True):
            left = begin[place] + schedule.exclusive_ns[place] - schedule.clock[place[0]]
            schedule.duration[place] = max(left - last, 0) if item.on_cpu else min(schedule.duration[place], least)


def _common_order(
    recorded: Mapping[int, RecordedRank], together: Sequence[Match], schedule: CommonSchedule
) -> dict[int, list[int]]:
    """Put all ranks' collectives into one order: by launch where the ranks agree, else by time of synchronization.

    A rank of a simulator does one collective at a time, so two orders of two groups would deadlock:

        rank 0    group 1, group 2        rank 0 waits in group 1 for rank 1,
        rank 1    group 2, group 1        which waits in group 2 for rank 0

    Those of the CPU go in the order in which they ended, as far as no rank did them one after the other: of what
    Gloo's workers do at once the first to end is not delayed by others.
    """
    # Sorted by time, a collective's place breaks ties between groups that no rank puts in order.
    began, ended = (
        [
            max(int(getattr(recorded[rank], side)[at]) - schedule.clock[rank] for rank, at in one.items())
            for one in together
        ]
        for side in ("start", "end")
    )
    on_cpu = [any(item.on_cpu for item in _members_of(one, recorded)) for one in together]
    by_time = sorted(range(len(together)), key=lambda at: ended[at] if on_cpu[at] else began[at])
    listed: dict[int, list[tuple[int, int]]] = {rank: [] for rank in recorded}
    for place, at in enumerate(by_time):
        for rank, own in together[at].items():
            listed[rank].append((own, place))
    steps = [step for rank, items in listed.items() for step in _recorded_order(recorded[rank], sorted(items))]
    source, target = np.array(steps, np.int64).reshape(-1, 2).T
    order = topological_order(source, target, len(together))
    if len(order) < len(together):
        schedule.notes.append(
            "ranks launch collectives of several groups in different orders; all ranks now issue them in the order in "
            "which they took place"
        )
        order = np.argsort([began[at] for at in by_time], kind="stable")
    rank_of = {place: at for at, place in enumerate(order.tolist())}
    return {rank: [own for own, place in sorted(items, key=lambda i: rank_of[i[1]])] for rank, items in listed.items()}


def _recorded_order(recorded: RecordedRank, items: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield what one rank did after what, of its collectives (place in its record, number among all) as launched."""
    if not any(recorded.known[own].on_cpu for own, _ in items):
        yield from ((a[1], b[1]) for a, b in pairwise(items))
        return
    start, end = (column[[own for own, _ in items]] for column in (recorded.start, recorded.end))
    for at, (_, number) in enumerate(items):
        before = end <= start[at]
        # What ended before another one of these began is before it through that one.
        last = before & (end > start[before].max(initial=np.iinfo(np.int64).min))
        yield from ((items[one][1], number) for one in np.flatnonzero(last).tolist())
