"""A trace file's whole text: unpacked piece by piece, and no further than there is memory for."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import SEEK_END, BufferedReader, BytesIO

from hta_graph.errors import HtaGraphError, TraceError
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import is_remote, open_to_peek
from hta_graph.trace.decompress import Decompression, is_gzip, is_zstd
from hta_graph.trace.memory_limit import PEAK_PER_TEXT, TextLimit

__all__ = ["FileBytes", "cached_text", "read_bytes", "text_head"]

JSON_BEGIN = re.compile(rb"(?:\xef\xbb\xbf)?\s*+(?:[\[{]|\Z)")
MOST_PER_BYTE = 1032
"""What one byte of gzip unpacks to at most."""
BEGIN_BYTES = 1 << 20
"""So much text tells whether there is any use in the rest."""


@dataclass(frozen=True)
class FileBytes:
    """Uncompressed content, and what is wrong with its compression if it breaks off."""

    data: bytes
    broken: str | None = None


_CACHED: ContextVar[dict[Location, FileBytes] | None] = ContextVar("kept", default=None)
"""Files whose text is at hand, while somebody wants that."""


@contextmanager
def cached_text() -> Iterator[None]:
    """Decompress a file once, however often it is read within this block; its text stays in memory so long."""
    token = _CACHED.set({})
    try:
        yield
    finally:
        _CACHED.reset(token)


def read_bytes(path: Location, *, per_byte: float = PEAK_PER_TEXT) -> FileBytes:
    """Read and decompress one file; of one that does not begin as JSON does, no more than shows that.

    Args:
        path: the file.
        per_byte: how much memory each byte of its text will take.

    Raises:
        TraceError: the file is missing, unreadable or empty.
        TooLargeError: its text is longer than there is memory for.
        MissingExtraError: the file is zstd and no decoder is installed.
    """
    kept = _CACHED.get()
    if kept is None:
        return _read_file(path, per_byte)
    if path not in kept:
        kept[path] = _read_file(path, per_byte)
    return kept[path]


def text_head(path: Location, size: int) -> bytes:
    """Return at most so many bytes of a file's beginning, unpacked; none if it cannot be read."""
    head = b""
    try:
        with open_to_peek(path) as file:
            for piece in Decompression(path, file):
                head += piece
                if len(head) >= size:
                    break
    except (OSError, HtaGraphError):
        return b""
    return head[:size]


def _read_file(path: Location, per_byte: float) -> FileBytes:
    try:
        with path.open("rb") as file:
            return _read_text(path, file, per_byte)
    except FileNotFoundError:
        raise TraceError(path, "no such file") from None
    except IsADirectoryError:
        raise TraceError(path, "is a folder, not a file") from None
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None


def _read_text(path: Location, file: BufferedReader, per_byte: float) -> FileBytes:
    begin = file.peek(4)
    if not begin:
        raise TraceError(path, "is empty", "record the trace again")
    size = path.stat().st_size if is_remote(path) else os.fstat(file.fileno()).st_size
    # What is not packed tells its length, and is read at once.
    if size and not is_gzip(begin) and not is_zstd(begin) and not is_remote(path):
        TextLimit(path, per_byte=per_byte).check(size)
        return FileBytes(file.read())
    limit = TextLimit(path, size, per_byte)
    if is_remote(path):
        limit.check(max(size, _recorded_length(file, begin, size)))  # what is too long is not even sent for
    return _unpack(Decompression(path, file), limit)


def _recorded_length(file: BufferedReader, begin: bytes, size: int) -> int:
    """Return how long a gzip file's text is at least (bytes), as its end notes; 0 where that costs more than it tells.

    Of several members the last one's length is noted, and what stands behind them may be anything.
    """
    if not is_gzip(begin) or size < BEGIN_BYTES or not file.seekable():
        return 0
    file.seek(-4, SEEK_END)
    noted = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return noted if noted < MOST_PER_BYTE * size else 0


def _unpack(unpacking: Decompression, limit: TextLimit) -> FileBytes:
    """Unpack a file piece by piece, no further than its text may be long."""
    text = BytesIO()  # grows in place, where parts that are joined in the end would take twice the memory
    looked_at = 0
    for piece in unpacking:
        limit.check(text.tell() + len(piece))
        text.write(piece)
        if not looked_at and (size := text.tell()) >= BEGIN_BYTES:
            looked_at = size
            if not JSON_BEGIN.match(text.getvalue()):
                break
    return FileBytes(text.getvalue(), unpacking.broken)
