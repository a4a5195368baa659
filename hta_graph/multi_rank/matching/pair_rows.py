"""What all pairs of ranks did together, laid end to end, and the bounds that waiting sets between their clocks.

``pair`` numbers the pair of each row, ascending; what is known of pairs is a column of one value for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.model import Bools, Floats, Ints
from hta_graph.multi_rank.matching.clock_evidence import ClockEvidence, PairMatches

__all__ = ["NO_LOWER", "NO_UPPER", "PairRows", "bounds_of_rows", "bounds_of_pairs", "pair_rows"]

NO_UPPER, NO_LOWER = float("inf"), float("-inf")


@dataclass(frozen=True, eq=False)
class PairRows:
    """Matches of pairs, and per pair where its rows begin and the middle of the second clock's times (ns)."""

    matches: PairMatches
    pair: Ints
    first: Ints
    middle: Ints

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.first)

    @property
    def count(self) -> Ints:
        """How many matches each pair has."""
        return np.diff(self.first, append=len(self.pair))

    def of_pairs(self, chosen: Bools) -> PairRows:
        """Select pairs, numbered anew."""
        rows = chosen[self.pair]
        pair = (np.cumsum(chosen) - 1)[self.pair[rows]]
        first = np.searchsorted(pair, np.arange(int(chosen.sum())))
        return PairRows(self.matches.take(rows), pair, first, self.middle[chosen])

    def only(self, kept: Bools) -> PairRows:
        """Let the other rows tell nothing."""
        matches = replace(self.matches, waits=self.matches.waits & kept, other_waits=self.matches.other_waits & kept)
        return replace(self, matches=matches)


def pair_rows(evidence: ClockEvidence) -> PairRows:
    """Lay out the matches of pairs, with the middle of each."""
    matches, first = evidence.matches, np.flatnonzero(first_of_runs(evidence.pair))
    if not len(first):
        return PairRows(matches, evidence.pair, first, first)
    begin, end = np.minimum.reduceat(matches.other_arrival, first), np.maximum.reduceat(matches.other_end, first)
    # The mean of two times, each of which may be half of what a column holds.
    return PairRows(matches, evidence.pair, first, (begin & end) + ((begin ^ end) >> 1))


def bounds_of_rows(rows: PairRows, drift: Floats) -> tuple[Floats, Floats]:
    """Return by what the second clock is ahead at least and at most in the middle (ns), as each row says."""
    matches, middle, drifts = rows.matches, rows.middle[rows.pair], drift[rows.pair]
    least = matches.other_arrival - matches.end - drifts * (matches.other_arrival - middle)
    most = matches.other_end - matches.arrival - drifts * (matches.other_end - middle)
    return np.where(matches.waits, least, NO_LOWER), np.where(matches.other_waits, most, NO_UPPER)


def bounds_of_pairs(rows: PairRows, drift: Floats) -> tuple[Floats, Floats]:
    """Return the bounds in the middle, if the clocks drift so."""
    if not rows.pairs:
        return np.zeros(0), np.zeros(0)
    least, most = bounds_of_rows(rows, drift)
    return np.maximum.reduceat(least, rows.first), np.minimum.reduceat(most, rows.first)
