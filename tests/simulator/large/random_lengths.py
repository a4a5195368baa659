"""Lengths that differ from rank to rank, the same whichever ranks are asked for together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Draw:
    """A number of nanoseconds between two, by seed, place in the program and rank; one rank may have more."""

    seed: int
    number: int
    low: int
    high: int
    more_on: int = -1
    more_ns: int = 0

    def of(self, ranks: Ints) -> Ints:
        """Return each rank's number.

        >>> draw = Draw(seed=1, number=2, low=10, high=20, more_on=5, more_ns=100)
        >>> draw.of(np.arange(8))[3:6].tolist() == draw.of(np.arange(3, 6)).tolist()
        True
        >>> int(draw.of(np.array([5]))[0]) >= 110
        True
        """
        drawn = _mixed(ranks.astype(np.uint64) + np.uint64(_mixed_one(self.seed, self.number)))
        span = np.uint64(self.high - self.low + 1)
        return (drawn % span).astype(np.int64) + self.low + np.where(ranks == self.more_on, self.more_ns, 0)


def drawn(value: int | Draw, ranks: Ints) -> Any:
    """Return a length that may be the same on all ranks, or one for each."""
    return value.of(ranks) if isinstance(value, Draw) else value


def _mixed_one(seed: int, number: int) -> int:
    return int(_mixed(np.array([seed * 1_000_003 + number + 1], np.uint64))[0])


def _mixed(keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return what splitmix64 makes of numbers: neighbours have nothing in common."""
    with np.errstate(over="ignore"):
        mixed = keys * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
