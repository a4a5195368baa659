"""How far the ranks' clocks are apart, by what they did together, and how well that is known.

Two kinds of evidence, of which the tighter one is taken for each pair of ranks. Members that all wait for each other
end together, up to the time that leaving takes; and nobody who waits for another ends before that one came:

    rank 0      |wwwww========|
    rank 1           |========|~~         ends: about equal
    bounds      rank 0's end − rank 1's arrival, and the other way round, are never negative in one time
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hta_graph.job.matching.rank_members import ALL, RankMembers
from hta_graph.job.matching.rank_record import Meeting

__all__ = ["RankClock", "rank_clocks"]

USUAL_TO_STANDARD = 1.48
"""The standard deviation of a normal distribution, in medians of the absolute deviation."""


@dataclass(frozen=True)
class RankClock:
    """How far a rank's clock is ahead of that of the lowest rank that it can be compared with, and how sure that is."""

    offset_ns: int = 0
    error_ns: int = 0
    collectives: int = 0


@dataclass
class _PairEvidence:
    """What two ranks did together: how far the second one's ends lie behind the first one's, and the bounds (ns)."""

    ends: list[int] = field(default_factory=list)
    most: int = np.iinfo(np.int64).max
    least: int = np.iinfo(np.int64).min

    def estimate(self) -> tuple[int, int]:
        """Return how far the second clock is ahead and how uncertain that is (ns): by ends or by bounds."""
        found: list[tuple[int, int]] = []
        if self.ends:
            middle = int(np.median(self.ends))
            spread = round(USUAL_TO_STANDARD * float(np.median(np.abs(np.array(self.ends) - middle))))
            # What physics excludes is not believed, however close together the ends are.
            allowed = min(max(middle, self.least), self.most) if self.least <= self.most else middle
            found.append((spread + abs(allowed - middle), allowed))
        if self.least > np.iinfo(np.int64).min and self.least <= self.most < np.iinfo(np.int64).max:
            found.append(((self.most - self.least) // 2, (self.most + self.least) // 2))
        # Of messages one way only one bound is known: no more is corrected than it asks for.
        error, offset = min(found, default=(np.iinfo(np.int64).max, min(max(0, self.least), self.most)))
        return offset, error


def rank_clocks(meetings: Iterable[Meeting], ranks: Mapping[int, RankMembers]) -> dict[int, RankClock]:
    """Return each rank's clock: all agree, unless something that ranks did together contradicts that.

    Ranks that did nothing together are then compared through others, along the surest way.
    """
    evidence = _evidence_of(meetings, ranks)
    if all(pair.least <= 0 <= pair.most for pair in evidence.values()):
        return dict.fromkeys(ranks, RankClock())
    found = {ends: (*pair.estimate(), len(pair.ends)) for ends, pair in evidence.items()}
    edges: dict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    for (first, second), (offset, error, count) in found.items():
        edges[first].append((error, second, offset, count))
        edges[second].append((error, first, -offset, count))
    clocks: dict[int, RankClock] = {}
    for lowest in sorted(ranks):
        if lowest not in clocks:
            _follow_surest(lowest, edges, clocks)
    return clocks


def _follow_surest(
    lowest: int, edges: Mapping[int, list[tuple[int, int, int, int]]], clocks: dict[int, RankClock]
) -> None:
    """Carry a rank's clock to all that it can be compared with, the surest comparison first."""
    clocks[lowest] = RankClock()
    reached = [lowest]
    while True:
        # Of all comparisons that lead to a new rank the surest; ties: the lowest ranks.
        ways = [(error, own, rank, *rest) for own in reached for error, rank, *rest in edges[own] if rank not in clocks]
        if not ways:
            return
        error, own, rank, offset, count = min(ways)
        clocks[rank] = RankClock(clocks[own].offset_ns + offset, clocks[own].error_ns + error, count)
        reached.append(rank)


def _evidence_of(meetings: Iterable[Meeting], ranks: Mapping[int, RankMembers]) -> dict[tuple[int, int], _PairEvidence]:
    """Collect what each two ranks that did something together tell about their clocks."""
    found: dict[tuple[int, int], _PairEvidence] = defaultdict(_PairEvidence)
    for meeting in meetings:
        members = sorted(meeting.items())
        for at, (first, place) in enumerate(members):
            for second, other in members[at + 1 :]:
                _add_evidence(found[first, second], ranks[first], place, ranks[second], other, (first, second))
    return found


def _add_evidence(
    pair: _PairEvidence, one: RankMembers, place: int, two: RankMembers, other: int, ranks: tuple[int, int]
) -> None:
    one_waits, two_waits = _waits_for(one, place, ranks[1]), _waits_for(two, other, ranks[0])
    if one_waits and two_waits:
        pair.ends.append(int(two.end[other] - one.end[place]))
    # The first one's end is not before the second one came: so far the second clock may be behind, not further.
    if one_waits:
        pair.least = max(pair.least, int(two.arrival[other] - one.end[place]))
    if two_waits:
        pair.most = min(pair.most, int(two.end[other] - one.arrival[place]))


def _waits_for(own: RankMembers, place: int, rank: int) -> bool:
    """Tell whether a member cannot end before a rank came."""
    needed = int(own.needed[place])
    # A send may go into a buffer.
    return needed == ALL or (needed == rank and not own.name[place].endswith("send"))
