"""Where communications follow each other: those of one id, of one group and number, of one group, of two ranks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Label, RankRecord, listed_ranks

__all__ = ["MATCHED_BY", "ORDER", "MeetingChannel", "records_of"]

MATCHED_BY = ("comms id", "sequence number", "order")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


@dataclass(frozen=True)
class MeetingChannel:
    """Communications of one id, of one group and number, or of one group; ``by`` says which.

    ``members`` are the group's ranks as far as they are known, ``size`` how many there are.
    """

    by: int
    key: tuple[object, ...]
    members: frozenset[int] = field(compare=False)
    size: int = field(compare=False)


def records_of(ranks: Mapping[int, RankMembers]) -> list[RankRecord[MeetingChannel]]:
    """Return what the matcher looks at; a message whose peer is not known is compared with nobody."""
    groups = {rank: set(own.group) for rank, own in ranks.items()}
    members = {group: _members_of(group, groups) for group in set().union(*groups.values())}
    return [RankRecord(rank, list(_labels_of(rank, own, members)), own.arrival, own.end) for rank, own in ranks.items()]


def _labels_of(
    rank: int, own: RankMembers, members: Mapping[str | None, frozenset[int]]
) -> Iterator[Label[MeetingChannel]]:
    said = zip(
        own.is_message,
        own.said["Comms Id"],
        own.said["Seq"],
        own.said["Group size"],
        own.group,
        own.name,
        own.said["In msg nelems"],
        own.needed.tolist(),
        strict=True,
    )
    for is_message, comms_id, sequence, ranks_in_group, group, name, elements, needed in said:
        size = elements if isinstance(elements, int) else -1
        if is_message:
            yield _message_label(rank, group, name, size, needed)
            continue
        by: int
        key: tuple[object, ...]
        if comms_id is not None:
            by, key = COMMS_ID, (comms_id,)
        elif sequence is not None and group is not None:
            by, key = SEQUENCE, (group, sequence)
        else:
            by, key = ORDER, (group,)
        known = members[group]
        count = ranks_in_group if isinstance(ranks_in_group, int) else 0
        channel = MeetingChannel(by, key, known, max(count, len(known)))
        yield Label(channel, (name,), size=size, waits=needed == ALL)


def _message_label(rank: int, group: str | None, name: str, size: int, peer: int) -> Label[MeetingChannel]:
    """Label a message by sender and receiver; one whose peer is not known is compared with nobody."""
    if peer < 0:
        return Label(None)
    receives = name.endswith("recv")
    way = (peer, rank) if receives else (rank, peer)
    channel = MeetingChannel(ORDER, (group, way), frozenset(way), 2)
    return Label(channel, ("message",), size=size, waits=receives)


def _members_of(group: str | None, groups: Mapping[int, set[str | None]]) -> frozenset[int]:
    """Return the ranks of a group, by its list of ranks; where it says nothing, those that know the group."""
    _, bracket, ranks = (group or "").rpartition("[")
    return frozenset(listed_ranks(bracket + ranks)) or frozenset(
        rank for rank, known in groups.items() if group in known
    )
