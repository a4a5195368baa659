"""How lines are printed: in color and made to fit on a terminal, plain and whole in a pipe or on request."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, TextIO

from analyses.display.stderr import terminal_columns, write_lines
from analyses.display.text_layout import UNITS, FittedTable, Line, TextTable, fitted
from hta_graph.base.text.formatting import wrapped
from hta_graph.base.text.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text


ENDLESS = 1_000_000
"""The width of a line that nothing cuts, in characters."""
NARROW = re.compile("[ -~\xa0-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u22ff]*")
"""Letters, punctuation, arrows and signs that take one column of a terminal each."""


def print_lines(lines: Sequence[Line], *, wide: bool = False, to: TextIO | None = None) -> None:
    """Print lines, on standard output if nothing else is named; ``wide`` leaves them whole on a terminal too."""
    file = to or sys.stdout
    # What holds no table needs no color: a console would take longer to start than the answer.
    texts = [line for line in lines if isinstance(line, str)]
    if len(texts) == len(lines):
        write_lines(texts, file, wide=wide)
        return
    file.write(_rendered(lines, None if wide else terminal_columns(file), file))


def text_of(lines: Sequence[Line], room: int | None = None) -> str:
    """Return lines as plain text, cut to a width if there is one."""
    return _rendered(lines, room, io.StringIO())


def _rendered(lines: Sequence[Line], room: int | None, file: TextIO) -> str:
    """Write lines for a file: its console knows whether it takes colour."""
    if room is None and not _takes_colour(file):
        # As a console would, which takes longer to import than many an answer to compute.
        plain = list(_plain_lines(lines))
        if all(map(NARROW.fullmatch, plain)):
            return "".join(f"{line.rstrip()}\n" for line in plain)
    from rich.console import Console

    console = Console(
        # Not the file itself: where that is a pipe whose reader has gone, a console would end the program.
        file=io.StringIO(),
        force_terminal=True if file.isatty() else None,
        width=room or ENDLESS,
        # Where no colour is wanted, no bold either: one rule for all codes.
        color_system=None if os.environ.get("NO_COLOR") else "auto",
        highlight=False,
        markup=False,
        emoji=False,
        force_jupyter=False,
    )
    with console.capture() as captured:
        for line, following in zip(lines, [*lines[1:], ""], strict=True):
            if isinstance(line, TextTable):
                _print_table(console, line, room)
            else:
                # A line right above a table is its title.
                _print_text(console, line, room, "bold" if isinstance(following, TextTable) else "")
    return "".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1])


def _takes_colour(file: TextIO) -> bool:
    """Return whether rich would write colour to a file, which it also does to a pipe when the environment wants it."""
    return file.isatty() or bool(os.environ.get("FORCE_COLOR")) or os.environ.get("TTY_COMPATIBLE") == "1"


def _plain_lines(lines: Sequence[Line]) -> Iterator[str]:
    """Yield lines without colour, of any width."""
    for line in lines:
        if not isinstance(line, TextTable):
            yield sanitize(line)
            continue
        if caption := FittedTable(line, ()).caption:
            yield sanitize(f"  {caption}")
        yield from _plain_table(line)
        if line.more:
            yield sanitize(f"  … {line.more}")


def _plain_table(table: TextTable) -> Iterator[str]:
    """Yield a table's headings and rows, each column as wide as its widest cell, as rich's table without a box."""
    columns = [list(map(sanitize, cells)) for cells in zip(*table.rows, strict=True)]
    sizes = [max(map(len, cells)) for cells in columns]
    headings = [_heading(*item).split("\n") for item in zip(map(sanitize, table.header), sizes, strict=False)]
    headings = headings or [[] for _ in columns]
    height, made = max(map(len, headings)), []
    for at, (heading, cells) in enumerate(zip(headings, columns, strict=True)):
        width = max(map(len, [*heading, *cells]))
        texts = [*[""] * (height - len(heading)), *heading, *cells]
        if at in table.texts:
            made.append([f"  {text}{' ' * (width - len(text))}" for text in texts])
        else:
            made.append([f"  {' ' * (width - len(text))}{text}" for text in map(str.rstrip, texts)])
    yield from map("".join, zip(*made, strict=True))


def _print_text(console: Console, line: str, room: int | None, style: str = "") -> None:
    """Print a line of prose, on a terminal wrapped at words."""
    text = sanitize(line)
    for part in [text] if room is None else wrapped(text, room):
        console.print(_coloured(part, console, style), soft_wrap=True)


def _print_table(console: Console, table: TextTable, room: int | None) -> None:
    """Print a table, above it its caption, and below it which rows and columns it leaves out."""
    found = FittedTable(table, ()) if room is None else fitted(table, room)
    if found.caption:
        _print_text(console, f"  {found.caption}", room)
    console.print(_rich_table(console, found))
    more = [table.more] if table.more else []
    more += [f"more columns with --wide: {', '.join(found.left_out)}"] if found.left_out else []
    if more:
        _print_text(console, f"  … {'; '.join(more)}", room)


def _rich_table(console: Console, found: FittedTable) -> Table:
    """Make rich's table of one of ours: headings word under word, numbers on the right."""
    from rich.table import Table

    table = found.table
    made = Table(box=None, padding=(0, 0, 0, 2), show_header=bool(table.header), header_style="bold")
    for at in range(len(table.rows[0])):
        size = found.widths[at] if found.widths else max(len(row[at]) for row in table.rows)
        heading = _heading(sanitize(table.header[at]), size) if table.header else ""
        justify: JustifyMethod = "left" if at in table.texts else "right"
        # Texts were cut by their number of letters, some of which are two columns wide: none takes more than its share.
        widest = found.widths[at] if found.widths else None
        made.add_column(heading, justify=justify, no_wrap=True, max_width=widest)
    for row in table.rows:
        cells = (
            "\n".join(wrapped(cell, found.widths[at], hanging=0)) if found.widths and at in table.words else cell
            for at, cell in enumerate(map(sanitize, row))
        )
        made.add_row(*(_coloured(cell, console) for cell in cells))
    return made


def _heading(heading: str, size: int) -> str:
    """Break a heading into lines that are no longer than its column, or than its longest word; the unit is the last."""
    words, _, unit = heading.rpartition(" ")
    if unit not in UNITS or not words:
        words, unit = heading, ""
    lines = wrapped(words, max([size, *map(len, words.split())]), hanging=0)
    return "\n".join([*lines, unit] if unit else lines)


def _coloured(text: str, console: Console, style: str = "") -> Text:
    """Return a sanitized text with classes in their colors, as an object: nothing in it is markup."""
    from rich.text import Text

    made = Text(text, style, overflow="ellipsis")
    if console.color_system:
        colours = _colours_of_classes()
        # A key is itself wherever it stands, short words only where they fill a cell.
        patterns = (rf"\b{key}\b" if "_" in key else f"^{key}$" for key in colours)
        made.highlight_regex("|".join(patterns), style=colours.__getitem__)
    return made


@cache
def _colours_of_classes() -> dict[str, str]:
    """Return the colour of each class by its key and by its short words."""
    from analyses.display.labels import OF_JOBS, SHORT
    from hta_graph.base.colours import BOUND_COLOUR

    words = {SHORT[bound]: colour for bound, colour in BOUND_COLOUR.items()}
    return BOUND_COLOUR | words | {short: BOUND_COLOUR[bound] for bound, (_, short) in OF_JOBS.items()}
