"""Texts of operators' inputs, which a command that asks for them soon keeps while it reads a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta_graph.storage.location import Location
    from hta_graph.trace.json_reader import FilePart

INPUTS_KEY = b'"Input Dims"'
MOST_KEPT = 64 << 20
"""Bytes of text; more is read from the file again."""

_KEPT: ContextVar[dict[Location, list[tuple[int, bytes]]] | None] = ContextVar("kept_inputs", default=None)
"""Of a file the parts of its text that hold inputs, each with the place of its first row; ``None``: none are kept."""


def keep_inputs() -> None:
    """Keep the inputs of the file that is read next, until they are taken or forgotten."""
    _KEPT.set({})


def forget_inputs() -> None:
    """Let go of what was kept: nobody will ask for it."""
    _KEPT.set(None)


def take_inputs(path: Location) -> list[tuple[int, bytes]]:
    """Return what was kept of a file; from then on it no longer is."""
    return (_KEPT.get() or {}).pop(path, [])


def keeping_inputs(path: Location, parts: Iterable[FilePart]) -> Iterator[FilePart]:
    """Pass on the parts of a file, and keep the texts of those with inputs where that is wanted."""
    every, kept, first = _KEPT.get(), list[tuple[int, bytes]](), 0
    if every is not None:
        every.clear()
        every[path] = kept
    for part in parts:
        if every and part.text.startswith(b"[") and INPUTS_KEY in part.text:
            kept.append((first, part.text))
            if sum(len(text) for _, text in kept) > MOST_KEPT:
                every.clear()
        first += len(part.rows)
        yield part
        del part
