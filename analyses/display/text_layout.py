"""Lines of text and tables, and how a table fits a terminal: short names, cut texts, blocks of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hta_graph.text import formatting
from hta_graph.text.sanitize import one_line
from hta_graph.text.shorten import short_names, shorten_distinct


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
    """Print a share; what is not nothing never prints as 0.0%.

    >>> percent(0.5), percent(0.0001), percent(0)
    ('50.0%', '<0.1%', '0.0%')
    """
    return "<0.1%" if 0 < share < 0.0005 else f"{share:.1%}"


def clipped(text: str, size: int) -> str:
    """Cut a text to a number of characters, on one line.

    >>> clipped("a long name", 6)
    'a lon…'
    """
    line = one_line(text)
    return line if len(line) <= size else line[: max(size - 1, 0)] + "…"


SHORT_TEXT, SHORT_KEY = 24, 32
"""Texts up to this length are never cut, nor are longer ones that name a row."""
NARROW = 16
"""Words are wrapped where they have no more room than this."""
LONGEST_NAME = 60
"""A name that is not longer may stand in full where its short one is another's too."""
COLUMN_GAP = 2
"""Spaces in front of each column."""


def blocks_that_fit(table: TextTable, room: int) -> list[TextTable]:
    """Divide a table into blocks that are no wider than a terminal; each repeats the columns that name its rows."""
    short = _with_short_names(table)
    sizes = _column_sizes(short)
    # A long text may be cut, so that it needs no more than a short one.
    keys = sorted(_key_columns(short))
    needed = [SHORT_KEY if at in keys else NARROW if at in table.words else SHORT_TEXT for at in range(len(sizes))]
    least = [min(size, needed[at]) if at in table.texts else size for at, size in enumerate(sizes)]
    rest = [at for at in range(len(sizes)) if at not in keys]
    if sum(least) + COLUMN_GAP * len(least) <= room or not rest:
        return [_cut_to_fit(short, range(len(sizes)), least, room)]
    left = room - sum(least[at] + COLUMN_GAP for at in keys)
    return [_cut_to_fit(short, sorted([*keys, *part]), least, room) for part in _packed_evenly(rest, least, left)]


def _with_short_names(table: TextTable) -> TextTable:
    """Shorten the names in a table."""
    columns = [list(column) for column in zip(*table.rows, strict=True)]
    for at in table.names:
        columns[at] = short_names(columns[at], LONGEST_NAME)
    return replace(table, rows=list(zip(*columns, strict=True)))


def _column_sizes(table: TextTable) -> list[int]:
    """Return how wide each column is: its widest cell or word of its heading."""
    words = [max(map(len, heading.split()), default=0) for heading in table.header] or [0] * len(table.rows[0])
    return [max(word, *map(len, column)) for word, column in zip(words, zip(*table.rows, strict=True), strict=True)]


def _key_columns(table: TextTable) -> Sequence[int]:
    """Return as many of the columns that name rows as tell these apart."""
    for count in range(1, len(table.keys)):
        if len({tuple(row[at] for at in table.keys[:count]) for row in table.rows}) == len(table.rows):
            return table.keys[:count]
    return table.keys


def _cut_to_fit(table: TextTable, columns: Sequence[int], least: Sequence[int], room: int) -> TextTable:
    """Take some columns of a table, whose texts share what numbers leave of the room."""
    sizes = _column_sizes(table)
    texts = sorted((at for at in columns if at in table.texts), key=sizes.__getitem__)
    left = room - sum(sizes[at] for at in columns if at not in texts) - COLUMN_GAP * len(columns)
    cells = {at: [row[at] for row in table.rows] for at in columns}
    # The shortest first: what it leaves of its share goes to the longer ones.
    for number, at in enumerate(texts):
        share = max(left // (len(texts) - number), least[at])
        if sizes[at] > share and at not in table.words:
            cells[at] = shorten_distinct(cells[at], share)
        left -= min(sizes[at], share)
    places = {at: place for place, at in enumerate(columns)}
    return TextTable(
        [table.header[at] for at in columns] if table.header else (),
        list(zip(*cells.values(), strict=True)),
        texts=[places[at] for at in texts],
        words=[places[at] for at in texts if at in table.words],
    )


def _packed_evenly(columns: Sequence[int], sizes: Sequence[int], room: int) -> list[list[int]]:
    """Pack columns into as few blocks as possible, about equally wide.

    >>> _packed_evenly([0, 1, 2, 3], [8, 8, 8, 8], 30)
    [[0, 1], [2, 3]]
    """
    widest = max(sizes[at] for at in columns) + COLUMN_GAP
    fewest = len(_packed_in_turn(columns, sizes, room))
    # The smallest width that needs no more blocks than the whole terminal does makes them about equal.
    return next(
        found
        for limit in range(widest, max(room, widest) + 1)
        if len(found := _packed_in_turn(columns, sizes, limit)) <= fewest
    )


def _packed_in_turn(columns: Sequence[int], sizes: Sequence[int], room: int) -> list[list[int]]:
    """Fill one block after the other."""
    blocks: list[list[int]] = [[]]
    for at in columns:
        if blocks[-1] and sum(sizes[other] + COLUMN_GAP for other in [*blocks[-1], at]) > room:
            blocks.append([])
        blocks[-1].append(at)
    return blocks
