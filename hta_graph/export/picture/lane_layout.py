"""The content and the layout of a picture of lanes: lanes, bars, the path's strips, and arrows.

Arrows are edges between lanes, those of the path first; in a job they start at the rank that arrives last.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hta_graph.base.arrays import Columns, distinct, first_of_runs, last_of_runs, take_or
from hta_graph.export.picture.style import format_duration, short_label
from hta_graph.export.picture.svg import text_width
from hta_graph.graph.edges import EventEdges
from hta_graph.model import Bools, Codes, EdgeKind, EventKind, Floats, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.level_of_detail import (
    TimelineBars,
    busiest_lanes,
    event_bars,
    lane_order,
    merge_to_limit,
    ranks_on_paths,
    rows_between,
    tracks_on_lanes,
)
from hta_graph.paths.segments import SegmentTable

MAX_OTHER_ARROWS = 24
"""Arrows off the path are drawn if there are no more than this."""


@dataclass(frozen=True, eq=False)
class LaneArrows(Columns):
    """Edges from a row to another (canonical), with the times (ns) of their ends; those of the path come first."""

    kind: Codes
    inferred: Bools
    source: Ids
    target: Ids
    source_ns: Ints
    target_ns: Ints
    on_path: Bools


def arrows_between_lanes(path: CriticalPath, shown: Bools, limit: int) -> tuple[LaneArrows, int]:
    """Return the arrows between lanes that are shown, and how many others there are of these."""
    every = _in_window(path, _all_arrows(path), shown)
    lane = path.graph.event_table.lane
    every = every.take(lane[every.source] != lane[every.target])
    own, beside = every.take(every.on_path), every.take(~every.on_path)
    drawn = LaneArrows.join([own, beside]) if len(beside) <= MAX_OTHER_ARROWS else own
    # Of too many the longest.
    longest = np.argsort(drawn.source_ns - drawn.target_ns, kind="stable")
    kept = longest[np.argsort(~drawn.on_path[longest], kind="stable")][:limit]
    return drawn.take(np.sort(kept)), len(every) - len(kept)


def arrows_of_kinds(path: CriticalPath, shown: Bools, kinds: Collection[EdgeKind]) -> LaneArrows:
    """Return all arrows of some kinds, within lanes too."""
    every = _in_window(path, _all_arrows(path), shown)
    return every.take(np.isin(every.kind, list(kinds)))


def _all_arrows(path: CriticalPath) -> LaneArrows:
    """Return all edges in order of kind and time, those of a collective as one from the rank that arrives last."""
    graph = path.graph
    edges = graph.edges_of()
    meets = graph.event_table.kind == EventKind.RENDEZVOUS
    into, out = meets[edges.target], meets[edges.source]
    plain = _arrows_of(path, edges.take(~into & ~out))
    return _sorted_arrows(LaneArrows.join([plain, _arrows_of_rendezvous(path, edges.take(into), edges.take(out))]))


def _arrows_of(path: CriticalPath, edges: EventEdges) -> LaneArrows:
    on_path = np.isin(edges.row, path.chain.edges)
    return LaneArrows.of(kind=edges.kind, inferred=edges.inferred, source=edges.source, target=edges.target,
                     source_ns=edges.source_ns, target_ns=edges.target_ns, on_path=on_path)  # fmt: skip


def _arrows_of_rendezvous(path: CriticalPath, into: EventEdges, out: EventEdges) -> LaneArrows:
    """Draw a collective as arrows from the rank that arrives last to each that waits for it."""
    into = into.take(np.lexsort((into.source, into.source_ns, into.target)))
    last = into.take(np.flatnonzero(last_of_runs(into.target)))
    came = np.full(len(path.graph.event_table), -1, np.int32)
    came[last.target] = np.arange(len(last), dtype=np.int32)
    of = came[out.source]
    out, of = out.take(of >= 0), of[of >= 0]
    waited = take_or(last.source, of) != out.target
    out, last = out.take(waited), last.take(of[waited])
    return LaneArrows.of(kind=out.kind, inferred=out.inferred, source=last.source, target=out.target,
                     source_ns=last.source_ns, target_ns=last.source_ns,
                     on_path=np.isin(out.row, path.chain.edges))  # fmt: skip


def _sorted_arrows(arrows: LaneArrows) -> LaneArrows:
    columns = (arrows.target, arrows.source, arrows.target_ns, arrows.source_ns, arrows.kind)
    ordered = arrows.take(np.lexsort(columns))
    # One of what two rules infer.
    return ordered.take(first_of_runs(*columns[::-1])) if len(ordered) else ordered


def _in_window(path: CriticalPath, arrows: LaneArrows, shown: Bools) -> LaneArrows:
    """Keep what lies in the window between rows of lanes that are shown."""
    lane, window = path.graph.event_table.lane, path.window
    ends = take_or(shown, lane[arrows.source], otherwise=False) & take_or(shown, lane[arrows.target], otherwise=False)
    first, last = (edge(arrows.source_ns, arrows.target_ns) for edge in (np.minimum, np.maximum))
    return arrows.take(ends & (first >= window.start_ns) & (last <= window.end_ns))


MIN_CELL_SHARE = 0.25
"""The least share of a cell that must be path on a lane for the lane's strip to show it."""


@dataclass(frozen=True, eq=False)
class PathStrips(Columns):
    """Runs of cells in which one class takes most of the path; ``first`` and ``last`` are cells, both included."""

    first: Ints
    last: Ints
    bound: Codes


@dataclass(frozen=True, eq=False)
class LaneChanges(Columns):
    """Where the path goes from one lane to another: the cell, both lanes, and the shorter segment next to it (ns)."""

    cell: Ints
    before: Ids
    after: Ids
    near_ns: Ints


def window_strip(path: CriticalPath, cells: int) -> PathStrips:
    """Return the classes of the whole window, cut into cells."""
    return _strips_of(path, path.segment_table, cells, 0.0)


def lane_strip(path: CriticalPath, lane: int, cells: int) -> PathStrips:
    """Return the classes of the path where it runs on a lane."""
    return _strips_of(path, path.segment_table.take(path.segment_table.lane == lane), cells, MIN_CELL_SHARE)


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
    """Return the time of segments that do not overlap in each cell."""
    ends = (np.stack([pieces.start, pieces.end], axis=1).ravel() - start_ns).astype(np.float64)
    passed = np.repeat(np.concatenate([[0], np.cumsum(pieces.length)]), 2)[1:-1].astype(np.float64)
    found: Floats = np.diff(np.interp(borders, ends, passed))
    return found


def lane_changes(path: CriticalPath, shown: Bools, cells: int) -> LaneChanges:
    """Return where the path goes from lane to lane, once for each cell and pair of lanes that are shown."""
    pieces = path.segment_table
    at = np.flatnonzero(pieces.lane[1:] != pieces.lane[:-1])
    before, after = pieces.lane[at], pieces.lane[at + 1]
    drawn = (before >= 0) & (after >= 0) & shown[before] & shown[after]
    at, before, after = at[drawn], before[drawn], after[drawn]
    cell = (pieces.end[at] - path.window.start_ns) * cells // max(path.length_ns, 1)
    near = np.minimum(pieces.length[at], pieces.length[at + 1])
    every = LaneChanges.of(cell=cell, before=before, after=after, near_ns=near)
    order = np.lexsort((-every.near_ns, every.after, every.before, every.cell))
    every = every.take(order)
    return every.take(first_of_runs(every.cell, every.before, every.after)) if len(every) else every


MAX_TRACKS = 3
"""The most tracks of a lane; deeper nested events are drawn on the last one, on top of those around them."""
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
        """Describe in one line what is merged or left out."""
        notes = []
        if self.resolution_ns and self.rows > len(self.bars):
            notes.append(f"{self.rows:,} events in {len(self.bars):,} bars: events below "
                        f"{format_duration(self.resolution_ns)} are merged with neighbors")  # fmt: skip
        if self.ranks_left:
            notes.append(f"{self.ranks_left:,} ranks with less of the path")
        if self.lanes_left:
            notes.append(f"{self.lanes_left:,} threads and streams with less work")
        if self.arrows_left:
            notes.append(f"{self.arrows_left:,} arrows")
        return f"left out: {'; '.join(notes)}" if notes else None


def lane_scene(path: CriticalPath, finest_ns: int, kinds: Collection[EdgeKind] | None) -> LaneScene:
    """Lay out a path's window; bars shorter than ``finest_ns`` are merged where there are many."""
    graph, window = path.graph, path.window
    rows = rows_between(graph, window.start_ns, window.end_ns)
    lane, depth = graph.event_table.lane, np.full(len(graph.event_table), -1)
    # Deeper events are drawn too, on the last track: the innermost one works.
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
    ranks_left = len(graph.rank_graphs) - len(parts)
    return LaneScene(
        path, lanes, tracks, depth, shown, merged, arrows, resolution, len(rows), ranks_left, lanes_left, left
    )


def lane_label(path: CriticalPath, lane: int, size: int) -> str:
    """Name a lane, of a job with its rank."""
    graph = path.graph
    of_rank = f"rank {graph.rank_graphs[int(graph.rank_index_of_lane[lane])].rank}: " if graph.is_job else ""
    return of_rank + short_label(graph.lanes.labels[lane], size - len(of_rank))


BAR_HEIGHT, TRACK_HEIGHT, STRIP_HEIGHT = 14.0, 16.0, 5.0
"""The heights of a bar, of a track, and of the path's strip on a lane."""
TITLE_HEIGHT, PATH_STRIP_HEIGHT, LANE_GAP = 24.0, 13.0, 24.0
"""The heights of the title and of the path's strip of the whole window; the room between lanes, for arrows."""
CELL_WIDTH = 0.5
"""How fine strips are, in pixels."""
MAX_LABEL_LENGTH, LABEL_FONT_SIZE = 30, 10.0
"""The most characters of a lane's name, and their size."""
MARGIN = 6.0
MIN_WINDOW_WIDTH = 60.0


@dataclass(frozen=True)
class LaneLayout:
    """The places of a scene's parts."""

    scene: LaneScene
    width: float

    @cached_property
    def left(self) -> float:
        """Where the window starts: right of the lanes' names."""
        path = self.scene.path
        names = ["critical path", *(lane_label(path, lane, MAX_LABEL_LENGTH) for lane in self.scene.lanes)]
        return min(max(text_width(name, LABEL_FONT_SIZE) for name in names) + 2 * MARGIN, self.width / 3)

    @property
    def right(self) -> float:
        """Where the window ends."""
        return max(self.width - MARGIN, self.left + MIN_WINDOW_WIDTH)

    @property
    def cells(self) -> int:
        """Into how many cells strips are cut."""
        return int((self.right - self.left) / CELL_WIDTH)

    def x(self, time_ns: int) -> float:
        """Return where a time is; of one outside the window its nearer end."""
        window = self.scene.path.window
        share = (time_ns - window.start_ns) / max(window.end_ns - window.start_ns, 1)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def x_of_cell(self, cell: int) -> float:
        """Return where a cell of strips begins."""
        return self.left + (self.right - self.left) * cell / self.cells

    @cached_property
    def tops(self) -> dict[int, float]:
        """Return where the strip of each lane begins."""
        found, at = {}, TITLE_HEIGHT + PATH_STRIP_HEIGHT + LANE_GAP
        for lane in self.scene.lanes:
            found[lane] = at
            at += self.height_of(lane) + LANE_GAP
        return found

    def height_of(self, lane: int) -> float:
        """Return the height of a lane: its strip and its tracks."""
        return STRIP_HEIGHT + 1 + TRACK_HEIGHT * max(int(self.scene.tracks[lane]), 1)

    def bar_top(self, lane: int, depth: int) -> float:
        """Return the upper edge of the bars of a track."""
        return self.tops[lane] + STRIP_HEIGHT + 1 + TRACK_HEIGHT * depth

    @property
    def bottom(self) -> float:
        """Where the lanes end."""
        tops = self.tops
        return max((top + self.height_of(lane) for lane, top in tops.items()), default=TITLE_HEIGHT + PATH_STRIP_HEIGHT)
