"""What nodes wait for: GPU work that an operator or another stream waited for, operators of other threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.chakra.placement import NodePlacement
from hta_graph.export.sync_dependencies import GPU_TO_CPU
from hta_graph.model import BETWEEN_ACTIVITIES, EdgeKind, Ids, Ints

__all__ = ["EventDependencies", "blocked_time", "gpu_dependencies", "sync_dependencies", "thread_dependencies"]


@dataclass(frozen=True)
class EventDependencies(Columns):
    """Pairs of events (canonical rows): ``target`` waits for ``source``; -1 where no node stands for the event."""

    source: Ids
    target: Ids


def sync_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair GPU work that a call waited for with the first operator that has a node after the call, on its thread."""
    edges = placement.graph.edges_of(*GPU_TO_CPU)
    return EventDependencies(_with_node(placement, edges.source), placement.operators_after(edges.target))


def gpu_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair GPU work with the work of other streams that waited for it: at events, and around graphs."""
    graph = placement.graph
    edges = graph.edges_of(*BETWEEN_ACTIVITIES)
    lane = graph.event_table.lane
    edges = edges.take(
        (lane[edges.source] != lane[edges.target]) & graph.is_gpu[edges.source] & graph.is_gpu[edges.target]
    )
    return EventDependencies(_with_node(placement, edges.source), _with_node(placement, edges.target))


def thread_dependencies(placement: NodePlacement) -> EventDependencies:
    """Pair operators of different threads: forward with backward, and what ran before and after a hand-off.

    A hand-off leads from the last operator that had started on the one thread to the first one that starts on the
    other: simulators run a thread's operators one after the other in the order of their starts.
    """
    graph = placement.graph
    recorded, handed = graph.edges_of(EdgeKind.FORWARD_BACKWARD), graph.edges_of(EdgeKind.THREAD_HANDOFF)
    backward, resumed = (placement.operators_from(edges.target, at_end=edges.to_end) for edges in (recorded, handed))
    stopped = placement.operators_before(handed.source, at_end=handed.from_end)
    waits = EventDependencies.join(
        [EventDependencies(placement.innermost(recorded.source), backward), EventDependencies(stopped, resumed)]
    )
    lane = graph.event_table.lane
    same = (waits.source >= 0) & (waits.target >= 0) & (lane[waits.source] == lane[waits.target])
    return waits.take(~same)


def blocked_time(placement: NodePlacement) -> Ints:
    """Return how long each row with a node waits in its own time (ns): in blocking calls, and for another thread."""
    blocked = np.zeros(len(placement.graph.event_table), np.int64)
    for owner, length in (_blocking_call_waits(placement), _thread_handoff_waits(placement)):
        np.add.at(blocked, owner[owner >= 0], length[owner >= 0])
    return np.minimum(blocked, placement.own_time)


def _blocking_call_waits(placement: NodePlacement) -> tuple[Ids, Ints]:
    """Find who waits in blocking calls: until the last awaited GPU work ends, at most until the call returns."""
    edges, events = placement.graph.edges_of(*GPU_TO_CPU), placement.graph.event_table
    calls, of_call = np.unique(edges.target, return_inverse=True)
    until = events.start[calls].copy()
    np.maximum.at(until, of_call, events.end[edges.source])
    waited = np.minimum(until, events.end[calls]) - events.start[calls]
    return placement.innermost(calls), waited


def _thread_handoff_waits(placement: NodePlacement) -> tuple[Ids, Ints]:
    """Find who waits for autograd's thread: what is open at home from a hand-off there to the next one back.

    home    |---- backward() --------------|
    away         |- there  |- back
                 |-- waits-|
    """
    edges, lane = placement.graph.edges_of(EdgeKind.THREAD_HANDOFF), placement.graph.event_table.lane
    leaving, entering = lane[edges.source], lane[edges.target]
    home, away = np.minimum(leaving, entering), np.maximum(leaving, entering)
    # Of two threads the lower lane stands as home; what counts is that the next hand-off goes the other way.
    order = np.lexsort((edges.source_ns, away, home))
    there, back = order[:-1], order[1:]
    pair = (home[there] == home[back]) & (away[there] == away[back]) & (leaving[there] != leaving[back])
    there, back = there[pair], back[pair]
    begin, end = edges.target_ns[there], edges.source_ns[back]
    return placement.open_at(entering[back], begin), np.maximum(end - begin, 0)


def _with_node(placement: NodePlacement, activities: Ids) -> Ids:
    """Return activities; -1 for those without a node."""
    return np.where(placement.launcher[activities] >= 0, activities, -1).astype(np.int32)
