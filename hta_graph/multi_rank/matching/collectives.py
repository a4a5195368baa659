"""Matched collectives in one time: who came last, how long the others waited, what is unmatched and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import compress

import numpy as np

from hta_graph.base.arrays import Columns, first_of_runs, pair_key, rows_by_value
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Codes, Ids, Ints
from hta_graph.multi_rank.matching.align_rank_sequences import MIN_PAIRS
from hta_graph.multi_rank.matching.communications import ALL_RANKS, Match, RankCommunications, RankRecord
from hta_graph.multi_rank.matching.further_waits import FurtherWaits, further_waits
from hta_graph.multi_rank.matching.job_clocks import JobClocks, job_clocks
from hta_graph.multi_rank.matching.match_checks import (
    GROUP_OPEN,
    IMPLAUSIBLE_CLOCKS,
    NO_PARTNER,
    OUTSIDE_RECORDING,
    UNKNOWN_KERNEL,
    VIOLATES_CAUSALITY,
    MatchedMembers,
    Unmatched,
    ambiguous_matches,
    causally_possible,
    exclude_names,
    has_known_kind,
    matched_members,
    non_collective_names,
    summarize_unmatched,
    unmatched_reasons,
)
from hta_graph.multi_rank.matching.match_ranks import ORDER, MatchedChannel, MatchKey, match_ranks, rank_records
from hta_graph.multi_rank.matching.read_communications import read_communications
from hta_graph.multi_rank.matching.worker_groups import MAX_HOST_OFFSET_NS, with_worker_groups


@dataclass(frozen=True)
class Collectives:
    """Matched communications: one entry per member, collectives in order of time.

    ``place`` is the member's place in its rank's :class:`RankCommunications`; ``arrival`` (when its rank came),
    ``start`` and ``end`` of the work (ns) are in the job's time. ``wait`` is the time from its arrival until the last
    rank came for whom it waits (ns), at most to its end; the rest is transfer. It begins later by ``busy``: see
    :class:`RankCommunications`.

        rank 0    |wwwwwwwwtttt|        w: wait, t: transfer
        rank 1         |wwwtttt|
        rank 2            |tttt|        the last one: it does not wait
    """

    number: Ints
    rank: Ints
    place: Ints
    arrival: Ints
    busy: Ints
    start: Ints
    end: Ints
    wait: Ints
    awaited: Ints
    """The rank that came last of those for whom it waits (-1: it waits for none)."""
    is_needed: Bools
    """Whether others wait for it: of a broadcast by NCCL only the root is."""
    by: Ints
    """How each collective was found: a place in :data:`MATCHED_BY`."""
    missing: Ints
    """How many ranks of each collective's group were not given: their arrivals are unknown."""
    ambiguous: Bools
    """Collectives, matched by order, in which another communication that is left out would fit as well."""
    clocks: JobClocks
    reasons: dict[int, Codes]
    """For each rank's communications why they are left out: a key of :data:`REASONS`; 0 and 1 if they are not."""
    unmatched: tuple[Unmatched, ...]
    """What is unmatched of all ranks' communications, with its share of their time, by reason."""
    further: FurtherWaits
    """Who waits for a rank that takes from it."""
    rejected: tuple[Match, ...] = ()
    """What was matched but fits no clocks of its ranks, and is left out: rank → place."""

    def __len__(self) -> int:
        return len(self.by)

    @cached_property
    def first(self) -> Ints:
        """Where each collective begins among the members."""
        return np.searchsorted(self.number, np.arange(len(self)))

    @cached_property
    def last(self) -> Ints:
        """The member that came last of those that others wait for, per collective; of several the lowest rank's."""
        return np.lexsort((self.rank, -self.arrival, ~self.is_needed, self.number))[self.first]

    @cached_property
    def _by_rank(self) -> dict[int, Ints]:
        return rows_by_value(self.rank)

    def of_rank(self, rank: int) -> Ints:
        """Return which members are of a rank."""
        return self._by_rank.get(rank, np.zeros(0, np.int64))

    @property
    def transfer(self) -> Ints:
        """The time of each member that is no wait (ns)."""
        return self.end - self.arrival - self.busy - self.wait

    @property
    def offsets(self) -> dict[int, int]:
        """By how much (ns) clocks were set back, per rank, in the middle of its recording."""
        return {rank: clock.line.ahead for rank, clock in self.clocks.by_rank.items() if clock.line.ahead}

    @property
    def without_partner(self) -> int:
        """Communications of all ranks that are left out for want of a partner."""
        return self._count(WITHOUT_PARTNER)

    @property
    def of_open_group(self) -> int:
        """Collectives of all ranks that are left out because it is open which process group ran them."""
        return self._count((GROUP_OPEN,))

    @property
    def with_implausible_clocks(self) -> int:
        """Communications of all ranks that are left out because they match only if clocks differ more than they can."""
        return self._count((IMPLAUSIBLE_CLOCKS,))

    def _count(self, reasons: Sequence[int]) -> int:
        return sum(int(np.isin(own, reasons).sum()) for own in self.reasons.values())

    def take(self, chosen: Bools) -> Collectives:
        """Select collectives."""
        kept = chosen[self.number]
        return replace(
            self,
            number=(np.cumsum(chosen) - 1)[self.number[kept]],
            further=self.further.of_collectives(chosen),
            **{name: getattr(self, name)[kept] for name in MEMBER_COLUMNS},
            **{name: getattr(self, name)[chosen] for name in COLLECTIVE_COLUMNS},
        )


MEMBER_COLUMNS = ("rank", "place", "arrival", "busy", "start", "end", "wait", "awaited", "is_needed")
COLLECTIVE_COLUMNS = ("by", "missing", "ambiguous")
WITHOUT_PARTNER = (NO_PARTNER, OUTSIDE_RECORDING, VIOLATES_CAUSALITY, UNKNOWN_KERNEL)


@dataclass(frozen=True, eq=False)
class MatchedRanks:
    """With which ranks a rank's graph has been matched already, and what they did together."""

    ranks: Set[int]
    collectives: Collectives


def collectives_of_graphs(graphs: Mapping[int, DependencyGraph]) -> Collectives | None:
    """Return what the ranks of some graphs did together, where that is known."""
    known = [graph.attached(MatchedRanks) for graph in graphs.values()]
    if not known or known[0] is None or known[0].ranks != graphs.keys():
        return None
    return known[0].collectives if all(one is known[0] for one in known) else None


def match_collectives(ranks: Mapping[int, RankCommunications]) -> Collectives:
    """Match the collectives of ranks; see :func:`match_grouped_collectives`."""
    return match_grouped_collectives(with_worker_groups(ranks))


def match_graphs(
    graphs: Mapping[int, DependencyGraph],
) -> tuple[Mapping[int, RankCommunications], Collectives]:
    """Return what each rank of some graphs communicates, its groups named, and what they did together.

    That is kept with the first graph until it is matched with others.
    """
    read = {rank: read_communications(graph) for rank, graph in graphs.items()}
    first = next(iter(graphs.values()))
    known = first.answers.get(match_graphs)
    if known is None or [*known[0]] != [*read] or any(known[0][rank] is not own for rank, own in read.items()):
        members = with_worker_groups(read)
        known = first.answers[match_graphs] = (read, members, match_grouped_collectives(members))
    return known[1], known[2]


def match_grouped_collectives(ranks: Mapping[int, RankCommunications]) -> Collectives:
    """Match the collectives of ranks whose groups are named as far as they can be.

    Members belong together by their recorded communication id, else by group and sequence number, else by order: each
    group's lists are aligned with gaps, by what each did and when it ended. A match stands only if no rank left before
    another one came that it waits for. Where clocks differ is seen, and corrected, by what belongs together.
    """
    records = rank_records(ranks)
    doubtful: set[tuple[int, int]] = set()
    channels, before = _match_records(records)
    matched, withdrawn, clocks, believed = _plausible_clocks(before, ranks)
    if not clocks.are_equal:
        # What all channels together tell of clocks helps those that tell little themselves.
        doubtful = _uncertain_given_clocks(channels, records)
        channels, again = _match_records([_record_in_job_time(own, ranks[own.rank], clocks) for own in records])
        if again != before:
            matched, withdrawn, clocks, believed = _plausible_clocks(again, ranks)
    rejected = tuple(match for (_, match), is_believed in zip(matched, believed, strict=True) if not is_believed)
    matched = list(compress(matched, believed))
    members = matched_members([match for _, match in matched], ranks, clocks)
    possible = causally_possible(members, len(matched), clocks)
    matched, members = _select_matches(matched, members, possible)
    doubtful |= ambiguous_matches(channels, {record.rank: record for record in records}, ranks, clocks)
    doubtful |= {member for found in channels for member in found.uncertain}
    reasons = unmatched_reasons(channels, [match for _, match in matched], ranks, clocks)
    for rank, place in (member for match in withdrawn for member in match.items()):
        reasons[rank][place] = IMPLAUSIBLE_CLOCKS
    unlike = non_collective_names(members, reasons, ranks, clocks)
    if unlike:
        reasons = exclude_names(reasons, unlike, ranks)
        firsts = [next(iter(match.items())) for _, match in matched]
        alike = np.array([ranks[rank].name[place] not in unlike for rank, place in firsts], np.bool_)
        matched, members = _select_matches(matched, members, alike)
    found = _sorted_by_time(
        members,
        further_waits(members, ranks, clocks),
        np.array([channel.by for channel, _ in matched], np.int64),
        np.array([max(channel.size - len(match), 0) for channel, match in matched], np.int64),
        np.array([not doubtful.isdisjoint(match.items()) for _, match in matched], np.bool_),
        clocks,
        reasons,
        tuple(summarize_unmatched(reasons, ranks)),
    )
    return replace(found, rejected=rejected)


def _match_records(
    records: Sequence[RankRecord[MatchKey]],
) -> tuple[list[MatchedChannel[MatchKey]], list[tuple[MatchKey, Match]]]:
    """Return the channels, and their matches."""
    channels = match_ranks(records, strict=False)
    return channels, [(found.channel, match) for found in channels for match in found.matches if len(match) > 1]


def _uncertain_given_clocks(
    channels: Sequence[MatchedChannel[MatchKey]], records: Sequence[RankRecord[MatchKey]]
) -> set[tuple[int, int]]:
    """Return the members (rank, place) of matches that are no surer than the clocks estimated from them.

    Of messages between two ranks these are all, both ways, where any is a guess.
    """
    labels = {record.rank: record.labels for record in records}
    uncertain = {member for found in channels for member in found.uncertain}
    unsure = {found.channel.members for found in channels if found.uncertain}
    for found in channels:
        if found.channel.members in unsure:
            matches = {member for match in found.matches for member in match.items()}
            uncertain |= matches if any(not labels[rank][place].waits for rank, place in matches) else set()
    return uncertain


def _record_in_job_time(
    record: RankRecord[MatchKey], own: RankCommunications, clocks: JobClocks
) -> RankRecord[MatchKey]:
    start, end = (clocks.to_job(record.rank, times) for times in (record.start, record.end))
    return replace(record, start=start, end=end)


def _select_matches(
    matched: Sequence[tuple[MatchKey, Match]], members: MatchedMembers, chosen: Bools
) -> tuple[list[tuple[MatchKey, Match]], MatchedMembers]:
    """Keep some matches and their members, numbered anew."""
    kept = members.take(chosen[members.number])
    return list(compress(matched, chosen.tolist())), replace(kept, number=(np.cumsum(chosen) - 1)[kept.number])


_Matched = list[tuple[MatchKey, Match]]


def _plausible_clocks(
    matched: _Matched, ranks: Mapping[int, RankCommunications]
) -> tuple[_Matched, list[Match], JobClocks, list[bool]]:
    """Estimate clocks as :func:`_estimate_clocks` does; withdraw first what asks for clocks that no host has.

    Order alone may pair collectives that have nothing to do with each other, if only the clocks of their ranks are set
    far enough apart. Ids are believed whatever they say of clocks.
    """
    withdrawn: list[Match] = []
    while True:
        clocks, believed = _estimate_clocks(matched, ranks)
        is_plausible = [
            channel.by != ORDER or _are_clocks_plausible(match, ranks, clocks) for channel, match in matched
        ]
        if all(is_plausible):
            return matched, withdrawn, clocks, believed
        withdrawn += [match for (_, match), kept in zip(matched, is_plausible, strict=True) if not kept]
        matched = list(compress(matched, is_plausible))


def _are_clocks_plausible(match: Match, ranks: Mapping[int, RankCommunications], clocks: JobClocks) -> bool:
    """Return whether the clocks of those of a match that share a host's are no further apart than they can be."""
    ahead: dict[str, list[int]] = {}
    for rank, place in match.items():
        host = ranks[rank].recording.host
        if host is not None and not ranks[rank].on_gpu[place]:
            ahead.setdefault(host, []).append(clocks.by_rank[rank].line.ahead)
    return all(max(own) - min(own) <= MAX_HOST_OFFSET_NS for own in ahead.values())


def _estimate_clocks(
    matched: Sequence[tuple[MatchKey, Match]], ranks: Mapping[int, RankCommunications]
) -> tuple[JobClocks, list[bool]]:
    """Return the clocks, and for each match whether it fits them.

    Numbered ones give the best clocks. Order alone applies where nothing has a number, first to kernels whose names
    say what they do; one or two that it pairs would fit any clocks.
    """
    numbered = [at for at, (channel, _) in enumerate(matched) if channel.by != ORDER]
    every = list(range(len(matched)))
    named = list(compress(every, has_known_kind([match for _, match in matched], ranks)))
    asked = numbered or next((places for places in (named, every) if len(places) >= MIN_PAIRS), [])
    clocks = job_clocks([matched[at][1] for at in asked], ranks)
    impossible = {asked[at] for at in clocks.impossible}
    return clocks, [at not in impossible for at in range(len(matched))]


def _sorted_by_time(
    members: MatchedMembers,
    further: FurtherWaits,
    by: Ints,
    missing: Ints,
    ambiguous: Bools,
    clocks: JobClocks,
    reasons: dict[int, Codes],
    without: tuple[Unmatched, ...],
) -> Collectives:
    """Put collectives into the order in which they began to transfer."""
    number, rank, arrival = members.number, members.rank, members.arrival
    is_needed = needed_by_others(number, rank, members.awaited_rank)
    awaited, until = _last_awaited(members, further)
    is_needed[further.places(number, rank)[1]] = True
    wait = np.clip(until - members.since, 0, members.end - members.since)
    last = np.full(len(by), np.iinfo(np.int64).min)
    np.maximum.at(last, number, np.where(is_needed, arrival, np.iinfo(np.int64).min))
    # Of those that began to transfer at one instant the one that the lowest rank recorded first goes first.
    first = np.searchsorted(number, np.arange(len(by)))
    order = np.lexsort((members.place[first], rank[first], last))
    in_time = np.argsort(order)[number]
    at = np.lexsort((rank, in_time))
    return Collectives(
        in_time[at],
        rank[at],
        members.place[at],
        arrival[at],
        (members.since - arrival)[at],
        members.start[at],
        members.end[at],
        wait[at],
        awaited[at],
        is_needed[at],
        by[order],
        missing[order],
        ambiguous[order],
        clocks,
        reasons,
        without,
        replace(further, number=np.argsort(order)[further.number]),
    )


def _last_awaited(members: MatchedMembers, further: FurtherWaits) -> tuple[Ints, Ints]:
    """Return which rank came last of those for whom each member waits (-1: none), and when (ns; none: it itself)."""
    number, rank, arrival = members.number, members.rank, members.arrival
    order = np.lexsort((rank, -arrival, number))
    last = rank[order[first_of_runs(number[order])]]
    awaited = np.where(members.awaited_rank == ALL_RANKS, last[number], members.awaited_rank.clip(min=-1))
    until = members.awaited_arrival.copy()
    waiter, other = further.places(number, rank)
    later = np.lexsort((-further.awaited, arrival[other]))
    waiter, other = waiter[later], other[later]
    waiter, other = waiter[arrival[other] > until[waiter]], other[arrival[other] > until[waiter]]
    # Of several the last one stays.
    awaited[waiter], until[waiter] = rank[other], arrival[other]
    return awaited, until


def needed_by_others(number: Ints, rank: Ints, needed: Ints) -> Bools:
    """Mark the members for whom another one of their collective waits, apart from :class:`FurtherWaits`."""
    groups = int(number.max(initial=-1)) + 1
    # One that waits for all needs everybody; who waits for one rank needs that one.
    somebody_needs_all = np.zeros(groups, np.bool_)
    somebody_needs_all[number[needed == ALL_RANKS]] = True
    asked = needed >= 0
    return somebody_needs_all[number] | np.isin(pair_key(number, rank), pair_key(number[asked], needed[asked]))


@dataclass(frozen=True, eq=False)
class RankWaits(Columns):
    """Matched communications of a rank: canonical row, and from when to when it waited (ns; equal: it did not wait)."""

    row: Ids
    start: Ints
    end: Ints


def waits_by_rank(graphs: Mapping[int, DependencyGraph]) -> dict[int, RankWaits]:
    """Match the communications of ranks and return when each waited for another; nothing for a single rank.

    Of ranks of a larger job whose waits go with their graphs it is these.

    Raises:
        TraceError: a file, which is read once more for recorded arguments, is gone or has changed.
    """
    if len(graphs) < 2:
        return {}
    known = {rank: waits for rank, graph in graphs.items() if (waits := graph.attached(RankWaits)) is not None}
    if known.keys() == graphs.keys():
        return known
    found = match_graphs(graphs)[1]
    return {rank: waits_of_rank(graph, rank, found) for rank, graph in graphs.items()}


def waits_of_rank(graph: DependencyGraph, rank: int, found: Collectives) -> RankWaits:
    """Return when a rank waited, given what the ranks did together."""
    own, mine = read_communications(graph), found.of_rank(rank)
    place, wait = found.place[mine], found.wait[mine]
    # A rank's own arrival: what others did was compared in another time.
    start = (own.arrival + own.busy)[place]
    # A kernel that runs messages with several ranks waits until the last of these came.
    order = np.lexsort((-wait, own.row[place]))
    order = order[first_of_runs(own.row[place][order])]
    return RankWaits.of(row=own.row[place], start=start, end=start + wait).take(order)
