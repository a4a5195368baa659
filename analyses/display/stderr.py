"""Standard error: lines, and the progress of the work, which is erased at the end and never written to a pipe or file.

All text for the terminal passes through here, because names in a trace can hold control characters.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from time import monotonic
from typing import TYPE_CHECKING, Self, TextIO

from hta_graph.base.progress import clear_stage, listen_to_stages
from hta_graph.base.text.sanitize import sanitize

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn


NARROWEST, USUAL = 40, 80
"""The fewest columns that output is made for, and those of a terminal that does not report any."""


def write_lines(lines: Iterable[str], to: TextIO, *, wide: bool = False) -> None:
    """Write lines without control characters; on a terminal they wrap at words."""
    room = None if wide else terminal_columns(to)
    clean = list(map(sanitize, lines))
    if room is not None:
        from hta_graph.base.text.formatting import wrapped  # late: most output goes to no terminal or is a table

        clean = [part for line in clean for part in wrapped(line, room)]
    to.write("".join(f"{line}\n" for line in clean))


def terminal_columns(file: TextIO) -> int | None:
    """Return the width of the terminal behind a file; None for a pipe or a file."""
    if not file.isatty():
        return None
    named = os.environ.get("COLUMNS", "")
    columns = int(named) if named.isdecimal() else 0
    if not columns:
        with suppress(OSError):
            columns = os.get_terminal_size(file.fileno()).columns
    return max(columns or USUAL, NARROWEST)


def say(line: str) -> None:
    """Print a line about the work on standard error, unless that is closed."""
    clear_progress()
    with suppress(OSError):
        write_lines([line], sys.stderr)
        sys.stderr.flush()


def clear_progress() -> None:
    """Remove what is shown of the work before other text is printed; the next progress shows it again."""
    clear_stage()
    while _BARS:
        _BARS[-1].clear()


def is_terminal() -> bool:
    """Return whether standard error is a terminal that can erase a line."""
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """A bar on standard error that counts what is done."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._is_terminal = is_terminal()
        self._shown: Progress | None = None

    def update(self, done: int, total: int) -> None:
        """Show how many of all are done."""
        if not self._is_terminal or total <= 1:
            return
        if self._shown is None:
            clear_stage()
            self._shown = _new_bar(self._what, total)
            self._shown.start()
            _BARS.append(self)
        self._shown.update(self._shown.task_ids[0], completed=done, refresh=True)

    def clear(self) -> None:
        """Remove the bar until the next update."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None
            _BARS.remove(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()


_BARS: list[ProgressLine] = []
"""The bars that are shown: at most one."""


@contextmanager
def shown_progress(what: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar within this block; it gives what is called with the progress made."""
    with ProgressLine(what) as bar:
        yield bar.update


SHOWN_AFTER_S = 0.5
"""How long a computation runs before its stages are shown: a bar for less would flicker."""
REDRAWN_AFTER_S = 0.1
LONGEST_STAGE = 46
"""Characters of a stage's name, which may hold a file's; with the bar the line fits 80 columns."""


class StageLine:
    """The running stage of a long computation on standard error, with a bar where its length is known."""

    def __init__(self) -> None:
        self._stage = ""
        self._next_draw: float | None = None
        self._drawn = ""
        self._shown: Progress | None = None

    def begin(self, stage: str, *, is_inner: bool) -> None:
        """Show that a stage begins, if the computation has run for a while; an inner one once it advances."""
        now = monotonic()
        if self._next_draw is None:
            self._next_draw = now + SHOWN_AFTER_S
        self._stage = stage
        # Nothing may be reported until a stage ends: what is due is drawn at its beginning.
        if not is_inner and stage != self._drawn and (self._drawn or now >= self._next_draw):
            self._draw(now, 0, 0)

    def advance(self, done: int, total: int) -> None:
        """Show how much of the stage is done, a few times a second."""
        if self._next_draw is not None and (now := monotonic()) >= self._next_draw:
            self._draw(now, done, total)

    def _draw(self, now: float, done: int, total: int) -> None:
        if self._shown is not None and (self._drawn != self._stage or self._shown.tasks[0].total != total):
            self._finish()
            self.clear()
        if self._shown is None:
            from hta_graph.base.text.shorten import shorten_middle

            self._shown = _new_stage(shorten_middle(self._stage, LONGEST_STAGE), total)
            self._shown.start()
        self._next_draw, self._drawn = now + REDRAWN_AFTER_S, self._stage
        self._shown.update(self._shown.task_ids[0], completed=done, refresh=True)

    def _finish(self) -> None:
        """Fill the bar of a stage that has ended: its last part is reported by the stage that follows."""
        if self._shown is not None and (total := self._shown.tasks[0].total):
            self._shown.update(self._shown.task_ids[0], completed=total, refresh=True)

    def clear(self) -> None:
        """Remove the line until the next update."""
        if self._shown is not None:
            self._shown.stop()
            self._shown = None


@contextmanager
def shown_stages() -> Iterator[None]:
    """Show the stages of a long computation within this block, on a terminal."""
    with listen_to_stages(StageLine()) if is_terminal() else nullcontext():
        yield


def _new_bar(what: str, total: int) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn

    return _new_progress(what, total, BarColumn(bar_width=24), MofNCompleteColumn(separator=" of "))


def _new_stage(stage: str, total: int) -> Progress:
    from rich.progress import BarColumn, TaskProgressColumn

    columns = (BarColumn(bar_width=24), TaskProgressColumn()) if total else ()
    return _new_progress(stage if total else f"{stage} …", total, *columns)


def _new_progress(what: str, total: int, *columns: ProgressColumn) -> Progress:
    """Make a line that draws itself on update only: a thread of its own would be forked with the readers."""
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    made = Progress(
        TextColumn("{task.description}", markup=False),
        *columns,
        console=Console(file=sys.stderr, force_jupyter=False),
        auto_refresh=False,
        transient=True,
        redirect_stdout=False,
        redirect_stderr=False,
    )
    made.add_task(sanitize(what), total=total)
    return made
