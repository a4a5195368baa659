"""The order in which nodes are issued: that of launches, and never before what they depend on."""

from __future__ import annotations

from hta_graph.export.chakra.simulator.dependency_order import causes_first
from hta_graph.export.chakra.workload.nodes import Nodes
from hta_graph.model import Ints

__all__ = ["issue_order"]


def issue_order(nodes: Nodes) -> Ints:
    """Return the nodes in the order in which they were issued; simulators give a free slot to the lowest number.

    Where a node would come before one that it depends on (clocks that disagree, collectives put into another order) it
    is issued right after that one. Nodes that wait for themselves through others are left out.
    """
    return causes_first(nodes.issued, nodes.source, nodes.target)
