"""All pairs of clocks compared at once say what each pair compared on its own says, to the last bit."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from hta_graph.multi_rank.matching.pair_clocks import ClockEvidence, PairMatches, offset_bounds, pair_clocks
from tests.support.deep_tests import for_all
from tests.support.reference_clock_offset import gap_of_bounds, pair_clock

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
