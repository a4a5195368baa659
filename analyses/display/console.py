"""How lines are printed: in colour and cut to fit on a terminal, plain and whole in a pipe or if that is asked for."""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, TextIO

from analyses.display.stderr import write_lines
from analyses.display.text_layout import Line, TextTable, blocks_that_fit
from hta_graph.text.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console, JustifyMethod
    from rich.table import Table
    from rich.text import Text


NARROWEST = 60
ENDLESS = 1_000_000
"""How wide a line may be that nothing cuts, in characters."""


def print_lines(lines: Sequence[Line], *, wide: bool = False, to: TextIO | None = None) -> None:
    """Print lines, on standard output if nothing else is named; ``wide`` leaves them whole on a terminal too."""
    file = to or sys.stdout
    on_terminal = file.isatty()
    # What holds no table needs no colour: a console would take longer to start than the answer.
    texts = [line for line in lines if isinstance(line, str)]
    if len(texts) == len(lines):
        write_lines(texts, file)
        return
    room = max(shutil.get_terminal_size().columns, NARROWEST) if on_terminal and not wide else None
    file.write(_rendered(lines, room, file))


def text_of(lines: Sequence[Line], room: int | None = None) -> str:
    """Return lines as plain text, cut to a width if there is one."""
    return _rendered(lines, room, io.StringIO())


def _rendered(lines: Sequence[Line], room: int | None, file: TextIO) -> str:
    """Write lines for a file: its console knows whether it takes colour."""
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
            if isinstance(line, str):
                # What stands right above a table is its title.
                style = "bold" if isinstance(following, TextTable) else ""
                console.print(_coloured(line, console, style), soft_wrap=True)
            else:
                _print_table(console, line, room)
    return "".join(f"{line.rstrip()}\n" for line in captured.get().split("\n")[:-1])


def _print_table(console: Console, table: TextTable, room: int | None) -> None:
    """Print a table, in several blocks if it is too wide."""
    for number, block in enumerate([table] if room is None else blocks_that_fit(table, room)):
        if number:
            console.print()
        console.print(_rich_table(console, block, is_cut=room is not None))


def _rich_table(console: Console, block: TextTable, *, is_cut: bool) -> Table:
    """Make rich's table of one of ours: headings word under word, numbers on the right."""
    from rich.table import Table

    made = Table(box=None, padding=(0, 0, 0, 2), show_header=bool(block.header), header_style="bold")
    for at in range(len(block.rows[0])):
        heading = "\n".join(map(sanitize, block.header[at].split())) if block.header else ""
        # Letters that are two columns wide are not known to whoever cut the texts: no text takes more than its share.
        widest = max(len(cell) for cell in [*heading.split("\n"), *(row[at] for row in block.rows)]) if is_cut else None
        justify: JustifyMethod = "left" if at in block.texts else "right"
        made.add_column(heading, justify=justify, no_wrap=at not in block.words, max_width=widest)
    for row in block.rows:
        made.add_row(*(_coloured(cell, console) for cell in row))
    return made


def _coloured(text: str, console: Console, style: str = "") -> Text:
    """Return a printable text with classes in their colours; an object, so that nothing in it is read as markup."""
    from rich.text import Text

    made = Text(sanitize(text), style, overflow="ellipsis")
    if console.color_system:
        colours = _colours_of_classes()
        # A key is itself wherever it stands, short words only where they fill a cell.
        patterns = (rf"\b{key}\b" if key.islower() else f"^{key}$" for key in colours)
        made.highlight_regex("|".join(patterns), style=colours.__getitem__)
    return made


@cache
def _colours_of_classes() -> dict[str, str]:
    """Return the colour of each class by its key and by its short words."""
    from analyses.display.labels import OF_JOBS, SHORT
    from hta_graph.colours import BOUND_COLOUR

    words = {SHORT[bound]: colour for bound, colour in BOUND_COLOUR.items()}
    return BOUND_COLOUR | words | {short: BOUND_COLOUR[bound] for bound, (_, short) in OF_JOBS.items()}
