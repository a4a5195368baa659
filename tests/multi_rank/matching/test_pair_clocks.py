"""All pairs of clocks compared at once say what each pair compared on its own says, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

from hta_graph.model import Bools, Floats, Ints
from hta_graph.multi_rank.matching.pair_clocks import ClockEvidence, ClockLine, PairMatches, offset_bounds, pair_clocks
from tests.support.deep_tests import for_all

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
class ReferencePairClock:
    """How far the second rank's clock is ahead of the first one's; how well that is known (ns), by how many matches.

    ``impossible`` are matches that fit no clocks; ``allows_zero`` says that nothing contradicts equal clocks.
    """

    line: ClockLine
    error: int
    match_count: int
    allows_zero: bool
    impossible: tuple[int, ...] = ()


def pair_clock(matches: PairMatches) -> ReferencePairClock:
    """Compare two clocks.

    Bounds that leave no room are a sign of a drift, if one makes room, else of matches that were none: as few as
    possible are left out. The tighter of ends and bounds is believed.
    """
    every, middle = matches, _middle_of(matches)
    least, most = _room(matches, 0.0, middle)
    drift = _drift_of_ends(matches, middle)
    low, high = _room(matches, drift, middle)
    if low > high:
        drift = _drift_of_bounds(matches, middle)
        matches = _without_impossible(matches, drift, middle)
    ahead, error = _believed(matches, drift, middle)
    gone = tuple(np.setdiff1d(every.number, matches.number).tolist())
    return ReferencePairClock(ClockLine(ahead, drift, middle), error, len(matches), least <= 0 <= most, gone)


def gap_of_bounds(matches: PairMatches) -> tuple[float, float]:
    """Return how far the second clock may be ahead at least and at most (ns), as waiting says."""
    return _room(matches, 0.0, 0)


def _middle_of(matches: PairMatches) -> int:
    return (int(matches.other_arrival.min()) + int(matches.other_end.max())) // 2


def _bounds(matches: PairMatches) -> tuple[tuple[Ints, Ints], tuple[Ints, Ints]]:
    """Return when (the second clock's time) that one is ahead at least by what, and when at most by what (ns)."""
    one, two = matches.take(matches.waits), matches.take(matches.other_waits)
    return (one.other_arrival, one.other_arrival - one.end), (two.other_end, two.other_end - two.arrival)


def _room(matches: PairMatches, drift: float, middle: int) -> tuple[float, float]:
    """Return the bounds in the middle, if the clocks drift so."""
    (when_least, least), (when_most, most) = _bounds(matches)
    return (
        float((least - drift * (when_least - middle)).max(initial=NO_LOWER)),
        float((most - drift * (when_most - middle)).min(initial=NO_UPPER)),
    )


def _drift_of_bounds(matches: PairMatches, middle: int) -> float:
    """Return the drift that leaves most room between the bounds; 0 if none does, or one half does not confirm it."""
    if len(matches) < FEWEST_FOR_DRIFT:
        return 0.0
    drift = _roomiest_drift(matches, middle)
    low, high = _room(matches, drift, middle)
    if low > high:
        return 0.0
    # What one half says has to serve the other half better than no drift.
    odd = np.arange(len(matches)) % 2 == 1
    half, held_out = matches.take(odd), matches.take(~odd)
    drift_of_half = _roomiest_drift(half, middle)
    return drift if _missed(half, held_out, drift_of_half, middle) < _missed(half, held_out, 0.0, middle) else 0.0


def _roomiest_drift(matches: PairMatches, middle: int) -> float:
    """Find the drift with most room: the room is a concave function of it."""

    def room(drift: float) -> float:
        low, high = _room(matches, drift, middle)
        return high - low

    return _highest(room, -MOST_DRIFT, MOST_DRIFT)


def _highest(function: Callable[[float], float], low: float, high: float) -> float:
    """Find where a concave function is highest, by thirds."""
    for _ in range(40):
        third = (high - low) / 3
        if function(low + third) < function(high - third):
            low += third
        else:
            high -= third
    return (low + high) / 2


def _missed(half: PairMatches, held_out: PairMatches, drift: float, middle: int) -> float:
    """Return how far what one half says lies outside the bounds of the other (ns)."""
    low, high = _room(half, drift, middle)
    ahead = (low + high) / 2
    least, most = _room(held_out, drift, middle)
    return max(least - ahead, 0.0) + max(ahead - most, 0.0)


def _ends(matches: PairMatches) -> tuple[Ints, Ints]:
    """Return when both left what all wait for (the second clock's time), and how much later the second one (ns)."""
    both = matches.take(matches.waits & matches.other_waits)
    return both.other_end, both.other_end - both.end


def _drift_of_ends(matches: PairMatches, middle: int) -> float:
    """Return the drift that the ends show over a long recording; 0 if a half that is held out does not confirm it."""
    when, apart = _ends(matches)
    if len(when) < FEWEST_FOR_DRIFT or int(when.max() - when.min()) < LONG_NS:
        return 0.0
    order = np.argsort(when)
    when, apart = when[order], apart[order]
    drift = _usual_slope(when, apart)
    rest = apart - drift * (when - middle)
    if abs(drift) > MOST_DRIFT or abs(drift) * float(when[-1] - when[0]) <= SURELY * _spread(rest):
        return 0.0
    half = len(when) // 2
    early, late = slice(0, half), slice(half, None)
    slope = _usual_slope(when[early], apart[early])
    with_drift = apart - slope * (when - middle)
    better = _distance(with_drift[early], with_drift[late]) < _distance(apart[early], apart[late])
    return drift if better else 0.0


def _usual_slope(when: Ints, apart: Ints) -> float:
    """Return the median of slopes between the two halves (Theil and Sen)."""
    half = len(when) // 2
    run = (when[-half:] - when[:half]).astype(np.float64)
    rise = apart[-half:] - apart[:half]
    return float(np.median(rise[run > 0] / run[run > 0])) if (run > 0).any() else 0.0


def _distance(known: Ints | Floats, held_out: Ints | Floats) -> float:
    return float(np.median(np.abs(held_out - np.median(known))))


def _spread(values: Ints | Floats) -> float:
    return USUAL_TO_STANDARD * float(np.median(np.abs(values - np.median(values))))


def _without_impossible(matches: PairMatches, drift: float, middle: int) -> PairMatches:
    """Leave out, one by one, what makes most room; all stays where too many would have to go."""
    kept = matches
    for _ in range(max(1, len(matches) // DROPPED_SHARE)):
        low, high = _room(kept, drift, middle)
        if low <= high:
            return kept
        kept = max((kept.take(others) for others in _without_one(kept, drift, middle)), key=_RoomWith(drift, middle))
    low, high = _room(kept, drift, middle)
    return kept if low <= high else matches


@dataclass(frozen=True)
class _RoomWith:
    drift: float
    middle: int

    def __call__(self, matches: PairMatches) -> float:
        low, high = _room(matches, self.drift, self.middle)
        return high - low


def _without_one(matches: PairMatches, drift: float, middle: int) -> list[Bools]:
    """Return what remains without the meeting that sets the lower bound, and without that of the upper one."""
    least = np.where(
        matches.waits, matches.other_arrival - matches.end - drift * (matches.other_arrival - middle), NO_LOWER
    )
    most = np.where(
        matches.other_waits, matches.other_end - matches.arrival - drift * (matches.other_end - middle), NO_UPPER
    )
    every = np.arange(len(matches))
    return [every != least.argmax(), every != most.argmin()]


def _believed(matches: PairMatches, drift: float, middle: int) -> tuple[int, int]:
    """Return how far the second clock is ahead and how uncertain that is (ns): by ends or by bounds."""
    found: list[tuple[int, int]] = []
    low, high = _room(matches, drift, middle)
    when, apart = _ends(matches)
    if len(apart) >= FEWEST_ENDS:
        rest = apart - drift * (when - middle)
        usual = float(np.median(rest))
        # What physics excludes is not believed, however close together the ends are.
        allowed = min(max(usual, low), high) if low <= high else usual
        found.append((max(round(_spread(rest) + abs(allowed - usual)), LEAST_ERROR_NS), round(allowed)))
    if NO_LOWER < low <= high < NO_UPPER:
        found.append((round((high - low) / 2), round((high + low) / 2)))
    if found:
        error, ahead = min(found)
        return ahead, error
    # Of messages one way only one bound is known: no more is corrected than it asks for.
    return round(min(max(0.0, low), high)), UNKNOWN_ERROR


LENGTHS = (1, 2, 3, 5, 15, 16, 17, 40, 40, 60)


def pair_of(random: np.random.Generator) -> PairMatches:
    """Draw what two ranks did together: over a short or a long time, with drift, with some wrong partners."""
    count = int(random.choice(LENGTHS))
    step = int(random.choice([1_000, 3_000_000, 300_000_000]))
    begin = np.cumsum(random.integers(1, step + 1, count)) + int(random.choice([0, 1_700_000_000 * 10**9]))
    came, other_arrival = (begin + random.integers(0, step // 2 + 1, count) for _ in range(2))
    end = np.maximum(came, other_arrival) + step // 4
    scatter = int(random.choice([10_000, step // 8]))
    left, other_end = (end + random.integers(-scatter, scatter + 1, count) for _ in range(2))
    ahead = int(random.choice([0, 30_000, -7_000_000]))
    drift = float(random.choice([0.0, 80e-6, -290e-6, 150e-6]))
    wrong = random.random(count) < random.choice([0.0, 0.06, 0.5])
    moved = [
        times + ahead + np.rint(drift * (times - begin[0])).astype(np.int64) + wrong * 5 * step
        for times in (other_arrival, other_end)
    ]
    share = random.choice([1.0, 0.7, 0.0])
    waits, other_waits = (random.random(count) <= share for _ in range(2))
    return PairMatches(np.arange(count) * 3, came, left, waits, moved[0], moved[1], other_waits)


@for_all(st.integers(0, 1 << 32), examples=400)
def test_pairs_compared_at_once_are_those_compared_alone(seed: int) -> None:
    random = np.random.default_rng(seed)
    every = [pair_of(random) for _ in range(8)]
    ranks = np.arange(len(every))
    pair = np.repeat(ranks, [len(met) for met in every])
    evidence = ClockEvidence(ranks, ranks + 1, pair, PairMatches.join(every))
    found, fits = pair_clocks(evidence)
    low, high = offset_bounds(evidence)
    for at, met in enumerate(every):
        alone = pair_clock(met)
        one = found[at]
        assert (one.line, one.error, one.match_count, one.allows_zero) == (
            *(alone.line, alone.error),
            *(alone.match_count, alone.allows_zero),
        )
        assert evidence.matches.number[(pair == at) & ~fits].tolist() == list(alone.impossible)
        assert (low[at], high[at]) == gap_of_bounds(met)
