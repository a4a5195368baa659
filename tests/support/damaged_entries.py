"""What may happen to the entries of a cache: cut, changed bit by bit, put into each other's place."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

Damage = Callable[[list[Path], random.Random], object]


def truncated(found: list[Path], rng: random.Random) -> None:
    """Cut one entry anywhere."""
    path = rng.choice(found)
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def flipped(found: list[Path], rng: random.Random) -> None:
    """Turn over one or more bits of an entry."""
    path = rng.choice(found)
    raw = bytearray(path.read_bytes())
    for _ in range(rng.choice((1, 1, 8))):
        raw[rng.randrange(len(raw))] ^= 1 << rng.randrange(8)
    path.write_bytes(raw)


def swapped(found: list[Path], rng: random.Random) -> None:
    """Put two entries into each other's place."""
    one, other = rng.sample(found, 2)
    first = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(first)
