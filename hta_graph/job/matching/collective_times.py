"""Collectives of several ranks in one time: who came last, how long the others waited, what clocks are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_graph.columns import looked_up, pair_key
from hta_graph.job.matching.aligned_sequences import FEWEST
from hta_graph.job.matching.matched_ranks import match_ranks
from hta_graph.job.matching.rank_clocks import rank_clocks
from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Label, Meeting, RankRecord, listed_ranks
from hta_graph.model import Bools, Ints

__all__ = ["MATCHED_BY", "SLACK_NS", "Collectives", "match_collectives"]

SLACK_NS = 1_000_000
"""How far the clocks of ranks may differ unnoticed: kernels of one collective overlap but for that."""

MATCHED_BY = ("comms id", "sequence number", "order")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


@dataclass(frozen=True)
class Collectives:
    """Communications of several ranks that belong together: one entry per member, collectives in order of time.

    ``place`` is the member's place in its rank's :class:`RankMembers`; ``arrival`` (when its rank came), ``start``
    and ``end`` of the work (ns) are corrected where the ranks' clocks differ by more than :data:`SLACK_NS`. ``wait`` is
    the time from its arrival until the last rank came for whom it waits (ns), at most to its end; the rest is transfer.

        rank 0    |wwwwwwwwtttt|        w: wait, t: transfer
        rank 1         |wwwtttt|
        rank 2            |tttt|        the last one: it waits for nobody
    """

    number: Ints
    rank: Ints
    place: Ints
    arrival: Ints
    start: Ints
    end: Ints
    wait: Ints
    is_needed: Bools
    """Whether others wait for it: of a broadcast only the root is."""
    by: Ints
    """How each collective was found: a place in :data:`MATCHED_BY`."""
    offsets: dict[int, int]
    """By how much (ns) clocks were set back, per rank."""
    alone: int
    """Communications of all ranks that are left out: they have no partner on every rank of their group."""
    ambiguous: int = 0
    """Those among them that have partners, but others fit about as well."""

    def __len__(self) -> int:
        return len(self.by)

    @property
    def first(self) -> Ints:
        """Where each collective begins among the members."""
        return np.searchsorted(self.number, np.arange(len(self)))

    @property
    def last(self) -> Ints:
        """The member that came last of those that others wait for, per collective; of several the lowest rank's."""
        return np.lexsort((self.rank, -self.arrival, ~self.is_needed, self.number))[self.first]

    @property
    def transfer(self) -> Ints:
        """The time of each member that is no wait (ns)."""
        return self.end - self.arrival - self.wait

    def take(self, chosen: Bools) -> Collectives:
        """Select collectives."""
        kept = chosen[self.number]
        return replace(
            self,
            number=(np.cumsum(chosen) - 1)[self.number[kept]],
            rank=self.rank[kept],
            place=self.place[kept],
            arrival=self.arrival[kept],
            start=self.start[kept],
            end=self.end[kept],
            wait=self.wait[kept],
            is_needed=self.is_needed[kept],
            by=self.by[chosen],
        )


@dataclass(frozen=True)
class _MeetingChannel:
    """Communications of one id, of one group and number, or of one group; ``by`` says which."""

    by: int
    key: tuple[object, ...]
    members: frozenset[int] = field(compare=False)


def match_collectives(ranks: Mapping[int, RankMembers]) -> Collectives:
    """Match the collectives of ranks.

    Members belong together by their recorded communication id, else by group and sequence number, else by order: each
    group's lists are aligned with gaps, by what each did and when it ended. What was matched by order has to overlap in
    time. Where clocks differ is seen, and corrected, by what belongs together.
    """
    records = [
        RankRecord(rank, labels, ranks[rank].arrival, ranks[rank].end) for rank, labels in _labels_by_rank(ranks)
    ]
    channels = match_ranks(records, strict=False)
    matched = [(found.channel.by, meeting) for found in channels for meeting in found.together if len(meeting) > 1]
    cut = sum(len(places) for found in channels if len(found.channel.members) > 1 for places in found.cut.values())
    ambiguous = sum(len(meeting) for found in channels for meeting in found.ambiguous)
    offsets = _clock_offsets(matched, ranks)
    # Order alone may pair wrongly, but members of one collective run at one time: the last comes before any goes.
    kept = [(by, meeting) for by, meeting in matched if by != ORDER or _overlap_in_time(meeting, ranks, offsets)]
    cut += sum(len(meeting) for _, meeting in matched) - sum(len(meeting) for _, meeting in kept)
    found = _in_order_of_time(kept, ranks, offsets, alone=cut + ambiguous)
    return replace(found, ambiguous=ambiguous)


def _labels_by_rank(ranks: Mapping[int, RankMembers]) -> Iterator[tuple[int, list[Label[_MeetingChannel]]]]:
    """Yield each rank and its communications' channels; a message whose peer is not known has none."""
    groups = {rank: set(own.group) for rank, own in ranks.items()}
    members = {group: _members_of(group, groups) for group in set().union(*groups.values())}
    for rank, own in ranks.items():
        sizes = [size if isinstance(size, int) else -1 for size in own.said["In msg nelems"]]
        said = zip(
            own.is_message,
            own.said["Comms Id"],
            own.said["Seq"],
            own.group,
            own.name,
            sizes,
            own.needed.tolist(),
            strict=True,
        )
        labels: list[Label[_MeetingChannel]] = []
        for is_message, comms_id, sequence, group, name, size, needed in said:
            if is_message:
                labels.append(_message_label(rank, group, name, size, needed))
                continue
            if comms_id is not None:
                channel = _MeetingChannel(COMMS_ID, (comms_id,), members[group])
            elif sequence is not None and group is not None:
                channel = _MeetingChannel(SEQUENCE, (group, sequence), members[group])
            else:
                channel = _MeetingChannel(ORDER, (group,), members[group])
            labels.append(Label(channel, (name,), size=size, waits=needed == ALL))
        yield rank, labels


def _message_label(rank: int, group: str | None, name: str, size: int, peer: int) -> Label[_MeetingChannel]:
    """Label a message by sender and receiver; one whose peer is not known is compared with nobody."""
    if peer < 0:
        return Label(None)
    receives = name.endswith("recv")
    way = (peer, rank) if receives else (rank, peer)
    return Label(_MeetingChannel(ORDER, (group, way), frozenset(way)), ("message",), size=size, waits=receives)


def _members_of(group: str | None, groups: Mapping[int, set[str | None]]) -> frozenset[int]:
    """Return the ranks of a group, by its list of ranks; where it says nothing, those that know the group."""
    _, bracket, ranks = (group or "").rpartition("[")
    return frozenset(listed_ranks(bracket + ranks)) or frozenset(
        rank for rank, known in groups.items() if group in known
    )


def _clock_offsets(matched: Sequence[tuple[int, Meeting]], ranks: Mapping[int, RankMembers]) -> dict[int, int]:
    """Return how far each rank's clock is ahead of the others' (ns): nothing, unless what they did together says so.

    Numbers tell that best. Order alone is asked where nothing has a number; one or two that it pairs would fit any
    clocks.
    """
    numbered = [meeting for by, meeting in matched if by != ORDER]
    asked = numbered or [meeting for _, meeting in matched]
    if not numbered and len(asked) < FEWEST:
        return dict.fromkeys(ranks, 0)
    return {rank: clock.offset_ns for rank, clock in rank_clocks(asked, ranks).items()}


def _overlap_in_time(meeting: Meeting, ranks: Mapping[int, RankMembers], offsets: Mapping[int, int]) -> bool:
    """Tell whether nobody left before the last one came; where not all wait for all that is no rule."""
    waits_for_all = all(ranks[rank].needed[place] == ALL for rank, place in meeting.items())
    arrivals = [int(ranks[rank].arrival[place]) - offsets[rank] for rank, place in meeting.items()]
    ends = [int(ranks[rank].end[place]) - offsets[rank] for rank, place in meeting.items()]
    return not waits_for_all or max(arrivals) <= min(ends) + SLACK_NS


def _in_order_of_time(
    matched: Sequence[tuple[int, Meeting]],
    ranks: Mapping[int, RankMembers],
    offsets: Mapping[int, int],
    *,
    alone: int,
) -> Collectives:
    """Lay collectives out as columns, in the order in which they began to transfer."""
    listed = [(at, *pair) for at, (_, meeting) in enumerate(matched) for pair in meeting.items()]
    number, rank, place = np.array(listed, np.int64).reshape(-1, 3).T
    ahead = np.array([offsets[own] for own in rank.tolist()], np.int64)
    arrival, start, end, needed = (
        _column_of(ranks, rank, place, column) for column in ("arrival", "start", "end", "needed")
    )
    arrival, start, end = arrival - ahead, start - ahead, end - ahead
    is_needed = _is_needed(number, rank, needed)
    until = _awaited_arrival(number, rank, arrival, needed)
    # A send that ended before the receive began went into a buffer and waited for nobody.
    until = np.where((needed >= 0) & (end < until), arrival, until)
    wait = np.clip(until - arrival, 0, end - arrival)
    last = np.full(len(matched), np.iinfo(np.int64).min)
    np.maximum.at(last, number, np.where(is_needed, arrival, np.iinfo(np.int64).min))
    # Of those that began to transfer at one instant the one that the lowest rank recorded first goes first.
    lowest = np.array([min(meeting.items()) for _, meeting in matched], np.int64).reshape(-1, 2)
    order = np.lexsort((lowest[:, 1], lowest[:, 0], last))
    in_time = np.argsort(order)[number]
    at = np.lexsort((rank, in_time))
    by = np.array([by for by, _ in matched], np.int64)[order]
    moved = {rank: offset for rank, offset in offsets.items() if offset}
    return Collectives(
        in_time[at], rank[at], place[at], arrival[at], start[at], end[at], wait[at], is_needed[at], by, moved, alone
    )


def _column_of(ranks: Mapping[int, RankMembers], rank: Ints, place: Ints, column: str) -> Ints:
    """Return one column of the members, each from its own rank."""
    values = np.zeros(len(rank), np.int64)
    for own, communications in ranks.items():
        values[rank == own] = getattr(communications, column)[place[rank == own]]
    return values


def _is_needed(number: Ints, rank: Ints, needed: Ints) -> Bools:
    """Mark the members for whom another one of their collective waits."""
    groups = int(number.max(initial=-1)) + 1
    # One that waits for all needs everybody; who waits for one rank needs that one.
    somebody_needs_all = np.zeros(groups, np.bool_)
    somebody_needs_all[number[needed == ALL]] = True
    asked = needed >= 0
    return somebody_needs_all[number] | np.isin(pair_key(number, rank), pair_key(number[asked], needed[asked]))


def _awaited_arrival(number: Ints, rank: Ints, arrival: Ints, needed: Ints) -> Ints:
    """Return when the last one came for whom each member waits (ns); of nobody or not known: its own arrival."""
    latest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, number, arrival)
    key = pair_key(number, rank)
    order = np.argsort(key)
    at = looked_up(pair_key(number, np.maximum(needed, 0)), key[order])
    root = np.where((needed >= 0) & (at >= 0), arrival[order][at], arrival)
    return np.where(needed == ALL, latest[number], root)
