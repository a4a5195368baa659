"""What all that writes a trace shares: times as text, and how a file is packed."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from hta_graph.errors import MissingExtraError
from hta_graph.places.remote_path import Location

__all__ = ["gzipped", "microseconds", "packed_as"]

GZIP_LEVEL = 3
ZSTD_LEVEL = 3


def packed_as(target: str | Location, content: Iterable[bytes]) -> Iterable[bytes]:
    """Compress pieces of a file as its name says: ``.gz``, ``.zst``, else not at all.

    Raises:
        MissingExtraError: the name ends in ``.zst``, and the package for it is not installed.
    """
    name = str(target)
    if name.endswith(".zst"):
        return _zstd(content)
    return gzipped(content) if name.endswith(".gz") else content


def _zstd(content: Iterable[bytes]) -> Iterator[bytes]:
    try:
        import zstandard
    except ImportError:
        raise MissingExtraError("writing a zstd file", "zstd") from None
    packer = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compressobj()
    yield from map(packer.compress, content)
    yield packer.flush()


def gzipped(content: Iterable[bytes], level: int = GZIP_LEVEL) -> Iterator[bytes]:
    """Compress pieces of a file; the same bytes for the same content."""
    packer = zlib.compressobj(level, wbits=31)
    yield from map(packer.compress, content)
    yield packer.flush()


def microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds, exactly.

    >>> microseconds(1712195495519689125), microseconds(2000), microseconds(-1)
    ('1712195495519689.125', '2', '-0.001')
    """
    whole, rest = divmod(abs(ns), 1000)
    sign = "-" if ns < 0 else ""
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}"
