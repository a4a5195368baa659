"""Start-up: what a program does once, in its first iteration or while it compiles, loads code or captures a graph.

The first launch of a kernel loads its code, and the GPU is idle meanwhile:

host     [op|launch ~~~~ loads code ~~~~]   [op|launch]   [op|launch]
stream                                   [kernel]    [kernel]    [kernel]

No later iteration repeats it: it is no part of what a faster iteration saves.
"""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import distinct, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import EdgeKind, EventKind, Ids, Ints
from hta_graph.paths.gpu_activity import activities
from hta_graph.paths.intervals import Intervals, union
from hta_graph.paths.time_accounting import profiler_calls
from hta_graph.paths.unrecorded_work import captures

LOADING_NS = 100_000
"""A launch takes 2 to 20 µs, and code of one kernel 0.1 ms to seconds to load."""
TIMES_USUAL = 10
"""A launch that loads takes this multiple of the usual one at least; those below differ by chance."""
IDLE_BEFORE_NS = 10_000
"""A launch that waits for room in its queue returns while the GPU works; one that loads while it has been idle."""


@memoized
def code_loading_calls(graph: DependencyGraph) -> Ids:
    """Return the calls that load code: by name, and first launches of a kernel that take long while the GPU is idle."""
    launches, events = graph.edges_of(EdgeKind.LAUNCH), graph.event_table
    order = np.argsort(launches.source_ns, kind="stable")
    call, work = launches.source[order], launches.target[order]
    first = np.unique(events.name[work], return_index=True)[1] if len(work) else np.zeros(0, np.int64)
    call, work = call[first], work[first]
    length = events.end[call] - events.start[call] - profiler_ns(graph)[call]
    ready = np.minimum(events.end[call], events.start[work])
    busy = activities(graph).busy()
    is_idle = busy.covered_until(ready) == busy.covered_until(ready - IDLE_BEFORE_NS)
    # Code is there before its kernel starts: a call that takes long behind that does something else.
    loads = is_idle & (2 * (events.start[work] - events.start[call]) >= length)
    loads &= (length >= LOADING_NS) & (length >= TIMES_USUAL * usual_launch_ns(graph))
    by_name = np.flatnonzero(graph.event_flags.code_loading_call).astype(np.int32)
    return distinct(np.concatenate([call[loads], by_name]))


def profiler_ns(graph: DependencyGraph) -> Ints:
    """Return how much of each call the recorder itself took (ns)."""
    events, call = graph.event_table, profiler_calls(graph)
    rows = np.flatnonzero(call >= 0)
    return summed_by(call[rows], events.end[rows] - events.start[rows], len(events))


@memoized
def usual_launch_ns(graph: DependencyGraph) -> int:
    """Return how long a launching call takes that waits for nothing (ns): a tenth is shorter; 0 without any."""
    calls, events = distinct(graph.edges_of(EdgeKind.LAUNCH).source), graph.event_table
    return _tenth(np.sort(events.end[calls] - events.start[calls]).tolist()) if len(calls) else 0


def _tenth(ordered: list[int]) -> int:
    """Return ``np.percentile(ordered, 10)``, which would load numpy's masked arrays (9 ms).

    >>> [_tenth(list(range(0, 10 * count, 10))) for count in (1, 2, 7, 11)]
    [0, 1, 6, 10]
    """
    at, share = divmod((len(ordered) - 1) * 0.1, 1)
    low, high = ordered[int(at)], ordered[min(int(at) + 1, len(ordered) - 1)]
    return int(low + (high - low) * share if share < 1 / 2 else high - (high - low) * (1 - share))


# -- iterations --------------------------------------------------------------------------------------------------------


@memoized
def iteration_ends(graph: DependencyGraph) -> Ints:
    """Return when iterations end (ns), in order: profiler steps, else the first optimizer's steps, if it makes several.

    Of a job without steps, whose ranks iterate each for itself, none are known.
    """
    steps = graph.steps()
    if steps or graph.is_job:
        return np.array([step.end_ns for step in steps], np.int64)
    events, rows = graph.event_table, np.flatnonzero(graph.event_flags.optimizer_step)
    rows = rows[np.argsort(events.start[rows], kind="stable")]
    ends: Ints = events.end[rows[events.name[rows] == events.name[rows[:1]]]]
    return ends if len(ends) > 1 else ends[:0]


START_UP_CALL_NS = 10_000_000
"""No call of a running program takes 10 ms but for waits and launches: it makes a context or loads code."""


@memoized
def start_up_calls(graph: DependencyGraph) -> Ids:
    """Return long calls that neither wait nor launch, unless later iterations spend as much in calls of their name."""
    events, flags, ends = graph.event_table, graph.event_flags, iteration_ends(graph)
    length, calls = events.end - events.start, events.kind == EventKind.RUNTIME
    once = np.flatnonzero(calls & (length >= START_UP_CALL_NS) & ~(flags.blocking_call | flags.enqueueing_call))
    if len(ends) > 1:
        later = np.flatnonzero(calls & (events.start >= ends[0]))
        repeated = summed_by(events.name[later], length[later], len(graph.names)) / (len(ends) - 1)
        once = once[(events.start[once] < ends[0]) & (TIMES_USUAL * repeated[events.name[once]] < length[once])]
    return once.astype(np.int32)


@memoized
def _spans(graph: DependencyGraph) -> list[tuple[Ids, Intervals]]:
    """Return when threads do what is done once, with the lanes that this concerns."""
    events, flags = graph.event_table, graph.event_flags
    rows = flags.compiles.copy()
    rows[code_loading_calls(graph)] = rows[start_up_calls(graph)] = True
    if len(ends := iteration_ends(graph)):  # memory of the first iteration is kept
        rows |= flags.allocation_call & (events.start < ends[0])
    places = np.flatnonzero(rows)
    found = []
    for lane in distinct(events.lane[places]).tolist():
        own = places[events.lane[places] == lane]
        found.append((np.array([lane], np.int32), union(events.start[own], events.end[own])))
    return [*found, *captures(graph)]


def time_in_start_up(graph: DependencyGraph, lane: Ids, start: Ints, end: Ints) -> Ints:
    """Return how much (ns) of times on threads lies in what their thread does once."""
    found = np.zeros(len(lane), np.int64)
    for lanes, when in _spans(graph):
        here = np.isin(lane, lanes)
        found[here] = np.maximum(found[here], when.covered_until(end[here]) - when.covered_until(start[here]))
    return found
