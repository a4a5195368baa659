"""blocking_copy: some copies hold their call until the data has arrived."""

from __future__ import annotations

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.timeline import end_point
from hta_graph.trace.vocabulary import COPY_TO_HOST, PAGEABLE_OR_UNKNOWN_HOST, SYNCHRONOUS_COPY_CALL

__all__ = ["blocking_copy"]


def blocking_copy(context: LinkContext) -> EdgeTable:
    """Link the end of a copy to the return of its call where direction, host kind and timing say that it blocks.

    A copy to pageable (or unnamed) host memory blocks even when the call is asynchronous: 26,066 of 26,087 such calls
    in public traces return after the copy. Other directions may block only where the call has no ``Async`` in its name.
    The call must return after the copy's end.
    """
    trace = context.trace
    is_copy = trace.events.kind[context.activities] == EventKind.MEMCPY
    copies, calls = context.activities[is_copy], context.launch_call[is_copy]
    copies, calls = copies[calls >= 0], calls[calls >= 0]
    name, call_name = trace.events.name[copies], trace.events.name[calls]
    to_host = trace.matching_names(COPY_TO_HOST)[name] & trace.matching_names(PAGEABLE_OR_UNKNOWN_HOST)[name]
    may_block = to_host | trace.matching_names(SYNCHRONOUS_COPY_CALL)[call_name]
    blocks = may_block & (trace.events.end[copies] <= trace.events.end[calls])
    return EdgeTable.of(
        EdgeKind.BLOCKING_COPY, end_point(copies[blocks]), end_point(calls[blocks]), Rule.COPY_DIRECTION_AND_TIMING
    )
