"""blocking_copy: some copies hold their call until the data has arrived."""

from __future__ import annotations

from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.held_calls import blocking_copies
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point
from hta_graph.model import EdgeKind, Rule

__all__ = ["blocking_copy"]


def blocking_copy(context: RuleContext) -> EdgeTable:
    """Link the end of a copy to the return of its call where direction, host kind and timing say that it blocks."""
    copies, calls = blocking_copies(context)
    return EdgeTable.of_kind(
        EdgeKind.BLOCKING_COPY, end_point(copies), end_point(calls), Rule.COPY_DIRECTION_AND_TIMING
    )
