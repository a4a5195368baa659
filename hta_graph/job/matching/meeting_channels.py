"""Where communications follow each other: those of one id, of one group and number, of one group, of two ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

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
    ranks = _with_common_names(ranks)
    groups = {rank: set(own.group) for rank, own in ranks.items()}
    ways = _ways_of_groups(ranks)
    members = {group: _members_of(group, groups) for group in set().union(*groups.values())}
    return [
        RankRecord(rank, list(_labels_of(rank, own, members, ways)), own.arrival, own.end)
        for rank, own in ranks.items()
    ]


def _labels_of(
    rank: int,
    own: RankMembers,
    members: Mapping[str | None, frozenset[int]],
    ways: Mapping[str | None, int],
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
        if comms_id is not None and ways[group] == COMMS_ID:
            by, key = COMMS_ID, (comms_id,)
        elif sequence is not None and group is not None and ways[group] <= SEQUENCE:
            by, key = SEQUENCE, (group, sequence)
        else:
            by, key = ORDER, (group,)
        known = members[group]
        count = ranks_in_group if isinstance(ranks_in_group, int) else 0
        channel = MeetingChannel(by, key, known, max(count, len(known)))
        yield Label(channel, (name,), size=size, waits=needed == ALL)


def _with_common_names(ranks: Mapping[int, RankMembers]) -> dict[int, RankMembers]:
    """Name a group by its ranks alone where each of them has one group of these, by another name."""
    by_ranks: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for rank, own in ranks.items():
        for group in dict.fromkeys(own.group):
            if group and group.endswith("]") and "..." not in group:
                by_ranks[group[group.index("[") :]][rank].add(group)
    common = {
        (rank, group): listed
        for listed, known in by_ranks.items()
        if not set.intersection(*known.values()) and all(len(groups) == 1 for groups in known.values())
        for rank, groups in known.items()
        for group in groups
    }
    if not common:
        return dict(ranks)
    return {
        rank: replace(own, group=[common.get((rank, group or ""), group) for group in own.group])
        for rank, own in ranks.items()
    }


def _ways_of_groups(ranks: Mapping[int, RankMembers]) -> dict[str | None, int]:
    """Return the surest way in which each group's communications can be matched: that which all of its ranks have."""
    found: dict[str | None, int] = {}
    for own in ranks.values():
        ids = {group for group, value in zip(own.group, own.said["Comms Id"], strict=True) if value is not None}
        numbered = {group for group, value in zip(own.group, own.said["Seq"], strict=True) if value is not None}
        for group in dict.fromkeys(own.group):
            way = COMMS_ID if group in ids else SEQUENCE if group in numbered else ORDER
            found[group] = max(found.get(group, COMMS_ID), way)
    return found


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
