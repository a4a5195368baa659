"""How numbers, times, lists and tables of notebooks are formatted, all names of a trace escaped; prose in lines."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

MOST_LISTED = 16
"""The most things that a line lists, such as ranks."""


def milliseconds(ns: int) -> str:
    """Print a duration without its unit.

    >>> milliseconds(1234567890)
    '1,234.568'
    """
    return f"{ns / 1e6:,.3f}"


def signed_milliseconds(ns: int) -> str:
    """Print a difference of times without its unit.

    >>> signed_milliseconds(1500), signed_milliseconds(-1234567890)
    ('+0.002', '-1,234.568')
    """
    return f"{ns / 1e6:+,.3f}"


def microseconds(ns: int) -> str:
    """Print nanoseconds as microseconds, exactly.

    >>> microseconds(1712195495519689125), microseconds(2000), microseconds(-1)
    ('1712195495519689.125', '2', '-0.001')
    """
    whole, rest = divmod(abs(ns), 1000)
    sign = "-" if ns < 0 else ""
    return f"{sign}{whole}.{rest:03d}" if rest else f"{sign}{whole}"


def join_first(said: Sequence[str], between: str = ", ") -> str:
    """Join the first of some texts; an ellipsis stands for the others.

    >>> join_first(["rank 0", "rank 1"])
    'rank 0, rank 1'
    """
    return between.join(said[:MOST_LISTED]) + (f"{between}…" if len(said) > MOST_LISTED else "")


def html_table(
    caption: str, headings: Sequence[str], rows: Iterable[Sequence[object]], *, right: Collection[int] = ()
) -> str:
    """Return a table as HTML; all texts are escaped, numbers get separators and stand on the right.

    ``right`` are columns of numbers that are texts already.

    >>> html_table("<b>", ["lane"], [("stream 0",)])
    '<table><caption>&lt;b&gt;</caption><tr><th>lane</th></tr><tr><td>stream 0</td></tr></table>'
    """
    # Needed in notebooks only: its table of entities would slow down the start of every command.
    from html import escape

    def cell(at: int, value: object) -> str:
        text = f"{value:,}" if isinstance(value, int) else escape(str(value))
        is_right = isinstance(value, int) or at in right
        return f'<td style="text-align:right">{text}</td>' if is_right else f"<td>{text}</td>"

    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(map(cell, range(len(row)), row))}</tr>" for row in rows)
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"


HANGING = 2
"""How much further the next lines of a sentence are indented."""
WORD = re.compile(r" *(?:[^ ]*\d (?:ns|µs|ms|s|GB/s|×)(?!\w)[^ ]*|[^ ]+)")
"""A word, or a number with its unit."""
LABEL = re.compile(r"^( *\S+(?: \S+)* {2,})\S")
"""What comes before the second column of a line that is aligned with spaces."""


def wrapped(line: str, room: int, hanging: int = HANGING) -> list[str]:
    """Break a line between words, with a hanging indent; only a word wider than a whole line is broken itself.

    A number and its unit stay together.

    >>> wrapped("  a sentence of six short words", 20)
    ['  a sentence of six', '    short words']
    >>> wrapped("  14  waits of streams for others", 20)
    ['  14  waits of', '      streams for', '      others']
    """
    if width_of(line) <= room:
        return [line]
    lines, current = [], ""
    label = LABEL.match(line)
    indent = len(label[1]) if label and 3 * len(label[1]) <= room else len(line) - len(line.lstrip(" ")) + hanging
    start = " " * min(indent, room // 2)
    for word in WORD.findall(line):
        if current and width_of(current + word) > room:
            lines.append(current)
            current = start + word.lstrip(" ")
        else:
            current += word
        while width_of(current) > room:
            fits = next(size for size in range(min(room, len(current)), 0, -1) if width_of(current[:size]) <= room)
            lines.append(current[:fits])
            current = start + current[fits:]
    return [*lines, current]


def width_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # late: most texts are ASCII

    return cell_len(text)
