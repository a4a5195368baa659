"""Collectives of several ranks in one time: who came last, how long the others waited, what clocks are apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hta_graph.job.matching.clock_offsets import clock_offsets
from hta_graph.job.matching.communication_kernels import CommunicationKernels
from hta_graph.job.matching.matched_ranks import match_ranks
from hta_graph.job.matching.rank_record import Label, Meeting, RankRecord, listed_ranks
from hta_graph.model import Bools, Ints

__all__ = ["MATCHED_BY", "SLACK_NS", "Collectives", "match_collectives"]

SLACK_NS = 1_000_000
"""How far the clocks of ranks may differ unnoticed: kernels of one collective overlap but for that."""

MATCHED_BY = ("comms id", "sequence number", "order from the end")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


@dataclass(frozen=True)
class Collectives:
    """Kernels of several ranks that belong together: one entry per kernel, collectives in order of time.

    ``place`` is the kernel's place in its rank's :class:`CommunicationKernels`; ``start`` and ``end`` (ns) are
    corrected where the ranks' clocks differ by more than :data:`SLACK_NS`. ``wait`` is the part of the kernel before
    the last rank came (ns); the rest is transfer.

        rank 0    |wwwwwwwwtttt|        w: wait, t: transfer
        rank 1         |wwwtttt|
        rank 2            |tttt|        the last one: it waits for nobody
    """

    number: Ints
    rank: Ints
    place: Ints
    start: Ints
    end: Ints
    wait: Ints
    by: Ints
    """How each collective was found: a place in :data:`MATCHED_BY`."""
    offsets: dict[int, int]
    """By how much (ns) clocks were set back, per rank."""
    apart: int
    """Collectives that were left out because their kernels do not overlap in time."""

    def __len__(self) -> int:
        return len(self.by)

    @property
    def first(self) -> Ints:
        """Where each collective begins among the kernels."""
        return np.searchsorted(self.number, np.arange(len(self)))

    @property
    def last(self) -> Ints:
        """The kernel that started last, per collective; of several that of the lowest rank."""
        return np.lexsort((self.rank, -self.start, self.number))[self.first]

    def take(self, chosen: Bools) -> Collectives:
        """Select collectives."""
        kept = chosen[self.number]
        return replace(
            self,
            number=(np.cumsum(chosen) - 1)[self.number[kept]],
            rank=self.rank[kept],
            place=self.place[kept],
            start=self.start[kept],
            end=self.end[kept],
            wait=self.wait[kept],
            by=self.by[chosen],
        )


@dataclass(frozen=True)
class _KernelChannel:
    """Kernels of one id, of one group and number, or of one group and name; ``by`` says which."""

    by: int
    key: tuple[object, ...]
    members: frozenset[int] = field(compare=False)

    @property
    def counts_from_end(self) -> bool:
        """Recordings begin at different collectives, and what has only a name is counted from where they end."""
        return self.by == ORDER


def match_collectives(ranks: Mapping[int, CommunicationKernels]) -> Collectives:
    """Match the communication kernels of ranks.

    Kernels belong together by their recorded communication id, else by group and sequence number, else by group, name
    and place, counted from the end: recordings begin at different times. What was matched by order has to overlap in
    time. Where clocks differ is seen, and corrected, by the ends of what was matched by a number.
    """
    records = [RankRecord(rank, labels, ranks[rank].start, ranks[rank].end) for rank, labels in _labels_by_rank(ranks)]
    matched = [
        (channel.channel.by, meeting)
        for channel in match_ranks(records, strict=False)
        for meeting in channel.together
        if len(meeting) > 1
    ]
    offsets = _large_offsets(records, [meeting for by, meeting in matched if by != ORDER])
    # Order alone may pair wrongly, but members of one collective run at one time: the last comes before any goes.
    kept = [(by, meeting) for by, meeting in matched if by != ORDER or _overlap_in_time(meeting, ranks, offsets)]
    return _in_order_of_time(kept, ranks, offsets, apart=len(matched) - len(kept))


def _labels_by_rank(ranks: Mapping[int, CommunicationKernels]) -> Iterator[tuple[int, list[Label[_KernelChannel]]]]:
    """Yield each rank and its kernels' channels; sends and receives have none."""
    groups = {rank: set(own.group) for rank, own in ranks.items()}
    members = {group: _members_of(group, groups) for group in set().union(*groups.values())}
    for rank, own in ranks.items():
        said = zip(own.is_point_to_point, own.said["Comms Id"], own.said["Seq"], own.group, own.name, strict=True)
        labels: list[Label[_KernelChannel]] = []
        for alone, comms_id, sequence, group, name in said:
            if alone:
                labels.append(Label(None))
                continue
            if comms_id is not None:
                channel = _KernelChannel(COMMS_ID, (comms_id,), members[group])
            elif sequence is not None and group is not None:
                channel = _KernelChannel(SEQUENCE, (group, sequence), members[group])
            else:
                channel = _KernelChannel(ORDER, (group, name), members[group])
            labels.append(Label(channel))
        yield rank, labels


def _members_of(group: str | None, groups: Mapping[int, set[str | None]]) -> frozenset[int]:
    """Return the ranks of a group, by its list of ranks; where it says nothing, those that know the group."""
    _, bracket, ranks = (group or "").rpartition("[")
    return frozenset(listed_ranks(bracket + ranks)) or frozenset(
        rank for rank, known in groups.items() if group in known
    )


def _large_offsets(records: Sequence[RankRecord[_KernelChannel]], numbered: Sequence[Meeting]) -> dict[int, int]:
    """Return how far each rank's clock is ahead of the others'; none if all agree within the slack."""
    offsets = dict.fromkeys((record.rank for record in records), 0)
    for compared in clock_offsets(records, numbered):
        offsets |= compared
    return offsets if any(abs(offset) > SLACK_NS for offset in offsets.values()) else dict.fromkeys(offsets, 0)


def _overlap_in_time(meeting: Meeting, ranks: Mapping[int, CommunicationKernels], offsets: Mapping[int, int]) -> bool:
    starts = [int(ranks[rank].start[place]) - offsets[rank] for rank, place in meeting.items()]
    ends = [int(ranks[rank].end[place]) - offsets[rank] for rank, place in meeting.items()]
    return max(starts) <= min(ends) + SLACK_NS


def _in_order_of_time(
    matched: Sequence[tuple[int, Meeting]],
    ranks: Mapping[int, CommunicationKernels],
    offsets: Mapping[int, int],
    *,
    apart: int,
) -> Collectives:
    """Lay collectives out as columns, in the order in which they began to transfer."""
    listed = [
        (at, rank, place, int(ranks[rank].start[place]) - offsets[rank], int(ranks[rank].end[place]) - offsets[rank])
        for at, (_, meeting) in enumerate(matched)
        for rank, place in meeting.items()
    ]
    number, rank, place, start, end = np.array(listed, np.int64).reshape(-1, 5).T
    last = np.full(len(matched), np.iinfo(np.int64).min)
    np.maximum.at(last, number, start)
    wait = np.clip(last[number] - start, 0, end - start)
    # Of those that began to transfer at one instant the one that the lowest rank recorded first goes first.
    lowest = np.array([min(meeting.items()) for _, meeting in matched], np.int64).reshape(-1, 2)
    order = np.lexsort((lowest[:, 1], lowest[:, 0], last))
    in_time = np.argsort(order)[number]
    at = np.lexsort((rank, in_time))
    by = np.array([by for by, _ in matched], np.int64)[order]
    moved = {rank: offset for rank, offset in offsets.items() if offset}
    return Collectives(in_time[at], rank[at], place[at], start[at], end[at], wait[at], by, moved, apart)
