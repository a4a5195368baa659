"""What the ends of what two ranks did together tell of their clocks: of all pairs at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import expand_ranges, medians_by
from hta_graph.model import Bools, Floats, Ints
from hta_graph.multi_rank.matching.pair_rows import PairRows

__all__ = ["MIN_FOR_DRIFT", "MAX_DRIFT", "PairEnds", "drift_from_ends", "ends_of_pairs"]

MAD_TO_SIGMA = 1.48
"""The standard deviation of a normal distribution, in medians of the absolute deviation."""

LONG_RECORDING_NS = 1_000_000_000
"""Ends scatter by microseconds: of shorter recordings they tell no drift (up to 480 ppm were seen where none was)."""

DRIFT_SPREADS = 3
"""A drift counts that moves clocks by so many spreads of the ends over the recording."""

MAX_DRIFT = 300e-6
"""No clock of a computer drifts more."""

MIN_FOR_DRIFT = 16


@dataclass(frozen=True, eq=False)
class PairEnds:
    """When both left what all wait for, by the second clock, in order of time; how much later the second one (ns)."""

    when: Ints
    difference: Ints
    pair: Ints
    pairs: int

    @property
    def count(self) -> Ints:
        """How many ends each pair has."""
        return np.bincount(self.pair, minlength=self.pairs)

    @property
    def first(self) -> Ints:
        """Where each pair's begin."""
        return np.cumsum(self.count) - self.count

    def take(self, chosen: Bools) -> PairEnds:
        """Select ends."""
        return PairEnds(self.when[chosen], self.difference[chosen], self.pair[chosen], self.pairs)

    def without_drift(self, drift: Floats, middle: Ints) -> Floats:
        """Return how much later the second one left, if the clocks drift so."""
        later: Floats = self.difference.astype(np.float64) - drift[self.pair] * (self.when - middle[self.pair])
        return later

    def median(self, values: Ints | Floats) -> Floats:
        """Return the median of each pair's values."""
        return medians_by(self.pair, values, self.pairs)

    def spread(self, values: Ints | Floats) -> Floats:
        """Return how far each pair's values scatter."""
        return MAD_TO_SIGMA * self.median(np.abs(values - self.median(values)[self.pair]))


def ends_of_pairs(rows: PairRows) -> PairEnds:
    """Select when both left what all wait for."""
    both = rows.matches.waits & rows.matches.other_waits
    matches, pair = rows.matches.take(both), rows.pair[both]
    order = np.lexsort((matches.other_end, pair))
    return PairEnds(matches.other_end[order], (matches.other_end - matches.end)[order], pair[order], rows.pairs)


def drift_from_ends(rows: PairRows) -> Floats:
    """Return the drift that the ends show over a long recording; 0 if a half that is held out does not confirm it."""
    ends = ends_of_pairs(rows)
    span = _span(ends)
    asked = (ends.count >= MIN_FOR_DRIFT) & (span >= LONG_RECORDING_NS)
    if not asked.any():
        return np.zeros(rows.pairs)
    ends = ends.take(asked[ends.pair])
    drift = _median_slope(ends)
    rest = ends.without_drift(drift, rows.middle)
    is_large = (np.abs(drift) <= MAX_DRIFT) & (np.abs(drift) * span > DRIFT_SPREADS * ends.spread(rest))
    is_early = np.arange(len(ends.pair)) - ends.first[ends.pair] < (ends.count // 2)[ends.pair]
    slope = _median_slope(ends.take(is_early))
    with_drift = ends.without_drift(slope, rows.middle)
    better = _median_distance(ends, is_early, with_drift) < _median_distance(ends, is_early, ends.difference)
    return np.where(asked & is_large & better, drift, 0.0)


def _span(ends: PairEnds) -> Ints:
    """Return from when to when there are ends (ns)."""
    padded, last = np.append(ends.when, 0), np.maximum(ends.first + ends.count - 1, 0)
    return np.where(ends.count > 0, padded[last] - padded[ends.first], 0)


def _median_slope(ends: PairEnds) -> Floats:
    """Return the median of slopes between the two halves (Theil and Sen)."""
    half = ends.count // 2
    pair, early = expand_ranges(ends.first, half)
    late = early + (ends.count - half)[pair]
    run = (ends.when[late] - ends.when[early]).astype(np.float64)
    rise = ends.difference[late] - ends.difference[early]
    runs = run > 0
    return medians_by(pair[runs], rise[runs] / run[runs], ends.pairs)


def _median_distance(ends: PairEnds, is_known: Bools, values: Ints | Floats) -> Floats:
    """Return how far values that are held out usually lie from the median of those that are known."""
    known = medians_by(ends.pair[is_known], values[is_known], ends.pairs)
    held_out = ends.pair[~is_known]
    return medians_by(held_out, np.abs(values[~is_known] - known[held_out]), ends.pairs)
