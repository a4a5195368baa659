"""Host execution traces for tests: node by node, or one for all operators of a device trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph import DependencyGraph
from hta_graph.model import EventKind, kind_mask
from tests.support.trace_builder import PID

PROCESS = "[pytorch|profiler|execution_trace|process]"
THREAD = "[pytorch|profiler|execution_trace|thread]"


class HostBuilder:
    """Collects nodes as the observer writes them; ids count up from 1, the process node's."""

    def __init__(self, schema: str = "1.1.0-chakra.0.0.4", pid: int = PID) -> None:
        self.schema, self.pid = schema, pid
        self.nodes: list[dict[str, Any]] = []
        self._threads: dict[int, int] = {}
        self._next = 2

    def op(self, name: str, *, parent: int | None = None, tid: int = 1, rf: int = 0, **attrs: Any) -> int:
        """Add an operator inside another one, or outermost on a thread; return its id."""
        if tid not in self._threads:
            self._threads[tid] = self._add(THREAD, 1, tid=tid)
        return self._add(name, self._threads[tid] if parent is None else parent, rf_id=rf, tid=tid, **attrs)

    def _add(self, name: str, parent: int, inputs: tuple[Any, ...] = (), **attrs: Any) -> int:
        number, self._next = self._next, self._next + 1
        self.nodes.append(self._node(number, name, parent, inputs, attrs))
        return number

    def _node(self, number: int, name: str, parent: int, inputs: Any, attrs: dict[str, Any]) -> dict[str, Any]:
        known = {"rf_id": 0, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 0, "fw_tid": 0, "op_schema": ""} | attrs
        values, shapes, types = ([tensor[at] for tensor in inputs] for at in range(3))
        if self.schema == "1.0.1":
            flat = {"inputs": values, "input_shapes": shapes, "input_types": types}
            none: dict[str, Any] = {"outputs": [], "output_shapes": [], "output_types": []}
            return {"name": name, "id": number, "parent": parent, **known, **flat, **none}
        strides = {"strides": []} if self.schema.startswith("1.1.1") else {}
        return {
            "id": number,
            "name": name,
            "ctrl_deps": parent,
            "inputs": {"values": values, "shapes": shapes, "types": types, **strides},
            "outputs": {"values": [], "shapes": [], "types": [], **strides},
            "attrs": [
                {"name": key, "type": "string" if isinstance(value, str) else "int64", "value": value}
                for key, value in known.items()
            ],
        }

    def document(self) -> dict[str, Any]:
        """Return the trace as the observer would write it: the process node comes last."""
        head = {"schema": self.schema, "pid": self.pid, "time": "2024-08-19 11:25:30", "start_ts": 7}
        nodes = [*self.nodes[::-1], self._node(1, PROCESS, 1, (), {})]
        return {**head, "nodes": nodes, "finish_ts": 9}

    def write(self, path: Path) -> Path:
        """Write the trace; gzip if the name ends in ``.gz``."""
        text = json.dumps(self.document()).encode()
        path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
        return path


def host_of(graph: DependencyGraph, schema: str = "1.1.0-chakra.0.0.4") -> HostBuilder:
    """Return the host trace that an observer would have written beside a device trace; ``rf_id`` is the External id."""
    trace, events = graph.trace, graph.trace.events
    rows = np.flatnonzero(kind_mask(events.kind, (EventKind.CPU_OP, EventKind.ANNOTATION)))
    parent = graph.timeline.lookups(EventKind.CPU_OP, EventKind.ANNOTATION).parent
    pids = [label.removeprefix("thread ").partition(":")[0] for label in trace.lanes.labels]
    pid = next((int(pids[lane]) for lane in events.lane[rows].tolist() if pids[lane].isdecimal()), 0)
    host, number = HostBuilder(schema, pid), {-1: None}
    for row in rows.tolist():
        external = max(int(events.external_id[row]), 0)
        number[row] = host.op(  # type: ignore[assignment]
            trace.name_of(row), parent=number.get(int(parent[row])), tid=int(events.lane[row]) + 1, rf=external
        )
    return host
