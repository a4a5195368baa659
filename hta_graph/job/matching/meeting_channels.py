"""Where communications follow each other: those of one id, of one group and number, of one group, of two ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Label, RankRecord, listed_ranks

__all__ = ["MATCHED_BY", "ORDER", "MeetingChannel", "records_of"]

MATCHED_BY = ("comms id", "sequence number", "order")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


DIFFER_BY_RANK = ("all_to_all", "alltoall", "gather", "scatter")
"""How the names of collectives begin whose sizes may differ from rank to rank."""

MOST = (1 << 62) - 1
"""The largest number in a column; ids are longer."""


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
    """Return what the matcher looks at; what does not say with whom it is compared with nobody.

    A group's recorded ids are its channels only if all of its communications have one: else one without could not meet
    one that has. A communication of an unknown group is of the only one that is known of anywhere.
    """
    ranks = _with_common_names(ranks)
    known = {group for own in ranks.values() for group in _known_groups(own)}
    groups = {rank: _groups_of(own, known) for rank, own in ranks.items()}
    members = {group: _members_of(group, groups) for group in set().union(*groups.values())}
    without = {
        group
        for rank, own in ranks.items()
        for group, is_message, *ids in zip(
            groups[rank], own.is_message, own.said["Comms Id"], own.said["Seq"], strict=True
        )
        if not is_message and ids == [None, None]
    }
    return [
        RankRecord(
            rank,
            list(_labels_of(rank, own, groups[rank], members, without, is_apart=len(known) > 1)),
            own.arrival,
            own.end,
        )
        for rank, own in ranks.items()
    ]


def _known_groups(own: RankMembers) -> set[str]:
    """Return the groups of a rank's collectives; those of messages say nothing of others."""
    told = zip(own.group, own.is_message, strict=True)
    return {group for group, is_message in told if group is not None and not is_message}


def _groups_of(own: RankMembers, known: Collection[str]) -> list[str | None]:
    only = next(iter(known)) if len(known) == 1 else None
    return [only if group is None else group for group in own.group]


def _labels_of(
    rank: int,
    own: RankMembers,
    groups: Sequence[str | None],
    members: Mapping[str | None, frozenset[int]],
    without: Collection[str | None],
    *,
    is_apart: bool,
) -> Iterator[Label[MeetingChannel]]:
    said = zip(
        own.is_message,
        own.said["Comms Id"],
        own.said["Seq"],
        own.said["Group size"],
        own.said["Collective name"],
        groups,
        own.name,
        own.said["In msg nelems"],
        own.needed.tolist(),
        strict=True,
    )
    for is_message, comms_id, sequence, ranks_in_group, collective, group, name, elements, needed in said:
        size = elements if isinstance(elements, int) else -1
        if is_message:
            yield _message_label(rank, group, name, size, needed)
            continue
        by: int
        key: tuple[object, ...]
        number = -1
        if comms_id is not None and group not in without:
            by, key = COMMS_ID, (comms_id,)
        elif sequence is not None and group is not None and group not in without:
            by, key = SEQUENCE, (group, sequence)
        else:
            by, key = ORDER, (group,)
            number = next((int(one) & MOST for one in (sequence, comms_id) if one is not None), -1)
            if group is None and is_apart:
                yield Label(None)
                continue
        known = members[group]
        count = ranks_in_group if isinstance(ranks_in_group, int) else 0
        channel = MeetingChannel(by, key, known, max(count, len(known)))
        kind = collective if isinstance(collective, str) else ""
        size = -1 if kind.startswith(DIFFER_BY_RANK) else size
        yield Label(channel, (name,), number, size=size, waits=needed == ALL, kind=kind)


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


def _message_label(rank: int, group: str | None, name: str, size: int, peer: int) -> Label[MeetingChannel]:
    """Label a message by sender and receiver; one whose peer is not known is compared with nobody."""
    if peer < 0:
        return Label(None)
    receives = name.endswith("recv")
    way = (peer, rank) if receives else (rank, peer)
    channel = MeetingChannel(ORDER, (group, way), frozenset(way), 2)
    return Label(channel, ("message",), size=size, waits=receives)


def _members_of(group: str | None, groups: Mapping[int, Collection[str | None]]) -> frozenset[int]:
    """Return the ranks of a group, by its list of ranks; where it says nothing, those that know the group."""
    _, bracket, ranks = (group or "").rpartition("[")
    return frozenset(listed_ranks(bracket + ranks)) or frozenset(
        rank for rank, known in groups.items() if group in known
    )
