"""Topological order of numbered nodes, and the cycle where there is none."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from hta_graph.model import Ints

MAX_NAMED = 4
"""Number of nodes of a cycle that are named."""


def find_cycle(source: Ints, target: Ints, size: int) -> list[int]:
    """Return numbers of which each waits for the next, and the last for the first, the lowest; none without a circle.

    >>> find_cycle(np.array([0, 3, 1, 2]), np.array([1, 1, 2, 3]), 4)
    [1, 3, 2]
    """
    if (source < target).all():
        return []
    # What cannot be put in order is in a circle or behind one: going back along what is waited for leads into it.
    stuck = np.ones(size, np.bool_)
    stuck[topological_order(source, target, size)] = False
    if not stuck.any():
        return []
    among = stuck[source] & stuck[target]
    before = np.full(size, -1, np.int64)
    before[target[among]] = source[among]
    at, seen = int(np.flatnonzero(stuck & (before >= 0))[0]), dict[int, int]()
    while at not in seen:
        seen[at] = len(seen)
        at = int(before[at])
    circle = [node for node, place in seen.items() if place >= seen[at]]
    lowest = circle.index(min(circle))
    return circle[lowest:] + circle[:lowest]


def cycle_text(names: Sequence[str]) -> str:
    """Say of nodes, of which each waits for the next and the last for the first, who waits for whom.

    >>> cycle_text(["a", "b"])
    'a waits for b, which waits for a'
    """
    more = len(names) - MAX_NAMED
    others = f", … ({more:,} more)" if more > 0 else ""
    named = ", which waits for ".join(names[1:MAX_NAMED])
    return f"{names[0]} waits for {named}{others}, which waits for {names[0]}"


def dependencies_first(wanted: Ints, source: Ints, target: Ints) -> Ints:
    """Return numbers in the wanted order, but each behind what it depends on; what waits for itself is left out.

    >>> dependencies_first(np.array([2, 1, 0]), np.array([0]), np.array([2])).tolist()
    [1, 0, 2]
    """
    place = np.empty(len(wanted), np.int64)
    place[wanted] = np.arange(len(wanted))
    # Clocks nearly always agree, and then there is nothing to put right.
    if (place[source] < place[target]).all():
        return wanted
    return wanted[topological_order(place[source], place[target], len(wanted))]


def topological_order(source: Ints, target: Ints, size: int) -> Ints:
    """Sort numbers so that sources come first, else ascending; what waits for itself is left out."""
    by_source = np.argsort(source, kind="stable")
    first = np.searchsorted(source[by_source], np.arange(size + 1)).tolist()
    followers = target[by_source].tolist()
    waits = np.bincount(target, minlength=size).tolist()
    ready = [at for at, count in enumerate(waits) if not count]
    order = []
    while ready:
        at = heapq.heappop(ready)
        order.append(at)
        for follower in followers[first[at] : first[at + 1]]:
            waits[follower] -= 1
            if not waits[follower]:
                heapq.heappush(ready, follower)
    return np.array(order, np.int64)
