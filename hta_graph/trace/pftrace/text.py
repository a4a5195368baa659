"""A Perfetto trace of PyTorch's Cuspy recorder → the text of the Kineto trace that it would have written as JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

import msgspec

from hta_graph.base.errors import NotATraceError
from hta_graph.base.storage.location import Location
from hta_graph.base.text.formatting import microseconds
from hta_graph.trace.formats import CATEGORIES_LISTED, PROFILE_AGAIN
from hta_graph.trace.memory_limit import TextLimit
from hta_graph.trace.pftrace.packets import Contents, CutError, Slice, packets
from hta_graph.trace.profiler_names import CATEGORY, FIRST_NODE_ARROW, LAUNCH_ARROWS

CATEGORY_OF_STAGE = {
    "Kernel": "kernel", "Memcpy": "gpu_memcpy", "Memset": "gpu_memset", "Annotation": "gpu_user_annotation",
    "EventRecord": "graph_event_node", "HostNode": "graph_host_node",
}  # fmt: skip
"""What the writer calls the kinds of GPU work."""
ARGUMENT = {"device id": "device", "context id": "context", "stream id": "stream"}
"""Its names of arguments that Kineto calls otherwise."""
NUMBERS = ("device", "context", "stream", "correlation", "graph id", "graph node id", "bytes", "priority", "queued")
PEAK_PER_PACKED = 40
"""What a process takes at most for each byte of packets while their slices are held (measured: 9)."""
PIECE = 1 << 17
SYNC_KIND, OVERHEAD = "cuda_sync_kind", "Overhead"
"""The argument of records of synchronization, and the track of what the recorder costs: both have no category."""

Row = dict[str, Any]
_encode = msgspec.json.Encoder().encode


def kineto_text(path: Location, pieces: Iterable[bytes], report: Callable[[str], None]) -> Iterator[bytes]:
    """Yield the text of the Kineto trace; of damaged data without an end, and what is wrong is reported before.

    Raises:
        NotATraceError: no event is one of PyTorch's profiler.
        TooLargeError: there is not enough memory for its slices.
    """
    contents, damage = Contents(), ""
    limit, text_limit = TextLimit(path, per_byte=PEAK_PER_PACKED), TextLimit(path)
    try:
        for past, packet in packets(pieces):
            limit.check(past)
            contents.add(packet)
            text_limit.check(contents.text_size)
    except CutError as error:
        damage = error.message
        report(damage)
    contents.pair()
    _check_categories(path, contents, damage)
    rows = chain(_name_rows(contents), _slice_rows(contents), _stage_rows(contents))
    base = min((item.start for item in chain(contents.slices, contents.stages)), default=0)
    piece, between = bytearray(b'{"schemaVersion":1,"baseTimeNanoseconds":%d,"traceEvents":[\n' % base), b""
    for row in rows:
        piece += between + _encode(_relative(row, base))
        between = b",\n"
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + (b"" if damage else b"\n]}\n")


def _relative(row: Row, base: int) -> Row:
    """Return a row whose times (ns) are printed as Kineto does: in µs, from the base on."""
    if "ts" in row:
        row["ts"] = msgspec.Raw(microseconds(row["ts"] - base).encode())
    if "dur" in row:
        row["dur"] = msgspec.Raw(microseconds(row["dur"]).encode())
    return row


def _check_categories(path: Location, contents: Contents, damage: str) -> None:
    """Refuse a trace of another program."""
    found = dict.fromkeys(item.category for item in contents.slices)
    stages = any(item.category in CATEGORY_OF_STAGE for item in contents.stages)
    if stages or any(category.lower() in CATEGORY for category in found):
        return
    if not contents.slices and not contents.stages:
        cause = "is a protobuf trace, such as Perfetto's (.pftrace), without events of PyTorch's profiler"
        raise NotATraceError(path, f"{cause}: {damage}" if damage else cause, PROFILE_AGAIN)
    listed = ", ".join(list(filter(None, found))[:CATEGORIES_LISTED]) or "none"
    cause = "is a Perfetto trace (.pftrace) of another program: no event has a category of PyTorch's profiler"
    raise NotATraceError(path, f"{cause} (found: {listed})", PROFILE_AGAIN)


def _name_rows(contents: Contents) -> Iterator[Row]:
    for pid, name in contents.processes.values():
        yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
    for pid, tid, name in contents.threads.values():
        if name:
            yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _slice_rows(contents: Contents) -> Iterator[Row]:
    for item in contents.slices:
        pid, tid, name = contents.threads.get(item.track, (0, item.track, ""))
        category = item.category
        if SYNC_KIND in item.args:
            category, pid, tid = "cuda_sync", item.args.get("device", pid), item.args.get("stream", tid)
        elif not category and name == OVERHEAD:
            category = "overhead"
        row: Row = {"ph": "X", "cat": category, "name": item.name, "pid": pid, "tid": tid, "ts": item.start}
        # What never ended stays a begin, which the reader counts.
        row |= {"ph": "B"} if item.end is None else {"dur": item.end - item.start}
        yield row | {"args": item.args}
    for track, time in contents.strays:
        pid, tid, _ = contents.threads.get(track, (0, track, ""))
        yield {"ph": "E", "cat": "cpu_op", "pid": pid, "tid": tid, "ts": time}


def _stage_rows(contents: Contents) -> Iterator[Row]:
    """Yield what GPUs did, and the arrows from the nodes of graphs to those that waited for them."""
    by_number = {item.number: item for item in contents.stages}
    for item in contents.stages:
        item.args = _stage_args(item)
    arrow, category = FIRST_NODE_ARROW, LAUNCH_ARROWS[0]
    for item in contents.stages:
        args = item.args
        name = f"{item.name}: {args['host fn']}" if item.category == "HostNode" and "host fn" in args else item.name
        yield {
            "ph": "X", "cat": CATEGORY_OF_STAGE.get(item.category, item.category), "name": name,
            "pid": item.track, "tid": args.get("stream", -1), "ts": item.start, "dur": (item.end or 0) - item.start,
            "args": args,
        }  # fmt: skip
        for source in filter(None, map(by_number.get, item.waits)):
            for own, time, phase in ((source, source.end, {"ph": "s"}), (item, item.start, {"ph": "f", "bp": "e"})):
                place = {"pid": own.track, "tid": own.args.get("stream", -1)}
                yield {**phase, "id": arrow, **place, "ts": time, "cat": category, "name": category}
            arrow += 1


def _stage_args(item: Slice) -> Row:
    args = {ARGUMENT.get(key, key): value for key, value in item.args.items()}
    args |= {key: int(args[key]) for key in NUMBERS if args.get(key, "").removeprefix("-").isdecimal()}
    if item.category == "Annotation":
        args.pop("context", None)  # it is written as 0, which is none
    return {"device": item.track, **args}
