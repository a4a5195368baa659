"""Lines of text and tables, and how they fit a terminal: words wrap, names are cut, numbers never are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hta_graph.base.text import formatting
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_names, shorten_distinct


@dataclass(frozen=True)
class TextTable:
    """Rows of cells under headings, all of them whole: a terminal shortens what does not fit.

    Attributes:
        header: the headings; empty where there are none.
        rows: as many cells each.
        texts: the columns that are aligned left and can be cut in the middle; others are numbers.
        names: those of them that hold names of kernels, operators and frames, which a terminal shows short.
        words: those of them that hold words of our own, which are wrapped instead of cut.
        order: the columns that matter, the most important first: a terminal without room for all shows only these.
        bases: of what the percentages under a heading are.
        caption: what holds for all rows, a line above the headings, with the bases.
        more: what the table leaves out, a line below it.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: Sequence[int] = ()
    names: Sequence[int] = ()
    words: Sequence[int] = ()
    order: Sequence[int] = ()
    bases: Mapping[str, str] = field(default_factory=dict)
    caption: str = ""
    more: str = ""


Line = str | TextTable


def table(
    rows: Sequence[Sequence[str]],
    header: Sequence[str] = (),
    *,
    left: Sequence[int] = (),
    names: Sequence[int] = (),
    words: Sequence[int] = (),
    order: Sequence[int] = (),
    caption: str = "",
) -> list[Line]:
    r"""Return a table as one of the lines of an answer, none if it has no rows; its texts are put on one line each.

    Columns without any text are left out.

    >>> [made] = table([["1", "a\nb", ""]], ["count", "what", "note"], left=[1, 2])
    >>> made.header, made.rows, made.texts
    (['count', 'what'], [['1', 'a b']], [1])
    """
    kept = [at for at, column in enumerate(zip(*rows, strict=True)) if any(column)]
    clean = [[one_line(row[at]) if at in left else row[at] for at in kept] for row in rows]
    places = {at: place for place, at in enumerate(kept)}

    def moved(columns: Sequence[int]) -> list[int]:
        return [places[at] for at in columns if at in places]

    made = TextTable(
        [header[at] for at in kept] if header else (),
        clean,
        moved(left),
        moved(names),
        moved(words),
        moved(order),
        caption=caption,
    )
    return [made] if kept else []


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


UNITS = ("ms", "%", "GB/s", "TFLOP/s")
"""The units that end headings."""
SHORT_TEXT = 24
"""Texts up to this length are short."""
LEAST_TEXT, LEAST_MAIN, GOOD_MAIN = 22, 28, 40
"""How narrow texts can be; of those that say what a row is about, which columns that matter less give way to."""
NARROW, LONGEST_WORD = 16, 24
"""The least and the most room that a column of words needs, in which they wrap."""
LONGEST_NAME = 60
"""A name that is not longer can be printed in full where its short one is another's too."""
COLUMN_GAP = 2
"""Spaces in front of each column."""


@dataclass(frozen=True)
class FittedTable:
    """A table that is no wider than a terminal: the width of each column, and the headings of those left out."""

    table: TextTable
    widths: Sequence[int]
    left_out: Sequence[str] = ()

    @property
    def caption(self) -> str:
        """Of what the percentages that are shown are, once if all are of the same, then what holds for all rows."""
        bases = {name: of for name, of in self.table.bases.items() if name not in self.left_out}
        every = dict.fromkeys(bases.values())
        said = [f"% of {of}" for of in every] if len(every) == 1 else [f"{name} of {of}" for name, of in bases.items()]
        return "; ".join([*said, self.table.caption] if self.table.caption else said)


def fitted(table: TextTable, room: int) -> FittedTable:
    """Take the columns of a table that fit a terminal, the most important ones first; a row alone is turned upright."""
    short = _with_short_names(table)
    sizes, order = _column_sizes(short), _by_importance(short)
    least = [_least_width(short, at, size, order) for at, size in enumerate(sizes)]
    good = [_least_width(short, at, size, order, GOOD_MAIN) for at, size in enumerate(sizes)]
    chosen, left = list(range(len(sizes))), room
    if sum(good) + COLUMN_GAP * len(good) > room:
        chosen = []
        for at in order:
            if least[at] + COLUMN_GAP <= left:
                chosen.append(at)
                left -= least[at] + COLUMN_GAP
    if len(short.rows) == 1 and len(chosen) < len(sizes) and short.header:
        return fitted(_upright(short), room)
    names = [short.header[at] for at in range(len(sizes)) if at not in chosen] if short.header else []
    return _cut_to_fit(short, sorted(chosen), least, room, names)


def _upright(table: TextTable) -> TextTable:
    """Turn the only row of a table into a line for each column."""
    rows = list(zip(table.header, table.rows[0], strict=True))
    return replace(table, header=(), rows=rows, texts=[0, 1], names=(), words=[0], order=())


def _with_short_names(table: TextTable) -> TextTable:
    """Shorten the names in a table."""
    columns = [list(column) for column in zip(*table.rows, strict=True)]
    for at in table.names:
        columns[at] = short_names(columns[at], LONGEST_NAME)
    return replace(table, rows=list(zip(*columns, strict=True)))


def _column_sizes(table: TextTable) -> list[int]:
    """Return how wide each column is: its widest cell or word of its heading."""
    words = [_longest_word([heading]) for heading in table.header] or [0] * len(table.rows[0])
    return [max(word, *map(len, column)) for word, column in zip(words, zip(*table.rows, strict=True), strict=True)]


def _longest_word(texts: Iterable[str]) -> int:
    return max((len(word) for text in texts for word in text.split()), default=0)


def _by_importance(table: TextTable) -> Sequence[int]:
    """Return the columns that matter, the most important ones first: without an order the first one, then names."""
    return table.order or list(dict.fromkeys([0, *table.names, *range(len(table.rows[0]))]))


def _least_width(table: TextTable, at: int, size: int, order: Sequence[int], main: int = LEAST_MAIN) -> int:
    """Return how narrow a column can be: numbers are whole."""
    if at not in table.texts:
        return size
    heading = _longest_word([table.header[at]]) if table.header else 0
    if at in table.words:
        longest = _longest_word([row[at] for row in table.rows])
        return max(min(size, max(NARROW, min(longest, LONGEST_WORD))), heading)
    says_what = [next((other for other in order if other in of), -1) for of in (table.texts, table.names)]
    return max(min(size, main if at in says_what else LEAST_TEXT), heading)


def _cut_to_fit(
    table: TextTable, columns: Sequence[int], least: Sequence[int], room: int, left_out: Sequence[str]
) -> FittedTable:
    """Take some columns of a table, whose texts share what numbers leave of the room."""
    sizes = _column_sizes(table)
    texts = sorted((at for at in columns if at in table.texts), key=sizes.__getitem__)
    widths = {at: sizes[at] for at in columns}
    left = room - sum(sizes[at] for at in columns if at not in texts) - COLUMN_GAP * len(columns)
    cells = {at: [row[at] for row in table.rows] for at in columns}
    # The shortest first: what it leaves of its share goes to the longer ones, each of which keeps its least.
    for number, at in enumerate(texts):
        spare = left - sum(least[other] for other in texts[number:])
        widths[at] = min(sizes[at], least[at] + spare // (len(texts) - number))
        if sizes[at] > widths[at] and at not in table.words:
            cells[at] = shorten_distinct(cells[at], widths[at])
        left -= widths[at]
    places = {at: place for place, at in enumerate(columns)}
    made = replace(
        table,
        header=[table.header[at] for at in columns] if table.header else (),
        rows=list(zip(*cells.values(), strict=True)),
        texts=[places[at] for at in texts],
        words=[places[at] for at in texts if at in table.words],
        names=(),
        order=(),
    )
    return FittedTable(made, [widths[at] for at in columns], left_out)
