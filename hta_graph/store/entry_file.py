"""The one form of what is stored: a head of JSON, then columns as they lie in memory, each with its checksum.

The head names the entry: an entry in another's place is damaged, as is one of another length or with other bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from mmap import mmap
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from hta_graph.base.arrays import memory_of

Column: TypeAlias = np.ndarray[Any, Any]

MAGIC = b"hta-graph entry\n"
ALIGNMENT = 64
"""Columns begin at multiples of a line of the processor's cache."""
NUMBER_BYTES = 4
HEAD_AT = len(MAGIC) + 2 * NUMBER_BYTES
COLUMN_TYPE = re.compile(r"[<>|](?:b1|[iu][1248]|f[48])")
WEIGHTS = np.arange(1, 513, dtype="<u8") * np.uint64(0x9E3779B97F4A7C16) + np.uint64(1)
"""Of 64-bit words under a checksum: odd, and as good as random."""

Stored: TypeAlias = mmap | bytes | memoryview
"""What holds an entry: a mapped file, or bytes in memory."""


class DamagedEntryError(ValueError):
    """A file is not what was written as an entry."""


@dataclass(frozen=True)
class Entry:
    """What an entry holds: a record of JSON, and read-only columns."""

    record: dict[str, Any]
    columns: tuple[Column, ...] = ()


def entry_pieces(name: str, entry: Entry) -> Iterator[bytes | memoryview]:
    """Yield the bytes of an entry's file, piece by piece."""
    parts = [(column.dtype.str, memory_of(np.ascontiguousarray(column))) for column in entry.columns]
    described = [[kind, len(part), checksum(part)] for kind, part in parts]
    head = json.dumps({"name": name, "parts": described, "record": entry.record}).encode()
    yield MAGIC + len(head).to_bytes(NUMBER_BYTES, "little") + crc32(head).to_bytes(NUMBER_BYTES, "little")
    yield head
    size = HEAD_AT + len(head)
    for _, part in parts:
        yield bytes(-size % ALIGNMENT)
        yield part
        size += -size % ALIGNMENT + len(part)


def checksum(part: memoryview) -> int:
    """Return the checksum of a column's bytes, in a quarter of the time of a CRC.

    It is the CRC of weighted sums, each of a row of words (64 bits): weights are odd, so that each change of a word
    changes it, and different, so that words in another order do.
    """
    count = len(part) // WEIGHTS.nbytes
    words = np.frombuffer(part, WEIGHTS.dtype, count * len(WEIGHTS)) if count else WEIGHTS[:0]
    sums = np.einsum("ij,j->i", words.reshape(count, len(WEIGHTS)), WEIGHTS)
    return crc32(part[words.nbytes :], crc32(sums))


def read_entry(name: str, data: Stored) -> Entry:
    """Return what an entry's file holds; its columns lie in the given memory.

    Raises:
        DamagedEntryError: it is not what was written under this name.
    """
    head = read_head(data)
    if head["name"] != name:
        raise DamagedEntryError("it is another entry")
    columns: list[Column] = []
    size = HEAD_AT + int.from_bytes(data[len(MAGIC) : len(MAGIC) + NUMBER_BYTES], "little")
    with memoryview(data) as view:
        for kind, length, written in head["parts"]:
            begin = size + -size % ALIGNMENT
            size = begin + length
            with view[begin:size] as part:
                if len(part) != length or checksum(part) != written:
                    raise DamagedEntryError("a part is not what was written")
            columns.append(_column(kind, length, data, begin))
    if size != len(data):
        raise DamagedEntryError("its length is another one")
    return Entry(head["record"], tuple(columns))


def _column(dtype: str, size: int, data: Stored, begin: int) -> Column:
    """Return a column of some bytes that lies in the given memory."""
    if not COLUMN_TYPE.fullmatch(dtype) or size % np.dtype(dtype).itemsize:
        raise DamagedEntryError("a column is of no known type")
    count = size // np.dtype(dtype).itemsize
    column = np.frombuffer(data, dtype, count, begin) if count else np.empty(0, dtype)
    column.flags.writeable = False
    return column


def read_head(data: Stored) -> dict[str, Any]:
    """Return the head of an entry's file, of which the beginning may be all that is given.

    Raises:
        DamagedEntryError: it is not what was written.
    """
    begin = bytes(data[:HEAD_AT])
    if len(begin) < HEAD_AT or begin[: len(MAGIC)] != MAGIC:
        raise DamagedEntryError("it does not begin as an entry does")
    size, checksum = (int.from_bytes(begin[at : at + NUMBER_BYTES], "little") for at in range(len(MAGIC), HEAD_AT, 4))
    head = bytes(data[HEAD_AT : HEAD_AT + size])
    if len(head) != size or crc32(head) != checksum:
        raise DamagedEntryError("its head is not what was written")
    found: dict[str, Any] = json.loads(head)
    return found
