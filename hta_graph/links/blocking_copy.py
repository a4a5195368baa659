"""blocking_copy: some copies hold their call until the data has arrived."""

from __future__ import annotations

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import EdgeKind, EventKind, Rule
from hta_graph.timeline import end_point
from hta_graph.trace.vocabulary import COPY_HELD_BY_SYNCHRONOUS_CALL, COPY_TO_PAGEABLE, SYNCHRONOUS_COPY_CALL

__all__ = ["blocking_copy"]


def blocking_copy(context: LinkContext) -> EdgeTable:
    """Link the end of a copy to the return of its call where direction, host kind and timing say that it blocks.

    A copy to pageable (or unnamed) host memory blocks even when the call is asynchronous: 26,066 of 26,087 such calls
    in public traces return after the copy. A call without ``Async`` in its name also waits for copies from and to
    pinned memory; from pageable memory it returns when the data is staged. The call must return after the copy's end.
    """
    trace = context.trace
    is_copy = trace.events.kind[context.activities] == EventKind.MEMCPY
    copies, calls = context.activities[is_copy], context.launch_call[is_copy]
    copies, calls = copies[calls >= 0], calls[calls >= 0]
    name, call_name = trace.events.name[copies], trace.events.name[calls]
    is_synchronous = trace.names_starting_with(SYNCHRONOUS_COPY_CALL)[call_name]
    may_block = trace.names_starting_with(COPY_TO_PAGEABLE)[name]
    may_block |= is_synchronous & trace.names_starting_with(COPY_HELD_BY_SYNCHRONOUS_CALL)[name]
    blocks = may_block & (trace.events.end[copies] <= trace.events.end[calls])
    return EdgeTable.of(
        EdgeKind.BLOCKING_COPY, end_point(copies[blocks]), end_point(calls[blocks]), Rule.COPY_DIRECTION_AND_TIMING
    )
