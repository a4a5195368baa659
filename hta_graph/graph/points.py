"""Points, the starts and ends of events, in the one order in which they happened.

A point is a number: ``2 * event`` is the event's start, ``2 * event + 1`` its end. Only what makes
edges and what walks over them uses the number; all others ask the functions below.
"""

from __future__ import annotations

import numpy as np

from hta_graph.base.arrays import find_sorted, freeze
from hta_graph.model import Bools, Codes, EventKind, Ids, Ints
from hta_graph.trace.table import EventTable

# Classes of points at one instant, in the order in which they happen.
GPU_END, CPU_ZERO_AT_END, CPU_END, CPU_START, CPU_ZERO, GPU_ZERO, GPU_START, RENDEZVOUS = range(8)


def start_point(events: Ids | Ints) -> Ids:
    """Return the start points of events."""
    return (2 * events).astype(np.int32)


def end_point(events: Ids | Ints) -> Ids:
    """Return the end points of events."""
    return (2 * events + 1).astype(np.int32)


def event_of(points: Ids) -> Ids:
    """Return the events whose starts or ends points are; -1 for point -1."""
    return points >> 1


def is_end(points: Ids) -> Bools:
    """Mark the points that are ends."""
    ends: Bools = points & 1 == 1
    return ends


def point_times(events: EventTable) -> Ints:
    """Return the time of every point (ns); length twice the number of events."""
    times = np.empty(2 * len(events), np.int64)
    times[0::2] = events.start
    times[1::2] = events.end
    return times


def ordered_points(events: EventTable, rows: Ints, is_activity: Bools) -> Ids:
    """Return the points of rows in the order in which they happened; ``is_activity`` marks what is on no thread.

    At equal times on a thread: ends, then starts, outer before inner; a zero-length row on a boundary lies inside the
    row that ends there. GPU ends come before and GPU starts after what the CPU does at that instant.

        time t    GPU ends | rows without length whose lane ends a row here | CPU ends | CPU starts | …
                  … | rows without length alone | GPU rows without length | GPU starts | rendezvous of ranks
    """
    # Ends go in reverse, so that of rows that end together the one listed last, the innermost, ends first.
    zero = events.start[rows] == events.end[rows]
    starts, zeros, ends = rows[~zero], rows[zero], rows[~zero][::-1]
    items = np.concatenate([ends, zeros, starts])
    group = np.concatenate([
        np.where(is_activity[ends], GPU_END, CPU_END),
        _classes_without_length(events, zeros, ends, is_activity),
        np.where(is_activity[starts], GPU_START, CPU_START),
    ])  # fmt: skip
    time = np.concatenate([events.end[ends], events.start[zeros], events.start[starts]])
    origin = time.min() if len(time) else 0
    first_point = np.concatenate([2 * ends + 1, 2 * zeros, 2 * starts])
    is_pair = np.zeros(len(items), np.bool_)
    is_pair[len(ends) : len(ends) + len(zeros)] = True
    # A stable sort keeps canonical order among starts (outer first) and its reverse among ends (inner first).
    order = np.argsort((time - origin) * 8 + group, kind="stable")
    # A row without length is one item of that sort, so that nothing comes between its start and its end.
    repeats = np.where(is_pair[order], 2, 1)
    points = np.repeat(first_point[order], repeats)
    second = np.cumsum(repeats)[is_pair[order]] - 1
    points[second] += 1
    return freeze(points.astype(np.int32))


def classes_of_points(events: EventTable, is_activity: Bools) -> Codes:
    """Return the class of every point among those of its instant; -1 for rows without length on threads.

    Those stand before or behind the ends there, which follows from the other rows of their thread.
    """
    alone = np.where(is_activity, np.int8(GPU_ZERO), np.int8(-1))
    alone[events.kind == EventKind.RENDEZVOUS] = RENDEZVOUS
    is_zero = events.start == events.end
    classes = np.empty((len(events), 2), np.int8)
    for side, (on_gpu, on_cpu) in enumerate(((GPU_START, CPU_START), (GPU_END, CPU_END))):
        classes[:, side] = np.where(is_zero, alone, np.where(is_activity, np.int8(on_gpu), np.int8(on_cpu)))
    return classes.ravel()


def _classes_without_length(events: EventTable, zeros: Ints, ends: Ints, is_activity: Bools) -> Ints:
    on_thread = np.where(_at_an_end(events, zeros, ends), CPU_ZERO_AT_END, CPU_ZERO)
    meets = events.kind[zeros] == EventKind.RENDEZVOUS
    return np.where(meets, RENDEZVOUS, np.where(is_activity[zeros], GPU_ZERO, on_thread))


def _at_an_end(events: EventTable, zeros: Ints, ends: Ints) -> Bools:
    """Mark the zero-length rows at whose instant another row of their lane ends."""
    marked = np.zeros(len(zeros), np.bool_)
    candidates = np.flatnonzero(find_sorted(events.start[zeros], np.sort(events.end[ends])) >= 0)
    if len(candidates):
        near = ends[find_sorted(events.end[ends], np.sort(events.start[zeros[candidates]])) >= 0]
        seen = set(zip(events.lane[near].tolist(), events.end[near].tolist(), strict=True))
        here = zip(events.lane[zeros[candidates]].tolist(), events.start[zeros[candidates]].tolist(), strict=True)
        marked[candidates] = [key in seen for key in here]
    return marked
