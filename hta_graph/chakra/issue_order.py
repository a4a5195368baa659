"""The order in which nodes are issued: that in which they are due, and never before what they depend on."""

from __future__ import annotations

import numpy as np

from hta_graph.chakra.topological_order import dependencies_first
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.model import Ints

__all__ = ["issue_order"]


def issue_order(nodes: Nodes, due: Ints | None = None) -> Ints:
    """Return the nodes in the order in which they were issued; simulators give a free slot to the lowest number.

    That is the order of ``due`` (ns), by default of their starts, and of launches where these are equal. Where a node
    would come before one that it depends on (clocks that disagree, collectives put into another order) it is issued
    right after that one. Nodes that wait for themselves through others are left out.
    """
    order = np.lexsort((nodes.issued, nodes.start if due is None else due))
    return dependencies_first(order, nodes.source, nodes.target)
