"""What all pairs of ranks did together, laid end to end, and the bounds that waiting sets between their clocks.

``pair`` numbers the pair of each row, ascending; what is known of pairs is a column of one value for each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.columns import first_of_runs
from hta_graph.job.matching.clocks.clock_evidence import ClockEvidence, MeetingsOfTwo
from hta_graph.model import Bools, Floats, Ints

__all__ = ["NO_LOWER", "NO_UPPER", "PairRows", "bounds_of_rows", "room_between", "rows_of"]

NO_UPPER, NO_LOWER = float("inf"), float("-inf")


@dataclass(frozen=True, eq=False)
class PairRows:
    """What pairs did together, and per pair where its rows begin and the middle of the second clock's times (ns)."""

    met: MeetingsOfTwo
    pair: Ints
    first: Ints
    middle: Ints

    @property
    def pairs(self) -> int:
        """How many pairs there are."""
        return len(self.first)

    @property
    def count(self) -> Ints:
        """How many meetings each pair has."""
        return np.diff(self.first, append=len(self.pair))

    def of_pairs(self, chosen: Bools) -> PairRows:
        """Select pairs, numbered anew."""
        rows = chosen[self.pair]
        pair = (np.cumsum(chosen) - 1)[self.pair[rows]]
        first = np.searchsorted(pair, np.arange(int(chosen.sum())))
        return PairRows(self.met.take(rows), pair, first, self.middle[chosen])

    def only(self, kept: Bools) -> PairRows:
        """Let the other rows tell nothing."""
        met = replace(self.met, waits=self.met.waits & kept, other_waits=self.met.other_waits & kept)
        return replace(self, met=met)


def rows_of(evidence: ClockEvidence) -> PairRows:
    """Lay out what pairs did together, with the middle of each."""
    met, first = evidence.met, np.flatnonzero(first_of_runs(evidence.pair))
    if not len(first):
        return PairRows(met, evidence.pair, first, first)
    begin, end = np.minimum.reduceat(met.other_came, first), np.maximum.reduceat(met.other_left, first)
    # The mean of two times, each of which may be half of what a column holds.
    return PairRows(met, evidence.pair, first, (begin & end) + ((begin ^ end) >> 1))


def bounds_of_rows(rows: PairRows, drift: Floats) -> tuple[Floats, Floats]:
    """Return by what the second clock is ahead at least and at most in the middle (ns), as each row says."""
    met, middle, drifts = rows.met, rows.middle[rows.pair], drift[rows.pair]
    least = met.other_came - met.left - drifts * (met.other_came - middle)
    most = met.other_left - met.came - drifts * (met.other_left - middle)
    return np.where(met.waits, least, NO_LOWER), np.where(met.other_waits, most, NO_UPPER)


def room_between(rows: PairRows, drift: Floats) -> tuple[Floats, Floats]:
    """Return the bounds in the middle, if the clocks drift so."""
    if not rows.pairs:
        return np.zeros(0), np.zeros(0)
    least, most = bounds_of_rows(rows, drift)
    return np.maximum.reduceat(least, rows.first), np.minimum.reduceat(most, rows.first)
