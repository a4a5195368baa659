"""Where the rows of a report's tables lead: the place in its timeline, which shows one rank."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.report.page_tables import ROWS
from analyses.scope import Scope
from hta_graph.arrays import pair_key, take_or
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import CriticalPath

if TYPE_CHECKING:
    from analyses.report.timeline import TimelinePage

__all__ = ["collective_links", "event_links", "gap_links", "longest_segments", "longest_run_links", "time_range_links"]


def time_range_links(frame: pd.DataFrame, rank: int, timeline: TimelinePage) -> list[str]:
    """Link rows with rank, start_ns and end_ns; those of other ranks lead nowhere."""
    columns = (frame[name].tolist() for name in ("rank", "start_ns", "end_ns"))
    return [timeline.link(start, end) if of == rank else "" for of, start, end in zip(*columns, strict=True)]


def longest_segments(path: CriticalPath, totals: Mapping[str, Any], timeline: TimelinePage) -> list[str]:
    """Link the first of a path's sums over names and classes, by its columns, to the longest segment in each."""
    pieces, events = path.pieces, path.graph.event_table
    order = np.argsort(-pieces.length, kind="stable")[::-1]
    key = pair_key(take_or(events.name, pieces.event), pieces.bound.astype(np.int64))[order]
    # What comes later takes the place of what came before: the longest stays, of equals the first in time.
    longest = dict(zip(key.tolist(), order.tolist(), strict=True))
    names = [None if code < 0 else path.graph.names[code] for code in (number >> 32 for number in longest)]
    bounds = [BoundBy(number & 0xFFFFFFFF).label for number in longest]
    piece = dict(zip(zip(names, bounds, strict=True), longest.values(), strict=True))
    rows = [piece[found] for found in zip(totals["name"][:ROWS], totals["bound_by"][:ROWS], strict=True)]
    indices = take_or(events.index, pieces.event[rows]).tolist()
    return [
        timeline.link(int(pieces.start[row]), int(pieces.end[row]), index if index >= 0 else None)
        for row, index in zip(rows, indices, strict=True)
    ]


def gap_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link the longest idle gaps."""
    frame = found.tables["longest_gaps"]
    start = scope.start_ns + frame["offset_ns"]
    return time_range_links(frame.assign(start_ns=start, end_ns=start + frame["idle_ns"]), scope.rank, timeline)


def event_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link exposed communication kernels by their event numbers."""
    frame = found.tables["most_exposed"]
    rows = _rows_by_index(scope)
    return [
        _event_link(scope, timeline, rows.get(index, -1) if rank == scope.rank else -1)
        for rank, index in zip(frame["rank"].tolist(), frame["event_index"].tolist(), strict=True)
    ]


def longest_run_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link the names of kernels to their longest runs."""
    table, work = scope.graph.event_table, scope.work
    order = np.argsort(work.start - work.end, kind="stable")[::-1]
    # What comes later takes the place of what came before: the longest stays, of equals the first in time.
    longest = dict(zip(table.name[work.row[order]].tolist(), work.row[order].tolist(), strict=True))
    by_name = {scope.graph.names[code]: row for code, row in longest.items()}
    return [_event_link(scope, timeline, by_name.get(name, -1)) for name in found.tables["kernels"]["kernel"]]


def collective_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link collectives to this rank's kernel in each."""
    members = found.series["members"]
    own = members[(members["rank"] == scope.rank) & members["number"].notna()]
    index = dict(zip(own["number"].tolist(), own["event_index"].tolist(), strict=True))
    rows = _rows_by_index(scope)
    numbers = found.tables["collectives"]["number"].tolist()
    return [_event_link(scope, timeline, rows.get(index.get(number, -1), -1)) for number in numbers]


def _rows_by_index(scope: Scope) -> dict[int, int]:
    """Return the canonical row of each event number of a scope's running work."""
    return dict(zip(scope.graph.event_table.index[scope.running.row].tolist(), scope.running.row.tolist(), strict=True))


def _event_link(scope: Scope, timeline: TimelinePage, row: int) -> str:
    """Link an event by its canonical row; -1 leads nowhere."""
    if row < 0:
        return ""
    table = scope.graph.event_table
    return timeline.link(int(table.start[row]), int(table.end[row]), int(table.index[row]))
