"""How long each node takes when it is replayed in one slot, so that the whole takes as long as it did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.time.intervals import Intervals, union
from hta_graph.export.chakra.simulator.simulated import COMMUNICATION, COMPUTE, CPU
from hta_graph.export.chakra.workload.nodes import Nodes
from hta_graph.model import Ints

__all__ = ["ReplayTimes", "replay_times"]


@dataclass(frozen=True)
class ReplayTimes:
    """Per node, in ns: ``delay``, how long its slot idles before it for no recorded reason, and ``work``."""

    delay: Ints
    work: Ints


def replay_times(nodes: Nodes, origin: int) -> ReplayTimes:
    """Share out the recorded time of each slot among its nodes.

    A simulated rank has one slot for CPU work and one for GPU work. Where threads or streams worked at the same time,
    the busiest one's nodes keep their time and the others' the rest, so that a slot takes no longer than it did. A
    node works only from when all that it depends on had ended. What remains are times at which nothing worked and
    nothing that is known was waited for (Python between operators, launch latency, unexplained waits): the delay of
    the node that ended them. Communication takes no time here; it can have a delay.

    Args:
        nodes: the nodes.
        origin: when the simulation begins (ns).
    """
    # From when on a node could work: all that it depends on has ended, and its own row has begun.
    met = np.full(len(nodes), origin)
    np.maximum.at(met, nodes.target, nodes.end[nodes.source])
    start = np.clip(met, nodes.start, nodes.end)
    work = nodes.end - start
    delay = np.zeros(len(nodes), np.int64)
    is_communication = nodes.slot == COMMUNICATION
    work[is_communication] = 0
    for slot in (CPU, COMPUTE):
        rows = np.flatnonzero((nodes.slot == slot) | (is_communication & (slot == COMPUTE)))
        busy = _share_out(nodes, rows, start, work)
        delay[rows] = _delays_before(rows, busy, start, met, origin)
    return ReplayTimes(delay, work)


def _share_out(nodes: Nodes, rows: Ints, start: Ints, work: Ints) -> Intervals:
    """Take from each node the time at which busier threads or streams worked; return when any worked.

    busiest stream    |=====|   |=======|
    another one          |=====|             its node keeps the part in the gap, the rest is the first one's
    """
    busy = union(start[:0], start[:0])
    lanes, count = np.unique(nodes.lane[rows], return_counts=True)
    for lane in lanes[np.argsort(-count, kind="stable")].tolist():
        own = rows[nodes.lane[rows] == lane]
        end = start[own] + work[own]
        work[own] -= busy.covered_until(end) - busy.covered_until(start[own])
        # Nodes without length stay as moments: they end an idle time too.
        everyone = np.concatenate([busy.start, start[own]]), np.concatenate([busy.end, end])
        busy = union(*everyone, keep_empty=True)
    return busy


def _delays_before(rows: Ints, busy: Intervals, start: Ints, met: Ints, origin: int) -> Ints:
    """Give each idle time to the first node that starts at its end, as far as that one waited for nothing."""
    if not len(rows):
        return rows
    idle_since = np.append(origin, busy.end[:-1])[: len(busy.end)]
    after = np.searchsorted(busy.start, start[rows]).clip(max=max(len(busy.start) - 1, 0))
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(start[rows], return_index=True)[1]] = True
    ends_idleness = first & (busy.start[after] == start[rows])
    return np.where(ends_idleness, start[rows] - np.maximum(idle_since[after], met[rows]), 0).clip(min=0)
