"""execution: an activity ends after it starts."""

from __future__ import annotations

from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind

__all__ = ["execution"]


def execution(context: RuleContext) -> EdgeTable:
    """Link the start of each GPU activity to its end."""
    rows = context.activities
    return EdgeTable.of_kind(EdgeKind.EXECUTION, start_point(rows), end_point(rows))
