"""The rules: each is a function from what the trace shows to edges of one kind, vectorised.

To add an edge kind: a member of ``EdgeKind`` with its row in ``EDGE_MEANING``, a rule of its name, a line in
:data:`DEFAULT_RULES`, and its test.
"""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.dependencies import (
    blocking_copy,
    device_sync,
    event_sync,
    event_wait,
    execution,
    forward_backward,
    graph_order,
    host,
    host_poll,
    launch,
    runtime_lock,
    stream_order,
    stream_sync,
    streams,
    thread_order,
)
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable

__all__ = ["DEFAULT_RULES", "RuleContext", "DependencyRule"]

DependencyRule = Callable[[RuleContext], EdgeTable]

DEFAULT_RULES: tuple[DependencyRule, ...] = (
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
    host.thread_handoff,
    forward_backward.forward_backward,
    runtime_lock.runtime_lock,
    streams.queue_full,
    host_poll.host_poll,
)
"""The rules in the order of their edges in a graph; each makes the edges of the kind that it is named after."""
