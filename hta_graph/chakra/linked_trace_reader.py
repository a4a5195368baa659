"""A linked trace (``hta-graph chakra link``, or Chakra's own linker) → the trace and the dependencies that it records.

    linked = read_linked("linked.rank0.json")
    graph = build_graph(linked.trace, (*DEFAULT_RULES, linked.waits))

A linked trace holds operators and GPU activities with times, who launched what, and who waited for whom, but no
calls. Calls without length stand in for launches, at the activity's start or the operator's end, whichever is first; a
call ``[wait]`` for the time in which an operator was blocked (``blocked_dur``), at the operator's end.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.errors import Remedy, TraceError
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.chakra.host_trace import HostValues
from hta_graph.graph.edges import EdgeTable
from hta_graph.model import Bools, EdgeKind, Ids, Ints
from hta_graph.trace.decompress import FileBytes, read_bytes, text_head
from hta_graph.trace.event_args import EventArgs
from hta_graph.trace.rank_files import rank_in_name
from hta_graph.trace.read import trace_of_bytes
from hta_graph.trace.table import Trace

LINKED = re.compile(rb'\s*\{\s*"schema"\s*:\s*"[^"]*chakra')
NANOSECOND = Decimal("0.001")
REMEDY = Remedy("link_traces() and linked_json() make one", "hta-graph chakra link writes one")

PEAK_PER_BYTE = 12
"""What nodes and the rows that are made of them take in memory for each byte of text."""
HEAD_BYTES = 4_096
"""Bytes at the start of a file that identify its format."""

USER_SCOPE = 7
"""The scope of annotations in host traces."""

MALFORMED = (
    LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError, msgspec.MsgspecError,
)  # fmt: skip
"""What a document of another shape raises."""

JsonRow = dict[str, Any]


@dataclass(frozen=True)
class LinkedTraceInput:
    """A linked trace as rows of events; ``node`` is the place of each event's host node (canonical rows; -1: none)."""

    trace: Trace
    node: Ids
    _nodes: list[JsonRow]
    _rows: list[JsonRow]
    _waits: dict[EdgeKind, list[tuple[int, int]]]
    _distributed: dict[str, Any]

    def inputs(self, row: int) -> HostValues:
        """Return what went into a host node."""
        return _host_values(self._nodes[row].get("inputs"))

    def outputs(self, row: int) -> HostValues:
        """Return what came out of a host node.

        Raises:
            TraceError: that has another form.
        """
        try:
            return _host_values(self._nodes[row].get("outputs"))
        except msgspec.ValidationError as error:
            place = f"node {self._nodes[row]['id']}"
            raise TraceError(self.trace.path, f"{place} has outputs of an unknown form: {error}", REMEDY) from None

    def attributes(self, row: int) -> Mapping[str, Any]:
        """Return a host node's attributes by name."""
        return _attributes_by_name(self._nodes[row])

    def details(self, _: Trace, keys: Sequence[str], events: Ids | Ints | Bools) -> EventArgs:
        """Return arguments of events (canonical rows), as :func:`hta_graph.trace.event_args.read_event_args` does."""
        index = self.trace.events.index[events].tolist()
        columns = {}
        for key in keys:
            columns[key] = np.empty(len(index), object)
            columns[key][:] = [self._rows[at]["args"].get(key) for at in index]
        return EventArgs(columns, self._distributed)

    def waits(self, _: object) -> EdgeTable:
        """Link what waits to what it waits for; a rule for :func:`hta_graph.build.from_trace.build_graph`."""
        events = self.trace.events
        row = np.full(len(self._rows), -1, np.int32)
        row[events.index] = np.arange(len(events), dtype=np.int32)
        # Rows that the reader left out have no event, and nothing waits for them.
        tables = []
        for kind, pairs in self._waits.items():
            source, target = (row[side] for side in np.array(pairs, np.int64).reshape(-1, 2).T)
            source, target = source[known := (source >= 0) & (target >= 0)], target[known]
            tables.append(EdgeTable.to_events(kind, source, target, to_end=kind == EdgeKind.STREAM_SYNC))
        return EdgeTable.join(tables)


def is_linked_trace(path: Location) -> bool:
    """Return whether a file with Chakra's schema is a linked trace, by a key that host traces do not have."""
    return b'"inclusive_dur"' in read_bytes(path, per_byte=PEAK_PER_BYTE).data


def has_chakra_schema(path: Location) -> bool:
    """Return whether a file begins as a host or linked trace of Chakra's does."""
    return LINKED.match(text_head(path, HEAD_BYTES)) is not None


def read_linked(path: str | Location) -> LinkedTraceInput:
    """Read a linked trace.

    Raises:
        TraceError: the file cannot be read, or is no linked trace.
    """
    path = resolve_location(path)
    content = read_bytes(path, per_byte=PEAK_PER_BYTE)
    if content.broken:
        raise TraceError(path, content.broken, "link the traces again")
    document = _decode_document(path, content.data)
    try:
        nodes = [node for node in document["nodes"] if isinstance(node.get("ts"), (int, Decimal))]
        rows = _EventRows(document, nodes)
    except MALFORMED as error:
        raise TraceError(path, f"is not a linked trace: {type(error).__name__} {error}", REMEDY) from None
    if not rows.activities:
        remedy = Remedy(
            "pass a linked trace (link_traces() makes one), not a host trace",
            "pass a linked trace (hta-graph chakra link), not a host trace",
        )
        raise TraceError(path, "holds no GPU nodes", remedy)
    distributed = document.get("distributedInfo")
    header = {"distributedInfo": distributed, "baseTimeNanoseconds": document.get("baseTimeNanoseconds", 0)}
    text = msgspec.json.encode({**header, "traceEvents": rows.listed})
    trace = trace_of_bytes(path, FileBytes(text))
    rank = document.get("rank")
    is_rank = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < 2**31
    trace = replace(trace, rank=rank if is_rank else rank_in_name(path))
    node = np.array([rows.node.get(at, -1) for at in trace.events.index.tolist()], np.int32)
    return LinkedTraceInput(
        trace, node, nodes, rows.listed, rows.waits, distributed if isinstance(distributed, dict) else {}
    )


def _decode_document(path: Location, text: bytes | memoryview) -> Any:
    try:
        return msgspec.json.Decoder(float_hook=Decimal).decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        cause = f"the JSON is truncated at byte {len(text):,}" if "truncated" in str(error) else f"is not JSON: {error}"
        raise TraceError(path, cause, "link the traces again") from None
    except RecursionError:
        raise TraceError(path, "nests JSON values too deeply to be a linked trace", REMEDY) from None


class _EventRows:
    """The nodes of a linked trace as rows of a device trace; ``waits`` are pairs of row numbers per kind of edge."""

    def __init__(self, document: JsonRow, nodes: list[JsonRow]) -> None:
        self.listed: list[JsonRow] = []
        self.node: dict[int, int] = {}
        self.waits: dict[EdgeKind, list[tuple[int, int]]] = defaultdict(list)
        self._pid = document.get("pid", 0)
        self._row_of_id: dict[int, int] = {}
        self.activities = [node for node in nodes if "cat" in node]
        hosted = [(at, node) for at, node in enumerate(nodes) if "cat" not in node]
        for at, node in hosted:
            self.node[len(self.listed)] = at
            self._add_row(node, _host_row(self._pid, node))
        for node in self.activities:
            self._add_launch(node)
            self._add_row(node, _activity_row(node))
        self._add_waits_between_nodes(nodes)
        self._add_waits_of_operators([node for _, node in hosted])

    def _add_row(self, node: JsonRow, row: JsonRow) -> None:
        self._row_of_id[node["id"]] = len(self.listed)
        self.listed.append(row)

    def _add_launch(self, node: JsonRow) -> None:
        """Add the call that launched an activity; what one call launched has one correlation and one operator."""
        # Just before the operator's end, so that the call lies inside the operator and launches what follows it.
        owner = self.listed[self._row_of_id[node["ctrl_deps"]]]
        begin, end = owner["ts"], owner["ts"] + owner["dur"] - NANOSECOND
        self._add_call("[launch]", owner["tid"], max(begin, min(end, node["ts"])), 0, _correlation_of(node))

    def _add_call(self, name: str, thread: int, start: Any, length: Any, correlation: int = 0) -> None:
        self.listed.append(
            {"ph": "X", "cat": "cuda_runtime", "name": name, "pid": self._pid, "tid": thread, "ts": start,
             "dur": length, "args": {"correlation": correlation}}
        )  # fmt: skip

    def _add_waits_between_nodes(self, nodes: list[JsonRow]) -> None:
        for node in nodes:
            own = self._row_of_id[node["id"]]
            for source in node.get("gpu_sync_dep") or []:
                self.waits[EdgeKind.EVENT_WAIT].append((self._row_of_id[source], own))
            if node.get("inter_thread_dep"):
                self.waits[EdgeKind.THREAD_HANDOFF].append((self._row_of_id[node["inter_thread_dep"]], own))

    def _add_waits_of_operators(self, hosted: list[JsonRow]) -> None:
        """Let each synchronised operator wait in the last operator before it on its thread that was blocked."""
        # A linked trace says who goes on after a synchronisation, not who waited in it; that one was blocked last.
        blocked: dict[int, list[JsonRow]] = defaultdict(list)
        for node in sorted(hosted, key=lambda node: node["ts"]):
            thread = _attributes_by_name(node).get("tid", 0)
            if node.get("sync_dep"):
                before = blocked[thread].pop() if blocked[thread] else None
                self._add_wait(node, before, thread)
            if node.get("blocked_dur") and _attributes_by_name(node).get("scope") != USER_SCOPE:
                blocked[thread] = [node]

    def _add_wait(self, node: JsonRow, before: JsonRow | None, thread: int) -> None:
        end = min(before["ts"] + before["inclusive_dur"], node["ts"]) if before else node["ts"]
        length = min(before["blocked_dur"], end - before["ts"]) if before else 0
        self._add_call("[wait]", thread, end - length, length)
        # The wait is a blocking call on whose return the GPU work has an edge, as in a device trace.
        for source in node["sync_dep"]:
            self.waits[EdgeKind.STREAM_SYNC].append((self._row_of_id[source], len(self.listed) - 1))


def _host_row(pid: int, node: JsonRow) -> JsonRow:
    known = _attributes_by_name(node)
    inputs = _host_values(node.get("inputs"))
    args = {
        **(node.get("args") or {}),
        "Sequence number": known.get("seq_id", -1),
        "Fwd thread id": known.get("fw_tid", 0),
        "Input Dims": inputs.shapes,
        "Input type": [re.sub(r"^Tensor\((.*)\)$", r"\1", kind) for kind in inputs.types],
    }
    return {
        "ph": "X", "cat": "user_annotation" if known.get("scope") == USER_SCOPE else "cpu_op", "name": node["name"],
        "pid": pid, "tid": known.get("tid", 0), "ts": node["ts"], "dur": node["inclusive_dur"], "args": args,
    }  # fmt: skip


def _activity_row(node: JsonRow) -> JsonRow:
    args = {"stream": node.get("stream", 0), **(node.get("args") or {}), "correlation": _correlation_of(node)}
    return {
        "ph": "X", "cat": node["cat"], "name": node["name"], "pid": args.get("device", 0), "tid": args["stream"],
        "ts": node["ts"], "dur": node["inclusive_dur"], "args": {"device": 0, **args},
    }  # fmt: skip


def _correlation_of(node: JsonRow) -> int:
    found = (node.get("args") or {}).get("correlation")
    return found if isinstance(found, int) else node["id"] + 1


def _attributes_by_name(node: JsonRow) -> dict[str, Any]:
    return {attribute["name"]: attribute.get("value") for attribute in node["attrs"]}


def _host_values(found: Any) -> HostValues:
    return msgspec.convert(found or {}, HostValues)
