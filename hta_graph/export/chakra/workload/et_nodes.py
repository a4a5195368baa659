"""A rank's nodes as protobuf messages: ids in the order of issue, delays as nodes, microseconds that add up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.export.chakra.files.schema import COLLECTIVES, NODE_TYPES, GlobalMetadata, Node
from hta_graph.export.chakra.simulator.simulated import COMMUNICATION, CPU
from hta_graph.export.chakra.workload.issue_order import issue_order
from hta_graph.export.chakra.workload.nodes import Nodes
from hta_graph.export.chakra.workload.replay_times import ReplayTimes
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, Ints

__all__ = ["DELAY", "SHORT_DELAY_NS", "Exchange", "Numbering", "metadata", "node_messages"]

DELAY = "[delay]"
"""The name of a node that stands for time in which its slot idled for no recorded reason."""

SHORT_DELAY_NS = 10_000
"""A longer delay is a node of its own; a shorter one (launch latency, a gap between kernels) is part of its node."""


Exchanges = Mapping[int, "Exchange"]
"""What each communication does, by its place among the nodes."""

Describe = Callable[[int, Any], None]
"""Adds what is known of an operator (canonical row, -1: none) to a node's message."""


@dataclass(frozen=True)
class Exchange:
    """A communication as the simulator needs it; ``group`` is the key of its group of ranks, ``duration`` in ns.

    ``tag`` is its number in its channel, so that simulators which pair by content pair the right ones.
    ``name`` is the node's, if not that of its event.
    """

    kind: str
    size: int
    group: str
    duration: int
    source: int = -1
    target: int = -1
    tag: int = 0
    name: str = ""


@dataclass(frozen=True)
class Numbering:
    """Ids from 1, in the order of issue: a node's own, and that of the delay before it (0: none)."""

    order: Ints
    node: Ints
    delay: Ints

    @classmethod
    def of(cls, nodes: Nodes, times: ReplayTimes) -> Numbering:
        """Number nodes and the delays that are nodes of their own."""
        order = issue_order(nodes)
        has_delay = times.delay > SHORT_DELAY_NS
        node, delay = np.empty(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        node[order] = np.arange(1, len(nodes) + 1) + np.cumsum(has_delay[order])
        delay[has_delay] = node[has_delay] - 1
        return cls(order, node, delay)


def metadata(**known: str | int) -> bytes:
    """Make a file's first message: text and whole numbers by name."""
    message = GlobalMetadata()
    for name, value in known.items():
        if isinstance(value, str):
            message.attr.add(name=name, string_val=value)
        else:
            message.attr.add(name=name, int64_val=value)
    return bytes(message.SerializeToString())


def node_messages(
    graph: DependencyGraph, nodes: Nodes, times: ReplayTimes, exchanges: Exchanges, describe: Describe
) -> Iterator[bytes]:
    """Yield a rank's nodes by ascending id.

    Args:
        graph: where they come from.
        nodes: what they are and what they wait for.
        times: how long they take.
        exchanges: what each communication (by its place) does.
        describe: adds inputs and outputs of an operator (canonical row, -1: none) to a message.
    """
    writer = _NodeWriter(graph, nodes, times, exchanges, describe)
    for at in writer.numbering.order.tolist():
        yield from writer.messages(at)


class _NodeWriter:
    """The columns of a rank's nodes as lists, and one method per kind of node."""

    def __init__(
        self,
        graph: DependencyGraph,
        nodes: Nodes,
        times: ReplayTimes,
        exchanges: Exchanges,
        describe: Describe,
    ) -> None:
        self.numbering = Numbering.of(nodes, times)
        self._exchanges, self._describe = exchanges, describe
        events = graph.event_table
        # Columns become lists at once, for nodes are written one by one and single elements of arrays are slow to read.
        own_delay = self.numbering.delay > 0
        delay_micros, work_micros = _rounded_microseconds(nodes, times, own_delay)
        self._id, self._delay_id = self.numbering.node.tolist(), self.numbering.delay.tolist()
        self._dependencies = self._ids_waited_for(nodes)
        self._slot, self._row, self._operator = nodes.slot.tolist(), nodes.row.tolist(), nodes.operator.tolist()
        names = [name.encode("utf-8", "replace").decode() for name in graph.names]
        self._name = [names[code] for code in events.name[nodes.row].tolist()]
        self._start, self._end = nodes.start.tolist(), nodes.end.tolist()
        self._delay, self._delay_micros, self._micros = (
            times.delay.tolist(),
            delay_micros.tolist(),
            work_micros.tolist(),
        )
        self._index = events.index[nodes.row].tolist()
        known = nodes.operator >= 0
        self._external = np.where(known, events.external_id[nodes.operator], -1).tolist()
        self._place = [_lane_numbers(graph, lane) for lane in range(len(graph.lanes.labels))]
        self._lane = nodes.lane.tolist()

    def _ids_waited_for(self, nodes: Nodes) -> list[list[int]]:
        """List the ids that each node waits for, ascending."""
        ids = self.numbering.node[nodes.source]
        order = np.lexsort((ids, nodes.target))
        ids = ids[order].tolist()
        first = np.searchsorted(nodes.target[order], np.arange(len(nodes) + 1)).tolist()
        return [ids[first[at] : first[at + 1]] for at in range(len(nodes))]

    def messages(self, at: int) -> Iterator[bytes]:
        """Yield a node, after the delay that is a node of its own."""
        sources, start = self._dependencies[at], self._start[at]
        if self._delay_id[at]:
            yield self._delay_message(at)
            sources = [*sources, self._delay_id[at]]
        node = Node(id=self._id[at], name=self._name[at], data_deps=sources, start_time_micros=max(start, 0) // 1000)
        on_cpu = self._slot[at] == CPU
        add = node.attr.add
        add(name="is_cpu_op", bool_val=on_cpu)
        if self._slot[at] == COMMUNICATION:
            self._add_exchange(node, self._exchanges[at])
        else:
            node.type = _COMPUTE
            node.duration_micros = self._micros[at]
            if self._delay[at] and not self._delay_id[at]:
                add(name="delay_nanos", int64_val=self._delay[at])
        add(name="start_nanos", int64_val=start)
        add(name="duration_nanos", int64_val=self._end[at] - start)
        for name, value in self._place[self._lane[at]]:
            add(name=name, int64_val=value)
        add(name="event_index", int64_val=self._index[at])
        if self._external[at] >= 0:
            add(name="external_id", int64_val=self._external[at])
        self._describe(self._operator[at], node)
        yield node.SerializeToString()

    def _delay_message(self, at: int) -> bytes:
        start = self._start[at] - self._delay[at]
        node = Node(
            id=self._delay_id[at], name=DELAY, type=_COMPUTE, data_deps=self._dependencies[at],
            start_time_micros=max(start, 0) // 1000, duration_micros=self._delay_micros[at],
        )  # fmt: skip
        node.attr.add(name="is_cpu_op", bool_val=self._slot[at] == CPU)
        node.attr.add(name="start_nanos", int64_val=start)
        node.attr.add(name="duration_nanos", int64_val=self._delay[at])
        return bytes(node.SerializeToString())

    @staticmethod
    def _add_exchange(node: Any, exchange: Exchange) -> None:
        node.name = exchange.name or node.name
        node.type = NODE_TYPES.get(f"COMM_{exchange.kind}_NODE", _COLLECTIVE)
        node.duration_micros = max((exchange.duration + 500) // 1000, 1)
        add = node.attr.add
        if node.type == _COLLECTIVE:
            add(name="comm_type", int64_val=COLLECTIVES[exchange.kind])
        add(name="comm_size", int64_val=exchange.size)
        add(name="pg_name", string_val=exchange.group)
        add(name="comm_tag", int32_val=exchange.tag)
        if exchange.source >= 0:
            add(name="comm_src", int32_val=exchange.source)
            add(name="comm_dst", int32_val=exchange.target)


_COMPUTE, _COLLECTIVE = NODE_TYPES["COMP_NODE"], NODE_TYPES["COMM_COLL_NODE"]


def _lane_numbers(graph: DependencyGraph, lane: int) -> list[tuple[str, int]]:
    """Name a node's thread or stream in numbers."""
    lanes = graph.lanes
    if lanes.is_stream[lane]:
        return [("device", int(lanes.device[lane])), ("stream", int(lanes.stream[lane]))]
    number = lanes.labels[lane].rpartition(":")[2]
    return [("tid", int(number))] if number.isdecimal() and len(number) < 19 else []


def _rounded_microseconds(nodes: Nodes, times: ReplayTimes, own_delay: Bools) -> tuple[Ints, Ints]:
    """Round each node's delay and work so that the sums along its thread or stream stay right."""
    # Rounded one by one, a million nodes of half a microsecond would be off by half a second: so their running sum
    # is rounded, and what is left over goes to the next.
    delay = np.where(own_delay, times.delay, 0)
    work = times.work + times.delay - delay
    order = np.argsort(nodes.lane, kind="stable")
    total = np.cumsum(np.stack([delay[order], work[order]], axis=1).ravel())
    rounded = np.diff((total + 500) // 1000, prepend=0).reshape(-1, 2)
    result = np.empty_like(rounded)
    result[order] = rounded
    return result[:, 0], result[:, 1]
