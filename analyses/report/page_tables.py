"""Tables of a page: names first, a bar per row, one color per class, links to the timeline."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import TYPE_CHECKING

from analyses.display.dataframe_text import KEYS, TableText, heading_of
from analyses.display.labels import REASON, SHORT
from analyses.display.text_layout import SHORT_TEXT, duration_text, percent
from analyses.questions.roofline import PART_LABELS
from analyses.report.page_labels import capitalized, colour_of, label_of
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.base.text.shorten import shorten_middle
from hta_graph.model import BUILD_DIAGNOSTICS
from hta_graph.trace.table import READING_DIAGNOSTICS

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class BarPart:
    """A part: its width in percent of the whole bar, its color, its tooltip."""

    width: float
    colour: str
    text: str


@dataclass(frozen=True)
class Bar:
    """Parts side by side from the left; the rest stays empty."""

    parts: Sequence[BarPart]

    @property
    def text(self) -> str:
        """All parts as text, for readers who cannot see them."""
        return ", ".join(part.text for part in self.parts)


def time_bar(parts: Sequence[tuple[str, int, str]], whole_ns: int) -> Bar:
    """Return a bar of (label, time in ns, color); parts without time are left out.

    >>> time_bar([("idle", 250, "grey"), ("copies", 0, "gold")], 1000).text
    'idle 0.000 ms, 25.0%'
    """
    whole = max(whole_ns, 1)
    return Bar([
        BarPart(round(100 * ns / whole, 3), colour, f"{words} {duration_text(ns)}, {percent(ns / whole)}")
        for words, ns, colour in parts
        if ns > 0
    ])  # fmt: skip


def class_bar(by_bound_ns: Mapping[str, int], whole_ns: int = 0, labels: Mapping[str, str] = SHORT) -> Bar:
    """Return the classes of a path as a bar; ``whole_ns`` is the longest one where several are compared."""
    whole = whole_ns or sum(by_bound_ns.values())
    return time_bar([(labels[bound], by_bound_ns[bound], colour) for bound, colour in BOUND_COLOUR.items()], whole)


MOST_ROWS = 1_000
"""The number of rows of a table that a page holds, if they fit."""
LONGEST_CELL = 90
LONGEST_HOVER, LONGEST_NAME = 120, 600
"""The most characters of a full text and of a full name, which the search finds; kernels have names of thousands."""
HEADINGS = {"next": "next bottleneck"}
"""Headings that need more words on a page."""
NAMES = ("name", "kernel", "kernel type", "call", "part", "cause", "while in", "diagnostic", "step", "phase")
"""Headings of columns that name a row, the best name first."""


def _in_words(meanings: Mapping[str, str]) -> Callable[[object], str]:
    """Return what replaces a key by its meaning, and an unknown one by its words."""
    return lambda key: meanings.get(str(key), str(key).replace("_", " "))


WORDS = (
    ("diagnostic", _in_words({**READING_DIAGNOSTICS, **BUILD_DIAGNOSTICS})),
    ("reason", _in_words(REASON)),
    ("part", _in_words(PART_LABELS)),
    ("edge", _in_words({})),
)
"""Columns of other keys, and how they become words."""


def class_legend(by_bounds: Iterable[Mapping[str, int]], labels: Mapping[str, str] = SHORT) -> dict[str, str]:
    """Return the labels and colors of the classes that any of some bars show."""
    shown = {bound for by_bound_ns in by_bounds for bound, ns in by_bound_ns.items() if ns}
    return {labels[bound]: colour for bound, colour in BOUND_COLOUR.items() if bound in shown}


@dataclass(frozen=True)
class SectionTable:
    """A table to show: its title, its rows, and for each row a bar, a link and a color, where there are any.

    ``keys`` are colors by heading, which explain the parts of the bars; ``legend`` are those by label of bars whose
    parts no heading names. ``share_of`` says of what the percentages in some columns are. ``note`` follows the table.
    """

    title: str
    frame: pd.DataFrame
    bars: Sequence[Bar] = ()
    links: Sequence[str] = ()
    colours: Sequence[str] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    legend: Mapping[str, str] = field(default_factory=dict)
    share_of: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A question and its answer: its meaning, notes, tables; ``template`` shows what is special.

    ``labels`` are those of classes in its tables.
    """

    title: str
    meaning: str
    tables: Sequence[SectionTable] = ()
    notes: Sequence[str] = field(default_factory=tuple)
    template: str = ""
    labels: Mapping[str, str] = field(default_factory=lambda: SHORT)

    @property
    def anchor(self) -> str:
        """The target of links to the section."""
        return "".join(char if char.isalnum() else "-" for char in self.title.lower())

    def shown(self, most_rows: int = MOST_ROWS) -> list[PageTable]:
        """Return the tables that have rows."""
        return [table.shown(most_rows) for table in self.printed(most_rows)]

    def printed(self, most_rows: int) -> list[PrintedTable]:
        """Return the same, of which fewer rows can be shown."""
        return [PrintedTable(table, most_rows, self.labels) for table in self.tables if len(table.frame)]


@dataclass(frozen=True)
class PageCell:
    """A cell: its text, the full text if it is cut, its style; the color that it explains or is of."""

    text: str
    whole: str
    style: str
    colour: str = ""


@dataclass(frozen=True)
class PageRow:
    """A row: cells, the link of its first one, its bar."""

    cells: Sequence[PageCell]
    link: str
    bar: Bar | None


@dataclass(frozen=True)
class PageTable:
    """A table as a page shows it: ``base`` says of what percentages are, ``notes`` that rows are left out."""

    title: str
    headings: Sequence[PageCell]
    rows: Sequence[PageRow]
    notes: Sequence[str] = ()
    base: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def has_bars(self) -> bool:
        """Whether any row has a bar that shows something."""
        return any(row.bar and row.bar.parts for row in self.rows)


class PrintedTable:
    """A table whose cells are printed once, of which a page shows as many rows as fit.

    Args:
        table: what is shown.
        most_rows: the most rows that are ever shown.
        labels: those of classes.
    """

    def __init__(self, table: SectionTable, most_rows: int, labels: Mapping[str, str] = SHORT) -> None:
        frame, self._colours = _with_labels(_without_zero_columns(table.frame), labels)
        self._table, self._text = table, TableText.of(frame, most_rows)
        self._cell_of = cache(_cell_of)

    @property
    def rows(self) -> int:
        """How many rows can be shown."""
        return len(self._text.cells[0]) if self._text.cells else 0

    def shown(self, most_rows: int) -> PageTable:
        """Return the table: first what names a row, where a narrow screen begins, then the bar and the numbers."""
        table, shown = self._table, self._text.display(most_rows)
        order = _name_first(shown.headings, shown.texts)
        texts = {at for at, place in enumerate(order) if place in shown.texts}
        own: list[Sequence[str]] = [self._colours.get(shown.columns[place], ()) for place in order]
        # The color of a row is that of its name.
        own[0] = table.colours or own[0]
        rows = [
            PageRow(
                [
                    self._cell_of(
                        row[place], shown.whole[number][place], is_text=at in texts,
                        most=LONGEST_NAME if at == 0 else LONGEST_HOVER,
                        colour=own[at][number] if own[at] else "",
                    )
                    for at, place in enumerate(order)
                ],
                table.links[number] if table.links else "",
                table.bars[number] if table.bars else None,
            )
            for number, row in enumerate(shown.cells)
        ]  # fmt: skip
        title = f"{table.title}{', ' if ': ' in table.title else ': '}{shown.shared}" if shown.shared else table.title
        headings = [
            _cell_of(HEADINGS.get(text, text), text, is_text=at in texts, colour=table.keys.get(text, ""))
            for at, text in enumerate(shown.headings[place] for place in order)
        ]
        left_out = (
            f"The first {len(rows):,} of {len(rows) + shown.left_out:,} rows; the page stays below 1 MB."
            if shown.left_out
            else ""
        )
        base = _bases({heading_of(name): of for name, of in table.share_of.items() if name in shown.columns})
        notes = [note for note in (table.note, left_out) if note]
        return PageTable(capitalized(title), headings, rows, notes, base, table.legend)


def _bases(share_of: Mapping[str, str]) -> str:
    """Say of what the percentages in columns are, by heading.

    >>> _bases({"time %": "all GPU time"}), _bases({"a %": "the window", "b %": "the window"})
    ('time %: of all GPU time', 'percentages: of the window')
    """
    if len(share_of) > 1 and len(set(share_of.values())) == 1:
        return f"percentages: of {next(iter(share_of.values()))}"
    return "; ".join(f"{heading}: of {what}" for heading, what in share_of.items())


def _without_zero_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop times and shares that are zero in every row, unless there are no others."""
    amounts = [name for name in frame if str(name).endswith(("_ns", "_share"))]
    zero = [name for name in amounts if not frame[name].fillna(0).to_numpy().any()]
    return frame if len(zero) == len(amounts) else frame.drop(columns=zero)


def _with_labels(frame: pd.DataFrame, labels: Mapping[str, str]) -> tuple[pd.DataFrame, dict[str, list[str]]]:
    """Replace keys by words; return also the colors of each column of classes or causes."""
    frame = frame.assign(**{name: frame[name].map(word, na_action="ignore") for name, word in WORDS if name in frame})
    columns = [name for name in KEYS if name in frame]
    colours = {name: [colour_of(str(key)) for key in frame[name]] for name in columns}
    replaced = {name: frame[name].map(lambda key: label_of(key, labels), na_action="ignore") for name in columns}
    return frame.assign(**replaced), {name: found for name, found in colours.items() if any(found)}


def _name_first(headings: Sequence[str], texts: Collection[int]) -> list[int]:
    """Return the order of columns: what names a row, numbers, other texts, so that narrow screens show numbers."""
    name = next((headings.index(text) for text in NAMES if text in headings), 0)
    others = [at for at in range(len(headings)) if at != name]
    return [name, *sorted(others, key=lambda at: at in texts)]


def _cell_of(text: str, whole: str, *, is_text: bool, colour: str = "", most: int = LONGEST_HOVER) -> PageCell:
    """Align texts on the left, wrap long ones, cut very long ones in the middle."""
    short = shorten_middle(text, LONGEST_CELL)
    style = " ".join(["text"] * is_text + ["long"] * (len(short) > SHORT_TEXT))
    return PageCell(short, shorten_middle(whole, most) if short != whole else "", style, colour)
