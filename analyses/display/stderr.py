"""Standard error: lines, and a progress bar, which is cleared at the end and never written to a pipe or a file.

All text to a terminal goes through here, because a trace can hold any characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Self, TextIO

from hta_graph.text.sanitize import sanitize

if TYPE_CHECKING:
    from rich.progress import Progress


NARROWEST, USUAL = 40, 80
"""The fewest columns that output is made for, and those of a terminal that does not report any."""


def write_lines(lines: Iterable[str], to: TextIO, *, wide: bool = False) -> None:
    """Write lines without control characters; on a terminal they wrap at words."""
    room = None if wide else terminal_columns(to)
    clean = list(map(sanitize, lines))
    if room is not None:
        from hta_graph.text.wrap import wrapped  # late: most output goes to no terminal or is a table

        clean = [part for line in clean for part in wrapped(line, room)]
    to.write("".join(f"{line}\n" for line in clean))


def terminal_columns(file: TextIO) -> int | None:
    """Return how wide the terminal behind a file is; None of a pipe or a file."""
    if not file.isatty():
        return None
    named = os.environ.get("COLUMNS", "")
    columns = int(named) if named.isdecimal() else 0
    if not columns:
        with suppress(OSError):
            columns = os.get_terminal_size(file.fileno()).columns
    return max(columns or USUAL, NARROWEST)


def say(line: str) -> None:
    """Print a line about the work on standard error, if that takes any."""
    with suppress(OSError):
        write_lines([line], sys.stderr)
        sys.stderr.flush()


class ProgressLine:
    """A progress bar on standard error."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shown: Progress | None = None

    def update(self, done: int, total: int) -> None:
        """Show how many are done, of how many."""
        if not self._is_terminal or total <= 1:
            return
        if self._shown is None:
            self._shown = _new_bar(self._what, total)
            self._shown.start()
        self._shown.update(self._shown.task_ids[0], completed=done, refresh=True)

    def say(self, line: str) -> None:
        """Write a line that stays."""
        self.clear()
        say(line)

    def clear(self) -> None:
        """Remove the bar until the next update."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


def _new_bar(what: str, total: int) -> Progress:
    """Make a bar that draws itself on update only: a thread of its own would be forked with the readers."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    made = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(separator=" of "),
        console=Console(file=sys.stderr, force_jupyter=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    made.add_task(what, total=total)
    return made
