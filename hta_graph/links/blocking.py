"""What the three synchronising rules share: edges from what streams hold at a moment to the return of a call."""

from __future__ import annotations

import numpy as np

from hta_graph.links.context import LinkContext
from hta_graph.links.edges import EdgeTable
from hta_graph.model import CLOCK_FAULT_LIMIT_NS, EdgeKind, Ids, Ints, Rule
from hta_graph.timeline import end_point

__all__ = ["edges_to_return"]


def edges_to_return(context: LinkContext, kind: EdgeKind, call: Ids, lane: Ids, place: Ints) -> EdgeTable:
    """Link all that ``lane`` held at ``place`` to the return of ``call``; rows without a call are counted."""
    known = call >= 0
    context.notes["sync_records_without_call"] += int(np.count_nonzero(~known))
    call, lane, place = call[known], lane[known], place[known]
    deadline = context.trace.events.end[call] + CLOCK_FAULT_LIMIT_NS
    captured = context.waits.captured(lane, place, deadline)
    pairs = np.stack([end_point(call[captured.query]), end_point(captured.activity)])
    pairs = np.unique(pairs, axis=1) if pairs.size else pairs
    return EdgeTable.of(kind, pairs[1], pairs[0], Rule.RECORDED)
