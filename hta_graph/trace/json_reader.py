"""Large files part by part: the array of events is cut between events, so that memory holds only one part's rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import msgspec

from hta_graph.storage.location import Location
from hta_graph.trace.memory_limit import check_decoded
from hta_graph.trace.rows import Header, RowShape
from hta_graph.trace.tolerant import FaultError, read_leniently

__all__ = ["FilePart", "Parts", "is_array"]

PART_BYTES = 1 << 20
"""Small enough to stay in the processor's cache: a sixth less time than with parts of 16 MB."""
BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{)")
EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
CUTS = 100
"""How many places to try: most of what looks like a boundary between events is one."""
WRONG_CUTS = 16
"""How often a text may be decoded in vain, on the whole; what is left is then one part."""
CLOSINGS = 1_000
"""How many closing braces to try from the end: an event nests a few objects, its name may hold many braces."""
CLOSING_BYTES = 1 << 31
"""How much text to decode for that: all tries, but for those of an event that is itself as long as a trace."""
ADDED_BYTES = 2
"""A decoder that fails so close to the end of a text that was cut and closed failed at the cut."""


def is_array(raw: bytes) -> bool:
    """Tell whether a text is a bare list of events rather than a document that holds one."""
    return re.match(rb"\s*\[", raw) is not None


@dataclass(frozen=True)
class FilePart:
    """Consecutive elements of ``traceEvents`` and the JSON array or document that they were decoded from.

    Those that only the tolerant parser reads are exact already; of these ``non_objects`` are none.
    """

    rows: list[Any]
    text: bytes
    tolerant: bool = False
    non_objects: int = 0


class Parts:
    """Decode a trace in parts: strictly, or tolerantly where that fails; of a text that breaks off, its whole events.

    ``header``, ``count`` and ``non_objects`` (of rows), ``tolerant`` and ``fault`` (why it breaks off, if it does) are
    known when all parts have been taken; ``taken`` is how much of the text (bytes) the parts until now stood in.

    Raises, while iterating, ``TraceError``: the text is JSON of another shape.
    """

    def __init__(self, path: Location, raw: bytes, shape: RowShape[Any]) -> None:
        self._path = path
        self._raw = raw
        self._shape = shape
        self._whole = self._in_vain = 0
        self.header = Header()
        self.count = self.taken = 0
        self.non_objects = 0
        self.tolerant = False
        self.fault: str | None = None

    @property
    def closed_text(self) -> bytes:
        """The text itself; where that breaks off, up to the last whole event, with what was open closed."""
        if self.fault is None:
            return self._raw
        return self._raw[: self._whole] + (b"]" if is_array(self._raw) else b"]}")

    def __iter__(self) -> Iterator[FilePart]:
        for part in self._decoded_parts():
            self.count += len(part.rows)
            self.non_objects += part.non_objects
            self.tolerant |= part.tolerant
            yield part

    def _decoded_parts(self) -> Iterator[FilePart]:
        begin = self._first_event()
        at = begin or 0
        try:
            while (
                begin is not None
                and len(self._raw) - at > 2 * PART_BYTES
                and (cut := self._decode_next_part(at)) is not None
            ):
                part, at = cut
                self.taken = at
                yield part
            self.taken = len(self._raw)
            last = self._decode_rest(begin, at)
        except FaultError as fault:
            self.fault = _fault_in_words(fault)
            # The parts before the break are out already; of the last one what is whole is saved.
            last = FilePart([], b"[]") if begin is None else self._whole_events(at, fault.byte)
        yield last

    def _first_event(self) -> int | None:
        """Return where the array's elements begin, if that is plain to see."""
        if is_array(self._raw):
            return self._raw.index(b"[") + 1
        key = EVENTS_KEY.search(self._raw)
        if key is None:
            return None
        check_decoded(self._path, key.end())
        try:
            self._decode_text(self._raw[: key.end()] + b"]}")
        except FaultError:  # the key is an inner one
            return None
        return key.end()

    def _decode_next_part(self, at: int) -> tuple[FilePart, int] | None:
        """Decode about one part from a place on; return it and where the next begins."""
        # `}, {` may stand inside an event too (nested arguments, names): a cut counts only if what it cuts off decodes.
        for boundary in islice(BOUNDARY.finditer(self._raw, at + PART_BYTES), CUTS):
            if self._in_vain > WRONG_CUTS * len(self._raw) + CUTS * PART_BYTES:
                break
            try:
                return self._decode_events(at, boundary.start() + 1), boundary.end()
            except FaultError as fault:
                if fault.cause:
                    raise  # no wrong cut but broken text
                self._in_vain += boundary.start() - at
        return None  # what looks like boundaries lies inside an event

    def _decode_rest(self, begin: int | None, at: int) -> FilePart:
        """Decode what is left from a place on, with the keys before and after the array."""
        if at == (begin or 0):
            return self._decode_text(self._raw)
        try:
            return self._decode_text(self._raw[:begin] + self._raw[at:])
        except FaultError as fault:
            raise FaultError(fault.byte + at - (begin or 0), fault.cause) from None

    def _whole_events(self, at: int, end: int) -> FilePart:
        """Decode from a place on to the last whole event before another: cut behind a closing brace and close."""
        for _ in range(min(CLOSINGS, CLOSING_BYTES // max(end - at, 1) + 1)):
            end = self._raw.rfind(b"}", at, end)
            if end < 0:
                break
            try:
                return self._decode_events(at, end + 1)
            except FaultError:
                continue  # this brace lies inside an event
        return FilePart([], b"[]")

    def _decode_events(self, at: int, end: int) -> FilePart:
        """Decode the events from one place to another."""
        try:
            # Joined from a view: the text is copied once, where slicing and adding would copy it three times.
            text = b"".join((b"[", memoryview(self._raw)[at:end], b"]"))
            part = self._decode_text(text, added=ADDED_BYTES)
        except FaultError as fault:
            raise FaultError(fault.byte + at - 1, fault.cause) from None
        self._whole = end
        return part

    def _decode_text(self, text: bytes, *, added: int = 0) -> FilePart:
        """Decode a list or a document, whose keys become the header.

        Raises:
            FaultError: it is no JSON, or ends early; with some bytes added to close it, the latter near its end.
            TooLargeError: it is long, and what it may hold takes more memory than there is.
        """
        check_decoded(self._path, len(text))
        try:
            # Several times faster than the tolerant one, and nearly every trace is strict JSON.
            return self._decode_strictly(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            if _is_cut(str(error), len(text), added):
                raise FaultError(len(text)) from None
        try:
            found = read_leniently(self._path, text, self._shape)
        except FaultError as fault:
            raise FaultError(len(text)) if fault.byte >= len(text) - added > 0 else fault from None
        if not is_array(text):  # a list was cut from the middle of the file, which has no keys
            self.header = found.header
        return FilePart(found.rows, b"", tolerant=True, non_objects=found.non_objects)

    def _decode_strictly(self, text: bytes) -> FilePart:
        if is_array(text):
            return FilePart(msgspec.json.decode(text, type=self._shape.listed), text)
        document = msgspec.json.decode(text, type=self._shape.document)
        self.header = document.header
        return FilePart(document.rows, text)


def _fault_in_words(fault: FaultError) -> str:
    if fault.cause:
        return f"is not JSON: {fault.cause} at byte {fault.byte:,}"
    return f"the JSON breaks off at byte {fault.byte:,}"


def _is_cut(error: str, size: int, added: int) -> bool:
    """Tell whether the strict decoder failed at the end of a text, and not at what a tolerant one may read."""
    if "truncated" in error:
        return True
    place = re.search(r"byte (\d+)\)$", error)
    if place is None:
        return False
    if added:
        return "trailing characters" in error or int(place[1]) >= size - added
    return "invalid number" in error and int(place[1]) == size
