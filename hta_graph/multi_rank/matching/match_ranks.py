"""Where communications follow each other: those of one id, of one group and number, of one group, of two ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, RankCommunications
from hta_graph.multi_rank.matching.rank_record import Label, RankRecord, listed_ranks

__all__ = ["MATCHED_BY", "ORDER", "MatchKey", "rank_records"]

MATCHED_BY = ("comms id", "sequence number", "order")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


SIZE_DIFFERS_BY_RANK = ("all_to_all", "alltoall", "gather", "scatter")
"""How the names of collectives begin whose sizes may differ from rank to rank."""

LARGEST_NUMBER = (1 << 62) - 1
"""The largest number in a column; ids are longer."""


@dataclass(frozen=True)
class MatchKey:
    """Communications of one id, of one group and number, or of one group; ``by`` says which.

    ``members`` are the group's ranks as far as they are known, ``size`` how many there are.
    """

    by: int
    key: tuple[object, ...]
    members: frozenset[int] = field(compare=False)
    size: int = field(compare=False)


def rank_records(ranks: Mapping[int, RankCommunications]) -> list[RankRecord[MatchKey]]:
    """Return what the matcher looks at; what does not say with whom it is compared with nobody.

    A group's recorded ids are its channels only if all of its communications have one: else one without could not meet
    one that has. A communication of an unknown group is of the only one that is known of anywhere.
    """
    ranks = _with_common_group_names(ranks)
    known = {group for own in ranks.values() for group in _collective_groups(own)}
    groups = {rank: _groups_of_communications(own, known) for rank, own in ranks.items()}
    members = _members_by_group(groups)
    without: set[str | None] = set()
    for rank, own in ranks.items():
        without |= _groups_without_id(own, groups[rank])
    labels: dict[_LabelKey, Label[MatchKey]] = {}
    return [
        RankRecord(
            rank,
            list(_labels(rank, own, groups[rank], members, without, labels, is_apart=len(known) > 1)),
            own.arrival,
            own.end,
        )
        for rank, own in ranks.items()
    ]


def _groups_without_id(own: RankCommunications, groups: Sequence[str | None]) -> set[str | None]:
    """Return the groups of which a rank has a collective that no recorded id names."""
    told = zip(groups, own.is_message, own.arguments["Comms Id"], own.arguments["Seq"], strict=True)
    return {
        group
        for group, is_message, comms_id, sequence in told
        if comms_id is None and sequence is None and not is_message
    }


def _collective_groups(own: RankCommunications) -> set[str]:
    """Return the groups of a rank's collectives; those of messages say nothing of others."""
    told = zip(own.group, own.is_message, strict=True)
    return {group for group, is_message in told if group is not None and not is_message}


def _groups_of_communications(own: RankCommunications, known: Collection[str]) -> list[str | None]:
    only = next(iter(known)) if len(known) == 1 else None
    return [only if group is None else group for group in own.group]


class _LabelKey(NamedTuple):
    """What a rank tells of a collective; of equal ones all ranks have one label."""

    group: str | None
    comms_id: Any
    sequence: Any
    ranks_in_group: int
    kind: str
    name: str
    elements: int
    waits: bool


def _labels(
    rank: int,
    own: RankCommunications,
    groups: Sequence[str | None],
    members: Mapping[str | None, frozenset[int]],
    without: Collection[str | None],
    made: dict[_LabelKey, Label[MatchKey]],
    *,
    is_apart: bool,
) -> Iterator[Label[MatchKey]]:
    """Label a rank's communications, those that others told alike as theirs are (``made``)."""
    every = zip(
        groups,
        own.arguments["Comms Id"],
        own.arguments["Seq"],
        map(_integer_or_unknown, own.arguments["Group size"]),
        (kind if isinstance(kind, str) else "" for kind in own.arguments["Collective name"]),
        own.name,
        map(_integer_or_unknown, own.arguments["In msg nelems"]),
        (own.needed == ALL_RANKS).tolist(),
        strict=True,
    )
    for is_message, needed, told in zip(own.is_message, own.needed.tolist(), map(_LabelKey._make, every), strict=True):
        if is_message:
            yield _message_label(rank, told.group, told.name, told.elements, needed)
            continue
        if told not in made:
            has_ids = told.group not in without
            made[told] = _collective_label(told, members[told.group], has_ids=has_ids, is_apart=is_apart)
        yield made[told]


def _integer_or_unknown(value: object) -> int:
    return value if isinstance(value, int) else -1


def _collective_label(told: _LabelKey, known: frozenset[int], *, has_ids: bool, is_apart: bool) -> Label[MatchKey]:
    by: int
    key: tuple[object, ...]
    number = -1
    if told.comms_id is not None and has_ids:
        by, key = COMMS_ID, (told.comms_id,)
    elif told.sequence is not None and told.group is not None and has_ids:
        by, key = SEQUENCE, (told.group, told.sequence)
    else:
        by, key = ORDER, (told.group,)
        number = next((int(one) & LARGEST_NUMBER for one in (told.sequence, told.comms_id) if one is not None), -1)
        if told.group is None and is_apart:
            return Label(None)
    channel = MatchKey(by, key, known, max(told.ranks_in_group, len(known)))
    size = -1 if told.kind.startswith(SIZE_DIFFERS_BY_RANK) else told.elements
    return Label(channel, (told.name,), number, size=size, waits=told.waits, kind=told.kind)


def _with_common_group_names(ranks: Mapping[int, RankCommunications]) -> dict[int, RankCommunications]:
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


def _message_label(rank: int, group: str | None, name: str, size: int, peer: int) -> Label[MatchKey]:
    """Label a message by sender and receiver; one whose peer is not known is compared with nobody."""
    if peer < 0:
        return Label(None)
    receives = name.endswith("recv")
    way = (peer, rank) if receives else (rank, peer)
    channel = MatchKey(ORDER, (group, way), frozenset(way), 2)
    return Label(channel, ("message",), size=size, waits=receives)


def _members_by_group(groups: Mapping[int, Sequence[str | None]]) -> dict[str | None, frozenset[int]]:
    """Return the ranks of each group, by its list of ranks; where it says nothing, those that know the group."""
    knowing: dict[str | None, list[int]] = defaultdict(list)
    for rank, own in groups.items():
        for group in dict.fromkeys(own):
            knowing[group].append(rank)
    return {group: _listed_ranks_of(group) or frozenset(ranks) for group, ranks in knowing.items()}


def _listed_ranks_of(group: str | None) -> frozenset[int]:
    _, bracket, ranks = (group or "").rpartition("[")
    return frozenset(listed_ranks(bracket + ranks))
