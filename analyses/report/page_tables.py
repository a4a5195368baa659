"""Tables of a page: names first, a bar instead of a chart, rows that lead to their place in the timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from analyses.display.dataframe_text import display
from analyses.display.labels import SHORT
from analyses.display.text_layout import SHORT_TEXT, duration_text, percent
from hta_graph.colours import BOUND_COLOUR
from hta_graph.text.shorten import shorten_middle

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BarPart:
    """A part: its width in percent of the whole bar, its colour, what it says where the pointer is."""

    width: float
    colour: str
    text: str


@dataclass(frozen=True)
class Bar:
    """Parts side by side from the left; what they do not fill stays empty."""

    parts: Sequence[BarPart]

    @property
    def text(self) -> str:
        """All parts in words, for those who do not see them."""
        return ", ".join(part.text for part in self.parts)


def time_bar(parts: Sequence[tuple[str, int, str]], whole_ns: int) -> Bar:
    """Return a bar of (words, time in ns, colour); parts without time are left out.

    >>> time_bar([("idle", 250, "grey"), ("copies", 0, "gold")], 1000).text
    'idle 0.000 ms, 25.0%'
    """
    whole = max(whole_ns, 1)
    return Bar([
        BarPart(round(100 * ns / whole, 3), colour, f"{words} {duration_text(ns)}, {percent(ns / whole)}")
        for words, ns, colour in parts
        if ns > 0
    ])  # fmt: skip


def class_bar(by_bound_ns: Mapping[str, int], whole_ns: int = 0) -> Bar:
    """Return the classes of a path as a bar; as long as the longest one, where several are compared."""
    whole = whole_ns or sum(by_bound_ns.values())
    return time_bar([(SHORT[bound], by_bound_ns[bound], colour) for bound, colour in BOUND_COLOUR.items()], whole)


ROWS = 100
"""How many rows of a table a page holds; its command gives all."""
LONGEST_CELL = 90
LONGEST_HOVER = 300
"""Names of kernels have thousands of characters, and a page many of them."""
NAMES = ("name", "kernel", "kernel type", "call", "cause", "while in", "diagnostic")
"""Headings of what a row is called by, the best name first."""


@dataclass(frozen=True)
class SectionTable:
    """A table to show: its title, its rows, and for each row a bar, a link and a colour, where there are any.

    ``keys`` are colours by heading: what the parts of the bars mean.
    """

    title: str
    frame: pd.DataFrame
    bars: Sequence[Bar] = ()
    links: Sequence[str] = ()
    colours: Sequence[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A question and its answer: what it means, what is missing, tables; ``template`` shows what is special."""

    title: str
    meaning: str
    tables: Sequence[SectionTable] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    template: str = ""

    @property
    def anchor(self) -> str:
        """Where a link to the section leads."""
        return "".join(char if char.isalnum() else "-" for char in self.title.lower())

    @property
    def shown(self) -> list[PageTable]:
        """The tables that have rows."""
        return [PageTable.of(table) for table in self.tables if len(table.frame)]


@dataclass(frozen=True)
class PageCell:
    """A cell: its text, that text whole if it is cut, how it stands; of headings also the colour that they explain."""

    text: str
    whole: str
    style: str
    colour: str = ""


@dataclass(frozen=True)
class PageRow:
    """A row: cells, and where its first one leads, its bar, its colour."""

    cells: Sequence[PageCell]
    link: str
    bar: Bar | None
    colour: str


@dataclass(frozen=True)
class PageTable:
    """A table as a page shows it."""

    title: str
    headings: Sequence[PageCell]
    rows: Sequence[PageRow]
    left_out: int

    @classmethod
    def of(cls, table: SectionTable) -> PageTable:
        """Print a table: what names the row stands first, where a narrow screen begins, and beside it the bar."""
        shown = display(table.frame, ROWS)
        order = _name_first(shown.headings)
        texts = {at for at, place in enumerate(order) if place in shown.texts}
        rows = [
            PageRow(
                [
                    _cell_of(row[place], shown.whole[number][place], is_text=at in texts)
                    for at, place in enumerate(order)
                ],
                table.links[number] if table.links else "",
                table.bars[number] if table.bars else None,
                table.colours[number] if table.colours else "",
            )
            for number, row in enumerate(shown.cells)
        ]
        title = f"{table.title}: {shown.shared}" if shown.shared else table.title
        headings = [
            replace(_cell_of(text, text, is_text=at in texts), colour=table.keys.get(text, ""))
            for at, text in enumerate(shown.headings[place] for place in order)
        ]
        return cls(title, headings, rows, shown.left_out)

    @property
    def has_bars(self) -> bool:
        """Whether any row has a bar that shows something."""
        return any(row.bar and row.bar.parts for row in self.rows)


def _name_first(headings: Sequence[str]) -> list[int]:
    """Return the order of columns: what names a row comes first."""
    columns = list(range(len(headings)))
    name = next((headings.index(text) for text in NAMES if text in headings), 0)
    return [name, *(at for at in columns if at != name)]


def _cell_of(text: str, whole: str, *, is_text: bool) -> PageCell:
    """Let texts stand at the left, long ones wrap, and very long ones be cut in the middle."""
    short = shorten_middle(text, LONGEST_CELL)
    style = " ".join(["text"] * is_text + ["long"] * (len(short) > SHORT_TEXT))
    return PageCell(short, shorten_middle(whole, LONGEST_HOVER) if short != whole else "", style)
