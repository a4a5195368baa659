"""A file's bytes → its rows in parts, or one error that says where it breaks off; then what it says about itself."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hta_graph.errors import NotATraceError, Remedy, TraceError
from hta_graph.storage.location import Location
from hta_graph.trace.json_reader import FilePart, Parts
from hta_graph.trace.memory_limit import GrowthCheck
from hta_graph.trace.rows import EVENT_ROWS, Header, RowShape
from hta_graph.trace.source import FileBytes

__all__ = ["FileFacts", "RowReader", "closed_text", "paused_gc"]

MANY_ROWS = 1_000_000
SHORTEST_ROW = 16
"""Bytes: with a name, a time and a duration an event has more than 30."""
SALVAGE_REMEDY = Remedy("salvage=True reads those", "--salvage reads those")


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file when all its rows have been taken.

    Attributes:
        header: what it says about itself.
        non_objects: how many of its elements are no objects.
        tolerant: whether it is not strict JSON.
        salvaged: how much was read of a file that breaks off; None for a whole one.
    """

    header: Header
    non_objects: int
    tolerant: bool
    salvaged: str | None


class RowReader:
    """Iterates over a trace's rows, part by part: strictly decoded, or tolerantly where that fails.

    Args:
        path: the file, for errors.
        content: its bytes.
        shape: what to read of each row.
        salvage: read the whole events of a file that breaks off.

    Raises, while iterating, ``TraceError``: not JSON, JSON of another shape, broken off and not to be salvaged, or more
    events than there is memory for.
    """

    def __init__(
        self, path: Location, content: FileBytes, shape: RowShape[Any] = EVENT_ROWS, *, salvage: bool = False
    ) -> None:
        self._path = path
        self._salvage = salvage
        self._broken = content.broken
        self._parts = Parts(path, content.data, shape)
        self._text = len(content.data)
        self._salvaged: str | None = None
        self._is_through = False

    def __iter__(self) -> Iterator[FilePart]:
        growth = GrowthCheck(self._path, self._text)
        for part in self._parts:
            yield part
            self._refuse_crumbs()
            growth.check()
        self._salvaged = self._refused_or_salvaged()
        self._is_through = True

    def _refuse_crumbs(self) -> None:
        """Refuse what would take a hundred times as long as events do, and none of which can be one."""
        count, size = self._parts.count, self._parts.taken
        if count > MANY_ROWS and SHORTEST_ROW * count > size:
            cause = f"holds {count:,} elements in the first {size:,} bytes, too short for events"
            raise NotATraceError(self._path, cause, "give a Kineto trace")

    def _refused_or_salvaged(self) -> str | None:
        """Refuse what is no trace or breaks off; say how much of a broken file was read."""
        count = self._parts.count
        cause = self._broken or self._parts.fault
        if cause and not (self._salvage and count):
            remedy = SALVAGE_REMEDY if count else "record the trace again"
            raise TraceError(self._path, f"{cause}, after {count:,} whole events", remedy)
        if count and self._parts.non_objects == count:
            raise NotATraceError(self._path, "is a list without event objects, not a trace", "give a Kineto trace")
        return f"{cause}, {count:,} whole events read" if cause else None

    @property
    def facts(self) -> FileFacts:
        """What the file says about itself: parts of it may stand behind the rows, so these have to be taken first."""
        for _ in () if self._is_through else self:
            pass
        return FileFacts(self._parts.header, self._parts.non_objects, self._parts.tolerant, self._salvaged)

    @property
    def closed_text(self) -> bytes:
        """The text of the whole events, with what was open closed."""
        for _ in () if self._is_through else self:
            pass
        return self._parts.closed_text


def closed_text(path: Location, content: FileBytes) -> bytes:
    """Return the text of a broken file's whole events, with what was open closed.

    Raises:
        TraceError: it holds none, or is no trace.
    """
    with paused_gc():
        return RowReader(path, content, salvage=True).closed_text


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
