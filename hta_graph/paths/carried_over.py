"""When work was issued: what a window meets of earlier work is carried over into it."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import EdgeKind, Ints

__all__ = ["issue_times"]


@memoized
def issue_times(graph: DependencyGraph) -> Ints:
    """Return when (ns) each event was issued: when its launching call began, or it itself if that was earlier."""
    issued = graph.event_table.start.copy()
    launches = graph.edges_of(EdgeKind.LAUNCH)
    np.minimum.at(issued, launches.target, launches.source_ns)
    return freeze(issued)
