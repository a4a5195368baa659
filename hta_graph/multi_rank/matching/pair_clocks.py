"""How far the clocks of two ranks are apart: by the ends of their collectives, or by the bounds that waiting sets.

All pairs of a job are compared at once, laid end to end as columns; ``pair`` numbers the pair of each row, ascending.

    rank 0      |wwwww========|
    rank 1           |========|~~         ends: about equal
    bounds      rank 0's end − rank 1's arrival, and the other way round, are never negative in one time
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from hta_graph.base.arrays import Columns, expand_ranges, first_of_runs, medians_by, summed_by
from hta_graph.model import Bools, Floats, Ints
from hta_graph.multi_rank.matching.communications import ALL_RANKS, Match, RankCommunications


@dataclass(frozen=True)
class ClockLine:
    """How far a clock is ahead of another one: by ``ahead`` (ns) at ``middle`` (its own time), drifting by a share."""

    ahead: int = 0
    drift: float = 0.0
    middle: int = 0

    def to_other(self, times: Ints) -> Ints:
        """Return the clock's own times (ns) in the other one's time."""
        if not self.drift:
            return times - self.ahead
        # Times since an epoch do not fit a float; times since the middle do.
        drifted: Ints = np.rint(self.drift * (times - self.middle)).astype(np.int64)
        return times - self.ahead - drifted

    def ahead_at(self, time: int) -> int:
        """Return how far it is ahead (ns) at one of its own times."""
        return self.ahead + round(self.drift * (time - self.middle))

    def reversed(self) -> ClockLine:
        """Return how far the other clock is ahead of this one."""
        return ClockLine(-self.ahead, 1 - 1 / (1 - self.drift), self.middle - self.ahead)

    def then(self, further: ClockLine) -> ClockLine:
        """Return how far it is ahead of what the other clock itself is compared with.

        >>> ClockLine(5).then(ClockLine(-7)), ClockLine(5).reversed()
        (ClockLine(ahead=-2, drift=0.0, middle=0), ClockLine(ahead=-5, drift=0.0, middle=-5))
        """
        there = self.middle - self.ahead
        drift = self.drift + further.drift - self.drift * further.drift
        return ClockLine(self.ahead + further.ahead_at(there), drift, self.middle)


SAME_CLOCK = ClockLine()
"""One clock, or two that agree."""


def convert_times(lines: Sequence[ClockLine], at: Ints, times: Ints) -> Ints:
    """Return times (ns), each of the clock at its place among several, as :meth:`ClockLine.to_other` does."""
    ahead, middle = (
        np.array(own, np.int64)[at] for own in ([line.ahead for line in lines], [line.middle for line in lines])
    )
    drift = np.array([line.drift for line in lines], np.float64)[at]
    moved: Ints = times - ahead - np.rint(drift * (times - middle)).astype(np.int64)
    return moved


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
        """Ignore the other rows."""
        return replace(
            self,
            matches=replace(self.matches, waits=self.matches.waits & kept, other_waits=self.matches.other_waits & kept),
        )


def arrivals_and_ends(own: RankCommunications) -> ArrivalsAndEnds:
    """Return what a rank's communications show about its CPU clock."""
    buffers = np.array([name.endswith("send") for name in own.name], np.bool_)
    return ArrivalsAndEnds(own.arrival, own.end, own.needed, buffers)


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
        """Ignore the other rows."""
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


MAD_TO_SIGMA = 1.48
"""The standard deviation of a normal distribution, in medians of the absolute deviation."""

LONG_RECORDING_NS = 1_000_000_000
"""Ends scatter by microseconds: in shorter traces they show no drift (up to 480 ppm were seen where none was)."""

DRIFT_SPREADS = 3
"""A drift counts if it moves clocks by this many spreads of the ends over the trace."""

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


MIN_ENDS = 3
"""How many ends it takes to measure their scatter."""

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
    """Mark one row of each wanted pair: that without which most room is left, of those that set a bound."""
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
