"""Who asked for it: from a GPU activity to its launching call, the operator around that, its annotation, its frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hta_graph.graph import DependencyGraph
from hta_graph.links import LinkContext
from hta_graph.model import EventKind, Ids, Ints
from hta_graph.timeline import Nesting

__all__ = [
    "enclosing",
    "launching_calls",
    "launching_operators",
    "open_on_thread",
    "operators_around",
    "outermost_operators",
]


def launching_calls(graph: DependencyGraph) -> Ids:
    """Return for every event (canonical row) the call that launched it; -1 for orphans and for what is not on a GPU."""
    context = LinkContext(graph.trace, graph.timeline)
    calls = np.full(len(graph.trace.events), -1, np.int32)
    calls[context.activities] = context.launch_call
    return calls


def operators_around(graph: DependencyGraph) -> Ids:
    """Return for every operator and runtime call the innermost operator around it; -1 where there is none."""
    around = graph.timeline.calls.parent.copy()
    kind = graph.trace.events.kind
    while (inside_call := (around >= 0) & (kind[around] == EventKind.RUNTIME)).any():
        around[inside_call] = around[around[inside_call]]
    return around


def launching_operators(graph: DependencyGraph) -> Ids:
    """Return for every GPU activity the innermost operator around its launching call; -1 where there is none.

    The activity's own ``External id`` is not asked: it names another operator in many traces.
    """
    calls = launching_calls(graph)
    return np.where(calls >= 0, operators_around(graph)[calls], -1).astype(np.int32)


def outermost_operators(graph: DependencyGraph, rows: Ids | Ints) -> Ids:
    """Return the outermost operator around each row, or the row itself if it is that; -1 for row -1 and if none is.

    A GPU activity's is that of its launching call.
    """
    events = graph.trace.events
    on_gpu = (rows >= 0) & graph.trace.is_gpu[rows]
    calls = np.where(on_gpu, launching_calls(graph)[rows], rows)
    around = operators_around(graph)
    is_operator = (calls >= 0) & (events.kind[calls] == EventKind.CPU_OP)
    found = np.where(is_operator | (calls < 0), calls, around[calls]).astype(np.int32)
    while (inside := (found >= 0) & (around[found] >= 0)).any():
        found[inside] = around[found[inside]]
    return found


def enclosing(graph: DependencyGraph, rows: Ids | Ints, *kinds: EventKind) -> Ids:
    """Return the innermost row of some kinds that is open on each CPU row's thread when it starts; -1 where none is."""
    nesting = graph.timeline.lookups(*kinds)
    events = graph.trace.events
    found = np.full(len(rows), -1, np.int32)
    known = rows >= 0
    for lane in np.unique(events.lane[rows[known]]).tolist():
        here = known & (events.lane[rows] == lane)
        found[here] = _open_at(graph, nesting, lane, events.start[rows[here]])
    return found


def _open_at(graph: DependencyGraph, nesting: Nesting, lane: int, times: Ints) -> Ids:
    part = nesting.lane_slice(lane)
    points, owner = nesting.points[part], nesting.owner[part]
    at = np.searchsorted(graph.timeline.times[points], times, side="right") - 1
    return np.where(at >= 0, owner[at], -1).astype(np.int32) if len(points) else np.full(len(times), -1, np.int32)


def open_on_thread(graph: DependencyGraph, lane: int, nestings: Sequence[Nesting]) -> tuple[Ints, Ids]:
    """Return the times at which a thread's innermost looked-up row changes, and that row from there on (-1: none).

    A row of an earlier nesting goes before one of a later.
    """
    times = [graph.timeline.times[nesting.points[nesting.lane_slice(lane)]] for nesting in nestings]
    cuts = np.unique(np.concatenate(times))
    owner = np.full(len(cuts), -1, np.int32)
    for nesting, own_times in zip(nestings, times, strict=True):
        at = np.searchsorted(own_times, cuts, side="right") - 1
        own = np.where(at >= 0, nesting.owner[nesting.lane_slice(lane)][at], -1) if len(own_times) else owner
        owner = np.where(owner < 0, own, owner)
    return cuts, owner
