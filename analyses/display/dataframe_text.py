"""DataFrames for people: times in ms, shares in percent, labels instead of keys, long texts last.

A column with one value in all rows is part of the title. Of many ranks a terminal gets the worst ones, then what is
typical of all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.display.labels import CELL_WORDS
from analyses.display.phrases import RANKS_LISTED
from analyses.display.text_layout import SHORT_TEXT, UNITS, Line, TextTable, percent
from hta_graph.base.text.formatting import milliseconds
from hta_graph.base.text.sanitize import one_line
from hta_graph.base.text.shorten import short_names

if TYPE_CHECKING:
    import pandas as pd


ARROW = " → "
NAMES = ("kernel", "name", "operator", "kernel_sequence", "kernels", "next")
"""Names of events are short on terminals and pages; files get them in full. The first one names a row."""
KEYS = ("cause", "bound_by", "class")
"""Columns of keys, which are printed as their labels."""
SHARED = ("rank", "scope")
UNGROUPED = ("rank", "step", "number", "correlation", "external_id", "last_rank", "late_rank", "worst_rank", "group")
UNGROUPED_ENDINGS = ("_index", "_id", "_step", "_rank")
"""Numbers that name something are printed without separators."""
MEASURED = ("_ns", "_share", "_gbps", "_tflops")
LONGEST_SHARED = 40
"""A text that all rows share is in the title, if it is not longer."""


@dataclass(frozen=True)
class Display:
    """A table as text: headings, cells, which columns are text, what all rows share, how many rows were left out.

    ``shared`` are the rank and the window of all rows, ``same`` what else all rows have in common. ``whole`` are the
    cells with names in full.
    """

    headings: list[str]
    cells: list[list[str]]
    texts: list[int]
    shared: str
    left_out: int
    columns: list[str]
    whole: list[list[str]]
    same: Sequence[str] = ()


def display(frame: pd.DataFrame, limit: int) -> Display:
    """Return the first rows of a table as text, with short names, and labels instead of keys.

    The longest texts come last; a rank and a scope that all rows share are apart.
    """
    return TableText.of(frame, limit).display(limit)


@dataclass(frozen=True)
class TableText:
    """The first rows of a table as text, of which fewer can be displayed; ``all_rows`` counts those of the table.

    Each column has its name, its cells, and whether these are texts (not numbers). ``known_from`` is the first row
    whose value is known; ``lengths`` are those of the longest text up to each row.
    """

    names: list[str]
    cells: list[list[str]]
    is_text: list[bool]
    known_from: list[int]
    lengths: list[list[int]]
    all_rows: int
    shared: str
    same: Sequence[str] = ()

    @classmethod
    def of(cls, frame: pd.DataFrame, most: int, *, compact: bool = False) -> TableText:
        """Print the cells of the first rows, nothing of which is cut; if compact, nothing in them repeats."""
        # A rank and a scope that all rows share are in the title, which saves two columns.
        common = [
            name for name in SHARED if name in frame and len(frame) and (frame[name] == frame[name].iloc[0]).all()
        ]
        shared = [f"rank {frame[name].iloc[0]}" if name == "rank" else str(frame[name].iloc[0]) for name in common]
        frame = frame.drop(columns=common)
        same: list[str] = []
        if compact:
            frame, same = _without_constants(_without_zero_rows(frame))
            # Two rows more take about as much room as the line that would name them.
            most = len(frame) if len(frame) <= most + 2 else most
        names = list(map(str, frame.columns))
        columns = [frame.iloc[:most, at] for at in range(len(names))]
        values = [column.to_numpy(object).tolist() for column in columns]
        missing = [column.isna().tolist() for column in columns]
        is_text = [not _is_number(column) for column in columns]
        return cls(
            names,
            [_cell_texts(name, own, no) for name, own, no in zip(names, values, missing, strict=True)],
            is_text,
            [
                next((at for at, value in enumerate(own) if not no[at] and value != ""), most)
                for own, no in zip(values, missing, strict=True)
            ],
            [
                [*accumulate(map(len, map(str, own)), max)] if is_text[at] and names[at] not in SHARED else []
                for at, own in enumerate(values)
            ],
            len(frame),
            ", ".join(shared),
            same,
        )

    def display(self, limit: int) -> Display:
        """Return the first rows with short names."""
        shown = self.uncut(limit, heading_of)
        cells = list(map(list, zip(*shown.cells, strict=True)))
        columns = [
            short_names(column) if name in NAMES and at in shown.texts else column
            for at, (name, column) in enumerate(zip(shown.columns, cells, strict=False))
        ]
        return replace(shown, cells=list(map(list, zip(*columns, strict=True))))

    def uncut(self, limit: int, heading: Callable[[str], str]) -> Display:
        """Return the first rows, and what the columns are called."""
        limit = min(limit, len(self.cells[0])) if self.cells else 0
        # A column of which nothing is known in any row would only take room.
        order = self._long_text_last([at for at, known in enumerate(self.known_from) if known < limit], limit)
        names = [self.names[at] for at in order]
        cells = list(map(list, zip(*(self.cells[at][:limit] for at in order), strict=True)))
        texts = [place for place, at in enumerate(order) if self.is_text[at]]
        left_out = self.all_rows - limit
        return Display(list(map(heading, names)), cells, texts, self.shared, left_out, names, cells, self.same)

    def _long_text_last(self, columns: list[int], limit: int) -> list[int]:
        """Return the order of columns: the one with the longest texts stands at the end."""
        lengths = {at: self.lengths[at][limit - 1] for at in columns if self.lengths[at]}
        longest = max(lengths, key=lambda at: (lengths[at], at), default=-1)
        if lengths.get(longest, 0) <= SHORT_TEXT:
            return columns
        return [*(at for at in columns if at != longest), longest]


def _without_zero_rows(frame: pd.DataFrame) -> pd.DataFrame:
    """Leave out classes and causes all of whose amounts are zero, unless all are."""
    amounts = frame.select_dtypes("number")
    amounts = amounts[[name for name in amounts if not _is_name_column(str(name))]]
    if not len(amounts.columns) or not set(KEYS) & set(frame):
        return frame
    rows = np.flatnonzero(amounts.fillna(0).to_numpy().any(axis=1))
    return frame.iloc[rows] if len(rows) else frame


def _with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace keys of classes and causes by their labels."""
    keys = [name for name in KEYS if name in frame and frame[name].isin(CELL_WORDS).any()]
    return frame.assign(**{name: frame[name].map(lambda key: CELL_WORDS.get(key, key)) for name in keys})


def _without_constants(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Leave out the columns that have one value in all rows; return also these values, to print them once.

    Times and shares that are equal by chance stay, unless they are zero.
    """
    if len(frame) < 2:
        return frame, []
    known = frame.loc[:, frame.notna().all()]
    found = {str(name): known[name].iloc[0] for name in known if (known[name] == known[name].iloc[0]).all()}
    same = {name: value for name, value in found.items() if not value or not name.endswith(MEASURED)}
    said = {name: _value_text(name, value) for name, value in same.items()}
    said = {name: text for name, text in said.items() if len(text) <= LONGEST_SHARED}
    if len(said) == len(frame.columns):
        return frame, []
    # A share of zero time is zero.
    told = [text for name, text in said.items() if text and _time_of_share(name) not in said]
    return frame.drop(columns=list(said)), told


def _time_of_share(name: str) -> str:
    """Return the column of times that a column of shares is about.

    >>> _time_of_share("idle_share"), _time_of_share("idle_ns")
    ('idle_ns', '')
    """
    return f"{name.removesuffix('_share')}_ns" if name.endswith("_share") else ""


def _value_text(name: str, value: Any) -> str:
    """Return a value with its heading and its unit.

    >>> _value_text("shared_ns", 0), _value_text("group", "tp"), _value_text("stream", "stream 0:1:7")
    ('shared 0 ms', 'group tp', 'stream 0:1:7')
    """
    words, _, unit = heading_of(name).rpartition(" ")
    cell = _cell_text(name, value)
    if not cell or cell.startswith(f"{heading_of(name)} "):
        return cell
    if unit == "%":
        return f"{words} {cell}%"
    if unit in UNITS:
        return f"{words} {0 if not value else cell} {unit}"
    return f"{heading_of(name)} {cell}"


def table_lines(
    title: str,
    frame: pd.DataFrame,
    limit: int,
    *,
    order: Sequence[str] = (),
    share_of: Mapping[str, str] | None = None,
    captions: Sequence[str] = (),
) -> list[Line]:
    """Return the first rows of a table for a terminal: a title, the whole cells, how many rows are left out.

    ``order`` are the columns that matter, the most important first: where there is no room for all, a terminal shows as
    many of these as fit. ``share_of`` says of what the percentages in some columns are,
    ``captions`` what else a reader must know.
    """
    found = TableText.of(frame, limit, compact=True)
    shown = found.uncut(len(frame), _short_heading)
    names = [at for at in shown.texts if shown.columns[at] in NAMES]
    first = [name for name in dict.fromkeys([*SHARED, *order]) if name in shown.columns] if order else []
    first = first or list(dict.fromkeys([*_key_columns(frame, shown.columns), *shown.columns]))
    more = f"{shown.left_out:,} more {'row' if shown.left_out == 1 else 'rows'} with --all" if shown.left_out else ""
    places = [shown.columns.index(name) for name in first]
    bases = {_short_heading(name): what for name, what in (share_of or {}).items() if name in shown.columns}
    same = [f"every row: {', '.join(shown.same)}"] if shown.same else []
    made = TextTable(
        shown.headings,
        shown.cells,
        shown.texts,
        names,
        order=places,
        bases=bases,
        caption="; ".join([*same, *captions]),
        more=more,
    )
    return [f"{title}: {shown.shared}" if shown.shared else title, made]


def _key_columns(frame: pd.DataFrame, shown: Sequence[str]) -> list[str]:
    """Return the columns that name a row, the first ones first: rank and scope, leading texts, a name."""
    columns = list(map(str, frame.columns))
    numbers = next((at for at, name in enumerate(columns) if name not in SHARED and _is_number(frame[name])), None)
    named = [name for name in NAMES if name in columns and not _is_number(frame[name])][:1]
    return [name for name in dict.fromkeys([*columns[:numbers], *named]) if name in shown]


def _is_number(column: pd.Series[Any]) -> bool:
    """Return whether a column holds numbers, not texts."""
    return column.dtype.kind in "iufb"


HEADINGS = {
    "time_mean_length": "mean over time",
    "mfu_share": "MFU %",
    "kernel_sequence": "kernels in order",
}
"""Columns whose own words read as something else."""
TOO_LONG = {"communication": "comm"}
"""Words that are shortened in the headings of a terminal."""
WORDS = {"cpu": "CPU", "gpu": "GPU", "control": "before", "test": "after"}


def _short_heading(name: str) -> str:
    """Return the heading of a column on a terminal.

    >>> _short_heading("exposed_communication_ns")
    'exposed comm ms'
    """
    return " ".join(TOO_LONG.get(word, word) for word in heading_of(name).split())


VALUES: Mapping[str, Mapping[str, str]] = {**dict.fromkeys(KEYS, CELL_WORDS), "side": WORDS}
"""Columns whose values are printed in other words."""


def heading_of(name: str) -> str:
    """Return the heading of a column, with its unit.

    >>> heading_of("cpu_ns"), heading_of("idle_share"), heading_of("control_count")
    ('CPU ms', 'idle %', 'before count')
    """
    if name in HEADINGS:
        return HEADINGS[name]
    for ending, unit in (("_ns", "_ms"), ("_share", "_%"), ("_gbps", "_GB/s"), ("_tflops", "_TFLOP/s")):
        if name.endswith(ending):
            name = name.removesuffix(ending) + unit
    return " ".join(WORDS.get(word, word) for word in name.split("_"))


def _cell_text(name: str, value: Any) -> str:
    """Print one value by what its column's name says it is."""
    return "-" if _is_missing(value) else _text_of_column(name)(value)


def _cell_texts(name: str, values: Sequence[Any], missing: Sequence[bool]) -> list[str]:
    """Print the values of a column by what its name says they are."""
    text_of = _text_of_column(name)
    return ["-" if is_missing else text_of(value) for value, is_missing in zip(values, missing, strict=True)]


def _text_of_column(name: str) -> Callable[[Any], str]:
    """Return what prints a known value of a column."""
    if name.endswith("_ns"):
        return lambda value: milliseconds(int(value))
    if name.endswith("_share"):
        return lambda value: percent(float(value)).removesuffix("%")
    is_name, words = _is_name_column(name), VALUES.get(name, {})

    def text_of(value: Any) -> str:
        if isinstance(value, float):
            return f"{value:,.2f}"
        # Of a column with missing values the integers are NumPy's; a truth is no amount.
        if isinstance(value, int | np.integer) and not isinstance(value, bool) and not is_name:
            return f"{value:,}"
        if name == "part":
            return str(value).replace("_", " ")
        return one_line(words.get(value, str(value)))

    return text_of


def _is_name_column(column: str) -> bool:
    """Return whether the numbers of a column name something, and are no amounts.

    >>> _is_name_column("peak_event_index"), _is_name_column("bytes")
    (True, False)
    """
    return column in UNGROUPED or column.endswith(UNGROUPED_ENDINGS)


def _is_missing(value: Any) -> bool:
    """Return whether a value is missing, in any of the ways of pandas."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


TYPICAL = {"median": 50, "p95": 95}
"""What stands for all ranks: what half, and 95%, of them do not exceed."""


def worst_and_typical(frame: pd.DataFrame, by: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of the worst ranks, then the typical values, and the number of ranks not listed.

    Each window has its own rows. Typical values are chosen column by column: all of them occurred, none is
    interpolated.

    >>> import pandas as pd
    >>> of_ranks = pd.DataFrame({"rank": range(40), "scope": "step 1", "wait_ns": range(40)})
    >>> shown, hidden = worst_and_typical(of_ranks, "wait_ns")
    >>> shown[["rank", "wait_ns"]].to_numpy().tolist()[-3:], hidden
    ([[30, 30], ['median', 19], ['p95', 37]], 30)
    """
    import pandas as pd

    frame = frame.astype({"rank": object})
    stretches = [own for _, own in frame.groupby("scope", sort=False)] if "scope" in frame else [frame]
    each = max(RANKS_LISTED // len(stretches), 1)
    parts, named = [], set()
    for own in stretches:
        worst = own.sort_values(by, ascending=False, kind="stable").head(each)
        named |= set(worst["rank"])
        parts += [worst, _typical_rows(own)]
    return pd.concat(parts, ignore_index=True), frame["rank"].nunique() - len(named)


def _typical_rows(own: pd.DataFrame) -> pd.DataFrame:
    """Make a row for each percentage, which has its name in place of a rank."""
    import pandas as pd

    numbers = own.select_dtypes("number")
    places = [-(-len(own) * percent // 100) - 1 for percent in TYPICAL.values()]
    columns = {str(name): np.sort(numbers[name].to_numpy())[places] for name in numbers}
    frame = pd.DataFrame({"rank": list(TYPICAL), **columns}).astype({"rank": object})
    if "scope" in own:
        frame.insert(1, "scope", own["scope"].iloc[0])
    return frame
