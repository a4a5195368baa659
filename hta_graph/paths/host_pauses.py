"""Pauses: when the host launches to a device, and when it is between two launching calls for long.

thread 1   [op|launch]..[op|launch]....................................[op|launch]
thread 2                              [op|launch]........................
calls          |----|      |----|         |----|                           |----|
pause                                           |--------- > 1 ms --------|

A pause lasts from the return of one launching call to the begin of the next, over all threads that launch to the
device, whatever is open meanwhile: Python, operators, frames. What the thread that launches next waits for the GPU in a
pause is no time of the host. Below a millisecond it is the rhythm of launching, which CUDA graphs remove; a pause is
work of the host that they leave as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.base.arrays import Columns, distinct, rows_by_value
from hta_graph.graph.dependency_graph import DependencyGraph, RankGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import EdgeKind, Ids, Ints
from hta_graph.paths.intervals import Intervals, union
from hta_graph.paths.polled_loops import polled_loops

PAUSE_NS = 1_000_000
"""Between launches PyTorch and Python take 5 to 250 µs; a host that launches nothing for longer does other things."""


@dataclass(frozen=True, eq=False)
class DeviceLaunches:
    """The launching calls of a device, and the pauses between them; devices that one thread launches to are one.

    ``part`` is the place of the rank in ``graph.rank_graphs``, ``lanes`` are the threads that launch. ``calls`` is when
    any of them is in a launching call; ``pauses`` are the gaps of more than 1 ms of host time, also before the first
    and behind the last call of the rank's recording.
    """

    part: int
    lanes: Ids
    calls: Intervals
    pauses: Intervals


@dataclass(frozen=True, eq=False)
class RankPauses(Columns):
    """The pauses of a rank of whose rows its graph holds few, for each thread that launches; its own lanes.

    ``group`` numbers the devices, ``calls`` is how many launching calls they have; a device without pauses has one
    without length.
    """

    group: Ids
    lane: Ids
    calls: Ints
    start: Ints
    end: Ints


def pauses_of_rank(graph: DependencyGraph) -> RankPauses:
    """Return the pauses of a rank's whole graph."""
    found = [RankPauses.empty()]
    for group, own in enumerate(device_launches(graph)):
        times = own.pauses if len(own.pauses.start) else Intervals(np.zeros(1, np.int64), np.zeros(1, np.int64))
        for lane in own.lanes.tolist():
            calls = len(own.calls.start)
            found.append(RankPauses.of(group=group, lane=lane, calls=calls, start=times.start, end=times.end))
    return RankPauses.join(found)


def _known_launches(part: RankGraph, known: RankPauses) -> list[DeviceLaunches]:
    found = []
    for rows in rows_by_value(known.group).values():
        own = known.take(rows)
        first = own.take(own.lane == own.lane[0])
        lanes, count = distinct(own.lane) + np.int32(part.first_lane), int(own.calls[0])
        # How many calls there are tells the busiest device; when they were is not known here.
        calls = Intervals(np.zeros(count, np.int64), np.zeros(count, np.int64))
        some = first.end > first.start
        found.append(DeviceLaunches(part.index, lanes, calls, Intervals(first.start[some], first.end[some])))
    return found


@memoized
def device_launches(graph: DependencyGraph) -> list[DeviceLaunches]:
    """Find the launching calls and the pauses of each device of each rank; nothing where no call launched anything."""
    tables = ((part, part.graph.attached(RankPauses)) for part in graph.rank_graphs)
    known = {part.index: (part, table) for part, table in tables if table is not None}
    launches, events = graph.edges_of(EdgeKind.LAUNCH), graph.event_table
    threads, devices = events.lane[launches.source], graph.lanes.device[events.lane[launches.target]]
    parts = graph.rank_index_of_lane[threads]
    # A call that left no row on the GPU launches, too, where its thread does.
    calls = graph.event_flags.enqueueing_call.copy()
    calls[launches.source] = True
    found = [one for part, own in known.values() for one in _known_launches(part, own)]
    for part in distinct(parts[~np.isin(parts, list(known))]).tolist():
        own = parts == part
        for lanes in _threads_by_device(threads[own], devices[own]):
            rows = np.flatnonzero(calls & np.isin(events.lane, lanes))
            rows = rows[np.argsort(events.start[rows], kind="stable")]
            found.append(_launches_of(graph, part, lanes, rows))
    return found


def _threads_by_device(threads: Ids, devices: Ints) -> list[Ids]:
    """Return the threads that launch to each device, together with those of devices that one of them launches to."""
    groups: list[Ids] = []
    for rows in rows_by_value(devices).values():
        lanes = distinct(threads[rows])
        shared = [group for group in groups if np.isin(group, lanes).any()]
        groups = [group for group in groups if not np.isin(group, lanes).any()]
        groups.append(distinct(np.concatenate([lanes, *shared])))
    return groups


def _launches_of(graph: DependencyGraph, part: int, lanes: Ids, rows: Ints) -> DeviceLaunches:
    events = graph.event_table
    start = events.start[rows]
    # A call of no length divides two gaps as any other.
    calls = union(start, np.maximum(events.end[rows], start + 1))
    recorded = graph.rank_index_of_lane[events.lane] == part
    gaps = calls.gaps(int(events.start[recorded].min()), int(events.end[recorded].max()))
    host_ns = gaps.end - gaps.start
    # Who launches next was waited for; behind the last call it is who launched last.
    following = events.lane[rows[np.searchsorted(start, gaps.end).clip(max=len(rows) - 1)]]
    blocking = graph.event_flags.blocking_call & ~graph.event_flags.synchronous_copy_call
    for lane in lanes.tolist():
        waits, own = np.flatnonzero(blocking & (events.lane == lane)), following == lane
        first, last = (rows[events.lane[rows] == lane] for rows in polled_loops(graph)[:2])
        waiting = union(events.start[np.append(waits, first)], events.end[np.append(waits, last)])
        host_ns[own] -= waiting.covered_until(gaps.end[own]) - waiting.covered_until(gaps.start[own])
    is_long = host_ns > PAUSE_NS
    return DeviceLaunches(part, lanes, calls, Intervals(gaps.start[is_long], gaps.end[is_long]))


def time_in_pauses(graph: DependencyGraph, lane: Ids, start: Ints, end: Ints) -> Ints:
    """Return how much (ns) of times on threads lies in pauses of the device that each thread launches to.

    A thread that launches nothing pauses when its rank's busiest device is not launched to.
    """
    found = np.zeros(len(lane), np.int64)
    for pauses, rows in rows_by_pauses(graph, lane):
        found[rows] = pauses.covered_until(end[rows]) - pauses.covered_until(start[rows])
    return found


def rows_by_pauses(graph: DependencyGraph, lane: Ids) -> list[tuple[Intervals, Ints]]:
    """Return the pauses that concern threads, each with the rows of its threads; see :func:`time_in_pauses`."""
    pauses_of, every = np.full(len(graph.lanes.labels) + 1, -1, np.int32), device_launches(graph)
    # Those with the most calls come last, and so decide for threads that launch nothing.
    for place in sorted(range(len(every)), key=lambda at: len(every[at].calls.start)):
        pauses_of[:-1][graph.rank_index_of_lane == every[place].part] = place
    for place, launches in enumerate(every):
        pauses_of[launches.lanes] = place
    place_of = rows_by_value(pauses_of[lane])
    return [(every[place].pauses, rows) for place, rows in place_of.items() if place >= 0]
