"""Delays of ranks: what each does more than the others."""

from __future__ import annotations

import numpy as np
import pytest

from hta_graph.model import Floats, Ints
from hta_graph.multi_rank.rank_delays import _median_of_others, _most_of_others


def medians_one_by_one(values: Floats | Ints) -> Floats:
    columns = range(values.shape[1])
    return np.stack([np.median(np.delete(values, at, axis=1), axis=1) for at in columns], axis=1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 32, 33])
def test_the_median_of_the_others_is_that_of_all_but_one(ranks: int) -> None:
    rng = np.random.default_rng(ranks)
    for values in (rng.integers(0, 3, (6, ranks)), rng.integers(0, 10**15, (6, ranks)), rng.normal(0, 1e9, (6, ranks))):
        assert np.array_equal(_median_of_others(values), medians_one_by_one(values))
        most = [np.delete(values, at, axis=1).max(axis=1) for at in range(ranks)]
        assert np.array_equal(_most_of_others(values), np.stack(most, axis=1).astype(np.float64))
