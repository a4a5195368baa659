"""What nodes wait for: GPU work that an operator or another stream waited for, operators of other threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.export.chakra.linked.placement import Placement
from hta_graph.export.sync_dependencies import GPU_TO_CPU
from hta_graph.links import EdgeTable
from hta_graph.model import EdgeKind, Ids, Ints

__all__ = ["Waits", "blocked_time", "gpu_waits", "sync_waits", "thread_waits"]


@dataclass(frozen=True)
class Waits:
    """Pairs of events (canonical rows): ``target`` waits for ``source``; -1 where no node stands for the event."""

    source: Ids
    target: Ids

    @classmethod
    def join(cls, *parts: Waits) -> Waits:
        """Concatenate pairs."""
        return cls(np.concatenate([part.source for part in parts]), np.concatenate([part.target for part in parts]))


def sync_waits(placement: Placement) -> Waits:
    """Pair GPU work that a call waited for with the first operator that has a node after the call, on its thread."""
    edges = _edges(placement, *GPU_TO_CPU)
    return Waits(_placed(placement, edges.source >> 1), placement.operators_after(edges.target >> 1))


def gpu_waits(placement: Placement) -> Waits:
    """Pair GPU work with the work of other streams that waited for it: at events, and around graphs."""
    edges = _edges(placement, EdgeKind.EVENT_WAIT, EdgeKind.GRAPH_ORDER)
    source, target = edges.source >> 1, edges.target >> 1
    lane = placement.graph.trace.events.lane
    other = (lane[source] != lane[target]) & placement.graph.trace.is_gpu[source] & placement.graph.trace.is_gpu[target]
    return Waits(_placed(placement, source[other]), _placed(placement, target[other]))


def thread_waits(placement: Placement) -> Waits:
    """Pair operators of different threads: forward with backward, and what ran before and after a hand-off.

    A hand-off leads from the last operator that had started on the one thread to the first one that starts on the
    other: simulators run a thread's operators one after the other in the order of their starts.
    """
    recorded, handed = _edges(placement, EdgeKind.FORWARD_BACKWARD), _edges(placement, EdgeKind.THREAD_HANDOFF)
    found = Waits.join(
        Waits(placement.innermost(recorded.source >> 1), placement.operators_from(recorded.target)),
        Waits(placement.operators_before(handed.source), placement.operators_from(handed.target)),
    )
    lane = placement.graph.trace.events.lane
    same = (found.source >= 0) & (found.target >= 0) & (lane[found.source] == lane[found.target])
    return Waits(found.source[~same], found.target[~same])


def blocked_time(placement: Placement) -> Ints:
    """Return how long each row with a node waits in its own time (ns): in blocking calls, and for another thread."""
    blocked = np.zeros(len(placement.graph.trace.events), np.int64)
    for owner, length in (_in_calls(placement), _for_threads(placement)):
        np.add.at(blocked, owner[owner >= 0], length[owner >= 0])
    return np.minimum(blocked, placement.own_time)


def _in_calls(placement: Placement) -> tuple[Ids, Ints]:
    """Find who waits in blocking calls: until the last awaited GPU work ends, at most until the call returns."""
    edges, events = _edges(placement, *GPU_TO_CPU), placement.graph.trace.events
    calls, of_call = np.unique(edges.target >> 1, return_inverse=True)
    until = events.start[calls].copy()
    np.maximum.at(until, of_call, events.end[edges.source >> 1])
    waited = np.minimum(until, events.end[calls]) - events.start[calls]
    return placement.innermost(calls), waited


def _for_threads(placement: Placement) -> tuple[Ids, Ints]:
    """Find who waits for autograd's thread: from a hand-off there to the next one back."""
    edges, times = _edges(placement, EdgeKind.THREAD_HANDOFF), placement.graph.timeline.times
    lane = placement.graph.trace.events.lane
    home = np.minimum(lane[edges.source >> 1], lane[edges.target >> 1])
    away = np.maximum(lane[edges.source >> 1], lane[edges.target >> 1])
    order = np.lexsort((times[edges.source], away, home))
    there, back = order[:-1], order[1:]
    pair = (home[there] == home[back]) & (away[there] == away[back])
    pair &= lane[edges.source[there] >> 1] != lane[edges.source[back] >> 1]
    there, back = there[pair], back[pair]
    begin, end = times[edges.target[there]], times[edges.source[back]]
    owner = np.full(len(begin), -1, np.int32)
    for thread in np.unique(lane[edges.target[back] >> 1]).tolist():
        here = lane[edges.target[back] >> 1] == thread
        owner[here] = placement.open_at(thread, begin[here])
    return owner, np.maximum(end - begin, 0)


def _edges(placement: Placement, *kinds: EdgeKind) -> EdgeTable:
    edges = placement.graph.edge_table
    return edges.take(np.isin(edges.kind, kinds))


def _placed(placement: Placement, activities: Ids) -> Ids:
    return np.where(placement.launcher[activities] >= 0, activities, -1).astype(np.int32)
