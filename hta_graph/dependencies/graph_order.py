"""graph_order: a graph launch is one piece of work in its launching stream."""

from __future__ import annotations

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import EdgeKind, Ids, Ints, Rule

__all__ = ["graph_order"]


def graph_order(context: RuleContext) -> EdgeTable:
    """Link a stream's earlier work to the first rows of a graph launched on it, and its last rows to the later work.

    Where both rows show on one stream, stream order says so already.
    """
    queues = context.queues
    item = np.flatnonzero(queues.item_lane[1:] == queues.item_lane[:-1]) + 1
    # Only pairs of items that show on more than one stream need more than stream order says.
    crosses = (np.diff(queues.heads.first)[item] > 1) | (np.diff(queues.tails.first)[item - 1] > 1)
    crosses |= _stream_of_first_row(context, item) != _stream_of_first_row(context, item - 1)
    item = item[crosses]
    pair, head = queues.heads.expand(item)
    which, tail = queues.tails.expand(item[pair] - 1)
    head = head[which]
    lane = context.trace.events.lane
    across = lane[tail] != lane[head]
    source, target = end_point(tail[across]), start_point(head[across])
    return EdgeTable.of_kind(EdgeKind.GRAPH_ORDER, source, target, Rule.GRAPH_IN_LAUNCHING_STREAM)


def _stream_of_first_row(context: RuleContext, item: Ints) -> Ids:
    heads = context.queues.heads
    lane: Ids = context.trace.events.lane[heads.members[heads.first[item]]]
    return lane
