"""By what steps of one program differ, as drawn for tests of noise."""

from __future__ import annotations

import numpy as np

from hta_graph.model import Floats


def normal(rng: np.random.Generator, count: int) -> Floats:
    """Draw what steps differ by at random."""
    return rng.normal(0, 1, count)


def skewed(rng: np.random.Generator, count: int) -> Floats:
    """Draw what is never short and sometimes long."""
    return np.exp(rng.normal(0, 0.5, count))


def with_hiccups(rng: np.random.Generator, count: int) -> Floats:
    """Draw what hangs once in ten times."""
    return rng.normal(0, 1, count) + 10 * (rng.random(count) < 0.1)
