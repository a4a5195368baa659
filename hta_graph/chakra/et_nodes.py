"""A rank's nodes as protobuf messages: ids in the order in which they start, and idle time as nodes of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.chakra.astra_sim_executor import COLLECTIVE, COMMUNICATION, COMPUTATION, CPU, DELAY
from hta_graph.chakra.nodes import Nodes
from hta_graph.chakra.replay_times import ReplayTimes
from hta_graph.chakra.schema import COLLECTIVES, NODE_TYPES, GlobalMetadata, Node
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ints

CommAttributesByNode = Mapping[int, "CommAttributes"]
"""What each communication does, by its place among the nodes."""

Describe = Callable[[int, Any], None]
"""Adds what is known of an operator (canonical row, -1: none) to a node's message."""


@dataclass(frozen=True)
class CommAttributes:
    """A communication as the simulator needs it; ``group`` is the key of its group of ranks.

    ``transfer`` is how long it took without waiting for others (ns). ``tag`` is its number in its channel, so that
    simulators which pair by content pair the right ones. ``name`` is the node's, if not that of its event.
    """

    kind: str
    size: int
    group: str
    transfer: int
    source: int = -1
    target: int = -1
    tag: int = 0
    name: str = ""


@dataclass(frozen=True)
class NodeIds:
    """Ids from 1, in the order in which nodes start: a node's own, and that of the delay before it (0: none)."""

    node: Ints
    delay: Ints

    @classmethod
    def of(cls, times: ReplayTimes) -> NodeIds:
        """Number nodes and delays; a simulator gives a free slot to the lowest id."""
        has_delay = times.own_node
        node, delay = np.empty(len(has_delay), np.int64), np.zeros(len(has_delay), np.int64)
        node[times.order] = np.arange(1, len(has_delay) + 1) + np.cumsum(has_delay[times.order])
        delay[has_delay] = node[has_delay] - 1
        return cls(node, delay)


def metadata_message(**known: str | int) -> bytes:
    """Make a file's first message: text and whole numbers by name."""
    message = GlobalMetadata()
    for name, value in known.items():
        if isinstance(value, str):
            message.attr.add(name=name, string_val=value)
        else:
            message.attr.add(name=name, int64_val=value)
    return bytes(message.SerializeToString())


def node_messages(
    graph: DependencyGraph, nodes: Nodes, times: ReplayTimes, attributes: CommAttributesByNode, describe: Describe
) -> Iterator[bytes]:
    """Yield a rank's nodes by ascending id.

    Args:
        graph: where they come from.
        nodes: what they are and what they wait for.
        times: how long they take.
        attributes: those of each communication, by its place.
        describe: adds inputs and outputs of an operator (canonical row, -1: none) to a message.
    """
    writer = _NodeWriter(graph, nodes, times, attributes, describe)
    for at in times.order.tolist():
        yield from writer.messages(at)
    yield from writer.closing_messages(times)


class _NodeWriter:
    """The columns of a rank's nodes as lists, and one method per kind of node."""

    def __init__(
        self,
        graph: DependencyGraph,
        nodes: Nodes,
        times: ReplayTimes,
        attributes: CommAttributesByNode,
        describe: Describe,
    ) -> None:
        numbering = NodeIds.of(times)
        self._attributes, self._describe = attributes, describe
        events = graph.event_table
        # Columns become lists at once, for nodes are written one by one and single elements of arrays are slow to read.
        self._id, self._delay_id = numbering.node.tolist(), numbering.delay.tolist()
        self._dependencies = _dependency_ids(nodes, numbering)
        self._slot_holder = np.where(times.after >= 0, numbering.node[times.after], 0).tolist()
        self._slot, self._row, self._operator = nodes.slot.tolist(), nodes.row.tolist(), nodes.operator.tolist()
        names = [name.encode("utf-8", "replace").decode() for name in graph.names]
        self._name = [names[code] for code in events.name[nodes.row].tolist()]
        self._start, self._end = nodes.start.tolist(), nodes.end.tolist()
        self._file_start = graph.trace.in_file_time(nodes.row, nodes.start).tolist()
        self._file_end = graph.trace.in_file_time(nodes.row, nodes.end, "end").tolist()
        self._micros, self._delay_micros = times.work.tolist(), times.delay.tolist()
        self._index = events.index[nodes.row].tolist()
        known = nodes.operator >= 0
        self._external = np.where(known, events.external_id[nodes.operator], -1).tolist()
        self._place = [_lane_numbers(graph, lane) for lane in range(len(graph.lanes.labels))]
        self._lane = nodes.lane.tolist()
        awaited = set(nodes.source.tolist())
        self._final_messages = [
            at for at, comm in attributes.items() if comm.kind in ("SEND", "RECV") and at not in awaited
        ]

    def messages(self, at: int) -> Iterator[bytes]:
        """Yield a node, after the delay before it."""
        if self._row[at] < 0:
            yield self._host_message(at)
            return
        sources, start = self._dependencies[at], self._file_start[at]
        if self._delay_id[at]:
            delay = self._delay_micros[at]
            on_cpu = self._slot[at] == CPU
            yield self._delay_message(self._delay_id[at], at, start - 1000 * delay, 1000 * delay, on_cpu=on_cpu)
            sources = [*sources, self._delay_id[at]]
        elif (holder := self._slot_holder[at]) and holder not in sources:
            sources = [*sources, holder]
        node = Node(id=self._id[at], name=self._name[at], data_deps=sources, start_time_micros=max(start, 0) // 1000)
        add = node.attr.add
        add(name="is_cpu_op", bool_val=self._slot[at] == CPU)
        if self._slot[at] >= COMMUNICATION:
            self._add_comm_attributes(node, self._attributes[at])
        else:
            node.type = COMPUTATION
        node.duration_micros = self._micros[at]
        add(name="start_nanos", int64_val=start)
        if start != self._start[at]:
            add(name="host_start_nanos", int64_val=self._start[at])
        add(name="duration_nanos", int64_val=self._file_end[at] - start)
        for name, value in self._place[self._lane[at]]:
            add(name=name, int64_val=value)
        add(name="event_index", int64_val=self._index[at])
        if self._external[at] >= 0:
            add(name="external_id", int64_val=self._external[at])
        self._describe(self._operator[at], node)
        yield node.SerializeToString()

    def _host_message(self, at: int) -> bytes:
        """Make a node of host time that is no one event's; what idled before it is part of it."""
        idle = 1000 * self._delay_micros[at]
        start = self._start[at] - idle
        return self._delay_message(self._id[at], at, start, self._end[at] - start, on_cpu=True, idle=idle)

    def closing_messages(self, times: ReplayTimes) -> Iterator[bytes]:
        """Yield the delay until the recording ended, on the slot of what ended last.

        Nor does a rank end with a message: there ASTRA-sim aborts, on all ranks, if any node runs on the CPU.
        """
        ends = {*times.last, *self._final_messages}
        if times.closing or self._final_messages:
            at, micros = max(ends, key=self._end.__getitem__), max(times.closing, 1)
            number = max(*self._id, *self._delay_id) + 1
            sources = sorted(self._id[one] for one in ends)
            start = self._file_end[at] - 1000 * micros
            yield _delay_node(number, sources, start, 1000 * micros, on_cpu=self._slot[at] == CPU).SerializeToString()

    def _delay_message(self, number: int, at: int, start: int, duration: int, *, on_cpu: bool, idle: int = -1) -> bytes:
        """Make a node of idle time before a node; it waits for all that the node waits for, and for its slot.

        Of host time ``idle`` (ns) is the part that is no work.
        """
        sources = self._dependencies[at]
        if (holder := self._slot_holder[at]) and holder not in sources:
            sources = [*sources, holder]
        node = _delay_node(number, sources, start, duration, on_cpu=on_cpu)
        node.duration_micros = self._delay_micros[at] + (self._micros[at] if self._row[at] < 0 else 0)
        if idle >= 0:
            node.attr.add(name="idle_nanos", int64_val=idle)
        for name, value in self._place[self._lane[at]]:
            node.attr.add(name=name, int64_val=value)
        return bytes(node.SerializeToString())

    @staticmethod
    def _add_comm_attributes(node: Any, comm: CommAttributes) -> None:
        node.name = comm.name or node.name
        node.type = NODE_TYPES.get(f"COMM_{comm.kind}_NODE", COLLECTIVE)
        add = node.attr.add
        if node.type == COLLECTIVE:
            add(name="comm_type", int64_val=COLLECTIVES[comm.kind])
        add(name="comm_size", int64_val=comm.size)
        add(name="pg_name", string_val=comm.group)
        add(name="comm_tag", int32_val=comm.tag)
        add(name="transfer_nanos", int64_val=comm.transfer)
        if comm.source >= 0:
            add(name="comm_src", int32_val=comm.source)
            add(name="comm_dst", int32_val=comm.target)


def _delay_node(number: int, sources: list[int], start: int, duration: int, *, on_cpu: bool) -> Any:
    """Make a node of idle time from its start and duration (ns)."""
    node = Node(
        id=number, name=DELAY, type=COMPUTATION, data_deps=sources,
        start_time_micros=max(start, 0) // 1000, duration_micros=duration // 1000,
    )  # fmt: skip
    node.attr.add(name="is_cpu_op", bool_val=on_cpu)
    node.attr.add(name="start_nanos", int64_val=start)
    node.attr.add(name="duration_nanos", int64_val=duration)
    return node


def _lane_numbers(graph: DependencyGraph, lane: int) -> list[tuple[str, int]]:
    """Name a node's thread or stream in numbers."""
    lanes = graph.lanes
    if lanes.is_stream[lane]:
        return [("device", int(lanes.device[lane])), ("stream", int(lanes.stream[lane]))]
    number = lanes.labels[lane].rpartition(":")[2]
    return [("tid", int(number))] if number.isdecimal() and len(number) < 19 else []


def _dependency_ids(nodes: Nodes, numbering: NodeIds) -> list[list[int]]:
    """List the ids that each node waits for, ascending."""
    ids = numbering.node[nodes.source]
    order = np.lexsort((ids, nodes.target))
    ids = ids[order].tolist()
    first = np.searchsorted(nodes.target[order], np.arange(len(nodes) + 1)).tolist()
    return [ids[first[at] : first[at + 1]] for at in range(len(nodes))]
