"""Host execution traces of PyTorch's observer → columns; tensors and attributes stay as they are until someone asks.

host = read_host_trace("host_et_rank0.json.gz")
host.id, host.parent, host.rf_id, host.thread      # int64 columns, one entry per node, ascending by id
host.name_of(row), host.inputs(row).types          # "aten::mm", ["Tensor(float)", ...]
host.attributes(row)["collective_name"]            # any attribute by its name
host.process_groups()                              # what "## process_group:init ##" lists
matching = match_host_trace(graph, host)           # hta_graph.chakra.host_matching: host row <-> event row
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec
import numpy as np

from hta_graph.arrays import freeze
from hta_graph.chakra.host_nodes import (
    LAYOUTS,
    NODE_ATTRIBUTES,
    PROCESS_GROUPS_NODE,
    ROOT_NODE,
    THREAD_NODE,
    HostHeader,
    HostNode,
    HostValues,
    host_nodes,
)
from hta_graph.errors import NotATraceError, TraceError
from hta_graph.model import Bools, Ids, Ints
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.trace.columnize import integers
from hta_graph.trace.json_reader import is_array
from hta_graph.trace.reader import paused_gc
from hta_graph.trace.rows import number_or_text
from hta_graph.trace.source import read_bytes

__all__ = ["HostTrace", "read_host_trace"]

REMEDY = "give what torch.profiler.ExecutionTraceObserver wrote"


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
        """Mark the nodes that stand for operators and annotations, not for the process or a thread."""
        roots = np.array([name.startswith(ROOT_NODE) for name in self.names] or [False], np.bool_)
        return freeze(~roots[self.name])

    @cached_property
    def is_thread(self) -> Bools:
        """Mark the nodes that stand for a thread: the roots of its operators."""
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
        """Return what went into an operator."""
        return self._decoded_values(row, self.nodes[row].inputs)

    def outputs(self, row: int) -> HostValues:
        """Return what came out of an operator."""
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
                self.path, f"node {int(self.id[row])} has inputs or outputs of no known form: {error}"
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
        TraceError: the file cannot be read, breaks off, has an unknown version, or is no host execution trace.
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
        raise TraceError(path, f"is no host execution trace: {_error_location(error)}", REMEDY) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # repaired below; only few files need it, and it costs a pass over the text
    try:
        text = data.decode("utf-8", errors="replace").lstrip("\ufeff")
        return _decode_document(path, _NONSTANDARD.sub(_repaired_text, text).encode())
    except msgspec.ValidationError as error:
        raise TraceError(path, f"is no host execution trace: {_error_location(error)}", REMEDY) from None
    except msgspec.DecodeError as error:
        if "truncated" in str(error):
            raise TraceError(path, f"the JSON breaks off at byte {len(data):,}", "record the trace again") from None
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
    found = "no schema" if schema is None else f"schema {str(schema)[:80]!r}, which is not known"
    raise TraceError(path, f"has {found}", f"known are: {', '.join(LAYOUTS)}")


def _sorted_columns(path: Location, header: HostHeader, nodes: list[HostNode]) -> HostTrace:
    if any(node.category is not None for node in nodes):
        raise TraceError(path, "holds GPU nodes: it is a linked trace already", REMEDY)
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
