"""The nodes of host execution traces as the decoder makes them, flat (1.0.1) or with ``attrs`` (later), made alike."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "LAYOUTS",
    "NODE_ATTRIBUTES",
    "PROCESS_GROUPS_NODE",
    "ROOT_NODE",
    "THREAD_NODE",
    "HostAttribute",
    "HostHeader",
    "HostNode",
    "HostValues",
    "host_nodes",
]

NODE_ATTRIBUTES: dict[str, tuple[str, int | str]] = {
    "rf_id": ("uint64", 0),
    "fw_parent": ("uint64", 0),
    "seq_id": ("int64", -1),
    "scope": ("uint64", 0),
    "tid": ("uint64", 0),
    "fw_tid": ("uint64", 0),
    "op_schema": ("string", ""),
}
"""The attributes that every node has: their type, and the value that says nothing."""

ROOT_NODE = ("[pytorch|profiler|", "__ROOT_")
"""How the names of the nodes for the process and its threads begin; all other nodes are operators and annotations."""

THREAD_NODE = ("|thread]", "_THREAD__")
"""How the names of thread nodes end."""

PROCESS_GROUPS_NODE = "process_group:init"
"""Part of the name of the node that lists the process groups."""


TENSOR_FIELDS = 6
"""A tensor stands as [tensor id, storage id, offset, number of elements, bytes of an element, device]."""


class HostHeader(msgspec.Struct):
    """A document's outermost keys; any may be absent or of any type."""

    schema: Any = None
    pid: Any = None
    time: Any = None
    start_ts: Any = None
    finish_ts: Any = None
    nodes: msgspec.Raw = msgspec.Raw(b"")
    trace_events: msgspec.Raw = msgspec.field(default=msgspec.Raw(b""), name="traceEvents")


class HostAttribute(msgspec.Struct, gc=False):
    """One of a node's attributes."""

    name: str
    type: str = ""
    value: Any = None


class HostValues(msgspec.Struct):
    """What went into an operator or came out: one entry per argument.

    A tensor's value is [tensor id, storage id, offset, number of elements, bytes per element, device].
    """

    values: list[Any] = msgspec.field(default_factory=list)
    shapes: list[Any] = msgspec.field(default_factory=list)
    types: list[str] = msgspec.field(default_factory=list)
    strides: list[Any] = msgspec.field(default_factory=list)

    def tensor_ids(self) -> list[int]:
        """List the ids of the tensors among the arguments, and in lists of tensors.

        >>> HostValues([[8, 9, 0, 1, 4, "cuda:0"], 0, [[5, 6, 0, 2, 4, "cpu"]], "x"]).tensor_ids()
        [8, 5]
        """
        ids: list[int] = []
        waiting = self.values[::-1]
        # A list may hold tensors, or be one: its form tells.
        while waiting:
            value = waiting.pop()
            if not isinstance(value, list):
                continue
            if len(value) == TENSOR_FIELDS and isinstance(value[-1], str) and isinstance(value[0], int):
                ids.append(value[0])
            else:
                waiting += value[::-1]
        return ids


class HostNode(msgspec.Struct, gc=False):
    """A node of any version; ``inputs`` and ``outputs`` are the JSON text of :class:`HostValues`."""

    id: int
    name: str
    parent: int = msgspec.field(name="ctrl_deps")
    inputs: msgspec.Raw
    outputs: msgspec.Raw
    attributes: list[HostAttribute] = msgspec.field(name="attrs")
    category: Any = msgspec.field(default=None, name="cat")


class _FlatNode(msgspec.Struct, gc=False):
    id: int
    name: str
    parent: int
    rf_id: int
    inputs: msgspec.Raw
    input_shapes: msgspec.Raw
    input_types: msgspec.Raw
    outputs: msgspec.Raw
    output_shapes: msgspec.Raw
    output_types: msgspec.Raw
    fw_parent: int = 0
    seq_id: int = -1
    scope: int = 0
    tid: int = 0
    fw_tid: int = 0
    op_schema: str = ""
    cat: Any = None

    def nested(self) -> HostNode:
        """Return the node as later versions write it."""
        attributes = [HostAttribute(name, kind, getattr(self, name)) for name, (kind, _) in NODE_ATTRIBUTES.items()]
        return HostNode(
            self.id,
            self.name,
            self.parent,
            _values_text(self.inputs, self.input_shapes, self.input_types),
            _values_text(self.outputs, self.output_shapes, self.output_types),
            attributes,
            self.cat,
        )


def _values_text(values: msgspec.Raw, shapes: msgspec.Raw, types: msgspec.Raw) -> msgspec.Raw:
    parts = (b'{"values": ', bytes(values), b', "shapes": ', bytes(shapes), b', "types": ', bytes(types), b"}")
    return msgspec.Raw(b"".join(parts))


LAYOUTS: dict[str, Any] = {
    "1.0.1": list[_FlatNode],
    "1.0.2-chakra.0.0.4": list[HostNode],
    "1.0.3-chakra.0.0.4": list[HostNode],
    "1.0.4-chakra.0.0.4": list[HostNode],
    "1.1.0-chakra.0.0.4": list[HostNode],
    "1.1.1-chakra.0.0.4": list[HostNode],
}
"""Version → how its nodes are laid out (PyTorch's ``execution_trace_observer.cpp``, 2023–2025)."""


def host_nodes(text: bytes, schema: str) -> list[HostNode]:
    """Decode the list of nodes of a known version.

    Raises:
        msgspec.DecodeError: not JSON, or a node lacks a field or has one of another type.
    """
    found = msgspec.json.decode(text, type=LAYOUTS[schema])
    return [node.nested() if isinstance(node, _FlatNode) else node for node in found]
