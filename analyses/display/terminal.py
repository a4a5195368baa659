"""What is printed: lines of text and tables, which are laid out when it is known for whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hta_graph.text import formatting
from hta_graph.text.sanitize import one_line

__all__ = ["Line", "TextTable", "clipped", "duration_text", "percent", "table"]


@dataclass(frozen=True)
class TextTable:
    """Rows of cells under headings, all of them whole: a terminal cuts what does not fit.

    Attributes:
        header: the headings; empty where there are none.
        rows: as many cells each.
        texts: the columns that stand on the left and may be cut in the middle; others are numbers.
        names: those of them that hold names of kernels, operators and frames, which a terminal shows short.
        words: those of them that hold words of our own, which are wrapped instead of cut.
        keys: the columns that say what a row is about, the telling ones first.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[int] = ()
    names: Sequence[int] = ()
    words: Sequence[int] = ()
    keys: Sequence[int] = ()


Line = str | TextTable


def table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    left: Sequence[int] = (),
    names: Sequence[int] = (),
    words: Sequence[int] = (),
) -> list[Line]:
    r"""Return a table as one of the lines of an answer, none if it has no rows; its texts are put on one line each.

    >>> table([["1", "a\nb"]], left=[1])
    [TextTable(header=(), rows=[['1', 'a b']], texts=[1], names=(), words=(), keys=[0])]
    """
    clean = [[one_line(cell) if at in left else cell for at, cell in enumerate(row)] for row in rows]
    return [TextTable(header, clean, left, names, words, keys=[0])] if clean else []


def duration_text(ns: int) -> str:
    """Print a duration.

    >>> duration_text(1234567890), duration_text(1500)
    ('1,234.568 ms', '0.002 ms')
    """
    return f"{formatting.milliseconds(ns)} ms"


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
    line = one_line(text)
    return line if len(line) <= size else line[: max(size - 1, 0)] + "…"
