"""What an analysis gives back: named tables, sentences about what is missing, and how these are printed and written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from analyses.terminal import clipped, milliseconds, percent, table, width

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Answer", "answer_document", "answer_lines"]

ROWS_SHOWN = 40
"""How many rows of a table a terminal gets; files get all."""

ROWS_OF_MANY = 15
SHORT_TEXT = 24
UNGROUPED = ("rank", "step", "event_index", "correlation", "external_id")
"""Numbers that name something are printed without separators."""


@dataclass(frozen=True)
class Answer:
    """Tables by name, the main one first, and sentences about what could not be answered and how to record it.

    Columns that end in ``_ns`` are integer nanoseconds, those in ``_share`` fractions of one. ``series`` are tables too
    long to read, for figures and JSON only.
    """

    tables: Mapping[str, pd.DataFrame]
    notes: Sequence[str] = field(default_factory=tuple)
    series: Mapping[str, pd.DataFrame] = field(default_factory=dict)

    @property
    def main(self) -> pd.DataFrame:
        """The first table."""
        return next(iter(self.tables.values()))


def answer_document(name: str, answer: Answer, scopes: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the JSON document of an answer: schema, scopes, tables as lists of records, notes."""
    return {
        "schema": f"hta-graph/{name}/1",
        "scopes": list(scopes),
        "tables": {key: records(frame) for key, frame in {**answer.tables, **answer.series}.items()},
        "notes": list(answer.notes),
    }


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return a table's rows as plain objects; what is missing is null.

    >>> import pandas as pd
    >>> records(pd.DataFrame({"rank": [0], "share": [float("nan")]}))
    [{'rank': 0, 'share': None}]
    """
    plain = frame.astype(object).where(frame.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in plain.to_dict("records")]


def answer_lines(answer: Answer) -> list[str]:
    """Return an answer as lines for a terminal."""
    lines: list[str] = []
    for title, frame in answer.tables.items():
        if len(frame):
            limit = ROWS_SHOWN if len(answer.tables) == 1 else ROWS_OF_MANY
            lines += [title.replace("_", " "), *table_lines(frame, limit), ""]
    return [*lines, *answer.notes] if answer.notes else lines[:-1]


def table_lines(frame: pd.DataFrame, limit: int = ROWS_SHOWN) -> list[str]:
    """Print a table: times in ms, shares in percent, headings over several lines, long texts last and cut to fit."""
    order = _long_text_last(frame)
    shown = frame.iloc[:limit, order]
    names = list(map(str, shown.columns))
    cells = [[_cell(name, value) for name, value in zip(names, row, strict=True)] for row in _rows(shown)]
    left = [at for at, dtype in enumerate(shown.dtypes) if dtype.kind not in "iufb"]
    _cut_texts(cells, left)
    lines = table([*_heading_rows(names), *cells], left=left)
    rest = len(frame) - len(shown)
    return [*lines, f"  … and {rest:,} more rows; --json and --csv write all"] if rest else lines


def _cut_texts(cells: list[list[str]], texts: Sequence[int]) -> None:
    """Let the long texts of a table share what the terminal has left beside numbers and short texts."""
    sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
    long = [at for at in texts if sizes[at] > SHORT_TEXT]
    rest = sum(size for at, size in enumerate(sizes) if at not in long)
    share = max((width() - 2 * len(sizes) - rest) // max(len(long), 1), SHORT_TEXT)
    for row in cells:
        for at in long:
            row[at] = clipped(row[at], share)


def _long_text_last(frame: pd.DataFrame) -> list[int]:
    """Return the order of columns for a terminal: the one with the longest texts at the end, where it may be cut."""
    texts = [at for at, dtype in enumerate(frame.dtypes) if dtype.kind not in "iufb"]
    lengths = {at: int(frame.iloc[:, at].astype(str).str.len().max() or 0) for at in texts}
    longest = max(lengths, key=lambda at: (lengths[at], at), default=-1)
    if lengths.get(longest, 0) <= SHORT_TEXT:
        return list(range(frame.shape[1]))
    return [*(at for at in range(frame.shape[1]) if at != longest), longest]


def _rows(frame: pd.DataFrame) -> Iterable[tuple[Any, ...]]:
    return frame.itertuples(index=False, name=None)


def _heading_rows(names: Sequence[str]) -> list[list[str]]:
    """Write headings word under word, so that columns stay narrow.

    >>> _heading_rows(["rank", "idle_ns", "idle_share"])
    [['', 'idle', 'idle'], ['rank', 'ms', '%']]
    """
    words = [_heading(name).split() for name in names]
    height = max(map(len, words), default=0)
    return [[(([""] * (height - len(own))) + own)[line] for own in words] for line in range(height)]


def _heading(name: str) -> str:
    for ending, unit in (("_ns", " ms"), ("_share", " %")):
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " ") + unit
    return name.replace("_", " ")


def _cell(name: str, value: Any) -> str:
    if _is_missing(value):
        return "-"
    if name.endswith("_ns"):
        return milliseconds(int(value)).removesuffix(" ms")
    if name.endswith("_share"):
        return percent(float(value)).removesuffix(" %")
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and name not in UNGROUPED else str(value)


def _is_missing(value: Any) -> bool:
    """Tell pandas' several kinds of nothing from values."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
