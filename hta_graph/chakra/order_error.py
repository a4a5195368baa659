"""Why a rank's nodes cannot be put in an order, in words that name them."""

from __future__ import annotations

from hta_graph.chakra.topological_order import cycle_text, find_cycle
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.errors import HtaGraphError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.multi_rank.matching.agreeing_shifts import CollectiveError

__all__ = ["CycleError", "cycle_error"]


class CycleError(HtaGraphError):
    """Nodes wait for themselves, through each other."""


def cycle_error(graph: DependencyGraph, nodes: Nodes, chained: Nodes) -> HtaGraphError:
    """Return the error that names the nodes that wait for each other, and says what closes their circle.

    Args:
        graph: where the nodes come from.
        nodes: a rank's nodes by themselves.
        chained: the same, their collectives in the one order of all ranks.
    """
    if circle := find_cycle(nodes.source, nodes.target, len(nodes)):
        return CycleError(f"{graph.path}: nodes wait for each other in a circle: {_cycle_names(graph, nodes, circle)}")
    circle = find_cycle(chained.source, chained.target, len(chained))
    return CollectiveError(
        f"{graph.path}: the one order in which all ranks issue their collectives contradicts what this rank waited "
        f"for, and a simulated rank does one at a time: {_cycle_names(graph, chained, circle)}"
    )


def _cycle_names(graph: DependencyGraph, nodes: Nodes, circle: list[int]) -> str:
    rows = [int(nodes.row[at]) for at in circle]
    return cycle_text([f"{graph.name_of(row)[:30]!r} (event {graph.event_table.index[row]})" for row in rows])
