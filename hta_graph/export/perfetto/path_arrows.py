"""Which runs of a path an overlay joins to their events by arrows, and what of both a viewer draws."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.arrays import first_of_runs, take_or
from hta_graph.export.perfetto.append_events import rounded_by_viewer
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.trace.table import EventTable

__all__ = ["is_visible", "runs_before_crossings", "runs_with_arrows"]

LONG_RUN_SHARE = 0.01
"""A run of at least this share of the window gets an arrow even where the path stays on its lane."""


def runs_with_arrows(path: CriticalPath, base_ns: int) -> Ints:
    """Return the runs that deserve an arrow and whose event a viewer draws, the longest first."""
    runs, events = path.runs, path.graph.event_table
    if not len(runs) or not len(events):
        return np.empty(0, np.int64)
    lane = take_or(events.lane, runs.event)
    # An arrow tells where the path comes from: needed where it changes lanes, helpful where it stays long.
    deserving = first_of_runs(lane) | (runs.length >= LONG_RUN_SHARE * path.length_ns)
    wanted = np.flatnonzero((lane >= 0) & deserving & is_visible(runs.start, runs.end, base_ns))
    drawn_on = _viewer_lanes(path.graph)
    lanes = np.unique(drawn_on[runs.event[wanted]])
    wanted = wanted[_is_nested(events, drawn_on, base_ns, lanes)[runs.event[wanted]]]
    return wanted[np.argsort(-runs.length[wanted], kind="stable")]


def runs_before_crossings(path: CriticalPath, base_ns: int) -> Ints:
    """Return the runs after which the path goes on at another rank, where a viewer draws both; the longest first."""
    runs = path.runs
    visible = is_visible(runs.start, runs.end, base_ns)
    crossing = np.flatnonzero((runs.part[1:] != runs.part[:-1]) & visible[1:] & visible[:-1])
    return crossing[np.argsort(-runs.length[crossing], kind="stable")]


def _viewer_lanes(graph: DependencyGraph) -> Ids:
    """Return the lane on which each event is drawn: what a thread does with other ranks lies among its other rows."""
    lanes = [part.graph.event_table.lane + part.first_lane for part in graph.parts]
    missing = len(graph.event_table) - sum(map(len, lanes))
    return np.concatenate([*lanes, np.full(missing, -1)]).astype(np.int32)


def _is_nested(events: EventTable, drawn_on: Ids, base_ns: int, lanes: Ids) -> Bools:
    """Mark the events on some lanes that nest; a viewer drops or moves a slice that outlives the one it starts in."""
    start = rounded_by_viewer(events.start - base_ns)
    end = start + (events.end - events.start)
    drawn = np.zeros(len(events), np.bool_)
    for lane in lanes.tolist():
        rows = np.flatnonzero(drawn_on == lane)
        rows = rows[np.lexsort((-end[rows], start[rows]))]
        drawn[rows] = list(_ends_inside(start[rows].tolist(), end[rows].tolist()))
    return drawn


def _ends_inside(starts: list[int], ends: list[int]) -> Iterator[bool]:
    """Say of slices in order of time whether each ends before the one that it starts in.

    >>> list(_ends_inside([0, 1, 2, 9], [10, 5, 7, 10]))
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


def is_visible(start: Ints, end: Ints, base_ns: int) -> Bools:
    """Mark the slices that keep a length in a viewer's clock."""
    return np.asarray(rounded_by_viewer(start - base_ns) < rounded_by_viewer(end - base_ns))
