"""What a timeline shows: lanes, the tracks in them, and the bars of events and of paths on these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import first_of_runs, take_or
from hta_graph.model import Bools, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.event_bars import BAR_GROUPS, event_bars
from hta_graph.paths.level_of_detail import (
    busiest_lanes,
    lane_order,
    ranks_on_paths,
    rows_between,
    tracks_on_lanes,
)
from hta_graph.paths.merged_bars import TimelineBars, merge_to_limit

__all__ = ["Lane", "Scene", "scene_of"]

ON_LANES = BAR_GROUPS.index("path")

DEEPEST = 12
"""How many tracks a lane has at most; what is nested deeper is left out."""
MOST_RANKS = 8
"""Of how many ranks a page of a job shows the lanes."""
MOST_LANES = 1_000
"""How many threads and streams a page shows: more of them no one looks at, and their labels alone fill it."""


@dataclass(frozen=True)
class Lane:
    """A thread or stream: its label, and how many tracks its events need."""

    label: str
    depth: int


@dataclass(frozen=True)
class Scene:
    """Lanes from top to bottom and the bars on their tracks.

    Of n paths the first n tracks are the strips of their classes; then each lane has n tracks for where the paths run,
    and one for each depth of nesting. ``resolution_ns`` is the length below which bars are merged (0: none is);
    ``rows`` is how many events and segments the bars stand for, ``too_deep`` how many events are left out, ``ranks``
    which ranks of a job are shown, ``lanes_left`` how many of their lanes are not.
    """

    paths: Sequence[CriticalPath]
    lanes: list[Lane]
    bars: TimelineBars
    resolution_ns: int
    rows: int
    too_deep: int
    ranks: Sequence[int]
    lanes_left: int = 0


def scene_of(paths: Sequence[CriticalPath], limit: int) -> Scene:
    """Lay out the events of the paths' windows, with at most about ``limit`` bars."""
    graph = paths[0].graph
    start, end = min(path.window.start_ns for path in paths), max(path.window.end_ns for path in paths)
    parts = ranks_on_paths(paths, MOST_RANKS)
    rows = rows_between(graph, start, end)
    shown_lanes, lanes_left = busiest_lanes(paths, rows, parts, MOST_LANES)
    rows = rows[shown_lanes[graph.event_table.lane[rows]]]
    depth = tracks_on_lanes(graph, rows, DEEPEST)
    shown = depth < DEEPEST
    kept, depth = rows[shown], depth[shown]
    lanes, first_track = _stacked_lanes(paths, kept, depth, shown_lanes)
    bars = [event_bars(paths, kept, first_track[graph.event_table.lane[kept]] + len(paths) + depth)]
    for number, path in enumerate(paths):
        bars += [_class_bars(path, number), _lane_bars(path, first_track + number, shown_lanes)]
    every = TimelineBars.join(bars).in_order()
    merged, resolution = merge_to_limit(every, limit)
    ranks = [graph.parts[part].rank for part in parts]
    return Scene(paths, lanes, merged, resolution, int(every.count.sum()), len(rows) - len(kept), ranks, lanes_left)


def _stacked_lanes(paths: Sequence[CriticalPath], rows: Ints, depth: Ints, shown: Bools) -> tuple[list[Lane], Ints]:
    """Stack the lanes that have events or path, rank by rank, threads first; return also each lane's first track."""
    graph = paths[0].graph
    size = np.zeros(len(graph.lanes.labels), np.int64)
    np.maximum.at(size, graph.event_table.lane[rows], depth + 1)
    for path in paths:
        np.maximum.at(size, path.pieces.lane[path.pieces.lane >= 0], 1)
    size[~shown] = 0
    first, at, lanes = np.zeros(len(size) + 1, np.int64), len(paths), []
    ranks, part = graph.parts, graph.rank_index_of_lane
    order = lane_order(graph)
    for lane in order[size[order] > 0].tolist():
        first[lane] = at
        of_rank = f"rank {ranks[part[lane]].rank}: " if len(ranks) > 1 else ""
        lanes.append(Lane(of_rank + graph.lanes.labels[lane], int(size[lane])))
        at += len(paths) + int(size[lane])
    return lanes, first


def _class_bars(path: CriticalPath, track: int) -> TimelineBars:
    """Return the path's runs of equal class and stack, coloured by class."""
    runs, events = path.runs, path.graph.event_table
    return TimelineBars.of(track=np.full(len(runs), track), group=runs.bound, on_path=True, start=runs.start,
                           end=runs.end, busy=runs.length, count=runs.segments, name=take_or(events.name, runs.event),
                           index=take_or(events.index, runs.event))  # fmt: skip


def _lane_bars(path: CriticalPath, track: Ints, shown: Bools) -> TimelineBars:
    """Return where the path stays on a lane that is shown."""
    pieces = path.pieces
    first = np.flatnonzero(first_of_runs(pieces.lane))
    end = np.append(pieces.start[first[1:]], pieces.end[-1:])
    start, lane = pieces.start[first], pieces.lane[first]
    bars = TimelineBars.of(track=track[lane], group=np.full(len(first), ON_LANES), on_path=True, start=start, end=end,
                           busy=end - start, count=1, name=-1, index=-1)  # fmt: skip
    return bars.take((lane >= 0) & shown[lane])
