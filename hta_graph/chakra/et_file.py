"""``.et`` files: a varint length before each message, metadata first, then nodes to the end of the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hta_graph.chakra.schema import DecodeError, GlobalMetadata, Node
from hta_graph.errors import Remedy, TraceError
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location
from hta_graph.trace.decompress import is_gzip
from hta_graph.trace.memory_limit import TextLimit

__all__ = ["EtFile", "attributes", "length_prefixed", "read_et", "skip_message", "varint"]

PEAK_PER_BYTE = 8
"""What a file and its messages take in memory for each byte; a message may have no more than two."""
MAX_CHEAP_MESSAGES = 1_000_000
MIN_MESSAGE_BYTES = 8
"""Bytes: a node has an id, a name and a type."""
MAX_LENGTH_BYTES = 5
"""Bytes of the varint of a 32-bit length."""


@dataclass(frozen=True)
class EtFile:
    """One file's messages, as bytes."""

    path: Location
    messages: list[bytes]

    @property
    def metadata(self) -> dict[str, Any]:
        """What the first message says."""
        return {name: value for name, _, value in attributes(self._decode_message(GlobalMetadata, self.messages[0]))}

    @property
    def has_metadata(self) -> bool:
        """Whether the first message is metadata; readers take it for that, so that a node there is lost."""
        try:
            first = GlobalMetadata.FromString(self.messages[0])
        except DecodeError:
            return False
        # Protobuf takes a node for metadata too; but then some of its fields are unknown ones.
        size: int = first.ByteSize()
        first.DiscardUnknownFields()
        return bool(first.ByteSize() == size)

    def nodes(self) -> Iterator[Any]:
        """Decode one node after the other.

        Raises:
            TraceError: a message is no node.
        """
        for at in range(1, len(self.messages)):
            yield self._decode_message(Node, self.messages[at])

    def _decode_message(self, kind: Any, message: bytes) -> Any:
        try:
            return kind.FromString(message)
        except DecodeError:
            cause = "is no Chakra execution trace: a message does not fit the schema"
            remedy = Remedy("convert() writes one", "hta-graph chakra convert writes one")
            raise TraceError(self.path, cause, remedy) from None


def length_prefixed(messages: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file: each message after its length."""
    for message in messages:
        yield varint(len(message))
        yield message


def read_et(path: str | Location) -> EtFile:
    """Read one ``.et`` file.

    Raises:
        TraceError: it cannot be read, is compressed, breaks off, or holds something else.
        TooLargeError: it is longer than there is memory for.
    """
    path = resolve_location(path)
    # A pipe would keep the reader waiting.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise TraceError(path, "is no file", "convert the traces again")
    try:
        TextLimit(path, per_byte=PEAK_PER_BYTE).check(path.stat().st_size)
        raw = path.read_bytes()
    except OSError as error:
        raise TraceError(path, f"cannot be read: {error.strerror or error}") from None
    if is_gzip(raw):
        raise TraceError(path, "is compressed, which ASTRA-sim does not read", "decompress it")
    if not raw:
        raise TraceError(path, "is empty", "convert the traces again")
    return EtFile(path, list(_split_messages(path, raw)))


def skip_message(file: BinaryIO) -> None:
    """Go behind the first message of an open file."""
    length, begin = _read_length(Path(file.name), file.read(MAX_LENGTH_BYTES), 0)
    file.seek(begin + length)


def attributes(message: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield each attribute's name, the type of its value (such as ``int64_val``; "" where it has none), the value."""
    for attribute in message.attr:
        kind = attribute.WhichOneof("value") or ""
        yield attribute.name, kind, getattr(attribute, kind) if kind else None


def varint(number: int) -> bytes:
    """Write a number in base 128, lowest digits first.

    >>> list(varint(300))
    [172, 2]
    """
    digits = bytearray()
    while number > 0x7F:
        digits.append(number & 0x7F | 0x80)
        number >>= 7
    digits.append(number)
    return bytes(digits)


def _split_messages(path: Location, raw: bytes) -> Iterator[bytes]:
    at = count = 0
    while at < len(raw):
        if count > MAX_CHEAP_MESSAGES and MIN_MESSAGE_BYTES * count > at:
            raise TraceError(path, f"is no Chakra execution trace: {count:,} messages in the first {at:,} bytes")
        length, begin = _read_length(path, raw, at)
        if begin + length > len(raw):
            raise TraceError(path, f"breaks off in the message at byte {at:,}", "write it again")
        yield raw[begin : begin + length]
        at = begin + length
        count += 1


def _read_length(path: Location, raw: bytes, at: int) -> tuple[int, int]:
    """Return the length that stands at a byte, and where its message begins."""
    length = 0
    # Seven bits a byte, the lowest first; the highest bit says that another byte follows.
    for place, byte in enumerate(raw[at : at + MAX_LENGTH_BYTES]):
        length |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return length, at + place + 1
    is_short = at + MAX_LENGTH_BYTES > len(raw)
    cause = "breaks off in a length" if is_short else "is no Chakra execution trace: there is no length"
    raise TraceError(path, f"{cause} at byte {at:,}", "write it again" if is_short else "")
