"""The rules: each is a function from what the trace shows to edges of one kind, vectorised.

To add an edge kind: a member of ``EdgeKind`` with its row in ``EDGE_MEANING``, a rule of its name, a line in
:data:`DEFAULT_RULES`, and its test.
"""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.graph.edges import EdgeTable
from hta_graph.links.context import LinkContext
from hta_graph.links.rules import (
    blocking_copy,
    device_sync,
    event_sync,
    event_wait,
    execution,
    forward_backward,
    graph_order,
    host_poll,
    launch,
    queue_full,
    runtime_lock,
    stream_order,
    stream_sync,
    thread_handoff,
    thread_order,
)

__all__ = ["DEFAULT_RULES", "LinkContext", "LinkRule"]

LinkRule = Callable[[LinkContext], EdgeTable]

DEFAULT_RULES: tuple[LinkRule, ...] = (
    thread_order.thread_order,
    execution.execution,
    launch.launch,
    stream_order.stream_order,
    graph_order.graph_order,
    event_wait.event_wait,
    stream_sync.stream_sync,
    device_sync.device_sync,
    event_sync.event_sync,
    blocking_copy.blocking_copy,
    thread_handoff.thread_handoff,
    forward_backward.forward_backward,
    runtime_lock.runtime_lock,
    queue_full.queue_full,
    host_poll.host_poll,
)
"""The rules in the order of their edges in a graph; each makes the edges of the kind that it is named after."""
