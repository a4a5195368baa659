"""What a host trace adds to nodes: inputs, outputs, attributes, and dependencies by the tensors between them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from hta_graph.base.arrays import expand_ranges
from hta_graph.chakra.astra_sim_executor import CPU
from hta_graph.chakra.host_trace import HostValues
from hta_graph.chakra.nodes import CpuSegments, Nodes, Pairs, issue_order
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids, Ints

HOST_ATTRIBUTES = ("rf_id", "fw_parent", "seq_id", "scope", "fw_tid")
"""Numbers of a host node that its nodes keep."""


class HostNodes(Protocol):
    """Host nodes by row."""

    def inputs(self, row: int) -> HostValues:
        """Return what went in."""

    def outputs(self, row: int) -> HostValues:
        """Return what came out."""

    def attributes(self, row: int) -> Mapping[str, Any]:
        """Return attributes by name."""


class HostTensors:
    """The host nodes of one rank, by the events that they are."""

    def __init__(self, graph: DependencyGraph, host: HostNodes, node: Ids) -> None:
        """Take host nodes; ``node`` is the row of each event's (canonical rows), -1 where it has none."""
        self._graph, self._host, self._node = graph, host, node

    def describe(self, operator: int, node: Any) -> None:
        """Add inputs, outputs and attributes of an operator (canonical row, -1: none) to a node's message."""
        row = int(self._node[operator]) if operator >= 0 else -1
        if row < 0:
            return
        for side, found in ((node.inputs, self._host.inputs(row)), (node.outputs, self._host.outputs(row))):
            side.values, side.shapes, side.types = map(_encodable_text, (found.values, found.shapes, found.types))
        known = self._host.attributes(row)
        for name in HOST_ATTRIBUTES:
            if isinstance(number := known.get(name), int) and number < 2**63:
                node.attr.add(name=name, int64_val=number)
        node.attr.add(name="op_schema", string_val=_encodable_text(known.get("op_schema", "")))

    def dependencies(self, nodes: Nodes) -> Pairs:
        """Link the last operator that put out a tensor to each one that takes it in, on the CPU and on the GPU.

        On the GPU it is the last activity launched inside the one operator, and those that the other launched. What
        another thread or stream did earlier than it was ready is left out: such a tensor was written in place.
        """
        writer, reader = self._tensors_passed()
        work = CpuSegments(self._graph)
        on_cpu = work.segment_before(writer, at_end=True), work.segment_after(reader, at_end=False)
        on_gpu = self._on_gpu(nodes, writer, reader)
        source, target = (np.concatenate(sides) for sides in zip(on_cpu, on_gpu, strict=True))
        known = (source >= 0) & (target >= 0)
        source, target = source[known], target[known]
        # Where clocks disagree, what seems to be ready in time can wait for its reader; the order of issue tells.
        place = np.argsort(issue_order(nodes))
        possible = (nodes.end[source] <= nodes.start[target]) & (place[source] < place[target])
        return source[possible], target[possible]

    def _tensors_passed(self) -> tuple[Ids, Ids]:
        """Pair the operator that put out a tensor last with each that took it in after that (canonical rows)."""
        events = self._graph.event_table
        rows = np.flatnonzero(self._node >= 0)
        put, taken = self._tensors_of(rows, outputs=True), self._tensors_of(rows, outputs=False)
        order = np.lexsort((events.end[put[0]], put[1]))
        put = put[0][order], put[1][order]
        tensors, begin = np.unique(put[1], return_index=True)
        if not len(tensors):
            return np.empty(0, np.int32), np.empty(0, np.int32)
        # Tensor and time as one sortable number: the last time a tensor was put out before it was taken is then found
        # by one binary search.
        moment = np.unique(np.concatenate([events.end[put[0]], events.start[taken[0]]]))
        scale = len(moment) + 1
        put_key = np.searchsorted(tensors, put[1]) * scale + np.searchsorted(moment, events.end[put[0]])
        tensor = np.searchsorted(tensors, taken[1]).clip(max=len(tensors) - 1)
        taken_key = tensor * scale + np.searchsorted(moment, events.start[taken[0]])
        last = np.searchsorted(put_key, taken_key, side="right") - 1
        known = (tensors[tensor] == taken[1]) & (last >= begin[tensor])
        return put[0][last[known]], taken[0][known]

    def _tensors_of(self, rows: Ints, *, outputs: bool) -> tuple[Ids, Ints]:
        """List (event, tensor id) of all inputs or outputs."""
        side = self._host.outputs if outputs else self._host.inputs
        found = [(row, tensor) for row in rows.tolist() for tensor in side(int(self._node[row])).tensor_ids()]
        pairs = np.array(found, np.int64).reshape(-1, 2)
        return pairs[:, 0].astype(np.int32), pairs[:, 1]

    def _on_gpu(self, nodes: Nodes, writer: Ids, reader: Ids) -> Pairs:
        lane_key = self._graph.lane_key
        activities = np.flatnonzero(nodes.slot != CPU)
        calls = self._graph.launching_call[nodes.row[activities]]
        activities, calls = activities[calls >= 0], calls[calls >= 0]
        launched = lane_key(calls)
        order = np.lexsort((activities, launched))
        # An operator's last launch is the last one before its end, if that is not before its start.
        last = np.searchsorted(launched[order], lane_key(writer, at_end=True)) - 1
        inside = (last >= 0) & (np.append(launched[order], -1)[last] >= lane_key(writer))
        source, reader = activities[order][last[inside]], reader[inside]
        # It goes to all activities that the reader launched.
        operator = nodes.operator[activities]
        by_operator = np.argsort(operator, kind="stable")
        first, end = (np.searchsorted(operator[by_operator], reader, side=side) for side in ("left", "right"))
        place, at = expand_ranges(first, end - first)
        return source[place], activities[by_operator][at]


def _encodable_text(value: object) -> str:
    """Print a value as Chakra does; what cannot be encoded becomes a question mark."""
    return str(value).encode("utf-8", "replace").decode()
