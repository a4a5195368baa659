"""The rules that find the edges of a graph: each is a function from what a trace shows to edges of one kind.

To add an edge kind: a member of ``EdgeKind`` with its row in ``EDGE_MEANING``, a rule of its name, a line in
:data:`DEFAULT_RULES`, and its test.
"""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.dependencies import host, streams, synchronization
from hta_graph.dependencies.context import RuleContext
from hta_graph.graph.edges import EdgeTable

DependencyRule = Callable[[RuleContext], EdgeTable]

DEFAULT_RULES: tuple[DependencyRule, ...] = (
    host.thread_order,
    streams.execution,
    streams.launch,
    streams.stream_order,
    streams.graph_order,
    streams.event_wait,
    synchronization.stream_sync,
    synchronization.device_sync,
    synchronization.event_sync,
    synchronization.blocking_copy,
    host.thread_handoff,
    host.forward_backward,
    host.runtime_lock,
    streams.queue_full,
    synchronization.host_poll,
)
"""The rules in the order of their edges in a graph; each makes the edges of the kind that it is named after."""
