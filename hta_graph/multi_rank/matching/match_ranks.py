"""The matcher: which communication of one rank is which of the others.

Communications are compared where they have a key in common: an id, a group and number, a group, a pair of ranks.
Recordings begin and end at different ones, and may lose some in between, so each rank's list is aligned with the
others'. For simulators none may be missing inside, and one constant offset per rank says it all:

    position   0  1  2  3  4  5
    rank 0     a  b  c  d  e        offset 0
    rank 1           c  d  e  f     offset 2: its first is the others' third
    matches          c  d  e        what only some recorded is unmatched
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Generic, NamedTuple

import numpy as np

from hta_graph.base.errors import HtaGraphError
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.align_rank_sequences import CLOSE_ENDS_NS, CommunicationSequence, align_ranks
from hta_graph.multi_rank.matching.communications import (
    ALL_RANKS,
    BATCH,
    WORKER,
    ChannelT,
    IndicesByRank,
    Label,
    Match,
    RankCommunications,
    RankRecord,
    listed_ranks,
)

MATCHED_BY = ("comms id", "sequence number", "order")
"""How kernels were found to belong together, the surest way first."""

COMMS_ID, SEQUENCE, ORDER = range(3)


SIZE_DIFFERS_BY_RANK = ("all_to_all", "alltoall", "gather", "scatter", BATCH)
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
    """Return what the matcher looks at; what does not name its group is compared with none.

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
    return [
        only if group is None and worker is None else group
        for group, worker in zip(own.group, own.arguments[WORKER], strict=True)
    ]


class _LabelKey(NamedTuple):
    """What a rank records of a collective; of equal ones all ranks have one label."""

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
    """Label a rank's communications; equal ones of other ranks (``made``) share a label."""
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
    opened = [worker is not None for worker in own.arguments[WORKER]]
    rows = zip(own.is_message, opened, own.needed.tolist(), map(_LabelKey._make, every), strict=True)
    for is_message, is_open, needed, told in rows:
        if is_message:
            yield _message_label(rank, told.group, told.name, told.elements, needed)
            continue
        if is_open:
            # Of which group it is stays open: what is compared with none is no invented collective.
            yield Label(None)
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
    """Label a message by sender and receiver; one whose peer is unknown is compared with none."""
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


OFFSETS_TRIED = 4_096

LabelView = Callable[[Label[Any]], tuple[object, ...]]
"""What two ranks' labels are compared by."""

BY_CONTENT: LabelView = attrgetter("content")


class CollectiveError(HtaGraphError):
    """The ranks' communications do not fit together."""


def constant_offsets(
    channel: ChannelT, places: IndicesByRank, records: Mapping[int, RankRecord[ChannelT]]
) -> dict[int, int]:
    """Return how many places later than the lowest rank's recording each one's begins.

    That is where recorded numbers and contents agree, else contents alone; of several shifts the one at which the ends
    keep the same distance best, then the one with most in common.

    Raises:
        CollectiveError: there is no such shift; the message names the ranks, which communication, and what both are.
    """
    first = min(places)
    one = records[first], places[first]
    return {
        rank: 0 if rank == first else _constant_offset(channel, *one, records[rank], places[rank]) for rank in places
    }


def _constant_offset(
    channel: ChannelT,
    one: RankRecord[ChannelT],
    ours: Sequence[int],
    other: RankRecord[ChannelT],
    theirs: Sequence[int],
) -> int:
    left, right = [one.labels[place] for place in ours], [other.labels[place] for place in theirs]
    ends = one.end[list(ours)], other.end[list(theirs)]
    # Numbers are the surest sign; but where one rank lacks them, or they were counted anew, contents alone have to do.
    numbered = all(label.number >= 0 for label in (*left, *right))
    views: list[LabelView] = [lambda label: (*label.content, label.number)] if numbered else []
    for view in [*views, BY_CONTENT]:
        if found := _agreeing_offsets(*_as_codes(view, left, right), *ends):
            return min(found)[-1]
    raise _describe_disagreement(channel, (one.rank, left), (other.rank, right))


def _as_codes(view: LabelView, left: Sequence[Label[Any]], right: Sequence[Label[Any]]) -> tuple[Ints, Ints]:
    seen = [view(label) for label in (*left, *right)]
    # Equal contents get equal numbers, so that thousands of shifts are comparisons of columns.
    code = {what: at for at, what in enumerate(dict.fromkeys(seen))}
    codes = np.array([code[what] for what in seen], np.int64)
    return codes[: len(left)], codes[len(left) :]


def _agreeing_offsets(a: Ints, b: Ints, ends_a: Ints, ends_b: Ints) -> list[tuple[int, int, int, int]]:
    """List the shifts at which all partners agree: (how the distance of ends varies, −partners, |shift|, shift)."""
    found = []
    for shift in _candidate_offsets(len(a), len(b)):
        left, right = _overlapping_slices(len(a), len(b), shift)
        if np.array_equal(a[left], b[right]):
            # Clocks differ by a constant, so at the right shift all ends are equally far apart. In a loop of equal
            # collectives a wrong one agrees as well, but there the distances vary with the lengths of the steps.
            apart = ends_b[right] - ends_a[left]
            varies = int(np.median(np.abs(apart - np.median(apart))))
            found.append((max(varies, CLOSE_ENDS_NS), left.start - left.stop, abs(shift), shift))
            if shift == 0 and len(a) == len(b) and varies <= CLOSE_ENDS_NS:
                break
    return found


def _candidate_offsets(left: int, right: int) -> list[int]:
    """List the shifts at which at least half of the shorter list has a partner, small ones first."""
    least = (min(left, right) + 1) // 2
    return sorted(range(least - right, left - least + 1), key=abs)[:OFFSETS_TRIED]


def _overlapping_slices(left: int, right: int, shift: int) -> tuple[slice, slice]:
    first, last = max(0, shift), min(left, shift + right)
    return slice(first, last), slice(first - shift, last - shift)


def _describe_disagreement(
    channel: ChannelT, one: tuple[int, Sequence[Label[Any]]], other: tuple[int, Sequence[Label[Any]]]
) -> CollectiveError:
    """Return where two ranks first differ, at the shift at which most agrees."""
    (rank, left), (other_rank, right) = one, other
    a, b = _as_codes(BY_CONTENT, left, right)

    def agreement(shift: int) -> int:
        ours, theirs = _overlapping_slices(len(a), len(b), shift)
        return int(np.count_nonzero(a[ours] == b[theirs]))

    ours, theirs = _overlapping_slices(len(a), len(b), max(_candidate_offsets(len(a), len(b)), key=agreement))
    at = int(np.flatnonzero(a[ours] != b[theirs])[0])
    i, j = ours.start + at, theirs.start + at
    return CollectiveError(
        f"{channel}: the ranks disagree: number {i} of rank {rank} is {left[i].text}, number {j} of rank {other_rank} "
        f"is {right[j].text}; give traces of one recording"
    )


@dataclass(frozen=True)
class MatchedChannel(Generic[ChannelT]):
    """One channel's communications: the matches of its ranks, in order, as rank → place in its record; the others.

    ``recorded`` are all places of each rank, ``unmatched`` those that not all needed ranks recorded, ``uncertain``
    those (rank, place) that would fit about as well with another one.
    """

    channel: ChannelT
    recorded: IndicesByRank
    matches: Sequence[Match]
    unmatched: IndicesByRank
    uncertain: Collection[tuple[int, int]] = ()


def match_ranks(records: Sequence[RankRecord[ChannelT]], *, strict: bool) -> list[MatchedChannel[ChannelT]]:
    """Match the communications of ranks, channel by channel.

    Args:
        records: one for each rank.
        strict: lists of one channel are aligned where all that they hold agrees, and what does not fit
            is an error. Otherwise they are aligned with gaps, and what not every rank recorded is left out.

    Raises:
        CollectiveError: strictly, a rank recorded nothing of a channel of its own, or something else than the others.
    """
    by_rank = {record.rank: record for record in records}
    recorded = _indices_by_channel(records)
    if strict:
        _refuse_missing_members(recorded, by_rank.keys())
    # A rank that is not given, or whose recording has no communication, cannot be asked for its part.
    asked = {record.rank for record in records if record.labels}
    found = []
    for channel, places in recorded.items():
        needed = set(places) if strict else asked & set(channel.members)
        if not strict and all(len(listed) == 1 for listed in places.values()):
            found.append(_match_single_communications(channel, places, needed))
            continue
        unsure: Mapping[int, Bools] = {}
        if strict:
            shift = constant_offsets(channel, places, by_rank)
            positions = {rank: np.arange(len(listed)) + shift[rank] for rank, listed in places.items()}
        else:
            positions, unsure = align_ranks(_sequences_of_channel(places, by_rank))
        matches, unmatched = _matches_at_positions(places, positions, needed)
        if strict and not matches:
            raise CollectiveError(f"{channel}: the ranks have no communication in common; give traces of one recording")
        uncertain = {(rank, places[rank][at]) for rank, own in unsure.items() for at in np.flatnonzero(own).tolist()}
        found.append(MatchedChannel(channel, places, matches, unmatched, uncertain))
    return found


def _match_single_communications(
    channel: ChannelT, places: IndicesByRank, needed: set[int]
) -> MatchedChannel[ChannelT]:
    """Match a channel of which each rank recorded one communication, as where each has an id of its own."""
    match = {rank: place for rank, (place,) in places.items()}
    is_whole = match.keys() >= needed
    return MatchedChannel(channel, places, [match] if is_whole else [], {} if is_whole else places)


def missing_ranks(records: Iterable[RankRecord[ChannelT]]) -> dict[int, ChannelT]:
    """Return the ranks that take part in what is recorded and are not given themselves; and in which channel."""
    given = list(records)
    present = {record.rank for record in given}
    # From the last to the first, so that a rank's first channel is the one that is told.
    channels = [channel for record in given for channel in record.places()]
    return {rank: channel for channel in channels[::-1] for rank in channel.members if rank not in present}


def _indices_by_channel(records: Iterable[RankRecord[ChannelT]]) -> dict[ChannelT, dict[int, list[int]]]:
    found: dict[ChannelT, dict[int, list[int]]] = defaultdict(dict)
    for record in records:
        for channel, places in record.places().items():
            found[channel][record.rank] = places
    return found


def _sequences_of_channel(
    places: IndicesByRank, records: Mapping[int, RankRecord[ChannelT]]
) -> dict[int, CommunicationSequence]:
    """Return what each rank did in one channel, as columns; equal contents have equal codes."""
    labels = {rank: [records[rank].labels[place] for place in listed] for rank, listed in places.items()}
    code = {
        what: at for at, what in enumerate(dict.fromkeys(label.content for own in labels.values() for label in own))
    }
    kind = {name: at for at, name in enumerate(sorted({label.kind for own in labels.values() for label in own} - {""}))}
    return {
        rank: CommunicationSequence(
            np.array([code[label.content] for label in own], np.int32),
            np.array([label.size for label in own], np.int64),
            np.array([kind.get(label.kind, -1) for label in own], np.int64),
            np.array([label.number for label in own], np.int64),
            records[rank].start[list(places[rank])],
            records[rank].end[list(places[rank])],
            np.array([label.waits for label in own], np.bool_),
        )
        for rank, own in labels.items()
    }


def _refuse_missing_members(recorded: Mapping[ChannelT, IndicesByRank], given: Iterable[int]) -> None:
    """Refuse a channel of which one of its given ranks recorded nothing.

    Raises:
        CollectiveError: there is one.
    """
    present = set(given)
    for channel, members in recorded.items():
        other, places = next(iter(members.items()))
        for rank in channel.members:
            if rank in present and rank not in members:
                raise CollectiveError(
                    f"{channel}: rank {rank} recorded nothing, rank {other} {len(places)} communications; "
                    "give traces of one recording"
                )


def _matches_at_positions(
    places: IndicesByRank, positions: Mapping[int, Ints], needed: set[int]
) -> tuple[list[Match], dict[int, list[int]]]:
    """Return what all needed ranks recorded, in order; and the places of each rank that stay unmatched."""
    # What stands at one position belongs together.
    beside: dict[int, dict[int, int]] = defaultdict(dict)
    for rank, listed in places.items():
        for position, place in zip(positions[rank].tolist(), listed, strict=True):
            beside[position][rank] = place
    matches: list[Match] = []
    unmatched: dict[int, list[int]] = {rank: [] for rank in places}
    for position in sorted(beside):
        if beside[position].keys() >= needed:
            matches.append(beside[position])
        else:
            for rank, place in beside[position].items():
                unmatched[rank].append(place)
    return matches, unmatched
