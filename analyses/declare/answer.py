"""The answer of an analysis: named tables, conclusions and notes, and how they are printed and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from analyses.display.dataframe_text import display, table_lines, worst_and_typical
from analyses.display.phrases import MANY_RANKS
from analyses.display.screen_columns import CAPTION, ORDER, SHARE_OF
from analyses.display.text_layout import Line
from hta_graph.base.errors import Remedy
from hta_graph.base.text.formatting import html_table
from hta_graph.base.text.sanitize import sanitize

if TYPE_CHECKING:
    import pandas as pd


ROWS_SHOWN = 40
"""How many rows of an answer's only table a terminal shows."""
ROWS_OF_MAIN, ROWS_OF_OTHERS = 20, 30
"""Of several tables: how many of the main one, and of all others together."""
FEWEST_ROWS, MOST_ROWS = 6, 15
"""The least and the most rows of each of the others."""
EVERY_ROW = 10**9


@dataclass(frozen=True)
class Note:
    """A sentence about an answer that ends with a remedy, which Python and the command line word differently."""

    text: str
    remedy: Remedy
    between: str = "; "


@dataclass(frozen=True, repr=False)
class Answer:
    """Tables by name, the main one first, with conclusions and notes.

    Columns that end in ``_ns`` are integer nanoseconds, those in ``_share`` fractions of one. ``series`` are tables too
    long to read, for figures and JSON only. ``conclusion`` are sentences that sum up the tables, if anything is
    certain. ``opening`` are notes that come first; some answers have the conclusion among them. ``summed`` is, by
    table, over what its times are added up, and ``extents`` from where to where its window is; titles repeat both.
    ``keys`` are further keys of the JSON document. ``worst_by`` names the tables with a row per rank, and the column by
    which a terminal lists the worst of many; ``most_rows`` is the number of rows of each table there, if not the usual
    one. ``on_screen`` are tables as screens show them, where that is another form. ``captions`` explain tables, by
    name; ``only_with_all`` are those that a terminal shows only with all rows. ``drawn`` is for figures only.
    """

    tables: Mapping[str, pd.DataFrame]
    closing_notes: Sequence[str | Note] = field(default_factory=tuple)
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    for_command_line: bool = False
    opening: Sequence[str] = ()
    conclusion: Sequence[str] = ()
    keys: Mapping[str, Any] = field(default_factory=dict)
    summed: Mapping[str, str] = field(default_factory=dict)
    extents: Mapping[str, str] = field(default_factory=dict)
    worst_by: Mapping[str, str] = field(default_factory=dict)
    drawn: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    most_rows: int | None = None
    on_screen: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    captions: Mapping[str, str] = field(default_factory=dict)
    only_with_all: Sequence[str] = ()

    def __repr__(self) -> str:
        """Return the tables, their sizes and the number of notes in one line."""
        tables = ", ".join(f"{name}: {len(frame):,} rows" for name, frame in self.tables.items())
        return f"<Answer {tables}; notes: {len(self.notes)}>"

    def _repr_html_(self) -> str:
        """Show in a notebook what a terminal shows: notes, and the first rows of each table."""
        every = {**self.tables, **self.on_screen}
        shown = {name: _without_unrecorded(frame) if self.notes else frame for name, frame in every.items()}
        tables = [_html_of_table(self, name, frame) for name, frame in shown.items() if len(frame)]
        return "".join([*map(_paragraph, self.headline), *tables, *map(_paragraph, self.closing)])

    @property
    def notes(self) -> list[str]:
        """Sentences about missing answers and how to record what they need.

        >>> found = Answer({}, ["no kernel", Note("no long sequence", Remedy("pass size=2", "--size 2 finds others"))])
        >>> found.notes
        ['no kernel', 'no long sequence; pass size=2']
        >>> found.on_command_line().notes
        ['no kernel', 'no long sequence; --size 2 finds others']
        """
        return [*self.opening, *self.closing]

    @property
    def headline(self) -> list[str]:
        """The sentences before the tables, without duplicates."""
        return list(dict.fromkeys([*self.opening, *self.conclusion]))

    @property
    def closing(self) -> list[str]:
        """The notes after the tables."""
        return [
            note if isinstance(note, str) else f"{note.text}{note.between}{self.wording(note.remedy)}"
            for note in self.closing_notes
        ]

    def wording(self, remedy: Remedy) -> str:
        """Return the remedy as Python or the command line words it."""
        return remedy.command_line if self.for_command_line else remedy.python

    def on_command_line(self) -> Answer:
        """Return the answer for a terminal: its notes and figure name flags instead of arguments."""
        return replace(self, for_command_line=True)

    def title_of(self, name: str) -> str:
        """Return a table's title: its name, what its times are summed over, and the extent of its window."""
        said = [f"sums over {self.summed[name]}"] if name in self.summed else []
        said += [self.extents[name]] if name in self.extents else []
        title = " ".join({"cpu": "CPU", "gpu": "GPU"}.get(word, word) for word in name.split("_"))
        return title + (f" ({', '.join(said)})" if said else "")

    def rows_shown(self, name: str) -> int:
        """Return how many rows of a table a terminal shows."""
        filled = [one for one, frame in self.tables.items() if len(frame)]
        if self.most_rows or len(filled) < 2:
            return self.most_rows or ROWS_SHOWN
        share = ROWS_OF_OTHERS // (len(filled) - 1)
        return ROWS_OF_MAIN if name == filled[0] else min(max(share, FEWEST_ROWS), MOST_ROWS)

    @property
    def main(self) -> pd.DataFrame:
        """The first table."""
        return next(iter(self.tables.values()))


def answer_document(name: str, answer: Answer, scopes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON document of an answer: schema, scopes, conclusion, tables as lists of records, notes."""
    return {
        "schema": f"hta-graph/{name}/1",
        "scopes": list(scopes),
        "conclusion": " ".join(_ended(answer.conclusion)),
        **answer.keys,
        "tables": {key: records(frame) for key, frame in {**answer.tables, **answer.series}.items()},
        "notes": list(answer.notes),
    }


def _ended(sentences: Sequence[str]) -> list[str]:
    """Return sentences that can follow each other; a single one stays as it is.

    >>> _ended(["rank 2 delays the others", "It causes all of the waiting."])
    ['rank 2 delays the others.', 'It causes all of the waiting.']
    """
    *before, last = sentences or [""]
    return [*(text if text.endswith((".", "!", "?", ":")) else f"{text}." for text in before), last]


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as plain objects; what is missing is null.

    >>> import pandas as pd
    >>> records(pd.DataFrame({"rank": [0], "share": [float("nan")]}))
    [{'rank': 0, 'share': None}]
    """
    # NaN, NaT and NA all become null, which every JSON reader understands.
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]


def _without_unrecorded(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out columns that are zero because nothing was recorded, as a note says.

    A table that counts something is an answer, even if all its times are zero.
    """
    numbers = frame.select_dtypes("number").drop(columns=["rank", "step"], errors="ignore")
    if len(numbers.columns) and not numbers.fillna(0).to_numpy().any():
        return frame.iloc[:0]
    unrecorded = [name for name in map(str, numbers) if name.startswith("gpu_") and name.endswith("_ns")]
    return frame.drop(columns=[name for name in unrecorded if not frame[name].any()])


def answer_lines(answer: Answer, *, all_rows: bool = False) -> list[Line]:
    """Return an answer as lines for a terminal: the first rows of each table, or every row."""
    lines: list[Line] = [*answer.headline, ""] if answer.headline else []
    hidden = [] if all_rows else [name for name in answer.only_with_all if len(answer.tables[name])]
    for name, frame in {**answer.tables, **answer.on_screen}.items():
        shown = _without_unrecorded(frame) if answer.notes else frame
        if len(shown) and name not in hidden:
            lines += [*_lines_of_table(answer, name, shown, all_rows=all_rows), ""]
    if hidden:
        lines += [f"More tables with --all: {', '.join(map(answer.title_of, hidden))}.", ""]
    return [*lines, *answer.closing] if answer.closing else lines[:-1]


def _lines_of_table(answer: Answer, name: str, frame: pd.DataFrame, *, all_rows: bool) -> list[Line]:
    """Return the first rows of a table; of many ranks the worst, and what is typical."""
    limit, more = EVERY_ROW if all_rows else answer.rows_shown(name), []
    if not all_rows and name in answer.worst_by and frame["rank"].nunique() > MANY_RANKS:
        frame, hidden = worst_and_typical(frame, answer.worst_by[name])
        limit, more = ROWS_SHOWN, [f"  … {hidden:,} more ranks with --all"] if hidden else []
    order, share_of = ORDER.get(name, ()), SHARE_OF.get(name, {})
    is_sorted = "diff_ns" not in frame or frame["diff_ns"].any()
    captions = [said[name] for said in (CAPTION, answer.captions) if name in said and is_sorted]
    title = answer.title_of(name)
    return [*table_lines(title, frame, limit, order=order, share_of=share_of, captions=captions), *more]


def _paragraph(text: str) -> str:
    from html import escape  # needed in notebooks only

    return f"<p>{escape(sanitize(text))}</p>"


def _html_of_table(answer: Answer, name: str, frame: pd.DataFrame) -> str:
    """Return the first rows of a table for a notebook."""
    shown = display(frame, answer.rows_shown(name))
    more = f", and {shown.left_out:,} more rows" if shown.left_out else ""
    caption = f"{answer.title_of(name)}{f': {shown.shared}' if shown.shared else ''}{more}"
    numbers = [at for at in range(len(shown.headings)) if at not in shown.texts]
    return html_table(caption, shown.headings, shown.cells, right=numbers)
