"""Numbers in an order in which what others depend on comes first, and those for which there is none."""

from __future__ import annotations

import heapq

import numpy as np

from hta_graph.model import Ints

__all__ = ["causes_first", "first_in_cycle", "topological_order"]


def first_in_cycle(source: Ints, target: Ints, size: int) -> int:
    """Return a node that waits for itself through others, the lowest of its circle; -1 if there is none."""
    if (source < target).all():
        return -1
    # What cannot be put in order is in a circle or behind one: going back along what is waited for leads into it.
    stuck = np.ones(size, np.bool_)
    stuck[topological_order(source, target, size)] = False
    if not stuck.any():
        return -1
    among = stuck[source] & stuck[target]
    before = np.full(size, -1, np.int64)
    before[target[among]] = source[among]
    at, seen = int(np.flatnonzero(stuck & (before >= 0))[0]), dict[int, int]()
    while at not in seen:
        seen[at] = len(seen)
        at = int(before[at])
    return min(node for node, place in seen.items() if place >= seen[at])


def causes_first(wanted: Ints, source: Ints, target: Ints) -> Ints:
    """Sort numbers by their wanted places, but each behind what it depends on; what waits for itself is left out.

    >>> causes_first(np.array([30, 20, 10]), np.array([0]), np.array([2])).tolist()
    [1, 0, 2]
    """
    order = np.argsort(wanted, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    # Clocks nearly always agree, and then there is nothing to put right.
    if (place[source] < place[target]).all():
        return order
    return order[topological_order(place[source], place[target], len(order))]


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
