"""A trace file's text, however it is packed (gzip, zstd, zip, tar, one in another); no further than memory allows.

Its first bytes decide. A file of another known format is refused with its name.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from io import SEEK_END, BufferedReader, BytesIO, RawIOBase
from itertools import chain
from typing import Any

from hta_graph.base.errors import HtaGraphError, MissingExtraError, TraceError
from hta_graph.base.progress import advance_stage, begin_stage
from hta_graph.base.storage.location import Location, is_remote, open_to_peek
from hta_graph.base.storage.open_local import open_local
from hta_graph.trace.formats import HEAD_BYTES, JSON_BEGIN, format_of, layer_of
from hta_graph.trace.memory_limit import PEAK_PER_TEXT, TextLimit
from hta_graph.trace.readers import database_reader

GZIP_MAGIC = b"\x1f\x8b"

PIECE, PACKED_PIECE = 1 << 17, 1 << 16
FIRST_STEP = 1 << 12
"""How much of a member is given to the decompressor first: what is left over of that is copied, for each member."""
FINE_STEP = 512
EMPTY_MEMBERS = 10_000
"""Number of empty members after which a file is not a trace."""
MOST_LAYERS = 4
"""How often a trace may be packed: by its recorder, for a store, into an archive, for a mail."""
LARGEST_WINDOW = 1 << 27
"""How far back zstd may look (bytes), which it keeps in memory: its own limit where nothing else is said."""


def is_gzip(begin: bytes) -> bool:
    """Return whether a file begins as gzip does."""
    return layer_of(begin) == "gzip"


def is_zstd(begin: bytes) -> bool:
    """Return whether a file begins as zstd does, also in parallel, which puts a frame of its own before each one."""
    return layer_of(begin) == "zstd"


def frame_length(begin: bytes) -> int:
    """Return how much text the first frame of a zstd file holds (bytes); 0 if not recorded."""
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
    """Iterates over a file's text in pieces; each is unpacked on demand.

    ``used`` is how many bytes of the file have been unpacked until now. ``broken`` says, when all pieces are out, what
    is wrong with the compression if it is truncated.

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
        pieces = self._counted(self._unpack_file(layer_of(self._file.peek(HEAD_BYTES)[:HEAD_BYTES])))
        for _ in range(MOST_LAYERS):
            begin, pieces = _begin_of(pieces)
            if not (layer := layer_of(begin)):
                yield from pieces
                return
            pieces = self._unpack_pieces(layer, pieces)
        raise TraceError(self._path, f"is packed more than {MOST_LAYERS} times", "unpack it")

    def _unpack_file(self, layer: str) -> Iterator[bytes]:
        if layer == "gzip":
            return self._gunzip_members()
        if layer == "zstd":
            return self._unzstd_frames()
        if layer == "zip":
            from hta_graph.trace.archives import unzip_trace  # late: few traces are in archives

            return unzip_trace(self._path, self._file)
        if layer == "sqlite":
            return database_reader(self._path, self._file.peek(HEAD_BYTES)[:HEAD_BYTES]).text(self._path)
        plain = iter(lambda: self._file.read(PIECE), b"")
        return self._unpack_pieces(layer, plain) if layer in ("tar", "perfetto") else plain

    def _unpack_pieces(self, layer: str, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Unpack what was packed inside something else."""
        if layer == "tar":
            from hta_graph.trace.archives import untar_trace

            return untar_trace(self._path, pieces)
        if layer == "perfetto":
            from hta_graph.trace.pftrace.text import kineto_text  # late: few traces are Perfetto's

            return kineto_text(self._path, pieces, self._report)
        if layer == "zip":
            raise TraceError(self._path, "holds a zip archive inside", "unpack it")
        if layer == "sqlite":
            raise TraceError(self._path, "is an SQLite database that is packed", "unpack it")
        inside = Decompression(self._path, BufferedReader(_Pieces(pieces)))
        return self._unpack_inside(inside, inside._unpack_file(layer))

    def _report(self, damage: str) -> None:
        # Where the packing is damaged, that is why the rest is.
        self.broken = self.broken or damage

    def _unpack_inside(self, inside: Decompression, pieces: Iterator[bytes]) -> Iterator[bytes]:
        yield from inside._counted(pieces)
        self.broken = self.broken or inside.broken

    def _counted(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        for piece in pieces:
            self._size += len(piece)
            yield piece

    def _read_packed(self) -> bytes:
        data = self._file.read(PACKED_PIECE)
        self._read += len(data)
        return data

    def _gunzip_members(self) -> Iterator[bytes]:
        packed, library = memoryview(self._read_packed()), _gzip_library()
        empty = 0
        # A gzip file may be several, one behind the other; what else follows a member is padding that nobody needs.
        while bytes(packed[: len(GZIP_MAGIC)]) == GZIP_MAGIC:
            first, before = self.used, self._size
            member = _GzipMember(library=library)
            while not member.is_whole:
                if not packed and not (packed := memoryview(self._read_packed())):
                    self.broken = f"the gzip data is truncated at byte {self._read:,}"
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
                raise TraceError(self._path, f"has more than {EMPTY_MEMBERS:,} empty gzip members and is not a trace")
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
                cause = f"its zstd frames use a window larger than {LARGEST_WINDOW >> 20} MiB"
                raise TraceError(self._path, cause, "compress it without --long and --ultra") from None


def _begin_of(pieces: Iterator[bytes], least: int = HEAD_BYTES) -> tuple[bytes, Iterator[bytes]]:
    """Return how what comes in pieces begins, some bytes of it, and all of it."""
    first: deque[bytes] = deque()
    size = 0
    for piece in pieces:
        first.append(piece)
        size += len(piece)
        if size >= least:
            break
    return b"".join(first)[:least], chain(_given_back(first), pieces)


def _given_back(pieces: deque[bytes]) -> Iterator[bytes]:
    while pieces:
        yield pieces.popleft()


class _Pieces(RawIOBase):
    """A file that cannot be gone back in, of what comes in pieces."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        super().__init__()
        self._pieces = iter(pieces)
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """Return true."""
        return True

    def readinto(self, target: Any) -> int:
        """Fill a buffer with the next bytes; return how many they are."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._rest = memoryview(piece)
        size = min(len(target), len(self._rest))
        target[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size


class _CountingReader:
    """A file that knows how much of it has been read."""

    def __init__(self, file: BufferedReader) -> None:
        self._file = file
        self.size = 0

    def read(self, size: int) -> bytes:
        """Read at most ``size`` bytes."""
        data = self._file.read(size)
        self.size += len(data)
        return data


def _gzip_library() -> Any:
    """Return what unpacks gzip: Intel's library takes a quarter of the time where it is installed (``[isal]``)."""
    try:
        from isal import isal_zlib
    except ImportError:
        return zlib
    return isal_zlib


class _GzipMember:
    """One member of a gzip file, unpacked step by step."""

    def __init__(self, step: int = FIRST_STEP, largest: int = PACKED_PIECE, *, library: Any = zlib) -> None:
        self._stream = library.decompressobj(wbits=31)
        self._error = library.error
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
        except self._error:
            self.is_broken = True
        self.is_whole = self._stream.eof
        self.used = size - len(self._stream.unused_data)


MOST_PER_BYTE = 1032
"""What one byte of gzip unpacks to at most."""
HEADER_BYTES = 1 << 17
"""In this much text the header before the events ends: it has a few hundred bytes for each GPU."""
BEGIN_BYTES = 1 << 20
"""Bytes of text that show whether the rest is worth reading."""


@dataclass(frozen=True)
class FileBytes:
    """Uncompressed content, and what is wrong with its compression if it is truncated."""

    data: bytes
    broken: str | None = None


_CACHED: ContextVar[dict[Location, FileBytes] | None] = ContextVar("kept", default=None)
"""Files whose unpacked text is kept while it is needed."""


@contextmanager
def cached_text() -> Iterator[None]:
    """Decompress a file once, however often it is read within this block; its text stays in memory so long."""
    if _CACHED.get() is not None:
        yield
        return
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


def read_any_format(path: Location, *, per_byte: float) -> FileBytes:
    """Read and decompress one file, also one of a known format that is no trace.

    Raises:
        TraceError: as :func:`read_bytes`.
    """
    return _read_file(path, per_byte, is_any_format=True)


def text_head(path: Location, size: int) -> bytes:
    """Return the unpacked beginning of a file, up to a number of bytes; none if it cannot be read."""
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


def _read_file(path: Location, per_byte: float, *, is_any_format: bool = False) -> FileBytes:
    with _open(path) as file:
        return _read_text(
            _begin_text(path, file, per_byte, is_any_format=is_any_format), file, is_any_format=is_any_format
        )


@contextmanager
def open_text(path: Location, is_plain: Callable[[bytes], bool]) -> Iterator[FileBytes | TextStream]:
    """Open one file to decompress it while it is read; one that does not begin as ``is_plain`` wants is read at once.

    So is one that cannot be read again where the text turns out to be wanted as a whole.

    Raises:
        TraceError, TooLargeError, MissingExtraError: as :func:`read_bytes`, also while its text is read.
    """
    if _CACHED.get() is not None or is_remote(path) or not path.is_file():
        yield read_bytes(path)
        return
    with _open(path) as file:
        stream = _begin_text(path, file, PEAK_PER_TEXT, is_any_format=False)
        head = stream.head()
        if JSON_BEGIN.match(head) and is_plain(head):
            yield stream
            return
    yield read_bytes(path)


@contextmanager
def _open(path: Location) -> Iterator[BufferedReader]:
    try:
        with path.open("rb") if is_remote(path) else open_local(path) as file:
            yield file
    except FileNotFoundError:
        raise TraceError(path, "no such file") from None
    except IsADirectoryError:
        raise TraceError(path, "is a folder, not a file") from None
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None


class TextStream:
    """A file's text, which is decompressed as it is read."""

    def __init__(self, path: Location, unpacking: Decompression, size: int, limit: TextLimit, layer: str) -> None:
        self.path = path
        self.layer = layer
        self.limit = limit
        self.size = size
        self.length = 0
        self._unpacking = unpacking
        self._pieces = iter(unpacking)

    @property
    def broken(self) -> str | None:
        """What is wrong with the compression if it is truncated; known when all is read."""
        return self._unpacking.broken

    @property
    def progress(self) -> tuple[int, int]:
        """How many of the file's bytes have been read, of how many."""
        return (self._unpacking.used if self.layer else self.length), self.size

    def head(self) -> bytes:
        """Return the beginning of the text, which stays to be read."""
        begin, self._pieces = _begin_of(self._pieces, HEADER_BYTES)
        return begin

    def pieces(self) -> Iterator[bytes]:
        """Yield the text that has not been read yet; one may stop anywhere and go on later.

        Raises:
            TooLargeError: it is longer than there is memory for.
        """
        for piece in self._pieces:
            self.limit.check(self.length + len(piece))
            self.length += len(piece)
            yield piece

    def read(self, size: int) -> list[bytes]:
        """Return the next pieces, of at least a number of bytes together unless the text ends."""
        found, length = list[bytes](), 0
        for piece in self.pieces() if size > 0 else ():
            found.append(piece)
            length += len(piece)
            if length >= size:
                break
        return found


def _begin_text(path: Location, file: BufferedReader, per_byte: float, *, is_any_format: bool) -> TextStream:
    begin = file.peek(HEAD_BYTES)[:HEAD_BYTES]
    if not begin:
        raise TraceError(path, "is empty", "record the trace again")
    layer = layer_of(begin)
    if not layer and not is_any_format:
        refuse_known_format(path, begin)
    size = path.stat().st_size if is_remote(path) else os.fstat(file.fileno()).st_size
    # What is not packed tells its length.
    if size and not layer and not is_remote(path):
        limit = TextLimit(path, per_byte=per_byte)
        limit.check(size)
    else:
        limit = TextLimit(path, size, per_byte)
    if is_remote(path):
        limit.check(max(size, _recorded_length(file, begin, size)))  # what is too long is not even sent for
    return TextStream(path, Decompression(path, file), size, limit, layer)


def _read_text(stream: TextStream, file: BufferedReader, *, is_any_format: bool) -> FileBytes:
    path, layer = stream.path, stream.layer
    if stream.size and not layer and not is_remote(path):
        return FileBytes(file.read())
    begin_stage(f"decompressing {path.name}" if layer else f"fetching {path.name}")
    text = BytesIO()  # grows in place, where parts that are joined in the end would take twice the memory
    looked_at = 0
    for piece in stream.pieces():
        text.write(piece)
        advance_stage(*stream.progress)
        if not looked_at and text.tell() >= BEGIN_BYTES:
            looked_at = text.tell()
            if not JSON_BEGIN.match(text.getvalue()):
                break
    if layer and not is_any_format:
        refuse_known_format(path, text.getvalue()[:HEAD_BYTES])
    return FileBytes(text.getvalue(), stream.broken)


def refuse_known_format(path: Location, begin: bytes) -> None:
    """Refuse a file that begins as one of a known format that is not read.

    Raises:
        TraceError: it does; of what stands for a trace or could be one.
    """
    # Protobuf may begin with a line break, and UTF-16 with a bracket.
    is_json = JSON_BEGIN.match(begin) is not None and begin[:1] != b"\n" and b"\0" not in begin[:4]
    known = None if is_json else format_of(path, begin)
    if known is not None:
        raise known.refusal(path)


def _recorded_length(file: BufferedReader, begin: bytes, size: int) -> int:
    """Return how long a gzip file's text is at least (bytes), as its end notes; 0 where that is not worth its cost.

    Of several members the last one's length is noted, and what stands behind them may be anything.
    """
    if not is_gzip(begin) or size < BEGIN_BYTES or not file.seekable():
        return 0
    file.seek(-4, SEEK_END)
    noted = int.from_bytes(file.read(4), "little")
    file.seek(0)
    return noted if noted < MOST_PER_BYTE * size else 0
