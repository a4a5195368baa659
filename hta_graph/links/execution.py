"""execution: an activity ends after it starts."""

from __future__ import annotations

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind
from hta_graph.timeline import end_point, start_point

__all__ = ["execution"]


def execution(context: LinkContext) -> EdgeTable:
    """Link the start of each GPU activity to its end."""
    rows = context.activities
    return EdgeTable.of(EdgeKind.EXECUTION, start_point(rows), end_point(rows))
