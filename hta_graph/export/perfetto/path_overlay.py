"""A trace with its critical path on top, for Perfetto and other viewers of Chrome's format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import orjson

from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.columns import first_of_runs, picked
from hta_graph.export.files import check_output, write_file
from hta_graph.export.perfetto.appended import (
    Original,
    OriginalRow,
    as_seen,
    free_numbers,
    gzipped,
    integers_in,
    microseconds,
    read_original,
)
from hta_graph.model import Bools, Ids, Ints, edge_kinds
from hta_graph.trace.table import EventTable

__all__ = ["ARROW_LIMIT", "OverlayCounts", "overlay_bytes", "write_overlay"]

ARROW_LIMIT = 500
"""Most arrows of one overlay; where more are wanted, those at the longest segments are drawn."""
LARGE_SHARE = 0.01
"""A segment of at least this share of the window gets an arrow even where the path stays on its lane."""
FIRST_PID = 1_000_000
"""Where the search for a free process id begins: far from device numbers."""
NAME_LIMIT = 60
PROCESS = "Critical path"
CATEGORY = "critical_path"
WORK = [kind.label for kind in edge_kinds(lambda meaning: meaning.lag is None)]
"""Edges on which somebody works; time on the others is a lag."""

Record = dict[str, Any]


@dataclass(frozen=True)
class OverlayCounts:
    """What an overlay holds: slices of the path, arrows, and the arrows that the limit left out."""

    segments: int
    arrows: int
    arrows_left_out: int


def overlay_bytes(path: CriticalPath, *, arrows: int = ARROW_LIMIT) -> bytes:
    """Return the path's trace as JSON with the path's rows behind its own, which stay as they are.

    A process of its own, on top, gets one slice (a ``B`` and an ``E`` row) per segment. Arrows join segments to the
    events that own them where the path changes lanes and at segments of at least 1 % of the window.

    Args:
        path: the critical path; its trace's file is read again.
        arrows: draw at most so many arrows, those at the longest segments.

    Raises:
        TraceError: the file is gone or has changed.
    """
    original, writer, _ = _start_overlay(path, arrows)
    return b"".join(original.with_rows(writer.lines()))


def write_overlay(path: CriticalPath, target: str | Path, *, arrows: int = ARROW_LIMIT) -> OverlayCounts:
    """Write :func:`overlay_bytes` to a file; gzip if its name ends in ``.gz``.

    Raises:
        TraceError: the trace's file is gone or has changed.
        OutputError: the file cannot be written or is the trace itself.
    """
    check_output(target, [path.graph.trace.path])
    original, writer, counts = _start_overlay(path, arrows)
    content = original.with_rows(writer.lines())
    write_file(target, gzipped(content) if str(target).endswith(".gz") else content)
    return counts


def _start_overlay(path: CriticalPath, limit: int) -> tuple[Original, _PathWriter, OverlayCounts]:
    original = read_original(path.graph.trace)
    wanted = _segments_with_arrows(path, original.base_ns)
    writer = _PathWriter(path, original, wanted[: max(limit, 0)])
    counts = OverlayCounts(len(path.pieces), len(writer.arrow_ids), len(wanted) - len(writer.arrow_ids))
    return original, writer, counts


# -- which segments get an arrow --------------------------------------------------------------------------------------


def _segments_with_arrows(path: CriticalPath, base_ns: int) -> Ints:
    """Return the segments that deserve an arrow and whose event a viewer draws, the longest first."""
    pieces, events = path.pieces, path.graph.event_table
    if not len(pieces) or not len(events):
        return np.empty(0, np.int64)
    length = pieces.length
    lane = picked(events.lane, pieces.event)
    # An arrow tells where the path comes from: needed where it changes lanes, helpful where it stays long.
    changes = first_of_runs(lane)
    deserving = changes | (length >= LARGE_SHARE * path.length_ns)
    wanted = np.flatnonzero((lane >= 0) & deserving & _is_visible(path, base_ns))
    wanted = wanted[_drawn_whole(path.graph.event_table, base_ns, np.unique(lane[wanted]))[pieces.event[wanted]]]
    return wanted[np.argsort(-length[wanted], kind="stable")]


def _drawn_whole(events: EventTable, base_ns: int, lanes: Ids) -> Bools:
    """Mark the events on some lanes that nest; a viewer drops or moves a slice that outlives the one it starts in."""
    start = as_seen(events.start - base_ns)
    end = start + (events.end - events.start)
    drawn = np.zeros(len(events), np.bool_)
    for lane in lanes.tolist():
        rows = np.flatnonzero(events.lane == lane)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        drawn[rows] = list(_nests_in_open(start[rows].tolist(), end[rows].tolist()))
    return drawn


def _nests_in_open(starts: list[int], ends: list[int]) -> Iterator[bool]:
    """Say of slices in order of time whether each ends before the one that it starts in.

    >>> list(_nests_in_open([0, 1, 2, 9], [10, 5, 7, 10]))
    [True, True, False, True]
    """
    open_ends: list[int] = []
    for start, end in zip(starts, ends, strict=True):
        while open_ends and open_ends[-1] <= start:
            open_ends.pop()
        nests = not open_ends or end <= open_ends[-1]
        if nests:
            open_ends.append(end)
        yield nests


def _is_visible(path: CriticalPath, base_ns: int) -> Bools:
    """Mark the segments that keep a length in a viewer's clock."""
    pieces = path.pieces
    return np.asarray(as_seen(pieces.start - base_ns) < as_seen(pieces.end - base_ns))


# -- the rows of the overlay ------------------------------------------------------------------------------------------


class _PathWriter:
    """Makes the rows of one path.

    A slice is a begin and an end row, so that slices tile however a viewer rounds; one that it would round to nothing
    is an instant, since viewers sort ends before begins.
    """

    def __init__(self, path: CriticalPath, original: Original, with_arrow: Ints) -> None:
        self.path = path
        self.original = original
        free = free_numbers(integers_in(row.pid for row in original.rows), FIRST_PID)
        self.place = {"pid": next(free), "tid": (path.graph.rank or 0) + 1}
        ids = free_numbers(integers_in(row.id for row in original.rows if row.id is not None), 1)
        self.arrow_ids = dict(zip(with_arrow.tolist(), ids, strict=False))

    def lines(self) -> Iterator[str]:
        """Yield the process's names and order, then slice by slice with its arrow while it is open."""
        yield from self._track_names()
        # A path of a million segments repeats a few thousand descriptions; each is encoded once.
        described = cache(_shared_description)
        place = _json_text(self.place)[1:-1]
        columns = self.path.segment_columns()
        visible = _is_visible(self.path, self.original.base_ns).tolist()
        varying = zip(visible, *(columns[key].tolist() for key in ("start_ns", "end_ns", "event_index")), strict=True)
        repeated = zip(*(columns[key].tolist() for key in _REPEATED), strict=True)
        for segment, ((is_visible, start_ns, end_ns, index), rest) in enumerate(zip(varying, repeated, strict=True)):
            event = "" if index is None else f',"event_index":{index}'
            phase = '"B"' if is_visible else '"i","s":"t"'
            length = f"{described(*rest)}{end_ns - start_ns}{event}}}}}"
            yield f'{{"ph":{phase},{place},"ts":{self._printed_time(start_ns)},{length}'
            if segment in self.arrow_ids:
                yield from self._arrow_records(segment)
            if is_visible:
                yield f'{{"ph":"E",{place},"ts":{self._printed_time(end_ns)}}}'

    def _track_names(self) -> Iterator[str]:
        window, rank = self.path.window, self.path.graph.rank
        lane = window.label if rank is None else f"rank {rank}: {window.label}"
        # Above everything that the trace has sorted to the top.
        first = min(chain([0], _sort_indices(self.original.rows))) - 1
        for name, value in (
            ("process_name", {"name": PROCESS}),
            ("process_sort_index", {"sort_index": first}),
            ("thread_name", {"name": _shortened_name(lane)}),
            ("thread_sort_index", {"sort_index": self.place["tid"]}),
        ):
            ts = orjson.Fragment(self._printed_time(window.start_ns))
            yield _json_text({"ph": "M", **self.place, "ts": ts, "name": name, "args": value})

    def _arrow_records(self, segment: int) -> Iterator[str]:
        """Yield an arrow between a segment and its event, from the earlier start to the later one.

        At its start a slice is the topmost one of its track; a record inside it would bind to a child that is over.
        """
        events, event = self.path.graph.event_table, self.path.pieces.event[segment]
        row = self.original.rows[events.index[event]]
        place = {key: value for key, value in (("pid", row.pid), ("tid", row.tid)) if value is not None}
        ends = [(int(self.path.pieces.start[segment]), self.place), (int(events.start[event]), place)]
        phases: list[Record] = [{"ph": "s"}, {"ph": "f", "bp": "e"}]
        arrow = {"id": self.arrow_ids[segment], "cat": CATEGORY, "name": CATEGORY}
        for phase, (time_ns, where) in zip(phases, sorted(ends, key=lambda end: end[0]), strict=True):
            yield _json_text(phase | arrow | where | {"ts": orjson.Fragment(self._printed_time(time_ns))})

    def _printed_time(self, time_ns: int) -> str:
        return microseconds(time_ns - self.original.base_ns)


_REPEATED = {
    "bound_by": "bound_by",
    "name": "event",
    "edge": "edge",
    "evidence": "evidence",
    "lane": "lane",
    "carried_over": "carried_over",
}
"""The columns of which many segments share the same values, and what a viewer calls them."""


def _shared_description(*values: Any) -> str:
    """Return the text of what segments share, up to the place of the length."""
    known = dict(zip(_REPEATED.values(), values, strict=True))
    arguments: Record = {key: value for key, value in known.items() if value is not None}
    arguments["duration_ns" if known["edge"] in WORK else "lag_ns"] = 0
    title = ": ".join([known["bound_by"], *([_shortened_name(known["event"])] if known["event"] else [])])
    return _json_text({"cat": CATEGORY, "name": title, "args": arguments})[1:].removesuffix("0}}")


def _json_text(value: Record) -> str:
    return orjson.dumps(value).decode()


def _shortened_name(name: str) -> str:
    return name if len(name) <= NAME_LIMIT else name[: NAME_LIMIT - 1] + "…"


def _sort_indices(rows: list[OriginalRow]) -> Iterator[int]:
    for row in rows:
        if row.ph == "M":
            arguments = msgspec.json.decode(row.args)
            index = arguments.get("sort_index") if isinstance(arguments, dict) else None
            if isinstance(index, int):
                yield index
