"""How far two ranks' clocks are apart: by the ends of what they did together, or by the bounds that waiting sets.

All pairs of a job are compared at once: ``pair`` numbers the pair of each row, ascending, and has values for each.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.columns import first_of_runs, laid_out, medians_by, summed_by
from hta_graph.job.matching.clocks.clock_evidence import Evidence, MeetingsOfTwo
from hta_graph.job.matching.clocks.clock_lines import ClockLine
from hta_graph.model import Bools, Floats, Ints

__all__ = ["PairClock", "gaps_of_bounds", "pair_clocks"]

USUAL_TO_STANDARD = 1.48
"""The standard deviation of a normal distribution, in medians of the absolute deviation."""

FEWEST_ENDS = 3
"""How many ends it takes to tell how far they scatter."""

LEAST_ERROR_NS = 1_000
"""Many traces have whole microseconds."""

LONG_NS = 1_000_000_000
"""Ends scatter by microseconds: of shorter recordings they tell no drift (up to 480 ppm were seen where none was)."""

SURELY = 3
"""A drift counts that moves clocks by so many spreads of the ends over the recording."""

MOST_DRIFT = 300e-6
"""No clock of a computer drifts more."""

FEWEST_FOR_DRIFT = 16

DROPPED_SHARE = 10
"""At most a tenth of what two ranks did together is taken for wrongly matched; more is another mistake."""

UNKNOWN_ERROR = int(np.iinfo(np.int64).max)
NO_UPPER, NO_LOWER = float("inf"), float("-inf")


@dataclass(frozen=True)
class PairClock:
    """How far the second rank's clock is ahead of the first one's; how well that is known (ns), by how many meetings.

    ``allows_zero`` says that nothing contradicts equal clocks.
    """

    line: ClockLine
    error: int
    meetings: int
    allows_zero: bool


@dataclass(frozen=True, eq=False)
class _Rows:
    """What pairs did together, and per pair where its rows begin and the middle of the second clock's times (ns)."""

    met: MeetingsOfTwo
    pair: Ints
    first: Ints
    middle: Ints

    @property
    def pairs(self) -> int:
        return len(self.first)

    @property
    def count(self) -> Ints:
        """How many meetings each pair has."""
        return np.diff(self.first, append=len(self.pair))

    def of_pairs(self, chosen: Bools) -> _Rows:
        """Select pairs, numbered anew."""
        rows = chosen[self.pair]
        pair = (np.cumsum(chosen) - 1)[self.pair[rows]]
        first = np.searchsorted(pair, np.arange(int(chosen.sum())))
        return _Rows(self.met.take(rows), pair, first, self.middle[chosen])

    def only(self, kept: Bools) -> _Rows:
        """Let the other rows tell nothing."""
        met = replace(self.met, waits=self.met.waits & kept, other_waits=self.met.other_waits & kept)
        return replace(self, met=met)


def pair_clocks(evidence: Evidence) -> tuple[list[PairClock], Bools]:
    """Compare the two clocks of each pair; return besides which meetings of each fit clocks at all.

    Bounds that leave no room are a sign of a drift, if one makes room, else of meetings that were none: as few as
    possible are left out. The tighter of ends and bounds is believed.
    """
    rows = _rows_of(evidence)
    least, most = _room(rows, np.zeros(rows.pairs))
    drift = _drift_of_ends(rows)
    low, high = _room(rows, drift)
    fits = np.ones(len(rows.pair), np.bool_)
    if (contradict := low > high).any():
        asked = rows.of_pairs(contradict)
        drift[contradict] = _drift_of_bounds(asked)
        fits[contradict[rows.pair]] = _possible(asked, drift[contradict])
    ahead, error = _believed(rows.only(fits), drift)
    allows_zero = (least <= 0) & (most >= 0)
    columns = ahead, drift, rows.middle, error, summed_by(rows.pair, fits.astype(np.int64), rows.pairs), allows_zero
    return [
        PairClock(ClockLine(ahead_ns, drifts, middle), error_ns, meetings, is_zero)
        for ahead_ns, drifts, middle, error_ns, meetings, is_zero in zip(
            *(own.tolist() for own in columns), strict=True
        )
    ], fits


def gaps_of_bounds(evidence: Evidence) -> tuple[Floats, Floats]:
    """Return per pair how far the second clock may be ahead at least and at most (ns), as waiting says."""
    rows = _rows_of(evidence)
    return _room(rows, np.zeros(rows.pairs))


def _rows_of(evidence: Evidence) -> _Rows:
    met, first = evidence.met, np.flatnonzero(first_of_runs(evidence.pair))
    if not len(first):
        return _Rows(met, evidence.pair, first, first)
    begin, end = np.minimum.reduceat(met.other_came, first), np.maximum.reduceat(met.other_left, first)
    # The mean of two times, each of which may be half of what a column holds.
    return _Rows(met, evidence.pair, first, (begin & end) + ((begin ^ end) >> 1))


def _drifted(rows: _Rows, drift: Floats) -> tuple[Floats, Floats]:
    """Return by what the second clock is ahead at least and at most in the middle (ns), as each row says."""
    met, middle, drifts = rows.met, rows.middle[rows.pair], drift[rows.pair]
    least = met.other_came - met.left - drifts * (met.other_came - middle)
    most = met.other_left - met.came - drifts * (met.other_left - middle)
    return np.where(met.waits, least, NO_LOWER), np.where(met.other_waits, most, NO_UPPER)


def _room(rows: _Rows, drift: Floats) -> tuple[Floats, Floats]:
    """Return the bounds in the middle, if the clocks drift so."""
    if not rows.pairs:
        return np.zeros(0), np.zeros(0)
    least, most = _drifted(rows, drift)
    return np.maximum.reduceat(least, rows.first), np.minimum.reduceat(most, rows.first)


def _drift_of_bounds(rows: _Rows) -> Floats:
    """Return the drift that leaves most room between the bounds; 0 if none does, or one half does not confirm it."""
    found = np.zeros(rows.pairs)
    asked = rows.count >= FEWEST_FOR_DRIFT
    if not asked.any():
        return found
    rows = rows.of_pairs(asked)
    drift = _roomiest_drift(rows)
    low, high = _room(rows, drift)
    # What one half says has to serve the other half better than no drift.
    odd = (np.arange(len(rows.pair)) - rows.first[rows.pair]) % 2 == 1
    half, held_out = rows.only(odd), rows.only(~odd)
    better = _missed(half, held_out, _roomiest_drift(half)) < _missed(half, held_out, np.zeros(rows.pairs))
    found[asked] = np.where(better & (low <= high), drift, 0.0)
    return found


def _roomiest_drift(rows: _Rows) -> Floats:
    """Find the drift with most room: the room is a concave function of it."""

    def room(drift: Floats) -> Floats:
        low, high = _room(rows, drift)
        return high - low

    return _highest(room, np.full(rows.pairs, -MOST_DRIFT), np.full(rows.pairs, MOST_DRIFT))


def _highest(function: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Find where concave functions are highest, by thirds."""
    for _ in range(40):
        third = (high - low) / 3
        rises = function(low + third) < function(high - third)
        low, high = np.where(rises, low + third, low), np.where(rises, high, high - third)
    return (low + high) / 2


def _missed(half: _Rows, held_out: _Rows, drift: Floats) -> Floats:
    """Return how far what one half says lies outside the bounds of the other (ns); no number where it says nothing."""
    low, high = _room(half, drift)
    least, most = _room(held_out, drift)
    with np.errstate(invalid="ignore"):
        ahead = (low + high) / 2
        return np.maximum(least - ahead, 0.0) + np.maximum(ahead - most, 0.0)


@dataclass(frozen=True, eq=False)
class _Ends:
    """When both left what all wait for, by the second clock, in order of time; how much later the second one (ns)."""

    when: Ints
    apart: Ints
    pair: Ints
    pairs: int

    @property
    def count(self) -> Ints:
        return np.bincount(self.pair, minlength=self.pairs)

    @property
    def first(self) -> Ints:
        """Where each pair's begin."""
        return np.cumsum(self.count) - self.count

    def take(self, chosen: Bools) -> _Ends:
        """Select ends."""
        return _Ends(self.when[chosen], self.apart[chosen], self.pair[chosen], self.pairs)

    def without_drift(self, drift: Floats, middle: Ints) -> Floats:
        """Return how much later the second one left, if the clocks drift so."""
        later: Floats = self.apart.astype(np.float64) - drift[self.pair] * (self.when - middle[self.pair])
        return later

    def usual(self, values: Ints | Floats) -> Floats:
        """Return the median of each pair's values."""
        return medians_by(self.pair, values, self.pairs)

    def spread(self, values: Ints | Floats) -> Floats:
        """Return how far each pair's values scatter."""
        return USUAL_TO_STANDARD * self.usual(np.abs(values - self.usual(values)[self.pair]))


def _ends(rows: _Rows) -> _Ends:
    both = rows.met.waits & rows.met.other_waits
    met, pair = rows.met.take(both), rows.pair[both]
    order = np.lexsort((met.other_left, pair))
    return _Ends(met.other_left[order], (met.other_left - met.left)[order], pair[order], rows.pairs)


def _drift_of_ends(rows: _Rows) -> Floats:
    """Return the drift that the ends show over a long recording; 0 if a half that is held out does not confirm it."""
    ends = _ends(rows)
    span = _span(ends)
    asked = (ends.count >= FEWEST_FOR_DRIFT) & (span >= LONG_NS)
    if not asked.any():
        return np.zeros(rows.pairs)
    ends = ends.take(asked[ends.pair])
    drift = _usual_slope(ends)
    rest = ends.without_drift(drift, rows.middle)
    is_large = (np.abs(drift) <= MOST_DRIFT) & (np.abs(drift) * span > SURELY * ends.spread(rest))
    is_early = np.arange(len(ends.pair)) - ends.first[ends.pair] < (ends.count // 2)[ends.pair]
    slope = _usual_slope(ends.take(is_early))
    with_drift = ends.without_drift(slope, rows.middle)
    better = _distance(ends, is_early, with_drift) < _distance(ends, is_early, ends.apart)
    return np.where(asked & is_large & better, drift, 0.0)


def _span(ends: _Ends) -> Ints:
    """Return from when to when there are ends (ns)."""
    padded, last = np.append(ends.when, 0), np.maximum(ends.first + ends.count - 1, 0)
    return np.where(ends.count > 0, padded[last] - padded[ends.first], 0)


def _usual_slope(ends: _Ends) -> Floats:
    """Return the median of slopes between the two halves (Theil and Sen)."""
    half = ends.count // 2
    pair, early = laid_out(ends.first, half)
    late = early + (ends.count - half)[pair]
    run = (ends.when[late] - ends.when[early]).astype(np.float64)
    rise = ends.apart[late] - ends.apart[early]
    runs = run > 0
    return medians_by(pair[runs], rise[runs] / run[runs], ends.pairs)


def _distance(ends: _Ends, is_known: Bools, values: Ints | Floats) -> Floats:
    """Return how far values that are held out usually lie from the median of those that are known."""
    known = medians_by(ends.pair[is_known], values[is_known], ends.pairs)
    held_out = ends.pair[~is_known]
    return medians_by(held_out, np.abs(values[~is_known] - known[held_out]), ends.pairs)


def _possible(rows: _Rows, drift: Floats) -> Bools:
    """Leave out, one by one, what makes most room; all stays where too many would have to go."""
    kept = np.ones(len(rows.pair), np.bool_)
    allowed = np.maximum(rows.count // DROPPED_SHARE, 1)
    for dropped in range(int(allowed.max(initial=0))):
        low, high = _room(rows.only(kept), drift)
        goes_on = (low > high) & (dropped < allowed)
        if not goes_on.any():
            break
        kept &= ~_most_in_the_way(rows, kept, drift, goes_on)
    low, high = _room(rows.only(kept), drift)
    return kept | (low > high)[rows.pair]


def _most_in_the_way(rows: _Rows, kept: Bools, drift: Floats, asked: Bools) -> Bools:
    """Mark one row of each pair that is asked for: that without which most room is left, of those that set a bound."""
    least, most = _drifted(rows.only(kept), drift)
    low, high = _room(rows.only(kept), drift)
    ways = []
    for sets_bound in (kept & (least == low[rows.pair]), kept & (most == high[rows.pair])):
        places = np.flatnonzero(sets_bound & asked[rows.pair])
        gone = np.zeros(len(kept), np.bool_)
        gone[places[first_of_runs(rows.pair[places])]] = True
        without_low, without_high = _room(rows.only(kept & ~gone), drift)
        ways.append((gone, without_high - without_low))
    (lowest, room), (highest, other_room) = ways
    return np.where((other_room > room)[rows.pair], highest, lowest)


def _believed(rows: _Rows, drift: Floats) -> tuple[Ints, Ints]:
    """Return how far each second clock is ahead and how uncertain that is (ns): by ends or by bounds."""
    low, high = _room(rows, drift)
    ends = _ends(rows)
    rest = ends.without_drift(drift, rows.middle)
    usual = ends.usual(rest)
    # What physics excludes is not believed, however close together the ends are.
    allowed = np.where(low <= high, np.minimum(np.maximum(usual, low), high), usual)
    by_ends = np.maximum(_whole(ends.spread(rest) + np.abs(allowed - usual)), LEAST_ERROR_NS), _whole(allowed)
    # Of messages one way only one bound is known: no more is corrected than it asks for.
    asked_for = _whole(np.minimum(np.maximum(0.0, low), high))
    is_bound = (low > NO_LOWER) & (low <= high) & (high < NO_UPPER)
    low, high = np.where(is_bound, low, 0.0), np.where(is_bound, high, 0.0)
    by_bounds = _whole((high - low) / 2), _whole((high + low) / 2)
    has_ends = ends.count >= FEWEST_ENDS
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


def _whole(values: Floats) -> Ints:
    return np.rint(values).astype(np.int64)
