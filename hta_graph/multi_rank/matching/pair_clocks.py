"""How far two ranks' clocks are apart: by the ends of what they did together, or by the bounds that waiting sets.

All pairs of a job are compared at once: see :mod:`pair_rows`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import first_of_runs, summed_by
from hta_graph.model import Bools, Floats, Ints
from hta_graph.multi_rank.matching.clock_evidence import ClockEvidence
from hta_graph.multi_rank.matching.clock_lines import ClockLine
from hta_graph.multi_rank.matching.pair_ends import MAX_DRIFT, MIN_FOR_DRIFT, drift_from_ends, ends_of_pairs
from hta_graph.multi_rank.matching.pair_rows import (
    NO_LOWER,
    NO_UPPER,
    PairRows,
    bounds_of_pairs,
    bounds_of_rows,
    pair_rows,
)

__all__ = ["PairClock", "offset_bounds", "pair_clocks"]

MIN_ENDS = 3
"""How many ends it takes to tell how far they scatter."""

MIN_ERROR_NS = 1_000
"""Many traces have whole microseconds."""

DROPPED_DIVISOR = 10
"""At most a tenth of what two ranks did together is taken for wrongly matched; more is another mistake."""

UNKNOWN_ERROR = int(np.iinfo(np.int64).max)


@dataclass(frozen=True)
class PairClock:
    """How far the second rank's clock is ahead of the first one's; how well that is known (ns), by how many matches.

    ``allows_zero`` says that nothing contradicts equal clocks.
    """

    line: ClockLine
    error: int
    match_count: int
    allows_zero: bool


def pair_clocks(evidence: ClockEvidence) -> tuple[list[PairClock], Bools]:
    """Compare the two clocks of each pair; return besides which matches of each fit clocks at all.

    Bounds that leave no room are a sign of a drift, if one makes room, else of matches that were none: as few as
    possible are left out. The tighter of ends and bounds is believed.
    """
    rows = pair_rows(evidence)
    least, most = bounds_of_pairs(rows, np.zeros(rows.pairs))
    drift = drift_from_ends(rows)
    low, high = bounds_of_pairs(rows, drift)
    fits = np.ones(len(rows.pair), np.bool_)
    if (contradict := low > high).any():
        asked = rows.of_pairs(contradict)
        drift[contradict] = _drift_from_bounds(asked)
        fits[contradict[rows.pair]] = _without_impossible_rows(asked, drift[contradict])
    ahead, error = _best_estimates(rows.only(fits), drift)
    allows_zero = (least <= 0) & (most >= 0)
    columns = ahead, drift, rows.middle, error, summed_by(rows.pair, fits.astype(np.int64), rows.pairs), allows_zero
    return [
        PairClock(ClockLine(ahead_ns, drifts, middle), error_ns, matches, is_zero)
        for ahead_ns, drifts, middle, error_ns, matches, is_zero in zip(*(own.tolist() for own in columns), strict=True)
    ], fits


def offset_bounds(evidence: ClockEvidence) -> tuple[Floats, Floats]:
    """Return per pair how far the second clock may be ahead at least and at most (ns), as waiting says."""
    rows = pair_rows(evidence)
    return bounds_of_pairs(rows, np.zeros(rows.pairs))


def _drift_from_bounds(rows: PairRows) -> Floats:
    """Return the drift that leaves most room between the bounds; 0 if none does, or one half does not confirm it."""
    found = np.zeros(rows.pairs)
    asked = rows.count >= MIN_FOR_DRIFT
    if not asked.any():
        return found
    rows = rows.of_pairs(asked)
    drift = _widest_drift(rows)
    low, high = bounds_of_pairs(rows, drift)
    # What one half says has to serve the other half better than no drift.
    odd = (np.arange(len(rows.pair)) - rows.first[rows.pair]) % 2 == 1
    half, held_out = rows.only(odd), rows.only(~odd)
    better = _bound_violation(half, held_out, _widest_drift(half)) < _bound_violation(
        half, held_out, np.zeros(rows.pairs)
    )
    found[asked] = np.where(better & (low <= high), drift, 0.0)
    return found


def _widest_drift(rows: PairRows) -> Floats:
    """Find the drift with most room: the room is a concave function of it."""

    def room(drift: Floats) -> Floats:
        low, high = bounds_of_pairs(rows, drift)
        return high - low

    return _maximize_concave(room, np.full(rows.pairs, -MAX_DRIFT), np.full(rows.pairs, MAX_DRIFT))


def _maximize_concave(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Find where concave functions are highest, by thirds."""
    for _ in range(40):
        third = (high - low) / 3
        rises = function(low + third) < function(high - third)
        low, high = np.where(rises, low + third, low), np.where(rises, high, high - third)
    return (low + high) / 2


def _bound_violation(half: PairRows, held_out: PairRows, drift: Floats) -> Floats:
    """Return how far what one half says lies outside the bounds of the other (ns); no number where it says nothing."""
    low, high = bounds_of_pairs(half, drift)
    least, most = bounds_of_pairs(held_out, drift)
    with np.errstate(invalid="ignore"):
        ahead = (low + high) / 2
        return np.maximum(least - ahead, 0.0) + np.maximum(ahead - most, 0.0)


def _without_impossible_rows(rows: PairRows, drift: Floats) -> Bools:
    """Leave out, one by one, what makes most room; all stays where too many would have to go."""
    kept = np.ones(len(rows.pair), np.bool_)
    allowed = np.maximum(rows.count // DROPPED_DIVISOR, 1)
    for dropped in range(int(allowed.max(initial=0))):
        low, high = bounds_of_pairs(rows.only(kept), drift)
        goes_on = (low > high) & (dropped < allowed)
        if not goes_on.any():
            break
        kept &= ~_tightest_rows(rows, kept, drift, goes_on)
    low, high = bounds_of_pairs(rows.only(kept), drift)
    return kept | (low > high)[rows.pair]


def _tightest_rows(rows: PairRows, kept: Bools, drift: Floats, asked: Bools) -> Bools:
    """Mark one row of each pair that is asked for: that without which most room is left, of those that set a bound."""
    least, most = bounds_of_rows(rows.only(kept), drift)
    low, high = bounds_of_pairs(rows.only(kept), drift)
    ways = []
    for sets_bound in (kept & (least == low[rows.pair]), kept & (most == high[rows.pair])):
        places = np.flatnonzero(sets_bound & asked[rows.pair])
        gone = np.zeros(len(kept), np.bool_)
        gone[places[first_of_runs(rows.pair[places])]] = True
        without_low, without_high = bounds_of_pairs(rows.only(kept & ~gone), drift)
        ways.append((gone, without_high - without_low))
    (lowest, room), (highest, other_room) = ways
    return np.where((other_room > room)[rows.pair], highest, lowest)


def _best_estimates(rows: PairRows, drift: Floats) -> tuple[Ints, Ints]:
    """Return how far each second clock is ahead and how uncertain that is (ns): by ends or by bounds."""
    low, high = bounds_of_pairs(rows, drift)
    ends = ends_of_pairs(rows)
    rest = ends.without_drift(drift, rows.middle)
    usual = ends.median(rest)
    # What physics excludes is not believed, however close together the ends are.
    allowed = np.where(low <= high, np.minimum(np.maximum(usual, low), high), usual)
    by_ends = np.maximum(_rounded(ends.spread(rest) + np.abs(allowed - usual)), MIN_ERROR_NS), _rounded(allowed)
    # Of messages one way only one bound is known: no more is corrected than it asks for.
    asked_for = _rounded(np.minimum(np.maximum(0.0, low), high))
    is_bound = (low > NO_LOWER) & (low <= high) & (high < NO_UPPER)
    low, high = np.where(is_bound, low, 0.0), np.where(is_bound, high, 0.0)
    by_bounds = _rounded((high - low) / 2), _rounded((high + low) / 2)
    has_ends = ends.count >= MIN_ENDS
    unknown = np.full(rows.pairs, UNKNOWN_ERROR)
    takes_ends = has_ends & (~is_bound | _is_less(by_ends, by_bounds))
    error, ahead = (
        np.where(takes_ends, one, np.where(is_bound, other, otherwise))
        for one, other, otherwise in zip(by_ends, by_bounds, (unknown, asked_for), strict=True)
    )
    return ahead, error


def _is_less(some: tuple[Ints, Ints], others: tuple[Ints, Ints]) -> Bools:
    """Compare pairs of numbers: by the first one, then by the second."""
    less: Bools = (some[0] < others[0]) | ((some[0] == others[0]) & (some[1] < others[1]))
    return less


def _rounded(values: Floats) -> Ints:
    return np.rint(values).astype(np.int64)
