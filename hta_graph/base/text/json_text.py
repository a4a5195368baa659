"""Documents as JSON text, piece by piece: a list of a million records never stands in memory as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson

RECORDS_AT_ONCE = 5_000
"""So few stay in the processor's cache from column to text."""


class Records:
    """A list of objects, held as columns of equal length."""

    def __init__(self, columns: Mapping[str, np.ndarray[Any, Any]]) -> None:
        self.columns = dict(columns)

    def pieces(self) -> Iterator[bytes]:
        """Yield the text of the list.

        >>> b"".join(Records({"a": np.array([1, 2]), "b": np.array(["x", None], object)}).pieces())
        b'[{"a":1,"b":"x"},{"a":2,"b":null}]'
        """
        import msgspec  # late: text needs none

        record = msgspec.defstruct("Record", list(self.columns), gc=False)
        columns = list(self.columns.values())
        yield b"["
        for at in range(0, len(columns[0]), RECORDS_AT_ONCE):
            rows = map(record, *(column[at : at + RECORDS_AT_ONCE].tolist() for column in columns))
            yield b"," * (at > 0) + msgspec.json.encode(list(rows))[1:-1]
        yield b"]"


def to_json(document: Mapping[str, Any]) -> Iterator[bytes]:
    r"""Yield the text of a document whose values may be :class:`Records`.

    >>> b"".join(to_json({"schema": "x/1", "rows": Records({"n": np.array([7])})}))
    b'{"schema":"x/1","rows":[{"n":7}]}\n'
    """
    opening = b"{"
    for key, value in document.items():
        yield opening + orjson.dumps(key) + b":"
        yield from map(_all_seen, value.pieces() if isinstance(value, Records) else [orjson.dumps(value)])
        opening = b","
    yield b"}\n"


def _all_seen(piece: bytes) -> bytes:
    r"""Escape what JSON need not escape and a terminal obeys all the same: it is the same document.

    >>> _all_seen('["内核", "\u202e\x9b"]'.encode()).decode()
    '["内核", "\\u202e\\u009b"]'
    """
    if piece.isascii() and b"\x7f" not in piece:
        return piece
    text = piece.decode()
    return piece if text.isprintable() else _BEYOND_ASCII.sub(_escaped_if_hidden, text).encode()


_BEYOND_ASCII = re.compile("[^ -~]+")


def _escaped_if_hidden(found: re.Match[str]) -> str:
    import json

    return found[0] if found[0].isprintable() else json.dumps(found[0])[1:-1]
