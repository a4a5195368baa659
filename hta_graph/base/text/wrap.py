"""Lines of prose on a terminal: broken between words, with a hanging indent."""

from __future__ import annotations

import re

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
