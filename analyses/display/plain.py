"""Lines on their way out, the one way of text to a terminal: names in them may be anybody's."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress
from typing import TextIO

from hta_graph.text.sanitize import sanitize

__all__ = ["say", "write_lines"]


def write_lines(lines: Iterable[str], to: TextIO) -> None:
    """Write lines of which nothing moves a cursor or makes a second line."""
    to.write("".join(f"{sanitize(line)}\n" for line in lines))


def say(line: str) -> None:
    """Print a line about the work on standard error; where that takes none, nobody can be told."""
    with suppress(OSError):
        write_lines([line], sys.stderr)
        sys.stderr.flush()
