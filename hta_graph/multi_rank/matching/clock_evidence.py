"""What each two ranks did together tells about their clocks, as columns.

rank 0      |wwwww========|
rank 1           |========|~~         ends: about equal
bounds      rank 0's end − rank 1's arrival, and the other way round, are never negative in one time
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from hta_graph.arrays import Columns, expand_ranges, first_of_runs
from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, RankCommunications
from hta_graph.multi_rank.matching.rank_record import Match

__all__ = [
    "ArrivalsAndEnds",
    "ClockEvidence",
    "PairMatches",
    "arrivals_and_ends",
    "clock_evidence",
    "members_of_matches",
]

ALL_PAIRS_LIMIT = 32
"""In matches of more ranks each is compared with the lowest one only: all pairs would be thousands per match."""


@dataclass(frozen=True, eq=False)
class ArrivalsAndEnds(Columns):
    """When a rank arrived at each of its communications and when that ended (ns), for whom it waited there.

    ``buffers``: it need not wait even so, since its part may go into a buffer.
    """

    arrival: Ints
    end: Ints
    needed: Ints
    buffers: Bools


@dataclass(frozen=True, eq=False)
class PairMatches(Columns):
    """Matches of two ranks: the number of each match, when either arrived and ended, who waited for the other."""

    number: Ints
    arrival: Ints
    end: Ints
    waits: Bools
    other_arrival: Ints
    other_end: Ints
    other_waits: Bools


@dataclass(frozen=True, eq=False)
class ClockEvidence:
    """The matches of each two ranks: the lower and the higher rank of each pair, and the pair of each row.

    Rows stand by pair, those of one pair by the number of their match.
    """

    one: Ints
    other: Ints
    pair: Ints
    matches: PairMatches

    def __len__(self) -> int:
        return len(self.one)

    @property
    def ranks(self) -> Iterator[tuple[int, int]]:
        """The two ranks of each pair."""
        return zip(self.one.tolist(), self.other.tolist(), strict=True)

    def only(self, kept: Bools) -> ClockEvidence:
        """Let the other rows tell nothing."""
        return replace(
            self,
            matches=replace(self.matches, waits=self.matches.waits & kept, other_waits=self.matches.other_waits & kept),
        )


def arrivals_and_ends(own: RankCommunications) -> ArrivalsAndEnds:
    """Return what a rank's communications tell about its CPU clock."""
    ahead = np.where(own.on_gpu, own.recording.gpu_ahead, 0)
    buffers = np.array([name.endswith("send") for name in own.name], np.bool_)
    return ArrivalsAndEnds(own.arrival - ahead, own.end - ahead, own.needed, buffers)


def members_of_matches(matches: Sequence[Match]) -> tuple[Ints, Ints, Ints]:
    """Lay matches out as columns: number, rank and place of each member, by number and rank."""
    number = np.repeat(np.arange(len(matches)), np.fromiter(map(len, matches), np.int64, len(matches)))
    rank = np.fromiter(chain.from_iterable(matches), np.int64, len(number))
    place = np.fromiter(chain.from_iterable(match.values() for match in matches), np.int64, len(number))
    order = np.lexsort((rank, number))
    return number, rank[order], place[order]


def clock_evidence(matches: Sequence[Match], attended: Mapping[int, ArrivalsAndEnds]) -> ClockEvidence:
    """Return for each two ranks that have some, the lower one first, their matches."""
    number, rank, place = members_of_matches(matches)
    own = _gather_members(attended, rank, place)
    one, other = _compared_pairs(number)
    order = np.lexsort((rank[other], rank[one]))
    one, other = one[order], other[order]
    is_first = first_of_runs(rank[one], rank[other])
    columns = PairMatches(
        number[one],
        own.arrival[one],
        own.end[one],
        _waits_for_rank(own, one, rank[other]),
        own.arrival[other],
        own.end[other],
        _waits_for_rank(own, other, rank[one]),
    )
    return ClockEvidence(rank[one[is_first]], rank[other[is_first]], np.cumsum(is_first) - 1, columns)


def _gather_members(attended: Mapping[int, ArrivalsAndEnds], rank: Ints, place: Ints) -> ArrivalsAndEnds:
    """Return the members' attendance, each from its own rank."""
    ranks = list(attended)
    first = np.cumsum([0, *(len(own) for own in attended.values())])
    order = np.argsort(ranks)
    at = order[np.searchsorted(np.array(ranks, np.int64), rank, sorter=order)] if len(rank) else rank
    return ArrivalsAndEnds.join(attended.values()).take(first[at] + place)


def _compared_pairs(number: Ints) -> tuple[Ints, Ints]:
    """Return pairs of members of one match, that of the lower rank first."""
    starts = np.flatnonzero(first_of_runs(number))
    size = np.diff(np.append(starts, len(number)))
    own_start, own_size = np.repeat(starts, size), np.repeat(size, size)
    at = np.arange(len(number))
    # Each with those before it; in a large match with the first one.
    before = np.where(own_size <= ALL_PAIRS_LIMIT, at - own_start, np.minimum(at - own_start, 1))
    other, one = expand_ranges(own_start, before)
    return one, other


def _waits_for_rank(own: ArrivalsAndEnds, members: Ints, rank: Ints) -> Bools:
    """Mark the members that cannot leave before some rank came, one for each."""
    needed = own.needed[members]
    waits: Bools = (needed == ALL_RANKS) | ((needed == rank) & ~own.buffers[members])
    return waits
