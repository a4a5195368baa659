"""Bytes of a trace file: plain, gzip or zstd, decided by the first bytes and not by the file's name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from hta_graph.errors import MissingExtraError, TraceError

__all__ = ["FileBytes", "kept_text", "read_bytes", "text_head"]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class FileBytes:
    """Uncompressed content, and what is wrong with its compression if it breaks off."""

    data: bytes
    broken: str | None = None


_KEPT: ContextVar[dict[Path, FileBytes] | None] = ContextVar("kept", default=None)
"""Files whose text is at hand, while somebody wants that."""


@contextmanager
def kept_text() -> Iterator[None]:
    """Decompress a file once, however often it is read within this block; its text stays in memory so long."""
    token = _KEPT.set({})
    try:
        yield
    finally:
        _KEPT.reset(token)


def read_bytes(path: Path) -> FileBytes:
    """Read and decompress one file.

    Raises:
        TraceError: the file is missing, unreadable or empty.
        MissingExtraError: the file is zstd and no decoder is installed.
    """
    kept = _KEPT.get()
    if kept is None:
        return _decompress_file(path)
    if path not in kept:
        kept[path] = _decompress_file(path)
    return kept[path]


def text_head(path: Path, size: int) -> bytes:
    """Return at most so many bytes of a file's beginning, unpacked if it is gzip; none if it cannot be read."""
    try:
        with path.open("rb") as file:
            head = file.read(size)
        return zlib.decompressobj(wbits=31).decompress(head, size) if head.startswith(GZIP_MAGIC) else head
    except (OSError, zlib.error):
        return b""


def _decompress_file(path: Path) -> FileBytes:
    raw = _read_raw(path)
    if raw.startswith(GZIP_MAGIC):
        return _gunzip_members(raw)
    if raw.startswith(ZSTD_MAGIC):
        return _unzstd_frames(raw)
    return FileBytes(raw)


def _read_raw(path: Path) -> bytes:
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise TraceError(path, "no such file") from None
    except IsADirectoryError:
        raise TraceError(path, "is a folder, not a file") from None
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    if not raw:
        raise TraceError(path, "is empty", "record the trace again")
    return raw


def _gunzip_members(raw: bytes) -> FileBytes:
    parts: list[bytes] = []
    rest = raw
    while rest.startswith(GZIP_MAGIC):  # a gzip file may be several, one behind the other
        stream = zlib.decompressobj(wbits=31)
        try:
            parts.append(stream.decompress(rest))
        except zlib.error:
            parts.append(_whole_prefix(rest))
            return FileBytes(b"".join(parts), f"the gzip data is corrupt after {sum(map(len, parts)):,} bytes of text")
        if not stream.eof:
            return FileBytes(b"".join(parts), f"the gzip data breaks off at byte {len(raw):,}")
        # What follows a member: another one, or padding that nobody needs.
        rest = stream.unused_data
    return FileBytes(parts[0] if len(parts) == 1 else b"".join(parts))


def _whole_prefix(raw: bytes) -> bytes:
    """Decompress as far as the data is good: zlib gives nothing of the call that fails."""
    stream = zlib.decompressobj(wbits=31)
    parts: list[bytes] = []
    try:
        for at in range(0, len(raw), 512):
            parts.append(stream.decompress(raw[at : at + 512]))  # noqa: PERF401 - what came before the error counts
    except zlib.error:
        pass
    return b"".join(parts)


def _unzstd_frames(raw: bytes) -> FileBytes:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("reading a zstd file", "zstd") from None
    reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True)
    parts: list[bytes] = []
    try:
        while part := reader.read(1 << 20):
            parts.append(part)
    except zstandard.ZstdError:
        return FileBytes(b"".join(parts), f"the zstd data is corrupt after {sum(map(len, parts)):,} bytes of text")
    return FileBytes(b"".join(parts))
