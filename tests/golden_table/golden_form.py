"""Answers in the form of the golden files, so that they can be compared value by value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from tests.golden_table.golden_files import POSITION

__all__ = ["TOLERANCE", "Range", "between", "difference", "encoded", "highest"]

ROWS_IN_FULL, BYTES_IN_FULL = 2_000, 1_000_000
ENDS = 20
SYMBOLS = {"name", "cat", "user_annotation"}
"""Columns that hold numbers of symbols where a column ``s_…`` holds the text; these differ from run to run."""
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Range:
    """A number of which only bounds are known."""

    low: float
    high: float

    def __add__(self, other: Any) -> Range:
        more = other if isinstance(other, Range) else Range(other, other)
        return Range(self.low + more.low, self.high + more.high)

    __radd__ = __add__


def between(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    """Return a frame that holds the range between two frames of the same shape where they differ."""
    found = one.astype(object)
    for column in one:
        pairs = zip(one[column], other[column], strict=True)
        found[column] = [low if low == high else Range(min(low, high), max(low, high)) for low, high in pairs]
    found.attrs = one.attrs
    return found


def highest(values: list[Any]) -> Any:
    """Return the largest of numbers and ranges."""
    if not any(isinstance(value, Range) for value in values):
        return max(values)
    ranges = [value if isinstance(value, Range) else Range(value, value) for value in values]
    return Range(max(one.low for one in ranges), max(one.high for one in ranges))


def encoded(value: Any) -> Any:
    """Return a value in the form of the golden files.

    Frames may say in ``attrs``: ``unordered``, their rows may stand in any order; ``zero``, rows in which that column
    is 0 may be absent; ``some``, other columns are not compared.
    """
    if value is None:
        return {"kind": "none"}
    if isinstance(value, pd.DataFrame):
        return _frame(value)
    if isinstance(value, Mapping) and all(isinstance(item, pd.DataFrame) for item in value.values()):
        return {"kind": "dict", "items": {str(key): encoded(item) for key, item in value.items()}}
    if isinstance(value, tuple) or (isinstance(value, list) and value and isinstance(value[0], pd.DataFrame)):
        return {"kind": "tuple", "items": [encoded(item) for item in value]}
    return {"kind": "value", "value": _plain(value)}


def _frame(frame: pd.DataFrame) -> dict[str, Any]:
    indexed = frame.reset_index() if _has_index(frame) else frame
    names = [f"index:{name}" for name in _index_names(frame)] if _has_index(frame) else []
    columns = names + ["|".join(map(str, column)) if isinstance(column, tuple) else str(column) for column in frame]
    rows = [[_plain(cell) for cell in row] for row in indexed.astype(object).to_numpy().tolist()]
    listed = {"columns": columns, "rows": rows, **frame.attrs}
    if len(rows) <= ROWS_IN_FULL and len(json.dumps(rows, default=str)) <= BYTES_IN_FULL:
        return {"kind": "frame", **listed}
    ends = {"rows_total": len(rows), "head": rows[:ENDS], "tail": rows[-ENDS:]}
    return {"kind": "frame_summary", **listed, **ends, "numeric": _summed(columns, rows)}


def _has_index(frame: pd.DataFrame) -> bool:
    return frame.index.nlevels > 1 or frame.index.name is not None


def _index_names(frame: pd.DataFrame) -> list[str]:
    return [str(at) if name is None else str(name) for at, name in enumerate(frame.index.names)]


def _plain(value: Any) -> Any:
    if type(value) in (int, str):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | np.ndarray):
        return [_plain(item) for item in value]
    if value is pd.NA or (isinstance(value, float | np.floating) and not math.isfinite(value)):
        return None
    return value.item() if isinstance(value, np.generic) else value


def _summed(columns: list[str], rows: list[list[Any]]) -> dict[str, Any]:
    return {name: _of_column([row[at] for row in rows]) for at, name in enumerate(columns)}


def _of_column(values: list[Any]) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    if any(isinstance(value, Range) for value in known):
        return {"count": len(values), "nan": len(values) - len(known), "sum": sum(known, Range(0, 0))}
    if all(isinstance(value, int | float) for value in known):
        ends = {"min": min(known), "max": max(known)} if known else {"min": None, "max": None}
        return {"count": len(values), "nan": len(values) - len(known), "sum": math.fsum(known), **ends}
    return {"count": len(values), "nunique": len({json.dumps(value) for value in known})}


def difference(theirs: Any, ours: Any, slack: float = TOLERANCE) -> str:
    """Say where two encoded answers differ first; empty if they agree, numbers but for some slack."""
    if _is_empty(theirs) and _is_empty(ours):
        return ""
    kind = theirs["kind"]
    if ours.get("some"):
        theirs = _some(theirs, ours["columns"])
    if theirs.get("some"):
        ours = _some(ours, theirs["columns"])
    if {kind, ours["kind"]} == {"frame", "frame_summary"}:
        return _columns(theirs, ours) or f"{_count(theirs)} rows and {_count(ours)}"
    if kind != ours["kind"]:
        return f"a {kind} and a {ours['kind']}"
    if kind == "frame":
        return _columns(theirs, ours) or _rows(ours, _listed(theirs, ours), _listed(ours, ours), slack)
    if kind == "frame_summary":
        return _columns(theirs, ours) or _summaries(theirs, ours, slack)
    if kind in ("dict", "tuple"):
        return _parts(theirs["items"], ours["items"], slack)
    return "" if kind == "none" else _values("", theirs["value"], ours["value"], slack)


def _some(part: dict[str, Any], columns: list[str]) -> dict[str, Any]:
    """Return the columns of a frame that are compared."""
    at = [part["columns"].index(name) for name in columns if name in part["columns"]]
    chosen = [part["columns"][place] for place in at]
    return part | {"columns": chosen, "rows": [[row[place] for place in at] for row in part["rows"]]}


def _is_empty(part: dict[str, Any]) -> bool:
    """Say whether there is nothing in an answer: HTA's empty frames have no columns, its empty lists no kind."""
    return part["kind"] != "tuple" and not any(part.get(key) for key in ("rows", "items", "value", "rows_total"))


def _count(part: dict[str, Any]) -> int:
    return int(part.get("rows_total", len(part["rows"])))


def _listed(part: dict[str, Any], how: dict[str, Any]) -> list[list[Any]]:
    """Return the rows that are compared, in the order in which they are."""
    rows = part["rows"]
    if "zero" in how:
        at = how["columns"].index(how["zero"])
        rows = [row for row in rows if row[at]]
    return sorted(rows, key=_sort_key) if how.get("unordered") else rows


def _sort_key(row: list[Any]) -> list[str]:
    return [f"{value:.3f}" if isinstance(value, float) else str(value) for value in row if not isinstance(value, Range)]


def _items(part: dict[str, Any]) -> Any:
    return part.get("items", part.get("value"))


def _parts(theirs: Any, ours: Any, slack: float) -> str:
    if len(theirs) != len(ours) or (isinstance(theirs, dict) and set(theirs) != set(ours)):
        return f"parts {list(theirs) if isinstance(theirs, dict) else len(theirs)} and {len(ours)}"
    keys = theirs if isinstance(theirs, dict) else range(len(theirs))
    return next((f"{key}: {text}" for key in keys if (text := difference(theirs[key], ours[key], slack))), "")


def _columns(theirs: dict[str, Any], ours: dict[str, Any]) -> str:
    return "" if theirs["columns"] == ours["columns"] else f"columns {theirs['columns']} and {ours['columns']}"


def _rows(frame: dict[str, Any], theirs: list[list[Any]], ours: list[list[Any]], slack: float) -> str:
    columns = frame["columns"]
    if len(theirs) != len(ours):
        return f"{len(theirs)} rows and {len(ours)}"
    compared = [at for at, name in enumerate(columns) if not (name in SYMBOLS and f"s_{name}" in columns)]
    for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
        for at in compared:
            if not _equal(one[at], other[at], slack):
                return f"row {number}, {columns[at]}: {str(one[at])[:60]} and {str(other[at])[:60]}"
    return ""


def _summaries(theirs: dict[str, Any], ours: dict[str, Any], slack: float) -> str:
    if theirs["rows_total"] != ours["rows_total"]:
        return f"{theirs['rows_total']} rows and {ours['rows_total']}"
    for name, numbers in theirs["numeric"].items():
        if name == POSITION or (name in SYMBOLS and f"s_{name}" in theirs["columns"]):
            continue
        for key in numbers.keys() & ours["numeric"][name].keys():
            if not _equal(numbers[key], ours["numeric"][name][key], slack * max(len(ours["rows"]), 1)):
                return f"{key} of {name}: {numbers[key]} and {ours['numeric'][name][key]}"
    if ours.get("unordered"):
        return ""
    return _rows(ours, theirs["head"] + theirs["tail"], ours["head"] + ours["tail"], slack)


def _values(where: str, theirs: Any, ours: Any, slack: float) -> str:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if set(theirs) != set(ours):
            return f"{where} keys {sorted(set(theirs) ^ set(ours))[:4]}"
        return next((text for key in theirs if (text := _values(f"{where} {key}", theirs[key], ours[key], slack))), "")
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = enumerate(zip(theirs, ours, strict=True))
        return next((text for at, pair in pairs if (text := _values(f"{where} {at}", *pair, slack))), "")
    return "" if _equal(theirs, ours, slack) else f"{where} {str(theirs)[:80]} and {str(ours)[:80]}".strip()


def _equal(one: Any, other: Any, slack: float) -> bool:
    if isinstance(other, Range):
        return other.low - slack <= (one or 0.0) <= other.high + slack
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_equal(*pair, slack) for pair in zip(one, other, strict=True))
    if _is_number(one) and _is_number(other):
        return math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=slack)
    return bool(one == other) or (one in (None, "") and other in (None, ""))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
