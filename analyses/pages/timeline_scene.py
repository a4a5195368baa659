"""What a timeline shows: which bar stands where, the lanes as bands, the path as runs along them."""

from __future__ import annotations

from dataclasses import dataclass, fields
from html import escape

import numpy as np
from numpy.typing import NDArray

from analyses.display.terminal import clipped
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.columns import first_of_runs, last_of_runs, picked
from hta_graph.errors import UsageError
from hta_graph.graph.views import labels
from hta_graph.model import GPU_KINDS, Bools, Codes, EdgeKind, EventKind, Ids, Ints, kind_mask

__all__ = ["GROUPS", "Bars", "Floats", "Scene", "plain", "scene_of"]

Floats = NDArray[np.float64]
Texts = NDArray[np.object_]

ON_THREADS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION)

GROUPS = ("annotation", "cpu_op", "runtime", "kernel", "communication kernel", "memcpy", "memset")
"""What events are told apart by: their kinds, and kernels that communicate; a bar's group is a place in here."""

DEEPEST = 12
"""How many rows of nested events a thread has; deeper ones are left out."""

NAME_SIZE = 80
HEADER = 1.6
"""Height of a lane's head, in rows: its label and the strip along which the path runs."""
STRIP = 1.3


@dataclass(frozen=True)
class Bars:
    """Bars as columns: times in ms after the window's start; ``number`` is an event's or a segment's."""

    start: Floats
    length: Floats
    row: Floats
    group: Ints
    number: Ints
    text: Texts
    faded: Bools

    def of_group(self, group: int) -> Bars:
        """Select the bars of one colour."""
        rows = self.group == group
        return Bars(*(getattr(self, column.name)[rows] for column in fields(self)))


@dataclass(frozen=True)
class Scene:
    """What stands where: events and segments as bars, lanes as bands, the path as runs on lanes."""

    events: Bars
    segments: Bars
    lanes: list[tuple[str, float, float]]
    runs: tuple[Floats, Floats, Floats]
    height: float
    left_out: str


def scene_of(path: CriticalPath, limit: int) -> Scene:
    """Lay out the events and segments of a path's window.

    Raises:
        UsageError: the limit is below 1.
    """
    if limit < 1:
        raise UsageError(f"a timeline of at most {limit} bars shows nothing")
    rows, depth, deep = _events_in_window(path)
    kept = _longest_places(path.graph.event_table.end[rows] - path.graph.event_table.start[rows], limit)
    rows, depth, hidden = rows[kept], depth[kept], len(rows) - len(kept)
    segments, lumped = _segment_bars(path, max(limit // 4, 1))
    lanes, top = _stacked_lanes(path, rows, depth)
    counts = [(hidden, "of the shortest events"), (deep, f"events nested more than {DEEPEST} deep"), lumped]
    said = ", ".join(f"{count:,} {what}" for count, what in counts if count)
    return Scene(
        _event_bars(path, rows, top[path.graph.event_table.lane[rows]] + HEADER + depth + 0.5),
        segments,
        lanes,
        _path_on_lanes(path, top),
        lanes[-1][2] if lanes else HEADER + 1,
        f"left out: {said}" if said else "",
    )


def _events_in_window(path: CriticalPath) -> tuple[Ints, Ints, int]:
    """Return the canonical rows in the window, how deep each is nested, and how many are too deep to draw."""
    events, window = path.graph.event_table, path.window
    meets = (events.start < window.end_ns) & (events.end > window.start_ns)
    # A row of no length at the window's very edge overlaps nothing but belongs to it.
    meets |= (events.start == events.end) & (events.start >= window.start_ns) & (events.end <= window.end_ns)
    rows = np.flatnonzero(meets & kind_mask(events.kind, ON_THREADS + GPU_KINDS))
    depth = _nesting_depth(path.graph.nesting(*ON_THREADS).parent, rows)
    shown = depth < DEEPEST
    return rows[shown], depth[shown], int(np.count_nonzero(~shown))


def _nesting_depth(parent: Ids, rows: Ints) -> Ints:
    """Count the rows around each row."""
    # All rows step outwards together; a row stays where it is once nothing is around it.
    depth = np.zeros(len(rows), np.int64)
    around = parent[rows]
    while (around >= 0).any():
        depth += around >= 0
        around = np.where(around >= 0, parent[around], -1)
    return depth


def _longest_places(length: Ints, limit: int) -> Ints:
    """Return the places of the longest, in their order."""
    return np.sort(np.argsort(-length, kind="stable")[:limit])  # longest first to choose, then back in their order


def _stacked_lanes(path: CriticalPath, rows: Ints, depth: Ints) -> tuple[list[tuple[str, float, float]], Floats]:
    """Stack the lanes that have events or path, threads first; return (label, top, bottom) and the top of each lane."""
    graph = path.graph
    size = np.zeros(len(graph.lanes.labels) + 1)
    np.maximum.at(size, graph.event_table.lane[rows], depth + 1.0)
    np.maximum.at(size, path.pieces.lane[path.pieces.lane >= 0], 1.0)
    top = np.zeros(len(size))
    # 0        the strip of segments, above all lanes
    # top      a lane's label, then the line along which the path runs
    # HEADER   below that a row for each depth of nesting, until the band ends
    lanes = []
    at = HEADER + 1.5
    for lane in sorted(np.flatnonzero(size).tolist(), key=lambda lane: (bool(graph.lanes.is_stream[lane]), lane)):
        top[lane] = at
        lanes.append((graph.lanes.labels[lane], at, at + HEADER + float(size[lane]) + 0.3))
        at = lanes[-1][2] + 0.3
    return lanes, top


def _event_bars(path: CriticalPath, rows: Ints, y: Floats) -> Bars:
    """Return a bar for each event."""
    graph, events = path.graph, path.graph.event_table
    group_of = np.array([GROUPS.index(kind.label) if kind.label in GROUPS else -1 for kind in EventKind])
    group = group_of[events.kind[rows]]
    group[graph.marks.communicates[rows]] = GROUPS.index("communication kernel")
    on_path = np.zeros(len(events) + 1, np.bool_)
    on_path[path.pieces.event] = True
    start, length = _since_start(path, events.start[rows]), (events.end[rows] - events.start[rows]) / 1e6
    index = events.index[rows].astype(np.int64)
    return Bars(start, length, y, group, index, _plotly_names(path, rows) + _numbers_shown(index), ~on_path[rows])


def _segment_bars(path: CriticalPath, limit: int) -> tuple[Bars, tuple[int, str]]:
    """Return a bar a segment; of too many, one for each stretch of one class, and what that hides."""
    pieces, events = path.pieces, path.graph.event_table
    if len(pieces) > limit:
        return _class_bars(path, limit)
    edge = np.where(pieces.edge_kind >= 0, labels(EdgeKind, pieces.edge_kind), "no edge")
    index = picked(events.index, pieces.event).astype(np.int64)
    through = "<br>through " + edge + np.where(pieces.inferred, ", inferred", "")
    text = _plotly_names(path, pieces.event) + _numbers_shown(index) + through
    return _strip_bars(path, pieces.start, pieces.end, pieces.bound, index, text), (0, "")


def _class_bars(path: CriticalPath, limit: int) -> tuple[Bars, tuple[int, str]]:
    """Return a bar for each stretch of one class, the longest ones."""
    pieces = path.pieces
    first = np.flatnonzero(first_of_runs(pieces.bound))
    last = np.flatnonzero(last_of_runs(pieces.bound))
    kept = _longest_places(pieces.end[last] - pieces.start[first], limit)
    first, last = first[kept], last[kept]
    text = np.array([f"{count:,} segments" for count in (last - first + 1).tolist()], object)
    bars = _strip_bars(path, pieces.start[first], pieces.end[last], pieces.bound[first], np.full(len(first), -1), text)
    return bars, (len(pieces), "single segments of the top strip, which shows stretches of one class")


def _strip_bars(path: CriticalPath, start: Ints, end: Ints, bound: Codes, index: Ints, text: Texts) -> Bars:
    """Return bars of the strip above all lanes."""
    y, faded = np.full(len(start), HEADER + 0.1), np.zeros(len(start), np.bool_)
    return Bars(_since_start(path, start), (end - start) / 1e6, y, bound.astype(np.int64), index, text, faded)


def _numbers_shown(index: Ints) -> Texts:
    """Print the numbers of events; nothing for -1."""
    return np.array([*(f" #{number}" if number >= 0 else "" for number in index.tolist()), ""], object)[:-1]


def _plotly_names(path: CriticalPath, rows: Ints | Ids) -> Texts:
    """Return names as plotly prints them, whose text is HTML; each is shortened once."""
    graph = path.graph
    codes = picked(graph.event_table.name, rows)
    # Names repeat thousandfold: each is escaped and cut once.
    used, inverse = np.unique(codes, return_inverse=True)
    shown = ["nothing recorded" if code < 0 else plain(graph.names[code]) for code in used.tolist()]
    return np.array([*shown, ""], object)[inverse.reshape(-1)]


def plain(name: str) -> str:
    """Return a name as plotly prints it, shortened, with what HTML would read escaped."""
    return escape(clipped(name, NAME_SIZE), quote=False) or "(no name)"


def _since_start(path: CriticalPath, times: Ints) -> Floats:
    """Return times in ms after the window's start."""
    return (times - path.window.start_ns) / 1e6


def _path_on_lanes(path: CriticalPath, top: Floats) -> tuple[Floats, Floats, Floats]:
    """Return where the path stays on a lane: start and end (ms), and the height of the strip (NaN: no lane known)."""
    pieces = path.pieces
    new = np.flatnonzero(first_of_runs(pieces.lane))
    ends = np.append(pieces.start[new[1:]], pieces.end[-1:])
    height = np.where(pieces.lane[new] >= 0, top[pieces.lane[new]] + STRIP, np.nan)
    return _since_start(path, pieces.start[new]), _since_start(path, ends), height
