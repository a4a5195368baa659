"""Compression of outputs: gzip or zstd, by the ending of the file's name."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

from hta_graph.base.errors import MissingExtraError
from hta_graph.base.storage.location import Location

GZIP_LEVEL = 3
ZSTD_LEVEL = 3


def compressed_for(target: str | Location, content: Iterable[bytes]) -> Iterable[bytes]:
    """Compress pieces of a file as its name says: ``.gz``, ``.zst``, else not at all.

    Raises:
        MissingExtraError: the name ends in ``.zst``, and the package for it is not installed.
    """
    name = str(target)
    if name.endswith(".zst"):
        return _zstd_pieces(content)
    return gzipped(content) if name.endswith(".gz") else content


def _zstd_pieces(content: Iterable[bytes]) -> Iterator[bytes]:
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
