"""The scene that drawings of lanes share: lanes and the boxes on their tracks, arrows, and the path through them.

It is asked of a graph once; pages, SVG and the picture of a report only write it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, distinct, first_of_runs, last_of_runs, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EventEdges
from hta_graph.model import ON_STREAMS, Bools, Codes, EdgeKind, EventKind, Floats, Ids, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath, has_partial_rows
from hta_graph.paths.intervals import union
from hta_graph.paths.level_of_detail import (
    BAR_GROUPS,
    FINEST_NS,
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


@dataclass(frozen=True)
class SceneLane:
    """A thread or stream: its code, its name, of a job its rank, the first of its tracks, and how deep events nest."""

    code: int
    name: str
    rank: int | None
    first: int = 0
    depth: int = 0

    @classmethod
    def of(cls, graph: DependencyGraph, code: int, first: int = 0, depth: int = 0) -> SceneLane:
        """Ask a graph."""
        rank = graph.rank_graphs[int(graph.rank_index_of_lane[code])].rank if graph.is_job else None
        return cls(code, graph.lanes.labels[code], rank, first, depth)

    @property
    def of_rank(self) -> str:
        """What stands in front of its name."""
        return "" if self.rank is None else f"rank {self.rank}: "

    @property
    def label(self) -> str:
        """Its name, of a job with its rank."""
        return self.of_rank + self.name


@dataclass(frozen=True)
class SceneLimits:
    """The most ranks, lanes, and tracks of a lane; ``keeps_deeper`` draws deeper events on the last track."""

    ranks: int
    lanes: int
    tracks: int
    keeps_deeper: bool = False


@dataclass(frozen=True)
class LaneScene:
    """Lanes from top to bottom and the bars on their tracks.

    Of n paths the first n tracks are the strips of their classes; then each lane has n tracks for where the paths run,
    and one for each depth of nesting. ``depth`` is that of each row of the graph in its lane. ``names`` are the texts
    of bars' names. ``resolution_ns`` is the length below which bars are merged (0: none is), ``events`` is how many
    events are drawn, ``too_deep`` how many are left out, ``ranks`` which ranks of a job are shown, ``ranks_left`` and
    ``lanes_left`` how many ranks, and lanes of these ranks, are not.
    """

    paths: Sequence[CriticalPath]
    lanes: list[SceneLane]
    depth: Ints
    bars: TimelineBars
    names: Sequence[str]
    events: int
    too_deep: int
    ranks: Sequence[int]
    ranks_left: int
    lanes_left: int
    resolution_ns: int = 0

    @property
    def rows(self) -> int:
        """How many events and segments the bars stand for."""
        return int(self.bars.count.sum())

    @property
    def shown(self) -> Bools:
        """Mark the lanes, by their codes."""
        found = np.zeros(len(self.paths[0].graph.lanes.labels), np.bool_)
        found[[lane.code for lane in self.lanes]] = True
        return found

    def merged(self, limit: int, finest_ns: int = FINEST_NS) -> LaneScene:
        """Merge the shortest bars until about ``limit`` are left."""
        bars, resolution = merge_to_limit(self.bars, limit, finest_ns)
        return replace(self, bars=bars, resolution_ns=resolution)

    def with_paths(self, names: Ids) -> LaneScene:
        """Add bars for the classes of the paths, and for where these run; ``names`` are the codes of events' names."""
        first, shown = np.zeros(len(self.shown), np.int64), self.shown
        first[[lane.code for lane in self.lanes]] = [lane.first for lane in self.lanes]
        bars = [self.bars]
        for number, path in enumerate(self.paths):
            bars += [_class_bars(path, number, names), _lane_bars(path, first + number, shown)]
        return replace(self, bars=TimelineBars.join(bars).in_order())


def lane_scene(
    paths: Sequence[CriticalPath], limits: SceneLimits, named: tuple[Ids, Sequence[str]] | None = None
) -> LaneScene:
    """Lay out the events of the paths' windows; ``named`` are codes of their names and texts, if not their own."""
    graph = paths[0].graph
    lane, depth = graph.event_table.lane, np.full(len(graph.event_table), -1)
    rows = rows_between(graph, min(p.window.start_ns for p in paths), max(p.window.end_ns for p in paths))
    depth[rows] = tracks_on_lanes(graph, rows, limits.tracks)
    parts = ranks_on_paths(paths, limits.ranks)
    # What is nested must not count several times: threads would push all streams out.
    shown, lanes_left = busiest_lanes(paths, rows[depth[rows] == 0], parts, limits.lanes)
    rows = rows[shown[lane[rows]]]
    kept = rows if limits.keeps_deeper else rows[depth[rows] < limits.tracks]
    depth = np.minimum(depth, limits.tracks - 1)
    lanes, first = _stacked_lanes(paths, kept, depth, shown)
    codes, texts = (graph.event_table.name, graph.names) if named is None else named
    bars = event_bars(paths, kept, first[lane[kept]] + len(paths) + depth[kept], codes).in_order()
    ranks = [graph.rank_graphs[part].rank for part in parts]
    ranks_left, too_deep = len(graph.rank_graphs) - len(ranks), len(rows) - len(kept)
    return LaneScene(paths, lanes, depth, bars, texts, len(kept), too_deep, ranks, ranks_left, lanes_left)


def _stacked_lanes(
    paths: Sequence[CriticalPath], rows: Ints, depth: Ints, shown: Bools
) -> tuple[list[SceneLane], Ints]:
    """Stack the lanes that have events or path, rank by rank, threads first; return also each lane's first track."""
    graph = paths[0].graph
    size = np.zeros(len(shown), np.int64)
    np.maximum.at(size, graph.event_table.lane[rows], depth[rows] + 1)
    for path in paths:
        np.maximum.at(size, path.segment_table.lane[path.segment_table.lane >= 0], 1)
    size[~shown] = 0
    first, at, lanes = np.zeros(len(size), np.int64), len(paths), []
    order = lane_order(graph)
    for code in order[size[order] > 0].tolist():
        first[code] = at
        lanes.append(SceneLane.of(graph, code, at, int(size[code])))
        at += len(paths) + int(size[code])
    return lanes, first


def _class_bars(path: CriticalPath, track: int, names: Ids) -> TimelineBars:
    """Return the path's runs of equal class and stack, coloured by class."""
    runs, events = path.runs, path.graph.event_table
    return TimelineBars.of(track=np.full(len(runs), track), group=runs.bound, on_path=True, start=runs.start,
                           end=runs.end, busy=runs.length, count=runs.segments, name=take_or(names, runs.event),
                           index=take_or(events.index, runs.event))  # fmt: skip


def _lane_bars(path: CriticalPath, track: Ints, shown: Bools) -> TimelineBars:
    """Return where the path stays on a lane that is shown."""
    pieces, group = path.segment_table, BAR_GROUPS.index("path")
    first = np.flatnonzero(first_of_runs(pieces.lane))
    end = np.append(pieces.start[first[1:]], pieces.end[-1:])
    start, lane = pieces.start[first], pieces.lane[first]
    bars = TimelineBars.of(track=track[lane], group=np.full(len(first), group), on_path=True, start=start, end=end,
                           busy=end - start, count=1, name=-1, index=-1)  # fmt: skip
    return bars.take((lane >= 0) & shown[lane])


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


LEAST_SHARE = 0.002
"""Lanes with less of the path than this share are left out of a picture of few."""
WORK = (EventKind.CPU_OP, EventKind.RUNTIME, *ON_STREAMS)
"""Annotations and Python frames surround work and are none themselves."""


@dataclass(frozen=True)
class LaneOfPath:
    """A lane, the path's strip on it, and runs of cells in which it is equally busy: first and last cell, level."""

    lane: SceneLane
    strip: PathStrips
    busy: tuple[Ints, Ints, Ints]


@dataclass(frozen=True)
class PathOverview:
    """The few lanes with most of a path, from top to bottom; the strip of the whole path, and where it changes lanes.

    ``left_out`` counts other lanes with a notable part of it.
    """

    lanes: Sequence[LaneOfPath]
    strip: PathStrips
    changes: LaneChanges
    left_out: int


def path_overview(path: CriticalPath, limits: SceneLimits, cells: int, levels: int) -> PathOverview:
    """Cut a path's window into cells; ``levels`` is the number of degrees of being busy."""
    graph = path.graph
    codes, left_out = _lanes_to_draw(path, limits)
    lanes = [
        LaneOfPath(SceneLane.of(graph, code), lane_strip(path, code, cells), _busy_cells(path, code, cells, levels))
        for code in codes
    ]
    shown = np.zeros(len(graph.lanes.labels), np.bool_)
    shown[codes] = True
    return PathOverview(lanes, window_strip(path, cells), lane_changes(path, shown, cells), left_out)


def _lanes_to_draw(path: CriticalPath, limits: SceneLimits) -> tuple[list[int], int]:
    """Return the lanes with most of the path and the busiest others, in order; count the lanes left out."""
    graph, pieces = path.graph, path.segment_table
    on_path = np.zeros(len(graph.lanes.labels), np.int64)
    np.add.at(on_path, pieces.lane[pieces.lane >= 0], pieces.length[pieces.lane >= 0])
    wanted = np.flatnonzero(on_path >= max(LEAST_SHARE * path.length_ns, 1))
    chosen = wanted[np.argsort(-on_path[wanted], kind="stable")][: limits.lanes].tolist()
    if len(chosen) < limits.lanes and not has_partial_rows(graph):
        chosen += [lane for lane in _busy_streams(path, limits) if lane not in chosen][: limits.lanes - len(chosen)]
    order = [lane for lane in lane_order(graph).tolist() if lane in chosen]
    return order, len(wanted) - sum(lane in chosen for lane in wanted.tolist())


def _busy_streams(path: CriticalPath, limits: SceneLimits) -> list[int]:
    """Return the GPU streams that work in the window on the ranks with most of the path, the busiest first."""
    graph, window = path.graph, path.window
    rows = rows_between(graph, window.start_ns, window.end_ns)
    rows = rows[graph.is_gpu[rows]]
    parts = [part for part in ranks_on_paths([path], limits.ranks) if path.by_rank_ns[graph.rank_graphs[part].rank]]
    shown, _ = busiest_lanes([path], rows, parts, limits.lanes)
    events = graph.event_table
    busy = np.bincount(events.lane[rows], weights=events.end[rows] - events.start[rows], minlength=len(shown))
    found = np.flatnonzero(shown & (busy > 0))
    busiest: list[int] = found[np.argsort(-busy[found], kind="stable")].tolist()
    return busiest


def _busy_cells(path: CriticalPath, lane: int, cells: int, levels: int) -> tuple[Ints, Ints, Ints]:
    """Return the runs of cells in which a lane is equally busy; none where not all of its rows are known."""
    graph, window, events = path.graph, path.window, path.graph.event_table
    none = np.empty(0, np.int64)
    if has_partial_rows(graph):
        return none, none, none
    rows = rows_between(graph, window.start_ns, window.end_ns)
    rows = rows[(events.lane[rows] == lane) & kind_mask(events.kind[rows], WORK)]
    busy = union(events.start[rows], events.end[rows])
    borders = np.linspace(window.start_ns, window.end_ns, cells + 1).astype(np.int64)
    share = np.diff(busy.covered_until(borders)) / np.maximum(np.diff(borders), 1)
    level = np.ceil(share.clip(0, 1) * levels).astype(np.int64)
    first, last = (np.flatnonzero(runs(level)) for runs in (first_of_runs, last_of_runs))
    return first, last, level[first]
