"""DataFrames for people: times in ms, shares in percent, headings in words, long texts last."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analyses.display.terminal import clipped, line_length, percent, table, width
from hta_graph.shown import milliseconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["SHORT_TEXT", "Display", "display", "table_lines"]

SHORT_TEXT, SHORTEST_TEXT = 24, 16
EVENT_NAMES = ("name", "kernel")
"""Names of kernels and Python frames are printed short; files get them in full."""
SEQUENCES, ARROW = ("kernel_sequence", "kernels"), " → "
ARROWS = re.compile("( [→⇒] )")
SHARED = ("rank", "scope")
UNGROUPED = ("rank", "step", "event_index", "correlation", "external_id")
"""Numbers that name something are printed without separators."""


@dataclass(frozen=True)
class Display:
    """A table as text: headings, cells, which columns are text, what all rows share, how many rows were left out."""

    headings: list[str]
    cells: list[list[str]]
    texts: list[int]
    shared: str
    left_out: int


def display(frame: pd.DataFrame, limit: int) -> Display:
    """Return the first rows of a table as text: the longest texts last, a rank and scope that all share apart."""
    # A rank and a scope that all rows share stand in the title, which saves two columns.
    common = [name for name in SHARED if name in frame and len(frame) and (frame[name] == frame[name].iloc[0]).all()]
    shared = ", ".join(f"rank {frame[name].iloc[0]}" if name == "rank" else str(frame[name].iloc[0]) for name in common)
    frame = frame.drop(columns=common)
    shown = _with_short_names(frame.iloc[:limit, _long_text_last(frame)])
    names = list(map(str, shown.columns))
    cells = [
        [_cell_text(name, value) for name, value in zip(names, row, strict=True)]
        for row in shown.itertuples(index=False, name=None)
    ]
    texts = [at for at, dtype in enumerate(shown.dtypes) if dtype.kind not in "iufb"]
    return Display(list(map(_heading_of, names)), cells, texts, shared, len(frame) - len(shown))


def table_lines(title: str, frame: pd.DataFrame, limit: int) -> list[str]:
    """Return a table as lines for a terminal: headings over several lines, long texts cut, broken where it is wide."""
    shown = display(frame, limit)
    rows = [*_heading_rows(shown.headings), *shown.cells]
    _cut_texts(rows, [at for at in shown.texts if shown.headings[at] not in SHARED])
    lines = [f"{title}: {shown.shared}" if shown.shared else title]
    for number, block in enumerate(_column_blocks(rows, shown.texts)):
        left = [at for at, column in enumerate(block) if column in shown.texts]
        lines += [*([""] if number else []), *table([[row[at] for at in block] for row in rows], left=left)]
    more = "row" if shown.left_out == 1 else "rows"
    return [*lines, f"  … and {shown.left_out:,} more {more}; --json writes all"] if shown.left_out else lines


def _column_blocks(rows: Sequence[Sequence[str]], texts: Sequence[int]) -> list[list[int]]:
    """Divide columns into blocks that fit the terminal; each holds the text that names the row, first or last."""
    sizes = [max(map(len, column)) + 2 for column in zip(*rows, strict=True)]
    columns, room = list(range(len(sizes))), line_length()
    # The last column may be cut if it is a text: it needs no more than its shortest useful length.
    least = min(sizes[-1], SHORTEST_TEXT + 2) if columns[-1] in texts else sizes[-1]
    if room is None or sum(sizes[:-1]) + least <= room:
        return [columns]
    # Each block repeats the text that names a row: a leading one, else the last.
    named = [at for at in texts if at <= 1][:1] or list(texts[-1:])
    rest = [at for at in columns if at not in named]
    room -= sum(sizes[at] for at in named)
    return [sorted([*named, *part]) for part in _packed_evenly(rest, sizes, room)]


def _packed_evenly(columns: Sequence[int], sizes: Sequence[int], room: int) -> list[list[int]]:
    """Pack columns into as few blocks as possible, about equally wide.

    >>> _packed_evenly([0, 1, 2, 3], [10, 10, 10, 10], 30)
    [[0, 1], [2, 3]]
    """
    widest = max(sizes[at] for at in columns)
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
        if blocks[-1] and sum(sizes[other] for other in blocks[-1]) + sizes[at] > room:
            blocks.append([])
        blocks[-1].append(at)
    return blocks


def _cut_texts(cells: list[list[str]], texts: Sequence[int]) -> None:
    """Let the long texts of a table share what the terminal has left beside numbers and short texts."""
    sizes = [max(map(len, column)) for column in zip(*cells, strict=True)]
    long = [at for at in texts if sizes[at] > SHORT_TEXT]
    rest = sum(size for at, size in enumerate(sizes) if at not in long)
    # Texts get equal shares of what numbers and short texts leave, but never less than a short text.
    share = max((width() - 2 * len(sizes) - rest) // max(len(long), 1), SHORT_TEXT)
    for row in cells:
        for at in long:
            row[at] = clipped(row[at], share)


def _long_text_last(frame: pd.DataFrame) -> list[int]:
    """Return the order of columns for a terminal: the one with the longest texts at the end, where it may be cut."""
    texts = [
        at for at, dtype in enumerate(frame.dtypes) if dtype.kind not in "iufb" and frame.columns[at] not in SHARED
    ]
    lengths = {at: max(map(len, map(str, frame.iloc[:, at])), default=0) for at in texts}
    longest = max(lengths, key=lambda at: (lengths[at], at), default=-1)
    if lengths.get(longest, 0) <= SHORT_TEXT:
        return list(range(frame.shape[1]))
    return [*(at for at in range(frame.shape[1]) if at != longest), longest]


def _with_short_names(frame: pd.DataFrame) -> pd.DataFrame:
    """Shorten the names of events, but for those whose short name is another row's name."""
    columns = {name: frame[name].tolist() for name in EVENT_NAMES if name in frame}
    return frame.assign(
        **{name: [_distinct_name(value, set(values)) for value in values] for name, values in columns.items()}
    )


def _distinct_name(name: Any, names: Container[Any]) -> Any:
    """Return an event's short name, or the whole one where the short one is another's."""
    if _is_missing(name):
        return None
    return name if (short := _shortened(str(name))) in names else short


def _heading_rows(headings: Sequence[str]) -> list[list[str]]:
    """Write headings word under word, so that columns stay narrow.

    >>> _heading_rows(["rank", "idle ms", "idle %"])
    [['', 'idle', 'idle'], ['rank', 'ms', '%']]
    """
    words = [heading.split() for heading in headings]
    height = max(map(len, words), default=0)
    return [[(([""] * (height - len(own))) + own)[line] for own in words] for line in range(height)]


def _heading_of(name: str) -> str:
    """Name a column in words and with its unit.

    >>> _heading_of("idle_ns"), _heading_of("idle_share"), _heading_of("control_count")
    ('idle ms', 'idle %', 'control count')
    """
    for ending, unit in (("_ns", " ms"), ("_share", " %"), ("_gbps", " GB/s")):
        if name.endswith(ending):
            return name.removesuffix(ending).replace("_", " ") + unit
    return name.replace("_", " ")


def _cell_text(name: str, value: Any) -> str:
    """Print one value by what its column's name says it is."""
    if _is_missing(value):
        return "-"
    if name in SEQUENCES:
        return "".join(map(_shortened, ARROWS.split(str(value))))
    if name.endswith("_ns"):
        return milliseconds(int(value))
    if name.endswith("_share"):
        return percent(float(value)).removesuffix(" %")
    if isinstance(value, float):
        return f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) and name not in UNGROUPED else str(value)


def _shortened(name: str) -> str:
    """Shorten the name of an event."""
    from hta_graph.export.picture import short_name

    return short_name(name)


def _is_missing(value: Any) -> bool:
    """Tell pandas' several kinds of nothing from values."""
    import pandas as pd

    return value is None or value is pd.NA or (isinstance(value, float) and value != value)
