"""How much memory reading a file may take, and the error for a file that needs more."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar

from hta_graph.base.errors import Remedy, TooLargeError
from hta_graph.base.memory import ONE_SHARE, available_memory, format_bytes, noted_memory, resident_bytes, used_bytes
from hta_graph.base.storage.location import Location

PEAK_OF_A_PROCESS = 64 << 20
PEAK_PER_TEXT = 2.0
"""What a process takes for each byte of text: 1.7 to 1.95 (measured for traces of 50 to 80 MB)."""
PEAK_PER_GROWTH = 1.5
"""What columns take when they become a graph, for each byte that they take while rows are read: 1.3 at most."""
PEAK_PER_COLUMN = 10
"""What columns take when they become a graph, for each byte that they take in their smallest types: 9.7 at most."""
DECODED_PER_BYTE = 64
"""What JSON takes at most when it is decoded in one piece: an empty object is two bytes in a file, and a row after."""
LEAST_TEXT = 16 << 20
"""So much text (bytes) is always read, and so much growth is not looked at."""
LEAST_DECODED = 4 << 20
LEAST_DATA = 1 << 30

_LIMIT: ContextVar[int | None] = ContextVar("allowed", default=None)
"""Bytes that reading a file may take, if set."""


@contextmanager
def limit_memory(size: int | None) -> Iterator[None]:
    """Let reading a file take so much memory (bytes) within this block; without a size, most of what is available."""
    token = _LIMIT.set(size)
    try:
        yield
    finally:
        _LIMIT.reset(token)


def memory_for_one_file(held: int = 0) -> int:
    """Return how much memory reading a file may take (bytes), where it holds so much already."""
    allowed = _LIMIT.get()
    return int(ONE_SHARE * (available_memory() + held)) if allowed is None else allowed


def too_large_error(path: Location, what: str, memory: int, *, has_other_ranks: bool = False) -> TooLargeError:
    """Return the error of a file that does not fit into the memory (bytes) that reading it may take.

    Args:
        path: the file.
        what: what of it does not fit.
        memory: the limit.
        has_other_ranks: whether one of its ranks can be read alone.

    >>> from pathlib import Path
    >>> with limit_memory(1 << 30):
    ...     print(too_large_error(Path("t.json"), "holds more than 500 MiB of text", 1 << 30))
    t.json: holds more than 500 MiB of text, too much for the 1,024 MiB that reading may take; allow more with memory
    """
    limit = f"the {format_bytes(memory)} that reading may take"
    if _LIMIT.get() is None:
        python = command = "record fewer steps, or read it on a machine with more free memory"
    else:
        python, command = "allow more with memory", "allow more with --memory"
    if has_other_ranks:
        python, command = f"read one rank with ranks=[N], or {python}", f"read one rank with --rank N, or {command}"
    return TooLargeError(path, f"{what}, too much for {limit}", Remedy(python, command))


def out_of_memory_error(path: Location) -> TooLargeError:
    """Return the error of a file on which memory ran out."""
    return too_large_error(path, "not enough memory to read it", memory_for_one_file())


class TextLimit:
    """How long a file's text may be, where reading takes so much memory for each byte of it.

    Args:
        path: the file, for errors.
        packed: its length if it is packed.
        per_byte: what reading takes.
    """

    def __init__(self, path: Location, packed: int | None = None, per_byte: float = PEAK_PER_TEXT) -> None:
        self._path = path
        self._packed = packed
        self._per_byte = per_byte
        self._memory = self._limit = 0

    def check(self, size: int) -> None:
        """Compare the length of the text, or of what there is of it until now.

        Raises:
            TooLargeError: it is longer.
        """
        if size <= LEAST_TEXT:
            return
        # Once, before the text takes what is available.
        if not self._limit:
            self._memory = memory_for_one_file()
            self._limit = max(int((self._memory - PEAK_OF_A_PROCESS) / self._per_byte), LEAST_TEXT)
        if size > self._limit:
            packed = "" if self._packed is None else f", packed in {format_bytes(self._packed)}"
            longer = "" if self._packed is None else "more than "
            length = format_bytes(size if self._packed is None else self._limit)
            raise too_large_error(self._path, f"holds {longer}{length} of text{packed}", self._memory)


def check_decoded(path: Location, size: int) -> None:
    """Refuse to decode a number of bytes of JSON in one piece if the objects may not fit into memory.

    Raises:
        TooLargeError: they may.
    """
    if size > LEAST_DECODED and size * DECODED_PER_BYTE > (memory := memory_for_one_file(size)):
        raise too_large_error(path, f"holds one event, list or header of {format_bytes(size)}", memory)


class GrowthCheck:
    """Watches that what is kept while a file's rows are read can become a graph within the memory that there is.

    Args:
        path: the file, for errors.
        text: the length of the text that is held already.
    """

    def __init__(self, path: Location, text: int) -> None:
        self._path = path
        self._text = text
        self._begin = self._checked = resident_bytes()
        self._memory = 0

    def check(self, length: int) -> None:
        """Look at what has been kept until now of a text of some length.

        Raises:
            TooLargeError: there are more events than memory.
        """
        now = resident_bytes()
        if now - self._checked < LEAST_TEXT:
            return
        self._checked, grown = now, now - self._begin
        self._memory = self._memory or memory_for_one_file(self._text + grown)
        if self._text + PEAK_PER_GROWTH * grown > max(self._memory - PEAK_OF_A_PROCESS, 2 * LEAST_TEXT):
            text = format_bytes(length)
            raise too_large_error(self._path, f"holds too many events in {text} of text", self._memory)


class ColumnsLimit:
    """Says how many bytes of columns a file may have that is read row by row, so that a graph of them fits into memory.

    Args:
        path: the file, for errors.
        has_other_ranks: whether one of its ranks can be read alone.
    """

    def __init__(self, path: Location, *, has_other_ranks: bool) -> None:
        self._path = path
        self._has_other_ranks = has_other_ranks
        self._memory = memory_for_one_file()
        self._limit = max(self._memory - PEAK_OF_A_PROCESS, 2 * LEAST_TEXT) / PEAK_PER_COLUMN

    def check(self, held: int) -> None:
        """Compare the bytes of the columns until now.

        Raises:
            TooLargeError: there are more events than memory.
        """
        if held > self._limit:
            what = f"holds too many events (more than {format_bytes(held)} of columns)"
            raise too_large_error(self._path, what, self._memory, has_other_ranks=self._has_other_ranks)


@contextmanager
def within_memory(allowed: int | None) -> Iterator[None]:
    """Let a program's command end with ``MemoryError`` before memory does; of that reading may take what is allowed."""
    with limited_data(max(available_memory() + noted_memory("SwapFree"), LEAST_DATA)), limit_memory(allowed):
        yield


@contextmanager
def limited_data(size: int) -> Iterator[None]:
    """Let this process take at most a number of bytes more within this block: what needs more raises ``MemoryError``.

    This is for programs of one's own, since it holds for all that the process does. Systems without such a limit go on
    without.
    """
    used = used_bytes().get("RLIMIT_DATA")
    if used is None:
        yield
        return
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    tighter = used + size if soft == resource.RLIM_INFINITY else min(soft, used + size)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (tighter, hard))
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


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
