"""DataFrames for people: times in ms, shares in percent, headings in words, long texts last.

Of many ranks a terminal gets the worst ones, then what is typical of all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.display.labels import SHORT
from analyses.display.text_layout import SHORT_TEXT, Line, TextTable, percent
from hta_graph.text.formatting import milliseconds
from hta_graph.text.sanitize import one_line
from hta_graph.text.shorten import short_names

if TYPE_CHECKING:
    import pandas as pd


ARROW = " → "
NAMES = ("kernel", "name", "operator", "kernel_sequence", "kernels", "next")
"""Names of events are short on terminals and pages; files get them in full. The first one names a row."""
KEYS = ("cause", "bound_by", "class")
"""Columns of keys, which have their words beside them."""
SHARED = ("rank", "scope")
UNGROUPED = ("rank", "step", "number", "correlation", "external_id", "last_rank", "late_rank")
UNGROUPED_ENDINGS = ("_index", "_id", "_step", "_rank")
"""Numbers that name something are printed without separators."""
HEADINGS = {"time_mean_length": "mean_length_over_time", "mfu_share": "MFU_share"}
"""Columns whose own words are read as something else."""


@dataclass(frozen=True)
class Display:
    """A table as text: headings, cells, which columns are text, what all rows share, how many rows were left out.

    ``whole`` are the cells with names in full.
    """

    headings: list[str]
    cells: list[list[str]]
    texts: list[int]
    shared: str
    left_out: int
    columns: list[str]
    whole: list[list[str]]


def display(frame: pd.DataFrame, limit: int) -> Display:
    """Return the first rows of a table as text, with short names and words beside keys.

    The longest texts come last, a rank and a scope that all rows share stand apart.
    """
    shown = _uncut_display(frame, limit)
    columns = [
        short_names(column) if name in NAMES and at in shown.texts else column
        for at, (name, column) in enumerate(zip(shown.columns, _columns_of(shown.cells), strict=False))
    ]
    return replace(shown, cells=list(map(list, zip(*columns, strict=True))))


def _columns_of(rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """Turn rows into columns."""
    return list(map(list, zip(*rows, strict=True)))


def _uncut_display(frame: pd.DataFrame, limit: int) -> Display:
    """Return the first rows of a table as text, nothing of which is cut."""
    # A rank and a scope that all rows share stand in the title, which saves two columns.
    common = [name for name in SHARED if name in frame and len(frame) and (frame[name] == frame[name].iloc[0]).all()]
    shared = ", ".join(f"rank {frame[name].iloc[0]}" if name == "rank" else str(frame[name].iloc[0]) for name in common)
    frame = frame.drop(columns=common)
    # A column of which nothing is known in any row would only take room.
    known = frame.iloc[:limit].dropna(axis=1, how="all")
    shown = _with_labels(known.iloc[:, _long_text_last(known)])
    names = list(map(str, shown.columns))
    cells = [
        [_cell_text(name, value) for name, value in zip(names, row, strict=True)]
        for row in shown.itertuples(index=False, name=None)
    ]
    texts = [at for at, name in enumerate(shown.columns) if not _is_number(shown[name])]
    return Display(list(map(_heading_of, names)), cells, texts, shared, len(frame) - len(shown), names, cells)


def _with_labels(frame: pd.DataFrame) -> pd.DataFrame:
    """Replace keys of classes and causes by their labels."""
    keys = [name for name in KEYS if name in frame and frame[name].isin(SHORT).any()]
    return frame.assign(**{name: frame[name].map(lambda key: SHORT.get(key, key)) for name in keys})


def table_lines(title: str, frame: pd.DataFrame, limit: int) -> list[Line]:
    """Return the first rows of a table for whoever prints it: a title, the whole cells, how many rows are left out."""
    shown = _uncut_display(frame, limit)
    names = [at for at in shown.texts if shown.columns[at] in NAMES]
    keys = [shown.columns.index(name) for name in _key_columns(frame) if name in shown.columns]
    made = TextTable(shown.headings, shown.cells, shown.texts, names, keys=keys or [0])
    more = "row" if shown.left_out == 1 else "rows"
    rest = [f"  … and {shown.left_out:,} more {more}; --json writes all"] if shown.left_out else []
    return [f"{title}: {shown.shared}" if shown.shared else title, made, *rest]


def _key_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that name a row, the first ones first: rank and scope, leading texts, a name, an index."""
    columns = list(map(str, frame.columns))
    numbers = next((at for at, name in enumerate(columns) if name not in SHARED and _is_number(frame[name])), None)
    named = [name for name in NAMES if name in columns and not _is_number(frame[name])][:1]
    index = [name for name in columns if name == "event_index"]
    return list(dict.fromkeys([*columns[:numbers], *named, *index]))


def _is_number(column: pd.Series[Any]) -> bool:
    """Tell a column of numbers from one of texts."""
    return column.dtype.kind in "iufb"


def _long_text_last(frame: pd.DataFrame) -> list[int]:
    """Return the order of columns: the one with the longest texts stands at the end."""
    texts = [at for at, name in enumerate(frame.columns) if not _is_number(frame[name]) and name not in SHARED]
    lengths = {at: max(map(len, map(str, frame.iloc[:, at])), default=0) for at in texts}
    longest = max(lengths, key=lambda at: (lengths[at], at), default=-1)
    if lengths.get(longest, 0) <= SHORT_TEXT:
        return list(range(frame.shape[1]))
    return [*(at for at in range(frame.shape[1]) if at != longest), longest]


def _heading_of(name: str) -> str:
    """Name a column in words and with its unit.

    >>> _heading_of("cpu_ns"), _heading_of("idle_share"), _heading_of("control_count")
    ('CPU ms', 'idle %', 'control count')
    """
    name = HEADINGS.get(name, name)
    for ending, unit in (("_ns", "_ms"), ("_share", "_%"), ("_gbps", "_GB/s"), ("_tflops", "_TFLOP/s")):
        if name.endswith(ending):
            name = name.removesuffix(ending) + unit
    return " ".join(word.upper() if word in ("cpu", "gpu") else word for word in name.split("_"))


def _cell_text(name: str, value: Any) -> str:
    """Print one value by what its column's name says it is."""
    if _is_missing(value):
        return "-"
    if name.endswith("_ns"):
        return milliseconds(int(value))
    if name.endswith("_share"):
        return percent(float(value)).removesuffix("%")
    if isinstance(value, float):
        return f"{value:,.2f}"
    import numpy as np  # late, as pandas is

    # Of a column with missing values the integers are NumPy's; a truth is no amount.
    if isinstance(value, int | np.integer) and not isinstance(value, bool) and not _is_name_column(name):
        return f"{value:,}"
    return one_line(str(value))


def _is_name_column(column: str) -> bool:
    """Tell a column of identities from one of amounts.

    >>> _is_name_column("peak_event_index"), _is_name_column("bytes")
    (True, False)
    """
    return column in UNGROUPED or column.endswith(UNGROUPED_ENDINGS)


def _is_missing(value: Any) -> bool:
    """Tell pandas' several kinds of nothing from values."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and value != value)


MANY_RANKS = 32
"""Of more ranks than this nobody reads one line each."""
RANKS_LISTED = 10
TYPICAL = {"median": 50, "p95": 95}
"""What stands for all ranks: what half, and 95%, of them do not exceed."""


def worst_and_typical(frame: pd.DataFrame, by: str) -> tuple[pd.DataFrame, int]:
    """Return the rows of the worst ranks, then what is typical, and how many ranks are not among them.

    Each stretch has its own, where the table tells of several. What is typical is told column by column: values that
    occurred, nothing is interpolated.

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


def more_ranks(hidden: int) -> list[str]:
    """Say how many ranks are not listed, and where they are.

    >>> more_ranks(1014), more_ranks(0)
    (['  and 1,014 ranks more; --json FILE lists all'], [])
    """
    return [f"  and {hidden:,} ranks more; --json FILE lists all"] if hidden else []
