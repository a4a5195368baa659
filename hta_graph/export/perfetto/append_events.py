"""A trace's text with events appended, tracks of slices or counters; what it holds stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.base.errors import TraceError
from hta_graph.base.storage.atomic_write import write_file
from hta_graph.base.storage.compress import gzipped
from hta_graph.base.storage.location import Location
from hta_graph.base.storage.output_paths import check_output
from hta_graph.base.text.formatting import microseconds
from hta_graph.model import Floats, Ints
from hta_graph.trace.decompress import read_bytes
from hta_graph.trace.json_reader import closed_text, replace_half_escapes, with_json_nan
from hta_graph.trace.memory_limit import paused_gc
from hta_graph.trace.table import Trace
from hta_graph.trace.timestamps import base_time

CHUNK_BYTES = 1 << 24
FIRST_FREE_PROCESS = 1
"""Where the search for a free process id begins: viewers print it behind the name of a process."""


class OriginalRow(msgspec.Struct, gc=False):
    """What appended rows must know of a row: its phase, its ids, its arguments as text."""

    ph: Any = None
    pid: Any = None
    tid: Any = None
    id: Any = None
    args: msgspec.Raw = msgspec.Raw(b"null")


_ROW_DECODER = msgspec.json.Decoder(list[OriginalRow | str | float | bool | list[msgspec.Raw] | None])


class _AppendedDocument(msgspec.Struct):
    rows: msgspec.Raw = msgspec.field(name="traceEvents")
    base: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"null"), name="baseTimeNanoseconds")


@dataclass(frozen=True)
class OriginalTrace:
    """A trace's text, where the brackets around its rows stand, the rows' ids, and its base time."""

    text: bytes
    first: int
    end: int
    rows: list[OriginalRow]
    base_ns: int

    def with_rows(self, lines: Iterable[str]) -> Iterator[bytes]:
        """Yield the text, piece by piece, with rows behind its own."""
        for at in range(0, self.end, CHUNK_BYTES):
            yield self.text[at : min(at + CHUNK_BYTES, self.end)]
        added = ",\n".join(lines).encode()
        yield b",\n" if self.rows and added else b""
        yield added
        yield b"\n" + self.text[self.end :]


def read_original(trace: Trace) -> OriginalTrace:
    """Read a trace's file once more, to append rows to it.

    Raises:
        TraceError: the file is gone or has changed.
    """
    content = read_bytes(trace.path)
    text = closed_text(trace.path, content) if trace.salvaged else content.data
    with paused_gc():
        try:
            original = _find_event_array(text, tolerant=False)
        except (msgspec.DecodeError, UnicodeDecodeError):
            original = _find_event_array(_strict_json(trace.path, text), tolerant=True)
    if int(trace.events.index.max(initial=-1)) >= len(original.rows):
        raise TraceError(trace.path, "has changed since it was read", "run the command again")
    return original


def _find_event_array(text: bytes, *, tolerant: bool) -> OriginalTrace:
    if re.match(rb"\s*\[", text):
        return OriginalTrace(text, text.index(b"["), len(text.rstrip()) - 1, _decode_rows(text), 0)
    document = msgspec.json.decode(text, type=_AppendedDocument)
    array = memoryview(document.rows)
    # Where the array closes: the only place at which something is put in, so that all else stays byte for byte.
    first = buffer_address(array) - buffer_address(text)
    return OriginalTrace(
        text, first, first + len(array) - 1, _decode_rows(array), _base_ns(document.base, tolerant=tolerant)
    )


def _decode_rows(array: bytes | memoryview) -> list[OriginalRow]:
    return [row if isinstance(row, OriginalRow) else OriginalRow() for row in _ROW_DECODER.decode(array)]


def buffer_address(buffer: bytes | memoryview) -> int:
    """Return where a buffer lies in memory: msgspec's raw values are views into the text that they come from."""
    return int(np.frombuffer(buffer, np.uint8).ctypes.data)


def _base_ns(printed: msgspec.Raw, *, tolerant: bool) -> int:
    """Read the base time as the reader of traces does, which takes a fraction or exponent in tolerated files only."""
    value = msgspec.json.decode(printed)
    exact = bytes(printed).decode() if tolerant and isinstance(value, float) else value
    return base_time(exact) or 0


def _strict_json(path: Location, text: bytes) -> bytes:
    """Rewrite what only a tolerant parser reads: numbers keep their digits, NaN and the infinities become null."""
    # Half a character cannot be written as UTF-8; the reader takes it for an unknown one too.
    mended = with_json_nan(replace_half_escapes(text.decode("utf-8", "replace").lstrip("\ufeff")))
    digits = orjson.Fragment
    try:
        return orjson.dumps(
            json.loads(mended, strict=False, parse_float=digits, parse_int=digits, parse_constant=lambda _: None)
        )
    except (ValueError, TypeError, RecursionError):
        raise TraceError(path, "has changed since it was read, or cannot be written as strict JSON") from None


def write_trace(target: str | Location, content: Iterable[bytes]) -> None:
    """Write the text of a trace; gzip if the name ends in ``.gz``.

    Raises:
        OutputError: the file cannot be written.
    """
    write_file(target, gzipped(content) if str(target).endswith(".gz") else content)


def rounded_by_viewer(ns: Ints) -> Ints:
    """Round times as Perfetto does: fractions of microseconds pass through a float64, whole ones do not."""
    whole = ns // 1000
    seen = np.rint((whole + (ns - whole * 1000) / 1000.0) * 1000.0).astype(np.int64)
    return np.where(ns == whole * 1000, ns, seen)


def integer_ids(ids: Iterable[Any]) -> set[int]:
    """Return every integer that a viewer may read an id as: viewers take text as decimal or hexadecimal.

    >>> sorted(integer_ids([7, "12", "Spans", None]))
    [7, 12, 18]
    """
    distinct = {value for value in ids if isinstance(value, (int, float, str))}
    found = {value for value in distinct if isinstance(value, int)}
    for value in distinct - found:
        for radix in (10, 16):
            try:
                found.add(int(value, radix) if isinstance(value, str) else int(value))
            except (ValueError, OverflowError):
                continue
    return found


def unused_numbers(taken: set[int], first: int) -> Iterator[int]:
    """Yield the numbers from ``first`` on that are not taken."""
    return (number for number in count(first) if number not in taken)


@dataclass(frozen=True)
class SliceTrack:
    """Slices on a track of their own, in order of time (ns): a text and arguments for each.

    One that would reach into the next is drawn up to that.
    """

    name: str
    start: Ints
    end: Ints
    texts: Sequence[str]
    arguments: Sequence[dict[str, Any]]


def write_slices(trace: Trace, process: str, tracks: Sequence[SliceTrack], target: str | Location) -> int:
    """Write a trace with a process of tracks and return how many slices it has; gzip if the name ends in ``.gz``.

    What the trace holds stays as it is, byte for byte.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [trace.path])
    original = read_original(trace)
    content = original.with_rows(orjson.dumps(row).decode() for row in _track_rows(original, process, tracks))
    write_trace(target, content)
    return sum(len(track.start) for track in tracks)


def _track_rows(original: OriginalTrace, process: str, tracks: Sequence[SliceTrack]) -> Iterator[dict[str, Any]]:
    pid = next(unused_numbers(integer_ids(row.pid for row in original.rows), FIRST_FREE_PROCESS))
    if tracks:
        yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_name", "args": {"name": process}}
    for tid, track in enumerate(tracks, start=1):
        place = {"pid": pid, "tid": tid}
        yield {"ph": "M", **place, "name": "thread_name", "args": {"name": track.name}}
        yield {"ph": "M", **place, "name": "thread_sort_index", "args": {"sort_index": tid}}
        yield from _slice_rows(place, track, original.base_ns)


def _slice_rows(place: dict[str, Any], track: SliceTrack, base_ns: int) -> Iterator[dict[str, Any]]:
    """Yield a begin and an end per slice, so that they stay apart however a viewer rounds, or an instant."""
    start, end = track.start - base_ns, track.end - base_ns
    # Slices of one track may not overlap; a viewer would drop the later one.
    end[:-1] = np.minimum(end[:-1], start[1:])
    visible = (rounded_by_viewer(start) < rounded_by_viewer(end)).tolist()
    times = zip(start.tolist(), end.tolist(), visible, strict=True)
    for (begins, ends, is_visible), text, arguments in zip(times, track.texts, track.arguments, strict=True):
        phase = {"ph": "B"} if is_visible else {"ph": "i", "s": "t"}
        yield {**phase, **place, "ts": _time_fragment(begins), "name": text, "args": arguments}
        if is_visible:
            yield {"ph": "E", **place, "ts": _time_fragment(ends)}


def _time_fragment(time_ns: int) -> orjson.Fragment:
    return orjson.Fragment(microseconds(time_ns))


@dataclass(frozen=True)
class CounterTrack:
    """A number over time: from each time (ns) on it has the value.

    Attributes:
        name: the track's name.
        argument: what the number is called.
        id: distinguishes tracks of one name; none if there is one. It is written as text: Perfetto takes tracks whose
            ids are numbers for one.
        process: the id of the process that the track stands in; a GPU is the process with its number.
        time: when the number changes.
        value: its values.
    """

    name: str
    argument: str
    id: int | None
    process: int
    time: Ints
    value: Ints | Floats

    def rows(self, base_ns: int) -> Iterator[str]:
        """Yield one row per change, timed from a trace's base time."""
        fields: dict[str, Any] = {"ph": "C", "pid": self.process, "name": self.name}
        if self.id is not None:
            fields["id"] = str(self.id)
        head = orjson.dumps(fields).decode()[:-1]
        argument = orjson.dumps(self.argument).decode()
        for time, value in zip((self.time - base_ns).tolist(), self.value.tolist(), strict=True):
            yield f'{head},"ts":{microseconds(time)},"args":{{{argument}:{value!r}}}}}'


def write_counters(trace: Trace, tracks: Sequence[CounterTrack], target: str | Location) -> int:
    """Write a trace with counter tracks and return how many points they have; gzip if the name ends in ``.gz``.

    What the trace holds stays as it is, byte for byte.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [trace.path])
    original = read_original(trace)
    content = original.with_rows(row for track in tracks for row in track.rows(original.base_ns))
    write_trace(target, content)
    return sum(len(track.time) for track in tracks)
