"""One file per reason to wait: a function from what the trace shows to edges, vectorised.

To add a reason: a member of ``EdgeKind``, a file here, a line in :data:`DEFAULT_RULES`.
"""

from __future__ import annotations

from collections.abc import Callable

from hta_graph.graph.edges import EdgeTable
from hta_graph.links.context import LinkContext
from hta_graph.links.rules.blocking_copy import blocking_copy
from hta_graph.links.rules.device_sync import device_sync
from hta_graph.links.rules.event_sync import event_sync
from hta_graph.links.rules.event_wait import event_wait
from hta_graph.links.rules.execution import execution
from hta_graph.links.rules.forward_backward import forward_backward
from hta_graph.links.rules.graph_order import graph_order
from hta_graph.links.rules.host_poll import host_poll
from hta_graph.links.rules.launch import launch
from hta_graph.links.rules.queue_full import queue_full
from hta_graph.links.rules.runtime_lock import runtime_lock
from hta_graph.links.rules.stream_order import stream_order
from hta_graph.links.rules.stream_sync import stream_sync
from hta_graph.links.rules.thread_handoff import thread_handoff
from hta_graph.links.rules.thread_order import thread_order

__all__ = ["DEFAULT_RULES", "EdgeTable", "LinkContext", "LinkRule"]

LinkRule = Callable[[LinkContext], EdgeTable]

DEFAULT_RULES: tuple[LinkRule, ...] = (
    thread_order,
    execution,
    launch,
    stream_order,
    graph_order,
    event_wait,
    stream_sync,
    device_sync,
    event_sync,
    blocking_copy,
    thread_handoff,
    forward_backward,
    runtime_lock,
    queue_full,
    host_poll,
)
"""The rules in the order of their edges in a graph."""
