"""What a drawing of a timeline shows: which rows on which lanes, events as bars, and short bars merged into one.

A drawing stays small: bars shorter than a resolution are merged into one per interval of it, and counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import Columns, first_of_runs, run_numbers, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import ON_STREAMS, Bools, BoundBy, EventKind, Ids, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath

FINEST_NS = 16


@dataclass(frozen=True, eq=False)
class TimelineBars(Columns):
    """What is drawn: bars on tracks, in order of track, group, ``on_path`` and start; times in ns.

    ``group`` is the color. A bar that stands for ``count`` rows is filled for ``busy`` of its time, and its ``name``
    (a code) and ``index`` (an event's; -1: none) are those of the longest of them.
    """

    track: Ids
    group: Ids
    on_path: Bools
    start: Ints
    end: Ints
    busy: Ints
    count: Ints
    name: Ids
    index: Ints

    @property
    def series(self) -> Ints:
        """Number the runs of bars that share track, group and ``on_path``; those of a series are in order of time."""
        return run_numbers(self.track, self.group, self.on_path)

    def in_order(self) -> TimelineBars:
        """Sort the bars."""
        return self.take(np.lexsort((self.end, self.start, self.on_path, self.group, self.track)))


def merge_to_limit(bars: TimelineBars, limit: int, finest_ns: int = FINEST_NS) -> tuple[TimelineBars, int]:
    """Merge the shortest bars until about ``limit`` are left; return also the resolution (ns, 0: all are there).

    The first resolution that is tried is ``finest_ns``. Every series keeps its time to the nanosecond: the sum of
    ``busy`` stays what it was.
    """
    if len(bars) <= limit:
        return bars, 0
    series, resolution = bars.series, max(finest_ns, FINEST_NS)
    while _merged_size(bars, series, resolution) > limit and resolution < int(bars.end.max() - bars.start.min()):
        resolution = resolution * 5 // 4
    return _merge_below(bars, series, resolution), resolution


def _cells(bars: TimelineBars, series: Ints, resolution: int) -> Ints:
    """Number what is merged into one: short bars of a series that start in one interval; a long bar is alone."""
    short = bars.end - bars.start < resolution
    stretch = np.where(short, bars.start // resolution, -1 - np.arange(len(bars)))
    return run_numbers(series, stretch)


def _merged_size(bars: TimelineBars, series: Ints, resolution: int) -> int:
    """Count the bars that a resolution leaves."""
    return int(_cells(bars, series, resolution)[-1]) + 1


def _merge_below(bars: TimelineBars, series: Ints, resolution: int) -> TimelineBars:
    """Merge the bars that are shorter than a resolution."""
    cell = _cells(bars, series, resolution)
    first = np.flatnonzero(first_of_runs(cell))
    # The longest bar of a cell lends it its name.
    longest = np.lexsort((-bars.busy, cell))[first]
    return TimelineBars(
        track=bars.track[first],
        group=bars.group[first],
        on_path=bars.on_path[first],
        start=bars.start[first],
        end=np.maximum.reduceat(bars.end, first),
        busy=summed_by(cell, bars.busy, len(first)),
        count=summed_by(cell, bars.count, len(first)),
        name=bars.name[longest],
        index=bars.index[longest],
    )


THREAD_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.ANNOTATION)


def rows_between(graph: DependencyGraph, start_ns: int, end_ns: int) -> Ints:
    """Return the rows (canonical) that are drawn of an interval."""
    events = graph.event_table
    meets = (events.start < end_ns) & (events.end > start_ns)
    # A row of no length at the very edge overlaps nothing but belongs to it.
    meets |= (events.start == events.end) & (events.start >= start_ns) & (events.end <= end_ns)
    return np.flatnonzero(meets & kind_mask(events.kind, THREAD_KINDS + ON_STREAMS))


def tracks_on_lanes(graph: DependencyGraph, rows: Ints, deepest: int) -> Ints:
    """Return the track of each row in its lane: rows around it on a thread, rows that still run on a stream.

    What lies deeper than ``deepest`` has that depth.
    """
    depth = _nesting_depth(graph.nesting(*THREAD_KINDS).parent, rows, deepest)
    beside = np.flatnonzero(graph.is_activity[rows])
    depth[beside] = _overlap_depth(graph, rows[beside], deepest)
    return depth


def _nesting_depth(parent: Ids, rows: Ints, deepest: int) -> Ints:
    """Count the rows around each row, as far as that is drawn."""
    # All rows step outwards together; a row stays where it is once nothing is around it.
    depth = np.zeros(len(rows), np.int64)
    around = parent[rows]
    for _ in range(deepest):
        depth += around >= 0
        around = np.where(around >= 0, parent[around], -1)
    return depth


def _overlap_depth(graph: DependencyGraph, rows: Ints, deepest: int) -> Ints:
    """Move work that starts before its stream's earlier work has ended down, track by track."""
    events = graph.event_table
    depth = np.zeros(len(rows), np.int64)
    order = np.lexsort((events.end[rows], events.start[rows], events.lane[rows]))
    while len(order) and depth[order[0]] < deepest:
        start, end, lane = events.start[rows[order]], events.end[rows[order]], events.lane[rows[order]]
        order = order[start < _ends_so_far(end, lane)]
        depth[order] += 1
    return depth


def _ends_so_far(end: Ints, lane: Ids) -> Ints:
    """Return for each row, in order of lane and start, when all before it on its lane have ended."""
    none = np.iinfo(np.int64).min
    found = np.full(len(end), none)
    bounds = np.flatnonzero(first_of_runs(lane))
    for low, high in zip(bounds.tolist(), [*bounds[1:].tolist(), len(end)], strict=True):
        found[low + 1 : high] = np.maximum.accumulate(end[low:high])[:-1]
    return found


def ranks_on_paths(paths: Sequence[CriticalPath], limit: int) -> list[int]:
    """Choose ranks, by their places in order: those that the paths run on longest, then the lowest."""
    parts = paths[0].graph.rank_graphs
    on_path = [sum(path.by_rank_ns[part.rank] for path in paths) for part in parts]
    chosen = sorted(range(len(parts)), key=lambda part: (-on_path[part], part))[:limit]
    return sorted(chosen)


def busiest_lanes(paths: Sequence[CriticalPath], rows: Ints, parts: Sequence[int], limit: int) -> tuple[Bools, int]:
    """Mark the lanes of some ranks on which paths and then events run longest; count the others of these ranks."""
    graph = paths[0].graph
    lanes, events = len(graph.lanes.labels), graph.event_table
    on_path, running = np.zeros(lanes, np.int64), np.zeros(lanes, np.int64)
    for path in paths:
        on_lane = path.segment_table.lane >= 0
        on_path += summed_by(path.segment_table.lane[on_lane], path.segment_table.length[on_lane], lanes)
    # One more than its length: what lasts no time is there too.
    running += summed_by(events.lane[rows], events.end[rows] - events.start[rows] + 1, lanes)
    used = np.flatnonzero(((on_path > 0) | (running > 0)) & np.isin(graph.rank_index_of_lane, parts))
    chosen = used[np.lexsort((-running[used], -on_path[used]))][:limit]
    shown = np.zeros(lanes, np.bool_)
    shown[chosen] = True
    return shown, len(used) - len(chosen)


def lane_order(graph: DependencyGraph) -> Ints:
    """Return all lanes from top to bottom: rank by rank, threads, streams, what communicates."""
    lanes = graph.lanes
    return np.lexsort((lanes.is_communication, lanes.is_stream, graph.rank_index_of_lane))


EVENT_GROUPS = ("annotation", "cpu_op", "runtime", "kernel", "communication", "waiting", "memcpy", "memset", "other")
"""What distinguishes events in a drawing: their kinds, what communicates, and in a job what waits for other ranks."""
EVENT_WORDS = {"cpu_op": "operator", "runtime": "runtime call", "memcpy": "copy", "waiting": "waiting for other ranks"}
"""What those are called in legends that are not called by their keys."""
BAR_GROUPS = (*(bound.label for bound in BoundBy), *EVENT_GROUPS, "path")
"""What a bar's group counts: the classes of a path, the kinds of events, and where a path runs."""


def event_bars(paths: Sequence[CriticalPath], rows: Ints, track: Ints, names: Ids | None = None) -> TimelineBars:
    """Return the bars of rows on their tracks: an event's own time, and before that where it waited for other ranks.

    ``on_path`` marks what lies on any of the paths; ``names`` are the codes of all events' names, if not their own.
    """
    events = _whole_bars(paths, rows, track)
    events = events if names is None else replace(events, name=names[rows])
    waits = _waiting_bars(paths[0].graph, rows, events)
    return TimelineBars.join([_without_waits(events, waits), waits.take(waits.end > waits.start)])


def _whole_bars(paths: Sequence[CriticalPath], rows: Ints, track: Ints) -> TimelineBars:
    """Return a bar for each event."""
    graph, events = paths[0].graph, paths[0].graph.event_table
    at = len(BoundBy)
    group_of = [at + EVENT_GROUPS.index(kind.label if kind.label in EVENT_GROUPS else "other") for kind in EventKind]
    group = np.array(group_of)[events.kind[rows]]
    communicates = graph.event_flags.communicates[rows] | graph.lanes.is_communication[events.lane[rows]]
    group[communicates] = BAR_GROUPS.index("communication")
    on_path = _events_on_paths(paths)[rows]
    start, end = events.start[rows], events.end[rows]
    index = events.index[rows]
    return TimelineBars.of(track=track, group=group, on_path=on_path, start=start, end=end, busy=end - start, count=1,
                           name=events.name[rows], index=index)  # fmt: skip


def _waiting_bars(graph: DependencyGraph, rows: Ints, events: TimelineBars) -> TimelineBars:
    """Return the part of each event, from its start, in which it waited for other ranks; of most that is nothing."""
    waited = np.clip(graph.waited_until(rows), events.start, events.end) - events.start
    return replace(
        events,
        group=np.full(len(rows), BAR_GROUPS.index("waiting"), np.int32),
        on_path=np.zeros(len(rows), np.bool_),
        end=events.start + waited,
        busy=waited,
    )


def _without_waits(events: TimelineBars, waits: TimelineBars) -> TimelineBars:
    """Shorten bars by what is drawn as waiting; one that did nothing else is not drawn twice."""
    shortened = replace(events, start=waits.end, busy=events.end - waits.end)
    return shortened.take((events.end == events.start) | (shortened.end > shortened.start))


def _events_on_paths(paths: Sequence[CriticalPath]) -> Bools:
    """Mark the events that own a part of a path."""
    found = np.zeros(len(paths[0].graph.event_table) + 1, np.bool_)  # the last place takes what nobody owns
    for path in paths:
        found[path.segment_table.event] = True
    return found
