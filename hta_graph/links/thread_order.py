"""thread_order: one thread does one thing at a time."""

from __future__ import annotations

import numpy as np

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind

__all__ = ["thread_order"]


def thread_order(context: LinkContext) -> EdgeTable:
    """Link each point of a CPU thread to the next one there; the chain of points encodes the nesting."""
    points = context.timeline.calls.points
    lane = context.trace.events.lane[points >> 1]
    same = np.flatnonzero(lane[1:] == lane[:-1])
    return EdgeTable.of(EdgeKind.THREAD_ORDER, points[same], points[same + 1])
