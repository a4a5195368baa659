"""Which points can be reached along edges, and by which shortest path."""

from __future__ import annotations

import numpy as np

from hta_graph.graph.edges import EdgeTable
from hta_graph.model import Bools, Ids, Ints


def reachable(edges: EdgeTable, point_count: int, points: Ids, *, backward: bool) -> Bools:
    """Mark the points that lie behind some points along the edges, or before them, themselves included."""
    sides = (edges.target, edges.source) if backward else (edges.source, edges.target)
    start, neighbour = _neighbours_by_point(*sides, point_count)
    seen = np.zeros(point_count, np.bool_)
    seen[points] = True
    stack = points.tolist()
    # An own stack: a chain of a million points would be as many nested calls.
    while stack:
        point = stack.pop()
        for near in neighbour[start[point] : start[point + 1]].tolist():
            if not seen[near]:
                seen[near] = True
                stack.append(near)
    return seen


def shortest_path(edges: EdgeTable, point_count: int, source: int, target: int) -> Ints:
    """Return the edges of a path with the fewest edges from one point to another, in order; none if there is no way.

    The search goes breadth first, one layer of edges at a time; ``came_by`` is the edge that first reached a point.
    """
    came_by = np.full(point_count, -1, np.int64)
    seen = np.zeros(point_count, np.bool_)
    seen[source] = True
    frontier = np.array([source])
    start, edge_rows = _neighbours_by_point(edges.source, np.arange(len(edges), dtype=np.int32), point_count)
    while len(frontier) and not seen[target]:
        # All edges out of this layer; of several into one point the first counts.
        rows = np.concatenate([edge_rows[start[point] : start[point + 1]] for point in frontier.tolist()])
        rows = rows[~seen[edges.target[rows]]]
        reached, first = np.unique(edges.target[rows], return_index=True)
        came_by[reached], seen[reached] = rows[first], True
        frontier = reached
    # Back from the target, by the edge that first reached each point.
    path: list[int] = []
    while seen[target] and target != source:
        path.append(int(came_by[target]))
        target = int(edges.source[path[-1]])
    return np.array(path[::-1], np.int64)


def _neighbours_by_point(side: Ids, other: Ids, point_count: int) -> tuple[Ints, Ids]:
    """Return where each point's neighbors begin, and all neighbors point by point."""
    order = np.argsort(side, kind="stable")
    return np.searchsorted(side[order], np.arange(point_count + 1)), other[order]
