"""Tables and figures for a terminal."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

from hta_graph import shown

__all__ = ["clipped", "duration_text", "line_length", "percent", "table", "width"]


def width() -> int:
    """Return how many columns a table may use: the terminal's, within reason."""
    # Where nothing tells the width (a pipe, a test), a hundred columns are readable everywhere.
    return max(60, min(shutil.get_terminal_size((100, 24)).columns, 160))


def line_length() -> int | None:
    """Return how many characters a line of the terminal takes; none where there is no terminal."""
    columns = shutil.get_terminal_size((0, 0)).columns
    return max(columns, 60) if columns else None


def duration_text(ns: int) -> str:
    """Print a duration.

    >>> duration_text(1234567890), duration_text(1500)
    ('1,234.568 ms', '0.002 ms')
    """
    return f"{shown.milliseconds(ns)} ms"


def percent(share: float) -> str:
    """Print a share; what is not nothing never prints as 0.0 %.

    >>> percent(0.5), percent(0.0001), percent(0)
    ('50.0 %', '<0.1 %', '0.0 %')
    """
    return "<0.1 %" if 0 < share < 0.0005 else f"{share:.1%}".replace("%", " %")


def clipped(text: str, size: int) -> str:
    """Cut a text to a number of characters, on one line.

    >>> clipped("a long name", 6)
    'a lon…'
    """
    # Control characters of a trace's names must not move the reader's cursor.
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))
    return line if len(line) <= size else line[: max(size - 1, 0)] + "…"


def table(rows: Sequence[Sequence[str]], header: Sequence[str] = (), *, left: Sequence[int] = ()) -> list[str]:
    """Align columns: right, but those in ``left``; the last one is cut to fit the terminal.

    >>> table([["1", "one"], ["12", "two"]], left=[1])
    ['   1  one', '  12  two']
    """
    cells = [list(header), *map(list, rows)] if header else [list(row) for row in rows]
    if not cells:
        return []
    sizes = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    room = width() - sum(sizes[:-1]) - 2 * len(sizes)
    sizes[-1] = min(sizes[-1], max(room, 8))
    lines = []
    for row in cells:
        row[-1] = clipped(row[-1], sizes[-1])
        parts = [
            cell.ljust(size) if at in left else cell.rjust(size)
            for at, (cell, size) in enumerate(zip(row, sizes, strict=True))
        ]
        lines.append(("  " + "  ".join(parts)).rstrip())
    return lines
