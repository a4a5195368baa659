"""Texts of operators' inputs, which a command that asks for them soon keeps while it reads a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hta_graph.base.storage.location import Location
    from hta_graph.trace.json_reader import FilePart

INPUTS_KEY = b'"Input Dims"'
SAMPLE, SAMPLED_EVERY = 1 << 14, 1 << 18
"""Inputs are looked for in the first number of bytes of each second number: operators stand together in a file."""
MOST_KEPT = 64 << 20
"""Bytes of text; more is read from the file again."""

_KEPT: ContextVar[dict[Location, list[tuple[int, int, bytes]]] | None] = ContextVar("kept_inputs", default=None)
"""Of a file the parts of its text that hold inputs, each with the place of its first row and that past its last;
``None``: none are kept."""


def keep_inputs() -> None:
    """Keep the inputs of the file that is read next, until they are forgotten."""
    _KEPT.set({})


def forget_inputs() -> None:
    """Let go of what was kept: no one will ask for it."""
    _KEPT.set(None)


def inputs_of(path: Location) -> list[tuple[int, int, bytes]]:
    """Return what is kept of a file."""
    return (_KEPT.get() or {}).get(path, [])


def keeping_inputs(path: Location, parts: Iterable[FilePart]) -> Iterator[FilePart]:
    """Pass on the parts of a file, and keep the texts of those with inputs where that is wanted."""
    every, kept, first = _KEPT.get(), list[tuple[int, int, bytes]](), 0
    if every is not None:
        every.clear()
        every[path] = kept
    for part in parts:
        if every and part.text.startswith(b"[") and _may_hold_inputs(part.text):
            kept.append((first, first + len(part.rows), part.text))
            if sum(len(text) for _, _, text in kept) > MOST_KEPT:
                every.clear()
        first += len(part.rows)
        yield part
        del part


def _may_hold_inputs(text: bytes) -> bool:
    """Return whether inputs stand in samples of a text: where others are needed, too, the file is read again."""
    return any(INPUTS_KEY in text[at : at + SAMPLE] for at in range(0, len(text), SAMPLED_EVERY))
