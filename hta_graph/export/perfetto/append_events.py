"""A trace's text with rows appended: what it holds stays as it is, byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.errors import TraceError
from hta_graph.model import Ints
from hta_graph.storage.atomic_write import write_file
from hta_graph.storage.compress import gzipped
from hta_graph.storage.location import Location
from hta_graph.trace.reader import closed_text, paused_gc
from hta_graph.trace.source import read_bytes
from hta_graph.trace.table import Trace
from hta_graph.trace.timestamps import base_time
from hta_graph.trace.tolerant import replace_half_escapes

__all__ = [
    "FIRST_FREE_PROCESS",
    "CHUNK_BYTES",
    "OriginalTrace",
    "OriginalRow",
    "buffer_address",
    "rounded_by_viewer",
    "unused_numbers",
    "integer_ids",
    "read_original",
    "write_trace",
]

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
    mended = replace_half_escapes(text.decode("utf-8", "replace").lstrip("\ufeff"))
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
