"""A trace anonymized, written whole, with the same graph: the command ``strip``.

Each row stays in its place, so that an event keeps its number in the file. A row that is no event, no arrow and no
name of a thread becomes ``{}``, which readers pass over, and so does in a rank's copy of a merged file each row of
another rank.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.compress import compressed_for
from hta_graph.base.storage.location import Location
from hta_graph.base.storage.output_paths import check_output
from hta_graph.base.text.formatting import microseconds
from hta_graph.export.anonymize.allowlist import ArgumentAllowlist, allowed_header
from hta_graph.export.anonymize.keep_options import KEEP_OPTIONS
from hta_graph.export.anonymize.pseudonyms import IdMap, Pseudonyms
from hta_graph.model import EventKind, Ints
from hta_graph.trace.columnize import start_times
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.json_reader import FilePart, Number, RowReader, RowShape, number_or_text
from hta_graph.trace.profiler_names import CATEGORY, LAUNCH_ARROWS, PROFILER_RANGE
from hta_graph.trace.row_meaning import OLD_ARROW
from hta_graph.trace.table import Trace
from hta_graph.trace.timestamps import INVALID

NAMELESS_CALLS = "privateuse1_runtime"
ARROW_CATEGORIES = (*LAUNCH_ARROWS, "fwdbwd")
"""Categories of arrows, which are their names too."""

PROCESS_NAMES = re.compile(r"python[\d.]*|Spans|Traces|PyTorch Profiler|")
PROCESS_LABELS = re.compile(r"(CPU|GPU|NPU|XPU|MTIA)( \d{1,4})?|")
THREAD_NAMES = re.compile(r"stream \d{1,9}( \d{1,9})?|PyTorch Profiler|")
TITLED_THREAD = re.compile(
    r"thread -?\d+ \((python[\d.]*|pt_(main_thread|autograd_\d+|gloo_runloop|data_\w+|nccl_\w+))\)"
)
LARGEST_ORDER = 10_000
"""What sorts processes and threads: below these are devices, above are the numbers of processes."""


class _Row(msgspec.Struct, gc=False):
    ph: str | None = None
    cat: str | None = None
    name: str | None = None
    pid: Number = None
    tid: Number = None
    ts: Number = None
    dur: Number = None
    args: Any = None
    id: Number = None


def _row_of_object(row: dict[str, Any]) -> _Row:
    texts = {key: row[key] for key in ("ph", "cat", "name") if isinstance(row.get(key), str)}
    numbers = {key: number_or_text(row[key]) for key in ("pid", "tid", "ts", "dur", "id") if key in row}
    return _Row(args=row.get("args"), **texts, **numbers)


ALL_ARGUMENTS = RowShape(_Row, _row_of_object)
"""What is read of each row: all arguments, whatever they are called."""


@dataclass
class AnonymizedRows:
    """Turns one rank's rows into those that others may see; ``emptied`` counts rows that are nothing any more.

    Args:
        trace: the rank's trace, which knows each event's kind and time.
        names: other names, the same on all ranks.
        numbers: other numbers of this rank.
        arguments: which arguments stay.
        origin_ns: from when times count.
    """

    trace: Trace
    names: Pseudonyms
    numbers: IdMap
    arguments: ArgumentAllowlist
    origin_ns: int
    emptied: Counter[str] = field(default_factory=Counter)
    _first: int = 0

    def __post_init__(self) -> None:
        events = self.trace.events
        self._event_at = np.full(int(events.index.max(initial=-1)) + 1, -1, np.int32)
        self._event_at[events.index] = np.arange(len(events), dtype=np.int32)
        self._base: int | None = None

    def text_of(self, part: FilePart) -> bytes:
        """Return the JSON text of a part's rows, without brackets; parts are given in the order of the file."""
        times = start_times(part, exact=not part.tolerant)
        place = np.arange(self._first, self._first + len(part.rows))
        is_own = [True] * len(part.rows)
        if recording := self.trace.recording:
            is_own = [recording.owns(at, row.pid) for at, row in zip(place.tolist(), part.rows, strict=True)]
        known = place < len(self._event_at)
        event = np.where(known, self._event_at[np.where(known, place, 0)] if len(self._event_at) else -1, -1)
        self._first += len(part.rows)
        self._find_base(times, event)
        rows = [
            self._event(row, at) if at >= 0 else self._other(row, time) if own else {}
            for row, at, time, own in zip(part.rows, event.tolist(), times.tolist(), is_own, strict=True)
        ]
        return orjson.dumps(rows)[1:-1].replace(b"},{", b"},\n{")

    def check_complete(self) -> None:
        """Refuse a file that has fewer rows than when its events were read.

        Raises:
            TraceError: it has.
        """
        if self._first < len(self._event_at):
            raise TraceError(self.trace.path, "has changed since it was read", "run the command again")

    def _find_base(self, times: Ints, event: Ints) -> None:
        """Find from when the file's own times count: events that keep their start show it, a few are moved on."""
        here = np.flatnonzero((event >= 0) & (times != INVALID))
        if self._base is None and len(here):
            self._base = int((self.trace.file_times.start[event[here]] - times[here]).min())

    def _event(self, row: _Row, at: int) -> dict[str, Any]:
        events, times = self.trace.events, self.trace.file_times
        kind = EventKind(int(events.kind[at]))
        name = row.name or ""
        category = (row.cat or "").lower()
        is_range = category == PROFILER_RANGE
        named = EventKind.KERNEL if is_range else kind  # a range is called as the kernel that it measures
        start, end = int(times.start[at]), int(times.end[at])
        found: dict[str, Any] = {"ph": "i", "s": "t"} if row.ph == "i" else {"ph": "X"}
        if row.cat is not None:
            known = category in CATEGORY or is_range
            # Calls of a vendor that is not known are read by how their category ends.
            found["cat"] = row.cat if known else self._unknown_category(row.cat, kind)
        found["name"] = self.names.name(named, name)
        args = row.args if isinstance(row.args, dict) else {}
        on_stream = bool(self.trace.lanes.is_stream[events.lane[at]])
        change = self.numbers.stream if on_stream else self.numbers.thread
        place = (("pid", self._process(row.pid)), ("tid", row.tid))
        found |= {key: change(value) for key, value in place if value is not None}
        found["ts"] = orjson.Fragment(microseconds(start - self.origin_ns))
        if row.ph != "i" or end > start:
            found["dur"] = orjson.Fragment(microseconds(end - start))
        if kept := self.arguments.of(name, args, is_range=is_range):
            found["args"] = kept
        return found

    def _process(self, pid: Any) -> Any:
        """Return a process id; of merged ranks without what the merger added."""
        return self.trace.recording.unmerged(pid) if self.trace.recording else pid

    def _unknown_category(self, category: str, kind: EventKind) -> str:
        return NAMELESS_CALLS if kind == EventKind.RUNTIME else self.names.text("category", category)

    def _other(self, row: _Row, time: int) -> dict[str, Any]:
        is_old = row.cat is not None and OLD_ARROW.fullmatch(row.cat) is not None
        if (
            row.ph in ("s", "t", "f")
            and (is_old or row.cat in ARROW_CATEGORIES)
            and time != INVALID
            and self._base is not None
        ):
            pid, tid = self.numbers.place(self._process(row.pid), row.tid)
            ts = orjson.Fragment(microseconds(time + self._base - self.origin_ns))
            end = {"bp": "e"} if row.ph == "f" else {}
            number = self.numbers.arrow(row.id)
            # Before Kineto an arrow was called as the rows at its ends.
            ends = EventKind.CPU_OP if row.ph == "s" else EventKind.KERNEL
            return {
                "ph": row.ph,
                "id": number,
                "pid": pid,
                "tid": tid,
                "ts": ts,
                "cat": row.cat,
                "name": self.names.name(ends, row.name or "") if is_old else row.cat,
                **end,
            }
        if row.ph == "M" and isinstance(row.args, dict) and (named := self._viewer_names(row, row.args)) is not None:
            pid, tid = self.numbers.place(self._process(row.pid), row.tid)
            return {"ph": "M", "pid": pid, "tid": tid, "name": row.name, "args": named}
        self.emptied[row.ph if row.ph in ("X", "B", "E", "i", "C", "M", "s", "f", "t") else "other"] += 1
        return {}

    def _viewer_names(self, row: _Row, args: dict[str, Any]) -> dict[str, Any] | None:
        """Return a process's or thread's metadata for viewers."""
        name, label, order = (args.get(key) for key in ("name", "labels", "sort_index"))
        if row.name == "process_name" and isinstance(name, str):
            return {"name": name if PROCESS_NAMES.fullmatch(name) else self.names.text("process", name)}
        if row.name == "process_labels" and isinstance(label, str) and PROCESS_LABELS.fullmatch(label):
            return {"labels": label}
        if row.name == "thread_name" and isinstance(name, str):
            return {"name": self._thread(row, name)}
        if row.name in ("process_sort_index", "thread_sort_index") and isinstance(order, int):
            return {"sort_index": order if abs(order) < LARGEST_ORDER else self.numbers.thread(order)}
        return None

    def _thread(self, row: _Row, name: str) -> str:
        if THREAD_NAMES.fullmatch(name):
            return name
        titled = TITLED_THREAD.fullmatch(name)
        kind = "stream" if self.numbers.is_on_device(self._process(row.pid)) else "thread"
        return f"{kind} {self.numbers.place(self._process(row.pid), row.tid)[1]}" + (
            f" ({titled[1]})" if titled else ""
        )


DAY_NS = 86_400 * 10**9
"""Where stripped times begin: late enough that other ranks' clocks may be behind."""


@dataclass
class TraceAnonymizer:
    """Strips the ranks of one job, the lowest first: all get the same pseudonyms and the same origin of time.

    Args:
        keep: what stays besides what everybody knows; keys of ``KEEP_OPTIONS``.
        keep_times: whether the date stays.

    ``names`` are the pseudonyms, ``dropped`` the arguments that went by key, ``emptied`` the rows that went by phase,
    ``events`` how many rows stayed events.
    """

    keep: Collection[str] = ()
    keep_times: bool = False
    dropped: Counter[str] = field(default_factory=Counter)
    emptied: Counter[str] = field(default_factory=Counter)
    events: int = 0
    _origin_ns: int | None = None

    def __post_init__(self) -> None:
        self.names = Pseudonyms(category for key in self.keep for category in KEEP_OPTIONS[key])

    def write(self, trace: Trace, target: str | Location) -> None:
        """Write a rank's trace without what its owner would not give away; packed as the target's name says.

        Raises:
            TraceError: the trace's file is gone or has changed.
            OutputError: the file cannot be written or is the trace itself.
            MissingExtraError: it is to be packed as zstd, and that package is not installed.
        """
        check_output(target, [trace.path])
        write_file(target, compressed_for(target, self.text(trace)))

    def text(self, trace: Trace) -> Iterator[bytes]:
        """Yield the stripped trace as JSON, in pieces.

        Raises:
            TraceError: the trace's file is gone or has changed.
        """
        if self._origin_ns is None:
            first = int(trace.file_times.start.min()) if len(trace.events) else 0
            self._origin_ns = first // 1000 * 1000 - DAY_NS
        has_shapes = "shapes" in self.keep
        numbers = IdMap(trace.lanes, self.names)
        arguments = ArgumentAllowlist(self.names, numbers, shapes=has_shapes)
        rows = AnonymizedRows(trace, self.names, numbers, arguments, self._origin_ns, self.emptied)
        reader = RowReader(trace.path, read_bytes(trace.path), ALL_ARGUMENTS, salvage=trace.salvaged is not None)
        yield b'{"traceEvents":['
        between = b""
        for part in reader:
            if part.rows:
                yield between + rows.text_of(part)
                between = b",\n"
        rows.check_complete()
        found = reader.facts.header
        if trace.recording and isinstance(found.distributed, dict):  # it is that of one of the merged ranks
            found = replace(found, distributed=found.distributed | {"rank": trace.rank})
        header = allowed_header(found, self.names, shapes=has_shapes)
        if self.keep_times:
            header["baseTimeNanoseconds"] = self._origin_ns
        yield b"\n]" + (b"," + orjson.dumps(header)[1:-1] if header else b"") + b"}\n"
        self.events += len(trace.events)
        self.dropped += arguments.dropped
