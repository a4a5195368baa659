"""Families of step lengths that equal programs have: shares of the usual step, of as many steps as are asked for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hta_graph.model import Floats

Family = Callable[[np.random.Generator, int], Floats]


def independent(spread: float) -> Family:
    """Normal noise."""
    return lambda rng, count: 1 + rng.normal(0, spread, count)


def resembling(likeness: float, spread: float) -> Family:
    """Each step resembles the one before (AR(1))."""

    def drawn(rng: np.random.Generator, count: int) -> Floats:
        found = rng.normal(0, spread, count)
        for at in range(1, count):
            found[at] = likeness * found[at - 1] + np.sqrt(1 - likeness**2) * found[at]
        return 1 + found

    return drawn


def in_bursts(rng: np.random.Generator, count: int) -> Floats:
    """About every tenth step a load begins that makes three steps, on average, 10% longer."""
    found, at = 1 + rng.normal(0, 0.01, count), 0
    while at < count:
        at += int(rng.geometric(0.1))
        last = at + int(rng.geometric(1 / 3))
        found[at:last] *= 1.1
        at = last
    return found


def hanging(rng: np.random.Generator, count: int) -> Floats:
    """A step of eight hangs for half a step, at least one of each run."""
    while True:
        hang = rng.random(count) < 1 / 8
        if hang.any():
            return 1 + rng.normal(0, 0.01, count) + 0.5 * hang


def skewed(rng: np.random.Generator, count: int) -> Floats:
    """A long tail: exponential noise."""
    return 1 + rng.exponential(0.05, count)


FAMILIES: dict[str, Family] = {
    "independent, 1%": independent(0.01),
    "independent, 3%": independent(0.03),
    "AR(1) of 0.3": resembling(0.3, 0.01),
    "AR(1) of 0.6": resembling(0.6, 0.01),
    "bursts": in_bursts,
    "hangs on both sides": hanging,
    "skewed": skewed,
}
