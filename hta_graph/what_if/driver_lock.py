"""How long a window takes where driver calls of several threads wait for each other anew after changes.

A call that takes the driver's lock waits until the thread that holds it returns. Replay lets each call wait as long as
it did. Where the calls of one thread come at other times, other calls wait:

main thread   [launch][launch]..                 [launch]......[launch ~~~~~][launch]
pin_memory            [cudaHostAlloc ~~~~]       as before:           [cudaHostAlloc ~~~~]

So all calls are put in order of their start, each waits for those before it, later ones of its thread move, and again,
until nothing moves any more. What a call waited as recorded is taken away before. Without changes that gives the
recorded times, or the driver's lock is not what delays these calls. A call waits as much longer or shorter than as
recorded as it does by this order, so that without changes nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hta_graph.base.arrays import distinct, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.graph.points import end_point, start_point
from hta_graph.model import RETURNS, Bools, EdgeKind, Ids, Ints
from hta_graph.paths.intervals import Intervals, union
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayGraph

LEAST_HELD_SHARE = 0.03
"""Where threads that launch nothing hold the lock for less than this share of a window, they delay it by no more."""

ROUNDS = 100
"""At least the earliest wait that is still wrong is right after each round; mostly a few rounds are enough."""


@dataclass(frozen=True)
class LockedCalls:
    """The calls of a window that take the driver's lock, in order of start: points, edges, and waits as recorded (ns).

    ``edge`` is the row, among the window's edges, that leads from a call's start to its end. ``in_turn`` is how long
    each waits as recorded where only one of all runs at a time.
    """

    start: Ids
    edge: Ids
    waited: Ints
    in_turn: Ints

    @classmethod
    def of(cls, base: ReplayGraph) -> LockedCalls | None:
        """Find them; None where no thread that launches nothing holds the lock for long, and of jobs."""
        graph, events = base.graph, base.graph.event_table
        calls = lock_holds(graph)
        calls = calls[base.is_inside[start_point(calls)] & base.is_inside[end_point(calls)]]
        edges = base.edges
        on_thread = np.flatnonzero(take_or(graph.edge_table.kind, edges.row) == EdgeKind.THREAD_ORDER)
        leads_to = np.full(len(base.times), -1, np.int32)
        leads_to[edges.target[on_thread]] = on_thread
        edge = leads_to[end_point(calls)]
        own = take_or(edges.source, edge) == start_point(calls)
        calls, edge = calls[own], edge[own]
        if not _others_hold_long(graph, calls, base.length_ns):
            return None
        waited = _waits(events.start[calls], events.end[calls], events.lane[calls])
        own = np.maximum((events.end - events.start)[calls] - waited, 0)
        return cls(start_point(calls), edge, waited, waits_in_turn(events.start[calls], own))


def _others_hold_long(graph: DependencyGraph, calls: Ids, length_ns: int) -> bool:
    """Return whether threads that launch nothing hold the lock in some of its calls for a notable part of a window."""
    events = graph.event_table
    held = (events.end - events.start)[calls[~_on_launching_lane(graph)[events.lane[calls]]]]
    return len(held) > 0 and int(held.sum()) >= LEAST_HELD_SHARE * length_ns


def waits_for_lock(graph: DependencyGraph, start_ns: int, end_ns: int) -> Intervals:
    """Return when, in [start, end) (ns), driver calls wait for one of another thread; of jobs never."""
    calls, events = lock_holds(graph), graph.event_table
    calls = calls[(events.start[calls] < end_ns) & (events.end[calls] > start_ns)]
    if not _others_hold_long(graph, calls, end_ns - start_ns):
        calls = calls[:0]
    begin = events.start[calls]
    waited = _waits(begin, events.end[calls], events.lane[calls])
    return union(begin, begin + waited).clip(start_ns, end_ns)


def lock_holds(graph: DependencyGraph) -> Ids:
    """Return the calls that hold the driver's lock while they run, in order of start; no call inside another one.

    One that waits for GPU work does not hold it meanwhile. Of jobs they are not looked for.
    """
    if graph.is_job:
        return np.empty(0, np.int32)
    events, edges = graph.event_table, graph.edge_table
    waits = np.zeros(len(events), np.bool_)
    waits[edges.target[np.isin(edges.kind, RETURNS)] >> 1] = True
    calls = np.flatnonzero(graph.event_flags.lock_taking_call & ~waits)
    calls = calls[np.lexsort((-events.end[calls], events.start[calls]))]
    for lane in distinct(events.lane[calls]).tolist():
        own = np.flatnonzero(events.lane[calls] == lane)
        ends = np.maximum.accumulate(events.end[calls[own]])
        inner = own[1:][events.start[calls[own[1:]]] < ends[:-1]]
        calls = np.delete(calls, inner)
    found: Ids = calls.astype(np.int32)
    return found


def _on_launching_lane(graph: DependencyGraph) -> Bools:
    """Mark the lanes of threads that launch work."""
    events = graph.event_table
    found = np.zeros(int(events.lane.max(initial=0)) + 1, np.bool_)
    found[events.lane[graph.event_flags.enqueueing_call]] = True
    return found


def _waits(start: Ints, end: Ints, lane: Ids) -> Ints:
    """Return how long (ns) each call waited for another thread's call that began before it and ended inside it."""
    found = np.zeros(len(start), np.int64)
    for of in distinct(lane).tolist():
        own = lane == of
        # Calls of one thread follow each other, so that at most the latest one is still open.
        at = np.searchsorted(start[own], start, side="right") - 1
        open_until = np.where(at >= 0, end[own][at.clip(min=0)], start)
        inside = ~own & (open_until > start) & (open_until < end)
        found[inside] = np.maximum(found, open_until - start)[inside]
    return found


def waits_in_turn(start: Ints, takes: Ints) -> Ints:
    """Return how long (ns) each call waits where only one of all runs at a time, the first that starts first.

    >>> waits_in_turn(np.array([0, 4, 30]), np.array([10, 5, 5])).tolist()
    [0, 6, 0]
    """
    order = np.argsort(start, kind="stable")
    before = np.cumsum(takes[order]) - takes[order]
    waits = np.empty(len(start), np.int64)
    waits[order] = np.maximum.accumulate(start[order] - before) + before - start[order]
    return waits


@memoized
def locked_calls(base: ReplayGraph) -> LockedCalls | None:
    """Return a window's calls that take the driver's lock; None, too, where no lock explains their times."""
    found = LockedCalls.of(base)
    if found is None:
        return None
    same = _with_waits(ModifiedWindow(base), replace(found, in_turn=found.waited))
    end = base.end_of(base.paths.values(same.weight, base.times), same.tails)
    is_explained = abs(end - base.window.end_ns) < LEAST_HELD_SHARE * base.length_ns
    return found if is_explained else None


def with_lock_waits(draft: ModifiedWindow) -> ModifiedWindow:
    """Return a window after changes in which calls wait for the driver's lock as they then come.

    It is the draft itself where no other thread's calls matter.
    """
    calls = locked_calls(draft.base)
    return draft if calls is None or (draft.drops and draft.dropped[calls.edge].any()) else _with_waits(draft, calls)


def _with_waits(draft: ModifiedWindow, calls: LockedCalls) -> ModifiedWindow:
    found, paths = draft.copy(), draft.paths()
    found.waits[:] = 0
    weight = found.weight
    own = np.maximum(weight[calls.edge] - calls.waited, 0)
    waits = calls.waited
    for _ in range(ROUNDS):
        weight[calls.edge] = own + waits
        values = paths.values(weight, draft.base.times)
        now = np.maximum(calls.waited + waits_in_turn(values[calls.start], own) - calls.in_turn, 0)
        if np.array_equal(now, waits):
            break
        waits = now
    found.waits[calls.edge] = own + waits - found.weight[calls.edge]
    return found
