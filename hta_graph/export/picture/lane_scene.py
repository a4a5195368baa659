"""What a picture of lanes shows: lanes from top to bottom, the bars on them, and arrows."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hta_graph.export.picture.lane_layout import LaneArrows, arrows_between_lanes, arrows_of_kinds
from hta_graph.export.picture.short_names import format_duration, short_label
from hta_graph.model import Bools, EdgeKind, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.event_bars import event_bars
from hta_graph.paths.level_of_detail import (
    busiest_lanes,
    lane_order,
    ranks_on_paths,
    rows_between,
    tracks_on_lanes,
)
from hta_graph.paths.merged_bars import TimelineBars, merge_to_limit

__all__ = ["MAX_TRACKS", "LaneScene", "lane_label", "lane_scene"]

MAX_TRACKS = 3
"""How deep a lane shows what is nested; what lies deeper is drawn on the last of them, on top of what is around it."""
MOST_RANKS, MOST_LANES, MOST_BARS, MOST_ARROWS = 4, 12, 600, 60


@dataclass(frozen=True)
class LaneScene:
    """The lanes by their codes and how many tracks each has; bars on track ``TRACKS * lane + depth``; arrows.

    ``depth`` is the track of each row of the graph in its lane (-1: it is not drawn). ``resolution_ns`` is the length
    below which bars are merged (0: none is), ``rows`` how many events the bars stand for.
    """

    path: CriticalPath
    lanes: list[int]
    tracks: Ints
    depth: Ints
    shown: Bools
    bars: TimelineBars
    arrows: LaneArrows
    resolution_ns: int
    rows: int
    ranks_left: int
    lanes_left: int
    arrows_left: int

    @property
    def left_out(self) -> str | None:
        """Say in one line what is merged or left out."""
        notes = []
        if self.resolution_ns and self.rows > len(self.bars):
            notes.append(f"{self.rows:,} events in {len(self.bars):,} bars: what is below "
                        f"{format_duration(self.resolution_ns)} is merged with its neighbours")  # fmt: skip
        if self.ranks_left:
            notes.append(f"{self.ranks_left:,} ranks with less of the path")
        if self.lanes_left:
            notes.append(f"{self.lanes_left:,} threads and streams with less on them")
        if self.arrows_left:
            notes.append(f"{self.arrows_left:,} arrows")
        return f"left out: {'; '.join(notes)}" if notes else None


def lane_scene(path: CriticalPath, finest_ns: int, kinds: Collection[EdgeKind] | None) -> LaneScene:
    """Lay out a path's window; bars shorter than ``finest_ns`` are merged where there are many."""
    graph, window = path.graph, path.window
    rows = rows_between(graph, window.start_ns, window.end_ns)
    lane, depth = graph.event_table.lane, np.full(len(graph.event_table), -1)
    # Deeper rows are told too, on the last track: the innermost one is who works.
    depth[rows] = np.minimum(tracks_on_lanes(graph, rows, MAX_TRACKS), MAX_TRACKS - 1)
    parts = ranks_on_paths([path], MOST_RANKS)
    # What is nested must not count several times: threads would push all streams out.
    shown, lanes_left = busiest_lanes([path], rows[depth[rows] == 0], parts, MOST_LANES)
    rows = rows[shown[lane[rows]]]
    tracks = np.zeros(len(shown), np.int64)
    np.maximum.at(tracks, lane[rows], depth[rows] + 1)
    bars = event_bars([path], rows, MAX_TRACKS * lane[rows] + depth[rows]).in_order()
    merged, resolution = merge_to_limit(bars, MOST_BARS, finest_ns)
    if kinds is None:
        arrows, left = arrows_between_lanes(path, shown, MOST_ARROWS)
    else:
        arrows, left = arrows_of_kinds(path, shown, kinds), 0
    lanes = [code for code in lane_order(graph).tolist() if shown[code]]
    ranks_left = len(graph.parts) - len(parts)
    return LaneScene(
        path, lanes, tracks, depth, shown, merged, arrows, resolution, len(rows), ranks_left, lanes_left, left
    )


def lane_label(path: CriticalPath, lane: int, size: int) -> str:
    """Name a lane, of a job with its rank."""
    graph = path.graph
    of_rank = f"rank {graph.parts[int(graph.rank_index_of_lane[lane])].rank}: " if len(graph.parts) > 1 else ""
    return of_rank + short_label(graph.lanes.labels[lane], size - len(of_rank))
