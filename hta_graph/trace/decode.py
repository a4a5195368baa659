"""JSON text → rows in parts, with what the file says about itself, or one error that says where it breaks off."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from hta_graph.errors import NotATraceError, TraceError
from hta_graph.trace.parts import Part, Parts, is_array
from hta_graph.trace.rows import EVENT_ROWS, Header, RowShape
from hta_graph.trace.source import FileBytes
from hta_graph.trace.tolerant import parse

__all__ = ["Decoded", "closed_text", "decode", "exact_times", "paused_gc", "with_fallback"]

Result = TypeVar("Result")


class _TimeRow(msgspec.Struct, gc=False):
    ts: Decimal | None = None


class _TimeDocument(msgspec.Struct):
    rows: list[_TimeRow] = msgspec.field(default_factory=list, name="traceEvents")


class CheckedParts:
    """The parts of a trace; after the last of them an error if it breaks off and that is not to be mended."""

    def __init__(self, path: Path, content: FileBytes, shape: RowShape[Any], *, salvage: bool) -> None:
        self._path = path
        self._salvage = salvage
        self._broken = content.broken
        self.known = Parts(path, content.data, shape)
        self.salvaged: str | None = None

    def __iter__(self) -> Iterator[Part]:
        yield from self.known
        count = self.known.count
        cause = self._broken or self.known.fault
        if cause and not (self._salvage and count):
            remedy = "--salvage reads those" if count else "record the trace again"
            raise TraceError(self._path, f"{cause}, after {count:,} whole events", remedy)
        if count and self.known.strangers == count:
            raise NotATraceError(self._path, "is a list without event objects, not a trace", "give a Kineto trace")
        self.salvaged = f"{cause}, {count:,} whole events read" if cause else None


@dataclass(frozen=True)
class Decoded:
    """Rows in file order, in parts; all else is known when these have been taken."""

    parts: Iterable[Part]
    source: CheckedParts

    @property
    def header(self) -> Header:
        """What the file says about itself."""
        return self.source.known.header

    @property
    def not_rows(self) -> int:
        """How many elements are no objects."""
        return self.source.known.strangers

    @property
    def tolerant(self) -> bool:
        """Whether the file is not strict JSON."""
        return self.source.known.tolerant

    @property
    def salvaged(self) -> str | None:
        """How much was read of a file that breaks off."""
        return self.source.salvaged


@contextmanager
def paused_gc() -> Iterator[None]:
    """Keep the cyclic collector from scanning millions of new rows again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def with_fallback(
    path: Path,
    content: FileBytes,
    use: Callable[[Decoded], Result],
    *,
    salvage: bool,
    shape: RowShape[Any] = EVENT_ROWS,
) -> Result:
    """Use a trace decoded in parts: strictly, or tolerantly where that fails.

    Args:
        path: the file.
        content: its bytes.
        use: what to do with the rows.
        salvage: read the whole events of a file that breaks off.
        shape: what to read of each row.

    Raises:
        TraceError: not JSON, JSON of another shape, or broken off (with ``salvage`` the whole events are read).
    """
    with paused_gc():
        parts = CheckedParts(path, content, shape, salvage=salvage)
        return use(Decoded(parts, parts))


def decode(path: Path, content: FileBytes, *, salvage: bool = False) -> Decoded:
    """Decode a trace as a whole.

    Raises:
        TraceError: as :func:`with_fallback`.
    """
    return with_fallback(path, content, lambda decoded: replace(decoded, parts=list(decoded.parts)), salvage=salvage)


def closed_text(path: Path, content: FileBytes) -> bytes:
    """Return the text of a broken file's whole events, with what was open closed.

    Raises:
        TraceError: as :func:`with_fallback`.
    """
    return with_fallback(path, content, _closed_text, salvage=True)


def _closed_text(decoded: Decoded) -> bytes:
    for _ in decoded.parts:
        pass
    return decoded.source.known.closed_text


def exact_times(part: Part) -> Sequence[object]:
    """Decode a part's timestamps once more as decimal text, for a dialect whose fractions a float cannot hold."""
    try:
        if is_array(part.text):
            return [row.ts for row in msgspec.json.decode(part.text, type=list[_TimeRow])]
        return [row.ts for row in msgspec.json.decode(part.text, type=_TimeDocument).rows]
    except msgspec.ValidationError:
        document = parse(part.text)
        return [row.get("ts") for row in (document if isinstance(document, list) else document["traceEvents"])]
