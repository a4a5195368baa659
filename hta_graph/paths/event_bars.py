"""Events as bars: what each is drawn as, and of a job where it waited for other ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.merged_bars import TimelineBars

__all__ = ["BAR_GROUPS", "event_bars"]

EVENT_GROUPS = ("annotation", "cpu_op", "runtime", "kernel", "communication", "waiting", "memcpy", "memset", "other")
"""What events are told apart by: their kinds, what communicates, and of a job its part that waits for other ranks."""
BAR_GROUPS = (*(bound.label for bound in BoundBy), *EVENT_GROUPS, "path")
"""What a bar's group counts: the classes of a path, the kinds of events, and where a path runs."""


def event_bars(paths: Sequence[CriticalPath], rows: Ints, track: Ints) -> TimelineBars:
    """Return the bars of rows on their tracks: an event's own time, and before that where it waited for other ranks.

    ``on_path`` marks what lies on any of the paths.
    """
    events = _whole_bars(paths, rows, track)
    waits = _waiting_bars(paths[0].graph, rows, events)
    return TimelineBars.join([_without_waits(events, waits), waits.take(waits.end > waits.start)])


def _whole_bars(paths: Sequence[CriticalPath], rows: Ints, track: Ints) -> TimelineBars:
    """Return a bar for each event."""
    graph, events = paths[0].graph, paths[0].graph.event_table
    at = len(BoundBy)
    group_of = [at + EVENT_GROUPS.index(kind.label if kind.label in EVENT_GROUPS else "other") for kind in EventKind]
    group = np.array(group_of)[events.kind[rows]]
    communicates = graph.marks.communicates[rows] | graph.lanes.is_communication[events.lane[rows]]
    group[communicates] = BAR_GROUPS.index("communication")
    on_path = _events_on_paths(paths)[rows]
    start, end = events.start[rows], events.end[rows]
    index = events.index[rows]
    return TimelineBars.of(track=track, group=group, on_path=on_path, start=start, end=end, busy=end - start, count=1,
                           name=events.name[rows], index=index)  # fmt: skip


def _waiting_bars(graph: DependencyGraph, rows: Ints, events: TimelineBars) -> TimelineBars:
    """Return the part of each event, from its start, in which it waited for other ranks; of most that is nothing."""
    waited = np.zeros(len(rows), np.int64)
    if isinstance(graph, JobGraph):
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
        found[path.pieces.event] = True
    return found
