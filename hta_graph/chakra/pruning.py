"""Nodes taken out of a graph, and what followed them linked to what they followed."""

from __future__ import annotations

import numpy as np

from hta_graph.chakra.issue_order import issue_order
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.model import Bools

__all__ = ["remove_nodes"]

Frontier = dict[int, int]
"""Per thread or stream the last kept node that something waits for: that one's predecessors there are implied."""


def remove_nodes(nodes: Nodes, removed: Bools) -> Nodes:
    """Take nodes out; what depended on one depends on what that one depended on, directly or through others."""
    if not removed.any():
        return nodes
    behind = _frontiers_behind(nodes, removed)
    touched = removed[nodes.source] & ~removed[nodes.target]
    bridges = [
        (before, after)
        for gone, after in zip(nodes.source[touched].tolist(), nodes.target[touched].tolist(), strict=True)
        for before in behind[gone].values()
    ]
    pairs = np.array(bridges, np.int64).reshape(-1, 2)
    return nodes.with_dependencies((pairs[:, 0], pairs[:, 1])).select(~removed)


def _frontiers_behind(nodes: Nodes, removed: Bools) -> dict[int, Frontier]:
    """Find what each removed node waits for among those that stay, in the order in which they were issued."""
    # Of what a removed node waits for on one thread or stream only the last node counts: the others come before it
    # there. So a frontier has at most one node per lane, however long the removed stretch is.
    into = removed[nodes.target]
    source, target = nodes.source[into], nodes.target[into]
    first = np.searchsorted(target, np.arange(len(nodes) + 1)).tolist()
    before, lane, gone = source.tolist(), nodes.lane.tolist(), removed.tolist()
    order = issue_order(nodes)
    found: dict[int, Frontier] = {}
    for node in order[removed[order]].tolist():
        frontier: Frontier = {}
        for earlier in before[first[node] : first[node + 1]]:
            if not gone[earlier]:
                _advance_frontier(frontier, lane[earlier], earlier)
            elif not frontier:
                # Alone behind another removed node: the same frontier, shared rather than copied.
                frontier = found[earlier] if first[node + 1] - first[node] == 1 else dict(found[earlier])
            else:
                for where, other in found[earlier].items():
                    _advance_frontier(frontier, where, other)
        found[node] = frontier
    return found


def _advance_frontier(frontier: Frontier, lane: int, node: int) -> None:
    if frontier.get(lane, -1) < node:
        frontier[lane] = node
