"""The entries of a cache: which there are, and what may happen to them: cut, changed bit by bit, swapped, emptied."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from hta_graph.store.entry_file import read_entry

Damage = Callable[[list[Path], random.Random], object]


def entries(folder: Path, kind: str | None = None) -> list[Path]:
    """Return the files of the entries of a kind, or of all."""
    found = sorted(folder.glob("*.hta-graph"))
    return found if kind is None else [path for path in found if kind_of(path) == kind]


def kind_of(path: Path) -> str:
    """Return what kind of entry a file is."""
    return str(read_entry(path.stem, path.read_bytes()).record["kind"])


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


def emptied(found: list[Path], rng: random.Random) -> None:
    """Leave nothing in one entry."""
    rng.choice(found).write_bytes(b"")
