"""What a file says about itself without its events being decoded: its header, and how long its text is."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from hta_graph.trace.rows import EVENT_ROWS, Header
from hta_graph.trace.source import GZIP_MAGIC, ZSTD_MAGIC

__all__ = ["peek_header", "text_size"]

CHUNK = 1 << 17
ENDS_BYTES = 1 << 20
"""How much text before and behind the events may be header."""
FIRST_EVENT = re.compile(rb'"traceEvents"\s*:\s*\[(?=\s*\{)')
BARE_LIST = re.compile(rb"\s*\[\s*\{")
DISTRIBUTED = b'"distributedInfo"'
USUAL_RATIO = 15
LEAST_RATIO = 4
"""How many times longer than its compressed form the text of a trace is: 8 to 27 for those at hand."""
GZIP_MODULUS = 1 << 32


def peek_header(path: Path) -> Header | None:
    """Read the header alone; ``None`` where it is not plain to see, or the file not plainly a trace.

    The profiler writes ``distributedInfo`` before the events or behind them. Only where it does not stand before them
    is the rest looked through, without being decoded.
    """
    try:
        chunks = _text_chunks(path)
        found = _header_and_rest(chunks)
        if found is None:
            return None
        header, rest = found
        # A bare list has no header at all, and a rank that stands in front needs no look behind.
        if header.distributed is not None or BARE_LIST.match(rest):
            return header
        return _with_tail(header, chain([rest], chunks))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _header_and_rest(chunks: Iterator[bytes]) -> tuple[Header, bytes] | None:
    """Return what the header says before the first event, and the text from there on."""
    text = b""
    for chunk in chunks:
        text += chunk
        if BARE_LIST.match(text):
            return Header(), text
        if found := FIRST_EVENT.search(text):
            document = msgspec.json.decode(text[: found.end()] + b"]}", type=EVENT_ROWS.document)
            return document.header, text[found.end() :]
        if len(text) > ENDS_BYTES:
            break
    return None


def _with_tail(head: Header, chunks: Iterator[bytes]) -> Header | None:
    """Add what stands behind the events; ``None`` where the key is met in another place than the document's end."""
    before = b""
    for chunk in chunks:
        text = before + chunk
        at = text.find(DISTRIBUTED)
        if at >= 0:
            tail = _end_of(text[at:], chunks)
            # The key may also be text of some event's: it counts only near the document's end.
            return None if tail is None else replace(head, distributed=tail["distributedInfo"])
        # The key may lie across two chunks.
        before = text[1 - len(DISTRIBUTED) :]
    return head


def _end_of(text: bytes, chunks: Iterator[bytes]) -> dict[str, Any] | None:
    """Read the keys from the last ``distributedInfo`` to the document's end, if that is near."""
    for chunk in chunks:
        text += chunk
        if len(text) > ENDS_BYTES:
            return None
    keys: dict[str, Any] = msgspec.json.decode(b"{" + text[text.rindex(DISTRIBUTED) :], type=dict[str, Any])
    return keys


def _text_chunks(path: Path) -> Iterator[bytes]:
    """Yield the text as far as it can be decompressed."""
    with path.open("rb") as file:
        magic = file.read(4)
        file.seek(0)
        stream, faults = _decompressing(file, magic)
        with suppress(*faults):
            while chunk := stream.read1(CHUNK):
                yield chunk


def _decompressing(file: BinaryIO, magic: bytes) -> tuple[Any, tuple[type[Exception], ...]]:
    """Return what reads the text, and what it raises where the compressed data is broken."""
    if magic.startswith(GZIP_MAGIC):
        from gzip import BadGzipFile, GzipFile

        return GzipFile(fileobj=file), (EOFError, zlib.error, BadGzipFile)
    if not magic.startswith(ZSTD_MAGIC):
        return file, ()
    try:
        import zstandard
    except ImportError:
        return BytesIO(), ()
    return zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True), (zstandard.ZstdError,)


def text_size(path: Path) -> int:
    """Estimate how long a file's text is (bytes), from its size and what gzip notes in it; 0 if it is not there."""
    try:
        packed = path.stat().st_size
        with path.open("rb") as file:
            magic = file.read(4)
            if magic.startswith(GZIP_MAGIC) and packed > 4:
                file.seek(-4, 2)
                return _unwrapped_length(int.from_bytes(file.read(4), "little"), packed)
    except OSError:
        return 0
    return packed * USUAL_RATIO if magic.startswith(ZSTD_MAGIC) else packed


def _unwrapped_length(noted: int, packed: int) -> int:
    """Undo that gzip notes a length modulo 2^32; a small file cannot hold that much.

    >>> _unwrapped_length(2_000, 100), _unwrapped_length(2_000, 10**9), _unwrapped_length(0, 10**6)
    (2000, 4294969296, 1000000)
    """
    while noted < LEAST_RATIO * packed and packed * 1_000 > GZIP_MODULUS:
        noted += GZIP_MODULUS
    return max(noted, packed)
