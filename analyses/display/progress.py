"""How far the work is, on one line of a terminal that is erased at the end; nothing in a pipe or a file."""

from __future__ import annotations

import os
import sys
from typing import Self

__all__ = ["ProgressLine", "bar"]

BAR_WIDTH = 24
ERASE = "\r\x1b[K"


def bar(done: int, total: int) -> str:
    """Draw how much is done.

    >>> bar(3, 8)
    '[#########...............] 3 of 8'
    """
    filled = BAR_WIDTH * done // total
    return f"[{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {done} of {total}"


class ProgressLine:
    """A line on standard error that is drawn again and again while several things are done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown = ""

    def update(self, done: int, total: int) -> None:
        """Show how many are done, and of how many."""
        line = f"{self._what} {bar(done, total)}" if total > 1 else ""
        # Redrawn only where it changed: a slow terminal must not hold up the reading.
        if self._is_terminal and line != self._shown:
            self._write(ERASE + line)
            self._shown = line

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self.clear()
        self._write(line + "\n")

    def clear(self) -> None:
        """Take the line away, until the next update."""
        if self._shown:
            self._write(ERASE)
            self._shown = ""

    def _write(self, text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()
