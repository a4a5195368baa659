"""The hardware counters of CUPTI's profiler ranges, read when someone asks for them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from typing import Any

import msgspec
import numpy as np

from hta_graph.model import EventKind, Ids
from hta_graph.trace.event_args import reread_rows
from hta_graph.trace.profiler_names import PROFILER_RANGE
from hta_graph.trace.rows import RowShape
from hta_graph.trace.table import Trace

__all__ = ["MOST_COUNTED", "ProfilerRanges", "read_profiler_ranges"]

Values = np.ndarray[Any, Any]
MOST_COUNTED = 10**15
"""What one range may count: a day of cycles of all units."""


@dataclass(frozen=True)
class ProfilerRanges:
    """Ranges in order of time: canonical rows, and the value of each counter by its name (NaN where it is absent)."""

    row: Ids
    counters: dict[str, Values]

    def __len__(self) -> int:
        return len(self.row)


class _RangeRow(msgspec.Struct, gc=False):
    cat: Any = None
    args: msgspec.Raw | Any = None


def _range_of_object(found: dict[str, Any]) -> _RangeRow:
    return _RangeRow(found.get("cat"), found.get("args"))


_RANGE_ROWS = RowShape(_RangeRow, _range_of_object)


def read_profiler_ranges(trace: Trace) -> ProfilerRanges:
    """Read the ranges from the trace's file once more; a trace without rows of unknown categories is not read.

    Raises:
        TraceError: the file is gone or has changed.
    """
    rows = np.flatnonzero(trace.events.kind == EventKind.OTHER).astype(np.int32)
    if not len(rows):
        return ProfilerRanges(rows, {})
    found, _ = reread_rows(trace, _RANGE_ROWS, rows)
    # "Other" holds every category that the graph does not know; the ranges are one of them.
    is_range = [str(row.cat).lower() == PROFILER_RANGE for row in found]
    kept = np.array(is_range, np.bool_)
    return ProfilerRanges(rows[kept], _counter_columns([_decoded_args(row.args) for row in compress(found, is_range)]))


def _decoded_args(args: Any) -> dict[str, Any]:
    decoded = msgspec.json.decode(args) if isinstance(args, msgspec.Raw) else args
    return decoded if isinstance(decoded, dict) else {}


def _counter_columns(ranges: list[dict[str, Any]]) -> dict[str, Values]:
    """Return a column per counter: every argument that is a number in some range."""
    names = dict.fromkeys(name for values in ranges for name, value in values.items() if _is_number(value))
    return {name: _number_column([values.get(name) for values in ranges]) for name in names}


def _number_column(values: list[Any]) -> Values:
    if all(type(value) is int and _is_number(value) for value in values):
        return np.array(values, np.int64)
    return np.array([float(value) if _is_number(value) else np.nan for value in values], np.float64)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= MOST_COUNTED
