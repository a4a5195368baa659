"""How a table fits a terminal: names are short, texts cut in the middle, and wide tables broken into blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from analyses.display.terminal import TextTable
from hta_graph.text.shorten import short_names, shorten_distinct

__all__ = ["blocks_that_fit"]

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
