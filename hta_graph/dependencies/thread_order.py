"""thread_order: one thread does one thing at a time."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import first_of_runs
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import event_of
from hta_graph.model import EdgeKind

__all__ = ["thread_order"]


def thread_order(context: RuleContext) -> EdgeTable:
    """Link each point of a CPU thread to the next one there; the chain of points encodes the nesting."""
    points = context.timeline.calls.points
    # Points stand thread by thread: every one but a thread's first follows the one before it.
    same = np.flatnonzero(~first_of_runs(context.trace.events.lane[event_of(points)])) - 1
    return EdgeTable.of_kind(EdgeKind.THREAD_ORDER, points[same], points[same + 1])
