"""The one matcher: which communication of one rank is which of the others.

Recordings begin and end at different ones, and may lose some in between, so each rank's list of a channel is laid
beside the others'. For simulators none may be missing inside, and one shift per rank says it all:

    position   0  1  2  3  4  5
    rank 0     a  b  c  d  e        shift 0
    rank 1           c  d  e  f     shift 2: its first is the others' third
    matches          c  d  e        what only some recorded is unmatched
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.agreeing_shifts import CollectiveError, constant_offsets
from hta_graph.multi_rank.matching.aligned_ranks import align_ranks
from hta_graph.multi_rank.matching.rank_record import ChannelT, IndicesByRank, Match, RankRecord
from hta_graph.multi_rank.matching.weighed_pairs import CommunicationSequence

__all__ = ["MatchedChannel", "match_ranks", "missing_ranks"]


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
        strict: lists of one channel are laid beside each other where all that they hold agrees, and what does not fit
            is an error. Otherwise they are aligned with gaps, and what not every rank recorded is left out.

    Raises:
        CollectiveError: strictly, a rank recorded nothing of a channel of its own, or something else than the others.
    """
    by_rank = {record.rank: record for record in records}
    recorded = _indices_by_channel(records)
    if strict:
        _refuse_missing_members(recorded, by_rank.keys())
    found = []
    for channel, places in recorded.items():
        # A rank that is not given cannot be asked for its part.
        needed = set(places) if strict else by_rank.keys() & set(channel.members)
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
            raise CollectiveError(f"{channel}: its ranks recorded nothing in common; give traces of one recording")
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
