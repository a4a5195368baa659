"""A graph's trace as Kineto JSON in today's dialect: what PyTorch's profiler writes, and Perfetto and HTA open.

Whatever recorded it, an event keeps its name, its lane, its ids and its times: exact ones, those of the file and not of
a corrected clock. What a Kineto file holds besides, such as shapes and Python frames, is taken from it once more. Of
other rows the names of processes and threads stay; arrows are drawn anew, from correlations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from math import isnan
from typing import Any

import msgspec
import numpy as np

from hta_graph.base.arrays import find_sorted, first_of_runs, take_or
from hta_graph.base.errors import TraceError, UsageError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.compress import compressed_for
from hta_graph.base.storage.location import Location
from hta_graph.base.storage.output_paths import check_output
from hta_graph.base.text.formatting import microseconds
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.json_reader import Header, RowReader, RowShape
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.profiler_names import CATEGORY, FIRST_NODE_ARROW, LAUNCH_ARROWS
from hta_graph.trace.table import Trace, activity_mask

BASE_STEP_NS = 7_889_238 * 10**9
"""Kineto's times count from a multiple of a quarter of a year: a float64 holds the nanoseconds of what is left."""

CATEGORY_OF_KIND: Mapping[int, str] = {
    EventKind.CPU_OP: "cpu_op",
    EventKind.ANNOTATION: "user_annotation",
    EventKind.PYTHON_FUNCTION: "python_function",
    EventKind.RUNTIME: "cuda_runtime",
    EventKind.KERNEL: "kernel",
    EventKind.MEMCPY: "gpu_memcpy",
    EventKind.MEMSET: "gpu_memset",
    EventKind.GPU_ANNOTATION: "gpu_user_annotation",
    EventKind.SYNC_RECORD: "cuda_sync",
    EventKind.MEMORY: "cpu_instant_event",
    EventKind.OVERHEAD: "overhead",
    EventKind.GRAPH_HOST_NODE: "graph_host_node",
    EventKind.GRAPH_EVENT_NODE: "graph_event_node",
}
"""What Kineto calls each kind of event; any other kind has no category."""

ID_ARGUMENTS = (("correlation", 1), ("External id", 1), ("Sequence number", 0), ("Fwd thread id", 1))
"""The arguments that hold an event's ids, and the least value that is one."""

WITH_RANK = re.compile(r"(.+) \(rank (\d{1,9})\)")
ROWS_AT_ONCE = 10_000

Record = dict[str, Any]
_encode = msgspec.json.Encoder(decimal_format="number").encode


class _FileRow(msgspec.Struct, gc=False, omit_defaults=True):
    """What the row of an event, or of a name, says in a Kineto file."""

    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    args: Any = None


def _row_of_object(row: Record) -> _FileRow:
    return _FileRow(*(row.get(key) for key in _FileRow.__struct_fields__))


_FILE_ROWS = RowShape(_FileRow, _row_of_object)


def write_kineto(graph: DependencyGraph, target: str | Location) -> int:
    """Write the trace of one rank's graph as Kineto JSON and return its number of events.

    Args:
        graph: the graph of a rank; of a job, write those of ``rank_graphs`` one by one.
        target: the file; names that end in ``.gz`` or ``.zst`` are compressed.

    Raises:
        UsageError: the graph is that of a job.
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
        MissingExtraError: it is to be packed as zstd, and that package is not installed.
    """
    if graph.is_job:
        raise UsageError("a Kineto trace holds one rank; write each of job.rank_graphs to a file of its own")
    check_output(target, [graph.path])
    with paused_gc():
        write_file(target, compressed_for(target, kineto_text(graph.trace)))
    return len(graph.trace.events)


def kineto_text(trace: Trace) -> Iterator[bytes]:
    """Yield a trace as Kineto JSON, in pieces: its events in the order of their ``event_index``, then all else.

    Raises:
        TraceError: the trace's file is gone or has changed.
    """
    source = _FileRows(trace)
    events = _event_rows(trace, source)
    between = b'{"traceEvents":[\n'
    for piece in _pieces(chain(events, source.name_rows(), _arrow_rows(trace))):
        yield between + b",\n".join(map(_encode, piece))
        between = b",\n"
    opening = between if between != b",\n" else b""
    yield opening + b"\n],\n" + _encode(_header(trace, source.header))[1:-1] + b"}\n"


def _pieces(rows: Iterable[Record | _FileRow]) -> Iterator[list[Record | _FileRow]]:
    rows = iter(rows)
    return iter(lambda: list(islice(rows, ROWS_AT_ONCE)), [])


class _FileRows:
    """The rows of a trace's file as they stand there; the named rows and the header are known behind the events."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._named: list[_FileRow] = []
        self.header = Header()

    def of_events(self, index: Ids) -> Iterator[_FileRow]:
        """Yield the rows of events, by their places in the file (ascending).

        Raises:
            TraceError: the file is gone or has changed.
        """
        trace = self._trace
        reader = RowReader(trace.path, read_bytes(trace.path), _FILE_ROWS, salvage=trace.salvaged is not None)
        first = 0
        for part in reader:
            here = index[np.searchsorted(index, first) : np.searchsorted(index, first + len(part.rows))]
            yield from (part.rows[at] for at in (here - first).tolist())
            self._named += [row for row in part.rows if row.ph == "M" and isinstance(row.args, dict)]
            first += len(part.rows)
        if first <= int(index.max(initial=-1)):
            raise TraceError(trace.path, "has changed since it was read", "run the command again")
        self.header = reader.facts.header

    def name_rows(self) -> Iterator[_FileRow | Record]:
        """Yield what the trace's processes and threads are called: by the file, or else by what they are."""
        pids = {place.get("pid") for place, _ in _places(self._trace)}
        named = [row for row in map(self._of_own_rank, self._named) if _number(str(row.pid)) in pids]
        yield from named or _name_rows(self._trace)

    def _of_own_rank(self, row: _FileRow) -> _FileRow:
        """Return a row without the rank that a file with multiple ranks appends to its processes."""
        found = WITH_RANK.fullmatch(row.pid) if isinstance(row.pid, str) else None
        if found is None or int(found[2]) != self._trace.rank:
            return row
        return msgspec.structs.replace(row, pid=_number(found[1]))


def _event_rows(trace: Trace, source: _FileRows) -> Iterator[Record]:
    events, times = trace.events, trace.file_times
    order = np.argsort(events.index, kind="stable")
    columns = (events.kind, events.name, events.lane, times.start, times.end)
    ids = (events.correlation, events.external_id, events.sequence, events.forward_thread)
    values = zip(order.tolist(), *(column[order].tolist() for column in (*columns, *ids)), strict=True)
    places, own, base = _places(trace), _own_arguments(trace), _base_ns(trace)
    for known, (event, kind, name, lane, start, end, *numbers) in zip(
        source.of_events(events.index[order]), values, strict=True
    ):
        place, on_stream = places[lane]
        found: Record = {"ph": "X"}
        if kind == EventKind.MEMORY and known.ph != "X":
            found = {"ph": "i", "s": "t"}
        if category := _category(kind, trace.names[name], known.cat):
            found["cat"] = category
        found |= {"name": trace.names[name], **place, "ts": _printed(start - base)}
        if end > start or found["ph"] == "X":
            found["dur"] = _printed(end - start)
        args = on_stream | own.get(event, {}) | (known.args if isinstance(known.args, dict) else {})
        args |= {key: value for (key, least), value in zip(ID_ARGUMENTS, numbers, strict=True) if value >= least}
        yield found | {"args": args} if args else found


def _base_ns(trace: Trace) -> int:
    first = int(trace.file_times.start.min()) if len(trace.events) else 0
    return max(first // BASE_STEP_NS, 0) * BASE_STEP_NS


def _printed(ns: int) -> msgspec.Raw:
    return msgspec.Raw(microseconds(ns).encode())


def _category(kind: int, name: str, recorded: Any) -> str | None:
    """Return the category that means a kind; the recorded one where it does.

    >>> _category(EventKind.RUNTIME, "cuLaunchKernel", None), _category(EventKind.CPU_OP, "aten::mm", "Operator")
    ('cuda_driver', 'Operator')
    """
    if isinstance(recorded, str) and CATEGORY.get(recorded.lower(), EventKind.OTHER) == kind:
        return recorded
    if kind == EventKind.RUNTIME and name.startswith("cu") and name[2:3].isupper():
        return "cuda_driver"
    return CATEGORY_OF_KIND.get(kind)


def _places(trace: Trace) -> list[tuple[Record, Record]]:
    """Return the process and thread of each lane, and the arguments of events on it: those that name its stream."""
    found: list[tuple[Record, Record]] = []
    for label, is_stream in zip(trace.lanes.labels, trace.lanes.is_stream.tolist(), strict=True):
        kind, _, ids = label.partition(" ")
        parts = [_number(part) for part in ids.split(":", 2 if is_stream else 1)]
        if is_stream and len(parts) == 3:
            device, context, stream = (-1 if part is None else part for part in parts)
            args = {"device": device, "context": context, "stream": stream}
            if context == -1:
                del args["context"]
            found.append(({"pid": device, "tid": stream}, args))
        else:
            place = dict(zip(("pid", "tid"), parts if kind == "thread" else [label], strict=False))
            found.append(({key: value for key, value in place.items() if value is not None}, {}))
    return found


def _name_rows(trace: Trace) -> Iterator[Record]:
    named = set()
    for (place, on_stream), label in zip(_places(trace), trace.lanes.labels, strict=True):
        pid = place.get("pid")
        if pid not in named:
            named.add(pid)
            for key, value in (("name", "python"), ("labels", f"GPU {pid}" if on_stream else "CPU")):
                yield {"ph": "M", "name": f"process_{key}", "pid": pid, "args": {key: value}}
        title = f"stream {place['tid']}" if on_stream else label
        yield {"ph": "M", "name": "thread_name", **place, "args": {"name": title}}


def _number(text: str) -> int | str | None:
    """Read an id of a lane's label.

    >>> _number("7"), _number("-1"), _number("007"), _number("-")
    (7, -1, '007', None)
    """
    if text == "-":
        return None
    try:
        return int(text) if str(int(text)) == text else text
    except ValueError:
        return text


def _own_arguments(trace: Trace) -> dict[int, Record]:
    """Return what the side tables of a trace know of single events: what copies moved, what a wait was for."""
    found: dict[int, Record] = {}
    copies, syncs = trace.copies, trace.syncs
    for event, size, rate in zip(copies.event.tolist(), copies.bytes.tolist(), copies.bandwidth.tolist(), strict=True):
        moved = {"bytes": size if size >= 0 else None, "memory bandwidth (GB/s)": None if isnan(rate) else rate}
        found[event] = {key: value for key, value in moved.items() if value is not None}
    waits = zip(syncs.event.tolist(), syncs.wait_on_stream.tolist(), syncs.record_correlation.tolist(), strict=True)
    for event, stream, record in waits:
        found[event] = {"cuda_sync_kind": trace.name_of(event)}
        if max(stream, record) >= 0:
            found[event] |= {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": record}
    return found


def _arrow_rows(trace: Trace) -> Iterator[Record]:
    """Yield the arrows from calls to their work, from forward to backward operators, and between nodes of graphs."""
    places, base = [place for place, _ in _places(trace)], _base_ns(trace)
    for category, number, ends in chain(_launches(trace), _flows(trace), _nodes_in_order(trace)):
        for (time, lane), phase in zip(ends, ({"ph": "s"}, {"ph": "f", "bp": "e"}), strict=True):
            yield phase | {"id": number, "cat": category, "name": category, **places[lane], "ts": _printed(time - base)}


LaunchArrow = tuple[str, int, tuple[tuple[int, int], tuple[int, int]]]


def _launches(trace: Trace) -> Iterator[LaunchArrow]:
    events, start = trace.events, trace.file_times.start
    calls = np.flatnonzero((events.kind == EventKind.RUNTIME) & (events.correlation > 0))
    calls = calls[np.argsort(events.correlation[calls], kind="stable")]
    calls = calls[first_of_runs(events.correlation[calls])]
    work = np.flatnonzero(activity_mask(events, trace.lanes) & (events.correlation > 0))
    call = take_or(calls, find_sorted(events.correlation[work], events.correlation[calls]))
    work, call = work[call >= 0], call[call >= 0]
    columns = (events.correlation[work], start[call], events.lane[call], start[work], events.lane[work])
    for number, began, thread, ran, stream in zip(*(column.tolist() for column in columns), strict=True):
        yield "ac2g", number, ((began, thread), (ran, stream))


def _flows(trace: Trace) -> Iterator[LaunchArrow]:
    flows = trace.flows
    known = np.flatnonzero((flows.start_lane >= 0) & (flows.end_lane >= 0))
    columns = (flows.start_time, flows.start_lane, flows.end_time, flows.end_lane)
    for number, (began, first, ended, last) in enumerate(
        zip(*(column[known].tolist() for column in columns), strict=True)
    ):
        yield "fwdbwd", number + 1, ((began, first), (ended, last))


def _nodes_in_order(trace: Trace) -> Iterator[LaunchArrow]:
    nodes, times, lane = trace.node_order, trace.file_times, trace.events.lane
    columns = (times.end[nodes.source], lane[nodes.source], times.start[nodes.target], lane[nodes.target])
    for number, (ended, first, began, last) in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield LAUNCH_ARROWS[0], FIRST_NODE_ARROW + number, ((ended, first), (began, last))


def _header(trace: Trace, known: Header) -> Record:
    """Return the header: devices, versions, the rank, and the time from which times count."""
    devices: Any = [{"id": number, "name": name} for number, name in enumerate(trace.gpu_names)]
    ranks = known.distributed if isinstance(known.distributed, dict) else {}
    sizes = {"rank": trace.rank, "world_size": trace.world_size}
    ranks = ranks | {key: value for key, value in sizes.items() if value is not None}
    settings = known.settings or {key: value for key, value in trace.settings.items() if key not in ranks}
    return {
        "schemaVersion": 1,
        "deviceProperties": known.devices if isinstance(known.devices, list) else devices,
        **settings,
        **({"distributedInfo": ranks} if ranks else {}),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": _base_ns(trace),
    }
