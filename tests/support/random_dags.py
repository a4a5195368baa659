"""Random weighted graphs without cycles, as longest paths take them, and a plain loop that finds the same paths."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np
from hypothesis import assume

from hta_graph.what_if.longest_paths import LongestPaths

__all__ = ["Edge", "as_paths", "random_edges", "random_paths", "reference_values"]

Edge = tuple[int, int, int]
"""From which point to which, and how far (ns)."""


def random_edges(rng: random.Random, points: int) -> list[Edge]:
    """Make edges that lead from lower to higher numbers: chains, as on lanes, and others across."""
    edges = [(at, at + 1, rng.randint(-2, 9)) for at in range(points - 1) if rng.random() < 0.7]
    for _ in range(rng.randint(0, 2 * points)):
        source, target = sorted(rng.sample(range(points), 2))
        edges.append((source, target, rng.randint(-2, 9)))
    rng.shuffle(edges)
    return edges


def as_paths(
    edges: Sequence[Edge], points: int, place: np.ndarray | None = None, preferred: np.ndarray | None = None
) -> tuple[LongestPaths, np.ndarray]:
    """Return the shape of edges and their weights."""
    source, target, weight = np.array(edges, np.int64).reshape(-1, 3).T
    order = np.arange(points, dtype=np.int32)
    paths = LongestPaths(
        source.astype(np.int32), target.astype(np.int32), order, order if place is None else place,
        np.zeros(points, np.bool_), np.zeros(len(edges), np.bool_) if preferred is None else preferred,
    )  # fmt: skip
    return paths, weight


def random_paths(seed: int, points: int) -> tuple[random.Random, list[Edge], np.ndarray, LongestPaths, np.ndarray]:
    """Make edges, of which there are some, the values of roots, and the shape and weights of the edges."""
    rng = random.Random(seed)
    edges = random_edges(rng, points)
    assume(edges)
    start = np.array([rng.randint(0, 20) for _ in range(points)])
    return rng, edges, start, *as_paths(edges, points)


def reference_values(edges: Sequence[Edge], start: Sequence[int]) -> list[int]:
    """Relax the edges in order of their targets; points without a cause keep their value."""
    caused = {target for _, target, _ in edges}
    values: list[int | None] = [None if at in caused else value for at, value in enumerate(start)]
    for at in range(len(start)):
        ends = [values[source] + weight for source, target, weight in edges if target == at]  # type: ignore[operator]
        if ends:
            values[at] = max(ends)
    return [value for value in values if value is not None]
