"""The path as strips of its classes, as fine as the eye sees: one above all lanes, one on each lane that it runs on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, distinct, first_of_runs, last_of_runs
from hta_graph.model import Bools, Codes, Floats, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.pieces import SegmentTable

__all__ = ["PathStrips", "LaneChanges", "lane_strip", "lane_changes", "window_strip"]

MIN_CELL_SHARE = 0.25
"""Of a cell so much must be path on a lane for the lane's strip to show it."""


@dataclass(frozen=True, eq=False)
class PathStrips(Columns):
    """Runs of cells in which one class takes most of the path; ``first`` and ``last`` are cells, both included."""

    first: Ints
    last: Ints
    bound: Codes


@dataclass(frozen=True, eq=False)
class LaneChanges(Columns):
    """Where the path goes from one lane to another: the cell, both lanes, and the shorter stretch beside it (ns)."""

    cell: Ints
    before: Ids
    after: Ids
    beside: Ints


def window_strip(path: CriticalPath, cells: int) -> PathStrips:
    """Return the classes of the whole window, cut into so many cells."""
    return _strips_of(path, path.pieces, cells, 0.0)


def lane_strip(path: CriticalPath, lane: int, cells: int) -> PathStrips:
    """Return the classes of the path where it runs on a lane."""
    return _strips_of(path, path.pieces.take(path.pieces.lane == lane), cells, MIN_CELL_SHARE)


def _strips_of(path: CriticalPath, pieces: SegmentTable, cells: int, least: float) -> PathStrips:
    """Give each cell its longest class, and join equal neighbours; cells that hold less than a share stay empty."""
    used = distinct(pieces.bound)
    if not len(used):
        return PathStrips.empty()
    # From the window's start on: of absolute times floats would lose a quarter of a microsecond.
    borders = np.linspace(0.0, float(max(path.length_ns, 1)), cells + 1)
    own = [pieces.take(pieces.bound == bound) for bound in used]
    time = np.stack([_time_in_cells(part, path.window.start_ns, borders) for part in own])
    longest = used[time.argmax(axis=0)]
    shown = time.sum(axis=0) > least * np.diff(borders)
    bound = np.where(shown, longest, -1)
    first, last = np.flatnonzero(first_of_runs(bound)), np.flatnonzero(last_of_runs(bound))
    every = PathStrips.of(first=first, last=last, bound=bound[first])
    return every.take(every.bound >= 0)


def _time_in_cells(pieces: SegmentTable, start_ns: int, borders: Floats) -> Floats:
    """Return how long stretches that do not overlap last in each cell."""
    ends = (np.stack([pieces.start, pieces.end], axis=1).ravel() - start_ns).astype(np.float64)
    passed = np.repeat(np.concatenate([[0], np.cumsum(pieces.length)]), 2)[1:-1].astype(np.float64)
    found: Floats = np.diff(np.interp(borders, ends, passed))
    return found


def lane_changes(path: CriticalPath, shown: Bools, cells: int) -> LaneChanges:
    """Return where the path goes from lane to lane, once for each cell and pair of lanes that are shown."""
    pieces = path.pieces
    at = np.flatnonzero(pieces.lane[1:] != pieces.lane[:-1])
    before, after = pieces.lane[at], pieces.lane[at + 1]
    drawn = (before >= 0) & (after >= 0) & shown[before] & shown[after]
    at, before, after = at[drawn], before[drawn], after[drawn]
    cell = (pieces.end[at] - path.window.start_ns) * cells // max(path.length_ns, 1)
    beside = np.minimum(pieces.length[at], pieces.length[at + 1])
    every = LaneChanges.of(cell=cell, before=before, after=after, beside=beside)
    order = np.lexsort((-every.beside, every.after, every.before, every.cell))
    every = every.take(order)
    return every.take(first_of_runs(every.cell, every.before, every.after)) if len(every) else every
