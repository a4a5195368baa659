"""The text of the one trace in a zip or tar archive, piece by piece; nothing is ever written to a disk.

Of members that begin as JSON or as something packed does there may be one. Members whose names lead out of the archive
are refused, although none is unpacked to a place: who made such an archive meant harm.
"""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Iterator
from errno import EINVAL
from io import SEEK_END, BufferedReader

from hta_graph.base.errors import NotATraceError, TraceError
from hta_graph.base.storage.location import Location
from hta_graph.trace.formats import JSON_BEGIN, LAYERS

PIECE = 1 << 17
LARGEST_DIRECTORY = 1 << 20
"""How long a zip archive's list of members may be (bytes): about 20,000 of them."""
END_OF_ZIP = b"PK\x05\x06"
LONGEST_END = (1 << 16) + 22
BLOCK = 512
"""Everything in a tar archive fills blocks of this size (bytes)."""
LONGEST_NOTE = 1 << 20
"""How long (bytes) a name or a list of attributes before a member may be."""
OUTSIDE = re.compile(r"(?:.*[/\\])?\.\.(?:[/\\]|$)|[/\\]|[A-Za-z]:[/\\]")
"""Names that lead out of the folder into which an archive is unpacked."""
LOOKED_AT = 1 << 16
"""How much of each member's beginning is looked at."""
TRACE_KEYS = re.compile(rb'"(?:traceEvents|ph)"')
"""Keys of which every trace has one."""
HEADER_KEYS = re.compile(rb'"(?:schemaVersion|deviceProperties|distributedInfo|displayTimeUnit|otherData)"')
"""Keys that stand before these in a trace with a long header."""
NOT_A_MEMBER = re.compile(r"(?:.*/)?(?:__MACOSX/|\.)")
"""Files that macOS adds, and hidden ones."""


def _is_candidate(begin: bytes, size: int) -> bool:
    """Return whether a member of a size may be a trace; settings, host execution traces and other JSON are not."""
    is_text = JSON_BEGIN.match(begin) is not None and bool(begin.strip())
    is_trace = TRACE_KEYS.search(begin) or (HEADER_KEYS.search(begin) if len(begin) < size else None)
    return (is_text and is_trace is not None) or any(known.begins.match(begin) for known in LAYERS)


def _check_name(path: Location, name: str) -> bool:
    """Return whether a member counts.

    Raises:
        TraceError: its name leads out of the archive.
    """
    if OUTSIDE.match(name):
        raise TraceError(path, f"is an archive with a name that leads out of it: {name[:80]!r}", "do not unpack it")
    return NOT_A_MEMBER.match(name) is None


def _several(path: Location, kind: str) -> TraceError:
    return TraceError(path, f"is a {kind} archive of several traces", "unpack it and pass the folder")


def _none(path: Location, kind: str) -> NotATraceError:
    return NotATraceError(path, f"is a {kind} archive without a trace", "pass a Kineto trace")


# -- zip --------------------------------------------------------------------------------------------------------------


def unzip_trace(path: Location, file: BufferedReader) -> Iterator[bytes]:
    """Yield the bytes of the one trace in a zip archive.

    Raises:
        TraceError: it holds none or several, or cannot be unpacked here.
    """
    try:
        _check_end(path, file)
        with zipfile.ZipFile(_ShortReads(path, file)) as archive:
            member = _member_of(path, archive)
            with archive.open(member) as inside:
                while piece := inside.read(PIECE):
                    yield piece
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise TraceError(path, f"is a damaged zip archive: {error}", "copy it again") from None
    except OSError as error:
        if error.errno != EINVAL:  # its list of members leads before the file's beginning
            raise
        raise TraceError(path, "is a damaged zip archive", "copy it again") from None
    except (NotImplementedError, RuntimeError, ValueError, UnicodeError) as error:
        raise TraceError(path, f"is a zip archive that cannot be unpacked: {error}", "unpack it") from None


class _ShortReads:
    """A file of which little is read at once: a list of members, which is, may say in several places how long it is.

    Raises, while reading, ``TraceError``: the list would take more memory than a trace.
    """

    def __init__(self, path: Location, file: BufferedReader) -> None:
        self._path = path
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        """Read at most a number of bytes, or all."""
        data = self._file.read(LARGEST_DIRECTORY + 1 if size < 0 else min(size, LARGEST_DIRECTORY + 1))
        if len(data) > LARGEST_DIRECTORY:
            raise TraceError(self._path, "is a zip archive of too many files", "unpack it and pass the folder")
        return data


def _check_end(path: Location, file: BufferedReader) -> None:
    """Refuse an archive without an end, which is where its members are listed."""
    if not file.seekable():
        raise TraceError(path, "is a zip archive in a stream", "unpack it")
    size = file.seek(0, SEEK_END)
    file.seek(max(size - LONGEST_END, 0))
    if END_OF_ZIP not in file.read(LONGEST_END):
        raise TraceError(path, "is a truncated zip archive", "copy it again")


def _member_of(path: Location, archive: zipfile.ZipFile) -> zipfile.ZipInfo:
    listed = [item for item in archive.infolist() if _check_name(path, item.filename) and not item.is_dir()]
    if any(item.filename.endswith("/data.pkl") for item in listed):
        raise NotATraceError(path, "is a file of torch.save, which can run code when it is read", "pass a Kineto trace")
    if any(item.flag_bits & 1 for item in listed):
        raise TraceError(path, "is a zip archive with a password", "unpack it")
    if any(item.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for item in listed):
        raise TraceError(path, "is a zip archive that is not packed by deflate", "unpack it")
    found: list[zipfile.ZipInfo] = []
    for item in listed:
        with archive.open(item) as inside:
            if _is_candidate(inside.read(LOOKED_AT), item.file_size):
                found.append(item)
        if len(found) > 1:
            raise _several(path, "zip")
    if not found:
        raise _none(path, "zip")
    return found[0]


# -- tar --------------------------------------------------------------------------------------------------------------


class _Blocks:
    """What comes in pieces of any length, by lengths that are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")

    def some(self, size: int) -> memoryview:
        """Return at most a number of bytes; none at the end."""
        while not self._rest:
            piece = next(self._pieces, None)
            if piece is None:
                break
            self._rest = memoryview(piece)
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def exactly(self, size: int) -> bytes:
        """Return a number of bytes, fewer only at the end."""
        found = bytearray()
        while len(found) < size and (part := self.some(size - len(found))):
            found += part
        return bytes(found)


def untar_trace(path: Location, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the bytes of the one trace in a tar archive that comes in pieces.

    Raises:
        TraceError: it holds none or several, or is truncated.
    """
    source, found = _Blocks(pieces), 0
    while (header := source.exactly(BLOCK)).strip(b"\0"):
        size, name = _size_of(path, header), _name_of(header)
        padded = size + -size % BLOCK
        counts = header[156:157] in (b"0", b"\0", b"7") and _check_name(path, name)
        if not counts:
            if header[156:157] in b"xgLK" and size > LONGEST_NOTE:
                raise TraceError(path, "is a tar archive with an absurd name", "unpack it")
            _pass(path, source, padded)
            continue
        begin = source.exactly(min(size, LOOKED_AT))
        is_trace = _is_candidate(begin, size)
        found += is_trace
        if found > 1:
            raise _several(path, "tar")
        if is_trace:
            yield begin
            yield from _take(path, source, size - len(begin))
            _pass(path, source, padded - size)
        else:
            _pass(path, source, padded - len(begin))
    if not found:
        raise _none(path, "tar")


def _size_of(path: Location, header: bytes) -> int:
    """Return the length of a member: octal digits, or where that is too little, bytes.

    Raises:
        TraceError: it is neither.
    """
    field = header[124:136]
    if field[:1] == b"\x80":
        return int.from_bytes(field[4:], "big")
    digits = field.strip(b"\0 ")
    if header[257:262] != b"ustar" or not re.fullmatch(rb"[0-7]{0,12}", digits):
        raise TraceError(path, "is a damaged tar archive", "copy it again")
    return int(digits or b"0", 8)


def _name_of(header: bytes) -> str:
    name, prefix = (header[part].split(b"\0")[0].decode("utf-8", "replace") for part in (slice(100), slice(345, 500)))
    return f"{prefix}/{name}" if prefix and header[257:263] == b"ustar\0" else name


def _take(path: Location, source: _Blocks, size: int) -> Iterator[bytes]:
    while size:
        part = source.some(min(size, PIECE))
        if not part:
            raise TraceError(path, "is a truncated tar archive", "copy it again")
        size -= len(part)
        yield bytes(part)


def _pass(path: Location, source: _Blocks, size: int) -> None:
    for _ in _take(path, source, size):
        pass
