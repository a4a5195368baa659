"""A linked trace as JSON, with the fields that Chakra's converter reads and those that its own linker loses.

Per node: ``id``, ``name``, ``ctrl_deps`` (one id), ``inputs``, ``outputs``, ``attrs`` as in the host trace; a GPU node
has those of the operator that launched it. Matched host nodes and GPU nodes: ``inclusive_dur``, ``exclusive_dur``,
``ts`` (µs, as Kineto prints them; fractions are kept). Host nodes: ``inter_thread_dep`` (an id or null), ``sync_dep``
(ids of GPU nodes; only where there are some). GPU nodes: ``cat``, ``ph``, ``stream``, ``pg_name`` where recorded.

Beyond that: ``blocked_dur`` (µs of ``exclusive_dur`` that a host node waits for the GPU or another thread),
``gpu_sync_dep`` (ids of GPU nodes of other streams that a GPU node waits for) and ``args`` (what Kineto recorded:
``External id``, ``device``, ``context``, ``stream``, ``correlation``, ``bytes``, ``grid``, ``block`` and the fields of
collectives); at the top ``rank``, ``baseTimeNanoseconds`` (``ts`` counts from there) and ``distributedInfo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from hta_graph.chakra.host_nodes import NODE_ATTRIBUTES, HostAttribute, HostNode
from hta_graph.chakra.linked_trace import DEVICE_ARGUMENTS, LinkedTrace
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.trace.timestamps import EXACT_FLOAT_LIMIT_US

__all__ = ["linked_json"]

CONVERTER_SCHEMA = {"1.0.1": "1.0.2-chakra.0.0.4", "1.0.4-chakra.0.0.4": "1.1.0-chakra.0.0.4"}
"""Versions that Chakra's converter refuses, and the next one that it accepts; the others are kept."""

CATEGORY = {EventKind.KERNEL: "kernel", EventKind.MEMCPY: "gpu_memcpy", EventKind.MEMSET: "gpu_memset"}

NODES_PER_CHUNK = 10_000


class _JsonNode(msgspec.Struct, gc=False):
    """A node as it is written: host nodes first, what only GPU nodes have last; unset fields are left out."""

    id: int
    name: str
    ctrl_deps: int
    inputs: Any
    outputs: Any
    attrs: Any
    inclusive_dur: Any = msgspec.UNSET
    exclusive_dur: Any = msgspec.UNSET
    ts: Any = msgspec.UNSET
    inter_thread_dep: Any = msgspec.UNSET
    sync_dep: Any = msgspec.UNSET
    blocked_dur: Any = msgspec.UNSET
    cat: Any = msgspec.UNSET
    ph: Any = msgspec.UNSET
    stream: Any = msgspec.UNSET
    pg_name: Any = msgspec.UNSET
    gpu_sync_dep: Any = msgspec.UNSET
    args: Any = msgspec.UNSET


def linked_json(linked: LinkedTrace) -> Iterator[bytes]:
    """Yield the text of a linked trace, in pieces."""
    encoder = msgspec.json.Encoder()
    head = encoder.encode(_top_fields(linked))
    yield head[:-1] + b',"nodes":['
    # GPU nodes share the inputs, outputs and attributes of the node that launched them: the same objects, not copies.
    hosted = _host_nodes(linked)
    nodes = hosted + _gpu_nodes(linked, hosted)
    by_id = [nodes[at] for at in np.argsort(np.concatenate([linked.host_id, linked.activity_id])).tolist()]
    # The nodes go through the encoder by the thousand, so that the whole text is never in memory.
    for at in range(0, len(nodes), NODES_PER_CHUNK):
        yield b",\n" * (at > 0) + encoder.encode(by_id[at : at + NODES_PER_CHUNK])[1:-1]
    yield b"]}\n"


def _top_fields(linked: LinkedTrace) -> dict[str, Any]:
    host = linked.host
    return {
        "schema": CONVERTER_SCHEMA.get(host.schema, host.schema),
        "pid": host.pid or 0,
        "time": str(host.header.time or ""),
        "start_ts": _whole_number(host.header.start_ts),
        "finish_ts": _whole_number(host.header.finish_ts),
        "rank": linked.rank,
        "baseTimeNanoseconds": linked.details.base_ns,
        "distributedInfo": linked.details.distributed,
    }


def _whole_number(value: object) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _host_nodes(linked: LinkedTrace) -> list[_JsonNode]:
    encode = msgspec.json.Encoder().encode
    nodes = [
        _JsonNode(number, node.name, parent, node.inputs, node.outputs, msgspec.Raw(encode(_all_attributes(node))))
        for number, parent, node in zip(
            linked.host_id.tolist(), linked.parent_id.tolist(), linked.host.nodes, strict=True
        )
    ]
    _add_times(linked, nodes)
    row = {number: at for at, number in enumerate(linked.host_id.tolist())}
    for source, target in zip(linked.thread.source.tolist(), linked.thread.target.tolist(), strict=True):
        nodes[row[target]].inter_thread_dep = source
    for target, sources in linked.sync.by_target():
        nodes[row[target]].sync_dep = sources
    return nodes


def _all_attributes(node: HostNode) -> list[HostAttribute]:
    """Return a node's attributes, with those that every node must have."""
    names = {attribute.name for attribute in node.attributes}
    missing = [HostAttribute(name, kind, value) for name, (kind, value) in NODE_ATTRIBUTES.items() if name not in names]
    return node.attributes + missing


def _add_times(linked: LinkedTrace, nodes: list[_JsonNode]) -> None:
    events, event = linked.graph.event_table, linked.matching.event
    matched = np.flatnonzero(event >= 0)
    rows = event[matched]
    columns = (
        _json_microseconds(events.start[rows] - linked.details.base_ns),
        _json_microseconds(events.end[rows] - events.start[rows]),
        _json_microseconds(linked.own_time[rows]),
        _json_microseconds(linked.blocked_time[rows]),
        events.external_id[rows].tolist(),
    )
    for at, start, length, own, blocked, external in zip(matched.tolist(), *columns, strict=True):
        node = nodes[at]
        node.ts, node.inclusive_dur, node.exclusive_dur, node.inter_thread_dep = start, length, own, None
        if blocked:
            node.blocked_dur = blocked
        if external >= 0:
            node.args = {"External id": external}


def _gpu_nodes(linked: LinkedTrace, hosted: list[_JsonNode]) -> list[_JsonNode]:
    graph, rows = linked.graph, linked.activity
    events = graph.event_table
    columns = (
        linked.activity_id.tolist(),
        linked.activity_owner.tolist(),
        events.name[rows].tolist(),
        events.kind[rows].tolist(),
        _json_microseconds(events.start[rows] - linked.details.base_ns),
        _json_microseconds(events.end[rows] - events.start[rows]),
        _recorded_arguments(linked, rows),
    )
    nodes = []
    for number, owner, name, kind, start, length, args in zip(*columns, strict=True):
        own = hosted[owner]
        node = _JsonNode(number, graph.names[name], own.id, own.inputs, own.outputs, own.attrs, length, length, start)
        node.cat, node.ph, node.stream, node.args = CATEGORY[EventKind(kind)], "X", args["stream"], args
        if (group := args.get("Process Group Name")) is not None:
            node.pg_name = str(group)
        nodes.append(node)
    place = {number: at for at, number in enumerate(columns[0])}
    for target, sources in linked.gpu.by_target():
        nodes[place[target]].gpu_sync_dep = sources
    return nodes


def _recorded_arguments(linked: LinkedTrace, rows: Ids) -> list[dict[str, Any]]:
    """Return what Kineto recorded of each GPU activity, by its own keys."""
    events, lanes = linked.graph.event_table, linked.graph.lanes
    lane = events.lane[rows]
    known = {
        "External id": events.external_id[rows],
        "correlation": events.correlation[rows],
        "device": lanes.device[lane],
        "context": lanes.context[lane],
    }
    listed = {key: column.tolist() for key, column in known.items()}
    found: list[dict[str, Any]] = [{"stream": stream} for stream in lanes.stream[lane].tolist()]
    for key, values in listed.items():
        for args, value in zip(found, values, strict=True):
            if value >= 0:
                args[key] = value
    for key in DEVICE_ARGUMENTS:
        column = linked.details[key][rows]
        for at in np.flatnonzero(column != None).tolist():  # noqa: E711 - element by element
            found[at][key] = column[at]
    return found


def _json_microseconds(ns: Ints) -> list[Any]:
    """Return times as the JSON numbers of microseconds: whole ones where they are whole, else exact decimals.

    >>> _json_microseconds(np.array([5000, 1500]))
    [5.0, 1.5]
    """
    whole, rest = np.divmod(ns, 1000)
    if not rest.any():
        return whole.tolist()  # type: ignore[no-any-return]
    # Below that limit a double's shortest text is the exact fraction; above it digits are put together by hand.
    if int(np.abs(whole).max()) < EXACT_FLOAT_LIMIT_US:
        return (ns / 1000).tolist()  # type: ignore[no-any-return]
    return [msgspec.Raw(b"%d.%03d" % pair) for pair in zip(whole.tolist(), rest.tolist(), strict=True)]
