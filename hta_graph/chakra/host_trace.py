"""Host execution traces of PyTorch's observer → columns; tensors and attributes are decoded on demand.

host = read_host_trace("host_et_rank0.json.gz")
host.id, host.parent, host.rf_id, host.thread      # int64 columns, one entry per node, ascending by id
host.name_of(row), host.inputs(row).types          # "aten::mm", ["Tensor(float)", ...]
host.attributes(row)["collective_name"]            # any attribute by its name
host.process_groups()                              # what "## process_group:init ##" lists
matching = match_host_trace(graph, host)           # hta_graph.chakra.host_matching: host row <-> event row

All known versions are read: nodes that are flat (1.0.1) or with ``attrs`` (later) become one form.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.arrays import freeze
from hta_graph.base.errors import NotATraceError, TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.model import Bools, Ids, Ints
from hta_graph.trace.columnize import integers
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.json_reader import is_array, number_or_text
from hta_graph.trace.memory_limit import paused_gc

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


REMEDY = "pass the output of torch.profiler.ExecutionTraceObserver"


@dataclass(frozen=True)
class HostTrace:
    """One process' host execution trace: a tree of operators and annotations, without times.

    Columns have one entry per node, ascending by id, which is the order in which the nodes began: ``id``; ``parent``
    (an id; the process node's is its own); ``rf_id`` (record function id, 0 if none); ``thread`` and
    ``forward_thread`` (small logical numbers, 0 if none); ``sequence`` (autograd's, -1 if none); ``name`` (codes into
    ``names``).
    """

    path: Location
    schema: str
    header: HostHeader
    nodes: list[HostNode]
    id: Ints
    parent: Ints
    rf_id: Ints
    thread: Ints
    forward_thread: Ints
    sequence: Ints
    name: Ids
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.nodes)

    @property
    def pid(self) -> int | None:
        """The process that wrote the trace."""
        pid = self.header.pid
        return pid if isinstance(pid, int) and not isinstance(pid, bool) else None

    @cached_property
    def is_operator(self) -> Bools:
        """Mark the nodes that are operators and annotations, not the process or a thread."""
        roots = np.array([name.startswith(ROOT_NODE) for name in self.names] or [False], np.bool_)
        return freeze(~roots[self.name])

    @cached_property
    def is_thread(self) -> Bools:
        """Mark the nodes that are threads: the roots of their operators."""
        threads = np.array([name.endswith(THREAD_NODE) for name in self.names] or [False], np.bool_)
        return freeze(threads[self.name] & ~self.is_operator)

    def row_of(self, ids: Ints) -> Ids:
        """Return the rows of ids; -1 where no node has the id."""
        if not len(self):
            return np.full(len(ids), -1, np.int32)
        at = np.searchsorted(self.id, ids).clip(max=len(self) - 1)
        return np.where(self.id[at] == ids, at, -1).astype(np.int32)

    def name_of(self, row: int) -> str:
        """Return a node's name."""
        return self.nodes[row].name

    def inputs(self, row: int) -> HostValues:
        """Return the inputs of an operator."""
        return self._decoded_values(row, self.nodes[row].inputs)

    def outputs(self, row: int) -> HostValues:
        """Return the outputs of an operator."""
        return self._decoded_values(row, self.nodes[row].outputs)

    def attributes(self, row: int) -> dict[str, Any]:
        """Return a node's attributes by name."""
        return {attribute.name: attribute.value for attribute in self.nodes[row].attributes}

    def process_groups(self) -> list[dict[str, Any]]:
        """Return the process groups that the trace lists: ``pg_name``, ``ranks`` (empty: all of them) and others."""
        rows = [row for row, node in enumerate(self.nodes) if PROCESS_GROUPS_NODE in node.name]
        texts = [value for row in rows for value in self.inputs(row).values if isinstance(value, str)]
        return [group for text in texts for group in _json_objects(text)]

    def _decoded_values(self, row: int, text: msgspec.Raw) -> HostValues:
        try:
            return msgspec.json.decode(text, type=HostValues)
        except (msgspec.DecodeError, RecursionError) as error:
            raise TraceError(
                self.path, f"node {int(self.id[row])} has inputs or outputs of an unknown form: {error}"
            ) from None


def _json_objects(text: str) -> list[dict[str, Any]]:
    try:
        found = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return []
    return [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []


def read_host_trace(path: str | Location) -> HostTrace:
    """Read a host execution trace: ``.json``, ``.json.gz`` or zstd, of any known version.

    Raises:
        TraceError: the file cannot be read, is truncated, has an unknown version, or is not a host execution trace.
    """
    path = resolve_location(path)
    content = read_bytes(path, per_byte=PEAK_PER_BYTE)
    if content.broken:
        raise TraceError(path, content.broken, "record the trace again")
    with paused_gc():
        return _read_tolerantly(path, content.data)


def _read_tolerantly(path: Location, data: bytes) -> HostTrace:
    try:
        return _decode_document(path, data)
    except msgspec.ValidationError as error:
        raise TraceError(path, f"is not a host execution trace: {_error_location(error)}", REMEDY) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # repaired below; only few files need it, and it costs a pass over the text
    try:
        text = data.decode("utf-8", errors="replace").lstrip("\ufeff")
        return _decode_document(path, _NONSTANDARD.sub(_repaired_text, text).encode())
    except msgspec.ValidationError as error:
        raise TraceError(path, f"is not a host execution trace: {_error_location(error)}", REMEDY) from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise TraceError(path, f"the JSON is truncated at byte {len(data):,}", "record the trace again") from None
        raise TraceError(path, f"is not JSON: {error}", "record the trace again") from None
    except RecursionError:
        raise TraceError(path, "nests JSON values too deeply to be a host execution trace") from None


def _decode_document(path: Location, data: bytes) -> HostTrace:
    if not data.isascii():
        data.decode()  # inputs and outputs stay JSON text, which is checked nowhere else
    if is_array(data):
        msgspec.json.decode(data, type=msgspec.Raw)
        raise NotATraceError(path, "is a JSON list, not a host execution trace", REMEDY)
    header = msgspec.json.decode(data, type=HostHeader)
    if not bytes(header.nodes):
        kind = "a device (Kineto) trace" if bytes(header.trace_events) else "JSON without nodes"
        raise NotATraceError(path, f"is {kind}, not a host execution trace", REMEDY)
    return _sorted_columns(path, header, host_nodes(bytes(header.nodes), _known_schema(path, header.schema)))


def _known_schema(path: Location, schema: object) -> str:
    if isinstance(schema, str) and schema in LAYOUTS:
        return schema
    found = "no schema" if schema is None else f"schema {str(schema)[:80]!r}, which is unknown"
    raise TraceError(path, f"has {found}", f"supported: {', '.join(LAYOUTS)}")


def _sorted_columns(path: Location, header: HostHeader, nodes: list[HostNode]) -> HostTrace:
    if any(node.category is not None for node in nodes):
        raise TraceError(path, "is already a linked trace: it holds GPU nodes", REMEDY)
    ids = integers([node.id for node in nodes])
    order = np.argsort(ids, kind="stable")
    nodes = [nodes[at] for at in order.tolist()]
    twins = np.flatnonzero(np.diff(ids[order]) == 0)
    if len(twins):
        raise TraceError(path, f"has two nodes with id {int(ids[order][twins[0]])}", "record the trace again")
    names = tuple(sorted({node.name for node in nodes}))
    code = {name: at for at, name in enumerate(names)}
    return HostTrace(
        path=path,
        schema=str(header.schema),
        header=msgspec.structs.replace(header, nodes=msgspec.Raw(b"")),
        nodes=nodes,
        id=freeze(ids[order]),
        parent=freeze(integers([node.parent for node in nodes])),
        name=freeze(np.array([code[node.name] for node in nodes], np.int32)),
        names=names,
        **_number_columns(nodes),
    )


_COLUMN_OF = {"rf_id": "rf_id", "thread": "tid", "forward_thread": "fw_tid", "sequence": "seq_id"}


def _number_columns(nodes: Sequence[HostNode]) -> dict[str, Ints]:
    known = [{attribute.name: attribute.value for attribute in node.attributes} for node in nodes]
    return {
        column: freeze(integers([number_or_text(values.get(key, NODE_ATTRIBUTES[key][1])) for values in known]))
        for column, key in _COLUMN_OF.items()
    }


def _error_location(error: msgspec.ValidationError) -> str:
    return str(error).replace("$[", "nodes[")


PEAK_PER_BYTE = 12
"""What nodes take in memory for each byte of text."""

# Texts are matched too, so that an "inf" inside one stays as it is.
# One that never ends goes on to the end: it is not looked for again from each quote within.
_NONSTANDARD = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|-?(?:nan|inf(?:inity)?)\b', re.IGNORECASE | re.DOTALL)
_CONTROL = re.compile("[\x00-\x1f]")


def _repaired_text(match: re.Match[str]) -> str:
    """Escape control characters in a text; quote a bare infinity of early writers."""
    text = match[0]
    return _CONTROL.sub(lambda char: f"\\u{ord(char[0]):04x}", text) if text[0] == '"' else f'"{text}"'
