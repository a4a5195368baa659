"""Large files part by part: the array of events is cut between events, so that memory holds only one part's rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from hta_graph.trace.rows import Header, RowShape

__all__ = ["Part", "Parts", "is_array"]

PART_BYTES = 16 << 20
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
CUTS = 100
"""How many places to try: most of what looks like a boundary between events is one."""


def is_array(raw: bytes) -> bool:
    """Tell whether a text is a bare list of events rather than a document that holds one."""
    return re.match(rb"\s*\[", raw) is not None


@dataclass(frozen=True)
class Part:
    """Consecutive elements of ``traceEvents`` and the JSON array or document that they were decoded from."""

    rows: list[Any]
    text: bytes


class Parts:
    """Decode a strict trace in parts; ``header`` is known when all have been taken.

    Raises, while iterating, ``msgspec.DecodeError``: the text is not strict JSON, or a row has a field of another type.
    """

    def __init__(self, raw: bytes, shape: RowShape[Any]) -> None:
        self._raw = raw
        self._shape = shape
        self.header = Header()

    def __iter__(self) -> Iterator[Part]:
        begin = self._first_event()
        if begin is None:
            yield self._rest(b"", 0)
            return
        at = begin
        while len(self._raw) - at > 2 * PART_BYTES and (cut := self._cut(at)) is not None:
            part, at = cut
            yield part
        yield self._rest(self._raw[:begin] if at > begin else b"", at if at > begin else 0)

    def _first_event(self) -> int | None:
        """Return where the array's elements begin, if that is plain to see."""
        if is_array(self._raw):
            return self._raw.index(b"[") + 1
        key = EVENTS_KEY.search(self._raw)
        if key is None:
            return None
        msgspec.json.decode(
            self._raw[: key.end()] + b"]}", type=self._shape.document
        )  # fails if the key is not the outermost
        return key.end()

    def _cut(self, at: int) -> tuple[Part, int] | None:
        """Decode about one part from a place on; return it and where the next begins."""
        for boundary, _ in zip(BOUNDARY.finditer(self._raw, at + PART_BYTES), range(CUTS), strict=False):
            text = b"[" + self._raw[at : boundary.start() + 1] + b"]"
            try:
                return Part(msgspec.json.decode(text, type=self._shape.listed), text), boundary.end()
            except msgspec.ValidationError:
                raise
            except msgspec.DecodeError:
                continue  # this boundary lies inside an event
        return None

    def _rest(self, head: bytes, at: int) -> Part:
        """Decode what is left, with the keys before and after the array."""
        text = head + self._raw[at:] if at else self._raw
        if is_array(text):
            return Part(msgspec.json.decode(text, type=self._shape.listed), text)
        document = msgspec.json.decode(text, type=self._shape.document)
        self.header = document.header
        return Part(document.rows, text)
