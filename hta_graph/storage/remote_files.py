"""A file on the network as an open file: asked for in parts that grow, so that a beginning costs little."""

from __future__ import annotations

from errno import EISDIR
from io import SEEK_CUR, SEEK_END, BufferedReader, RawIOBase
from typing import Any

from hta_graph.storage.file_systems import RemoteFacts, clear_cache, facts_in, facts_of, file_system
from hta_graph.storage.remote_errors import ChangedFileError, RemoteError, ShortBodyError, with_retries
from hta_graph.storage.urls import HTTP, Url

__all__ = ["open_listed", "open_remote"]

FIRST_PART = 1 << 17
LARGEST_PART = 1 << 23
BUFFER = 1 << 16
STORES = ("s3", "gs")


def open_remote(address: Url, known: RemoteFacts | None) -> BufferedReader:
    """Open a file for reading.

    Args:
        address: where it is.
        known: what was known of it when it was first looked at, if it was.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        RemoteError: it cannot be read, or is not any more what it was.
    """
    file, now = _opened_with_facts(address)
    if now.is_folder:
        raise IsADirectoryError(EISDIR, "is a folder", address.shown)
    try:
        with_retries(address, lambda: _refuse_change(known, now))
    except RemoteError:
        clear_cache()  # who asks again is told what is there now
        raise
    raw = _PartedFile(address, now, file) if now.in_parts else _StreamedFile(address)
    return BufferedReader(raw, BUFFER)


def open_listed(address: Url, known: RemoteFacts | None) -> BufferedReader:
    """Open a file to look at its beginning or end; what a listing told of it is believed.

    Raises:
        FileNotFoundError: there is no such file.
        RemoteError: it cannot be read.
    """
    if known is None or known.is_folder or not known.size or not known.in_parts or address.scheme != "s3":
        return open_remote(address, known)
    store = file_system(address.scheme)
    file = with_retries(address, lambda: store.open(address.text, "rb", cache_type="none", size=known.size))
    file.details = {"name": address.key, "size": known.size, "type": "file"}  # else it would ask for them
    return BufferedReader(_PartedFile(address, known, file), BUFFER)


def _opened_with_facts(address: Url) -> tuple[Any, RemoteFacts]:
    """Open a file for parts of it, and return what it is now; a store is asked that once, when it is opened."""
    store = file_system(address.scheme)
    settings: dict[str, Any] = {"cache_type": "none", "block_size": FIRST_PART}
    if address.scheme in STORES:
        file = with_retries(address, lambda: store.open(address.text, "rb", **settings))
        return file, facts_in(file.details)
    now = facts_of(address, fresh=True)
    if now.is_folder or not now.in_parts:
        return None, now
    if address.scheme in HTTP:
        settings["size"] = now.size
    return with_retries(address, lambda: store.open(address.text, "rb", **settings)), now


def _refuse_change(known: RemoteFacts | None, now: RemoteFacts) -> None:
    if known is not None and not known.is_folder and known.version != now.version:
        raise ChangedFileError


class _PartedFile(RawIOBase):
    """A file whose parts can be asked for; each is twice as long as the last one, as long as one follows the other."""

    def __init__(self, address: Url, facts: RemoteFacts, file: Any) -> None:
        self._file = file
        self._address = address
        self._facts = facts
        self._size = facts.size or 0
        self._at = self._begin = 0
        self._part = self._first = b""
        self._next = FIRST_PART
        self._parts = 0
        self._whole = _WholeFile(address)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = 0) -> int:
        self._at = offset + {SEEK_CUR: self._at, SEEK_END: self._size}.get(whence, 0)
        return self._at

    def readinto(self, buffer: Any) -> int:
        if self._at >= self._size:
            return 0
        if not self._begin <= self._at < self._begin + len(self._part):
            self._fetch(len(buffer))
        piece = self._part[self._at - self._begin :][: len(buffer)]
        buffer[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def _fetch(self, wanted: int) -> None:
        if self._at < len(self._first):
            self._begin, self._part = 0, self._first
            return
        follows = self._at == self._begin + len(self._part)
        # Whoever leaps to the end wants no more than that.
        size = self._next if follows else FIRST_PART
        self._next = min(2 * size, LARGEST_PART)
        end = min(self._at + max(size, min(wanted, LARGEST_PART)), self._size)
        self._begin, self._part = self._at, b""
        self._part = with_retries(self._address, lambda: self._fetched(end))
        self._parts += 1
        if not self._begin:
            self._first = self._part  # whoever looks at the end comes back to the beginning
        if end == self._size and self._parts > 1 and self._address.scheme != "s3":
            # S3 is asked for parts of the version that was opened; of others it is seen only afterwards.
            with_retries(self._address, lambda: _refuse_change(self._facts, facts_of(self._address, fresh=True)))

    def _fetched(self, end: int) -> bytes:
        self._file.seek(self._at)
        try:
            data: bytes = self._file.read(end - self._at)
        except ValueError:  # a web server that sends all of it, whatever part it is asked for
            if self._address.scheme not in HTTP:
                raise
            data = self._whole.read(self._at, end)
        if len(data) != end - self._at:
            raise ShortBodyError(f"{len(data)} of {end - self._at} bytes")
        return data

    def close(self) -> None:
        # What is in memory is one file for all who read it.
        if not self.closed and self._address.scheme != "memory":
            self._file.close()
            self._whole.close()
        super().close()


class _WholeFile:
    """A file that a server sends only whole, from which parts are taken as they come by."""

    def __init__(self, address: Url) -> None:
        self._address = address
        self._file: Any = None
        self._at = 0

    def read(self, begin: int, end: int) -> bytes:
        """Return a part; where it has come by already, the file is sent once more."""
        if self._file is None or self._at > begin:
            self.close()
            self._file, self._at = file_system(self._address.scheme).open(self._address.text, "rb", block_size=0), 0
        found = bytearray()
        try:
            while self._at < end and (piece := self._file.read(min(end - self._at, BUFFER))):
                found += piece[max(begin - self._at, 0) :]
                self._at += len(piece)
        except BaseException:
            self.close()
            raise
        return bytes(found)

    def close(self) -> None:
        """Let the server send no more."""
        if self._file is not None:
            self._file.close()
        self._file = None


class _StreamedFile(RawIOBase):
    """A file that a server sends only whole."""

    def __init__(self, address: Url) -> None:
        self._address = address
        self._file: Any = with_retries(
            address, lambda: file_system(address.scheme).open(address.text, "rb", block_size=0)
        )

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        # What broke off in the middle cannot be gone on with: there is no second try.
        data = with_retries(self._address, lambda: self._file.read(len(buffer)))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()
