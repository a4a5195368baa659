"""Perfetto traces made of the rows of a Kineto trace: as PyTorch's Cuspy encoder lays packets out, or slice by slice.

Source: torch/profiler/_cuspy/trace.py and torch/csrc/profiler/cuspy/cuspy_pftrace.cpp (pytorch 966f5435): all begins of
a table of rows and then all its ends; GPU work as render stages whose arguments are texts; no times in order.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hta_graph.trace.pftrace.packets import BEGIN, END
from hta_graph.trace.pftrace.schema import TracePacket
from hta_graph.trace.pftrace.text import CATEGORY_OF_STAGE
from tests.support.cuspy_rows import FIRST_ARROW

Row = dict[str, Any]
STAGES = {category: number for number, category in enumerate(CATEGORY_OF_STAGE.values(), 1)}
STAGE_NAMES = list(CATEGORY_OF_STAGE)
WITHOUT_CATEGORY = ("cuda_sync", "overhead")
NAME_OF_ARGUMENT = {"device": "device id", "context": "context id", "stream": "stream id"}


class PacketWriter:
    """Collects packets; names and categories are interned.

    Args:
        rows: complete rows of a Kineto trace, and arrows between nodes.
        base_ns: from when their times count.
    """

    def __init__(self, rows: Iterable[Row], base_ns: int) -> None:
        self.rows = list(rows)
        self.base = base_ns
        self.packets: list[Any] = []
        self.names: dict[str, int] = {}
        self.categories: dict[str, int] = {}
        self.tracks: dict[tuple[int, int], int] = {}

    def data(self) -> bytes:
        """Return the trace's bytes: tracks and texts first."""
        head = TracePacket(trusted_packet_sequence_id=1, sequence_flags=1)
        for texts, known in (
            (head.interned_data.event_names, self.names), (head.interned_data.event_categories, self.categories),
            (head.interned_data.gpu_specifications, {name: at for at, name in enumerate(STAGE_NAMES, 1)}),
        ):  # fmt: skip
            for text, number in known.items():
                texts.add(iid=number, text=text.encode())
        tracks = []
        for (pid, tid), uuid in self.tracks.items():
            packet = TracePacket()
            packet.track_descriptor.uuid = uuid
            thread = packet.track_descriptor.thread
            thread.pid, thread.tid, thread.thread_name = pid, tid, b"Overhead" if pid == -1 else b""
            tracks.append(packet)
        return b"".join(map(delimited, [*tracks, head, *self.packets]))

    def times(self, row: Row) -> tuple[int, int]:
        """Return when a row begins and ends (ns)."""
        start = self.base + round(row["ts"] * 1000)
        return start, start + round(row.get("dur", 0) * 1000)

    def track(self, row: Row) -> int:
        """Return the track of a row."""
        return self.tracks.setdefault((row["pid"], row["tid"]), len(self.tracks) + 1)

    def begin(self, row: Row) -> None:
        """Begin a slice."""
        packet = TracePacket(timestamp=self.times(row)[0], trusted_packet_sequence_id=1, sequence_flags=2)
        event = packet.track_event
        event.type, event.track_uuid = BEGIN, self.track(row)
        event.name_iid = self.names.setdefault(row["name"], len(self.names) + 1)
        if row["cat"] not in WITHOUT_CATEGORY:
            event.category_iids.append(self.categories.setdefault(row["cat"], len(self.categories) + 1))
        for key, value in row.get("args", {}).items():
            put(event.debug_annotations.add(name=key.encode()), value)
        self.packets.append(packet)

    def end(self, row: Row) -> None:
        """End a slice."""
        packet = TracePacket(timestamp=self.times(row)[1], trusted_packet_sequence_id=1)
        packet.track_event.type, packet.track_event.track_uuid = END, self.track(row)
        self.packets.append(packet)

    def stage(self, row: Row, number: int, waits: Iterable[int]) -> None:
        """Write GPU work as a render stage; its stream is the one that it ran on."""
        start, end = self.times(row)
        packet = TracePacket(timestamp=start, trusted_packet_sequence_id=1, sequence_flags=2)
        event = packet.gpu_render_stage_event
        event.event_id, event.duration, event.gpu_id = number, end - start, row["pid"]
        event.stage_iid = STAGES[row["cat"]]
        event.event_wait_ids.extend(waits)
        if row["name"] not in STAGE_NAMES and row["cat"] != "graph_host_node":
            event.name_iid = self.names.setdefault(row["name"], len(self.names) + 1)
        args = dict(row["args"])
        args["stream"] = args.pop("original_stream", args["stream"])
        if ": " in row["name"] and row["cat"] == "graph_host_node":
            args["host fn"] = row["name"].partition(": ")[2]
        for key, value in args.items():
            text = value if isinstance(value, str) else json.dumps(value)
            event.extra_data.add(name=NAME_OF_ARGUMENT.get(key, key).encode(), value=text.encode())
        self.packets.append(packet)


def delimited(packet: Any) -> bytes:
    """Return a packet as a trace holds it."""
    data, prefix = packet.SerializeToString(), bytearray(b"\n")
    size = len(data)
    while size >= 0x80:
        prefix.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*prefix, size]) + bytes(data)


def put(item: Any, value: Any) -> None:
    """Give an argument its value."""
    if isinstance(value, bool):
        item.bool_value = value
    elif isinstance(value, int):
        item.int_value = value
    elif isinstance(value, float):
        item.double_value = value
    elif isinstance(value, list):
        for one in value:
            put(item.array_values.add(), one)
    elif isinstance(value, dict):
        for key, one in value.items():
            put(item.dict_entries.add(name=key.encode()), one)
    else:
        item.string_value = str(value).encode()


def cuspy_pftrace(document: Row) -> bytes:
    """Return a trace as Cuspy's encoder writes it: tables of slices, then render stages with what they waited for."""
    writer = _writer(document)
    on_gpu = [row for row in writer.rows if row["cat"] in STAGES]
    others = [row for row in writer.rows if row["cat"] not in STAGES]
    for category in dict.fromkeys(row["cat"] for row in others):
        table = [row for row in others if row["cat"] == category]
        for add in (writer.begin, writer.end):
            for row in table:
                add(row)
    number = {id(row): at for at, row in enumerate(on_gpu, 1)}
    waits = _waits(document["traceEvents"], on_gpu)
    for row in on_gpu:
        writer.stage(row, number[id(row)], [number[id(source)] for source in waits.get(id(row), [])])
    return writer.data()


def sliced_pftrace(document: Row) -> bytes:
    """Return a trace of slices alone, in order of time; what overlaps without nesting has a track of its own."""
    writer = _writer(document)
    open_rows: dict[int, list[Row]] = {}
    taken: dict[tuple[int, int], list[int]] = {}
    events: list[tuple[int, int, bool, Row]] = []
    for row in sorted(writer.rows, key=lambda row: (writer.times(row)[0], -writer.times(row)[1])):
        start, end = writer.times(row)
        lane = taken.setdefault((row["pid"], row["tid"]), [])
        for at, track in enumerate([*lane, -1]):
            stack = open_rows.setdefault(track, []) if track >= 0 else []
            while stack and writer.times(stack[-1])[1] <= start:
                events.append((writer.times(stack[-1])[1], track, False, stack.pop()))
            if not stack or end <= writer.times(stack[-1])[1]:
                own = track if at < len(lane) else 1_000 + len(open_rows)
                lane += [own] if at == len(lane) else []
                open_rows.setdefault(own, []).append(row)
                events.append((start, own, True, row))
                break
    for track, stack in open_rows.items():
        events += [(writer.times(row)[1], track, False, row) for row in reversed(stack)]
    for _, track, begins, row in sorted(events, key=lambda event: event[0]):
        (writer.begin if begins else writer.end)(row)
        writer.packets[-1].track_event.track_uuid = track
    data = writer.data()
    return data + b"".join(delimited(_descriptor(track, *place)) for place, tracks in taken.items() for track in tracks)


def _descriptor(track: int, pid: int, tid: int) -> Any:
    packet = TracePacket()
    packet.track_descriptor.uuid = track
    packet.track_descriptor.thread.pid, packet.track_descriptor.thread.tid = pid, tid
    return packet


def _writer(document: Row) -> PacketWriter:
    rows = [row for row in document["traceEvents"] if row.get("ph") == "X" and isinstance(row.get("pid"), int)]
    return PacketWriter(rows, int(document.get("baseTimeNanoseconds", 0)))


def _waits(rows: Iterable[Row], on_gpu: Iterable[Row]) -> dict[int, list[Row]]:
    """Return what each row waited for, by the arrows from ends to starts."""
    ends: dict[Any, Row] = {}
    starts: dict[Any, Row] = {}
    for row in on_gpu:
        ends[row["pid"], row["tid"], row["ts"] + row["dur"]] = row
        starts[row["pid"], row["tid"], row["ts"]] = row
    arrows: dict[int, dict[str, Row]] = {}
    for row in rows:
        if row.get("ph") in ("s", "f") and row["id"] >= FIRST_ARROW:
            arrows.setdefault(row["id"], {})[row["ph"]] = row
    found: dict[int, list[Row]] = {}
    for pair in arrows.values():
        place = [(pair[phase]["pid"], pair[phase]["tid"], pair[phase]["ts"]) for phase in "sf"]
        found.setdefault(id(starts[place[1]]), []).append(ends[place[0]])
    return found


def write_pftrace(data: bytes, path: Path) -> Path:
    """Write a trace, gzip inside as the recorder does."""
    path.write_bytes(gzip.compress(data, 1, mtime=0))
    return path
