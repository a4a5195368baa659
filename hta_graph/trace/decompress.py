"""A file's text piece by piece: plain, gzip or zstd, decided by the first bytes and not by the file's name."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import Any

from hta_graph.errors import MissingExtraError, TraceError
from hta_graph.storage.location import Location

__all__ = ["Decompression", "frame_length", "is_gzip", "is_zstd"]

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
SKIPPABLE = b"\x2a\x4d\x18"
"""What follows the first byte (0x50 to 0x5f) of a zstd frame that readers skip."""

PIECE = 1 << 17
PACKED_PIECE = 1 << 16
FIRST_STEP = 1 << 12
"""How much of a member is given to the decompressor first: what is left over of that is copied, for each member."""
FINE_STEP = 512
EMPTY_MEMBERS = 10_000
"""So many members without any text are no trace."""
LARGEST_WINDOW = 1 << 27
"""How far back zstd may look (bytes), which it keeps in memory: its own limit where nothing else is said."""


def is_gzip(begin: bytes) -> bool:
    """Tell whether a file begins as gzip does."""
    return begin.startswith(GZIP_MAGIC)


def is_zstd(begin: bytes) -> bool:
    """Tell whether a file begins as zstd does, also in parallel, which puts a frame of its own before each one."""
    return begin.startswith(ZSTD_MAGIC) or (begin[1:4] == SKIPPABLE and begin[0] >> 4 == 5)


def frame_length(begin: bytes) -> int:
    """Return how much text the first frame of a zstd file holds (bytes); 0 if that is not told."""
    try:
        import zstandard
    except ImportError:
        return 0
    try:
        size: int = zstandard.get_frame_parameters(begin).content_size
    except zstandard.ZstdError:
        return 0
    return 0 if size == zstandard.CONTENTSIZE_UNKNOWN else size


class Decompression:
    """Iterates over a file's text in pieces; each is unpacked when it is asked for.

    ``used`` is how many bytes of the file have been unpacked until now. ``broken`` says, when all pieces are out, what
    is wrong with the compression if it breaks off.

    Raises, while iterating, ``TraceError``: no trace is packed so; ``MissingExtraError``: it is zstd and no decoder is
    installed.
    """

    def __init__(self, path: Location, file: BufferedReader) -> None:
        self.broken: str | None = None
        self.used = 0
        self._read = 0
        self._path = path
        self._file = file
        self._size = 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._chosen_way(self._file.peek(4)[:4]):
            self._size += len(piece)
            yield piece

    def _chosen_way(self, begin: bytes) -> Iterator[bytes]:
        if is_gzip(begin):
            return self._gunzip_members()
        return self._unzstd_frames() if is_zstd(begin) else iter(lambda: self._file.read(PIECE), b"")

    def _read_packed(self) -> bytes:
        data = self._file.read(PACKED_PIECE)
        self._read += len(data)
        return data

    def _gunzip_members(self) -> Iterator[bytes]:
        packed = memoryview(self._read_packed())
        empty = 0
        # A gzip file may be several, one behind the other; what else follows a member is padding that nobody needs.
        while bytes(packed[: len(GZIP_MAGIC)]) == GZIP_MAGIC:
            first, before = self.used, self._size
            member = _GzipMember()
            while not member.is_whole:
                if not packed and not (packed := memoryview(self._read_packed())):
                    self.broken = f"the gzip data breaks off at byte {self._read:,}"
                    return
                yield from member.unpack(packed)
                if member.is_broken:
                    yield from self._rest_of_good_data(first, self._size - before)
                    self.broken = f"the gzip data is corrupt after {self._size:,} bytes of text"
                    return
                packed = packed[member.used :]
                self.used = self._read - len(packed)
            empty += self._size == before
            if empty > EMPTY_MEMBERS:
                raise TraceError(self._path, f"is more than {EMPTY_MEMBERS:,} gzip members without text, no trace")
            if len(packed) < len(GZIP_MAGIC):
                packed = memoryview(bytes(packed) + self._read_packed())

    def _rest_of_good_data(self, first: int, size: int) -> Iterator[bytes]:
        """Unpack a member again as far as it is good, without the text that is out: a call that fails gives nothing."""
        if not self._file.seekable():
            return
        self._file.seek(first)
        member = _GzipMember(FINE_STEP, FINE_STEP)
        while not member.is_broken and (packed := self._file.read(FINE_STEP)):
            for piece in member.unpack(memoryview(packed)):
                if len(piece) > size:
                    yield piece[size:]
                size -= min(size, len(piece))

    def _unzstd_frames(self) -> Iterator[bytes]:
        try:
            import zstandard
        except ImportError:
            raise MissingExtraError("reading a zstd file", "zstd") from None
        unpacker = zstandard.ZstdDecompressor(max_window_size=LARGEST_WINDOW)
        source: Any = _CountingReader(self._file)
        reader = unpacker.stream_reader(source, read_size=PACKED_PIECE, read_across_frames=True)
        try:
            while part := reader.read(PIECE):
                self.used = source.size
                yield part
        except zstandard.ZstdError as error:
            self.broken = f"the zstd data is corrupt after {self._size:,} bytes of text"
            if "too much memory" in str(error):
                cause = f"its zstd frames look back further than {LARGEST_WINDOW >> 20} MiB"
                raise TraceError(self._path, cause, "compress it without --long and --ultra") from None


class _CountingReader:
    """A file that knows how much of it has been read."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int) -> bytes:
        """Read at most so many bytes."""
        data = self._file.read(size)
        self.size += len(data)
        return data


class _GzipMember:
    """One member of a gzip file, unpacked step by step."""

    def __init__(self, step: int = FIRST_STEP, largest: int = PACKED_PIECE) -> None:
        self._stream = zlib.decompressobj(wbits=31)
        self._step = step
        self._largest = largest
        self.used = 0
        self.is_whole = False
        self.is_broken = False

    def unpack(self, packed: memoryview) -> Iterator[bytes]:
        """Unpack the beginning of what is packed; ``used`` is then how many bytes of it."""
        given: memoryview | bytes = packed[: self._step]
        size = len(given)
        self._step = min(2 * self._step, self._largest)
        filled = True
        try:
            # A full piece may not be all of what has been given, even where nothing of that is left over.
            while (given or filled) and not self._stream.eof:
                piece = self._stream.decompress(given, PIECE)
                filled, given = len(piece) == PIECE, self._stream.unconsumed_tail
                yield piece
        except zlib.error:
            self.is_broken = True
        self.is_whole = self._stream.eof
        self.used = size - len(self._stream.unused_data)
