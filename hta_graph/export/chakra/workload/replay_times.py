"""How long each node takes when it is replayed in one slot, so that the whole takes as long as it did."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.export.chakra.simulator.simulated import COMMUNICATION, COMPUTE, CPU
from hta_graph.export.chakra.workload.nodes import Nodes
from hta_graph.model import Ints

__all__ = ["ReplayTimes", "replay_times"]

Stretches = tuple[Ints, Ints]
"""Disjoint stretches of time in order: their starts and ends (ns)."""

NONE: Stretches = (np.empty(0, np.int64), np.empty(0, np.int64))


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


def _share_out(nodes: Nodes, rows: Ints, start: Ints, work: Ints) -> Stretches:
    """Take from each node the time at which busier threads or streams worked; return when any worked."""
    busy = NONE
    lanes, count = np.unique(nodes.lane[rows], return_counts=True)
    for lane in lanes[np.argsort(-count, kind="stable")].tolist():
        own = rows[nodes.lane[rows] == lane]
        end = start[own] + work[own]
        work[own] -= _covered(busy, end) - _covered(busy, start[own])
        busy = _join_stretches(busy, (start[own], end))
    return busy


def _delays_before(rows: Ints, busy: Stretches, start: Ints, met: Ints, origin: int) -> Ints:
    """Give each idle time to the first node that starts at its end, as far as that one waited for nothing."""
    idle_since = np.append(origin, busy[1][:-1])[: len(busy[0])]
    after = np.searchsorted(busy[0], start[rows]).clip(max=max(len(busy[0]) - 1, 0))
    if not len(rows):
        return rows
    first = np.zeros(len(rows), np.bool_)
    first[np.unique(start[rows], return_index=True)[1]] = True
    ends_idleness = first & (busy[0][after] == start[rows])
    return np.where(ends_idleness, start[rows] - np.maximum(idle_since[after], met[rows]), 0).clip(min=0)


def _join_stretches(one: Stretches, other: Stretches) -> Stretches:
    """Join stretches; those that touch become one, and of one without length its moment stays."""
    start = np.concatenate([one[0], other[0]])
    order = np.argsort(start, kind="stable")
    start, end = start[order], np.maximum.accumulate(np.concatenate([one[1], other[1]])[order])
    if not len(start):
        return NONE
    first = np.flatnonzero(np.append(True, start[1:] > end[:-1]))
    return start[first], end[np.append(first[1:], len(start)) - 1]


def _covered(busy: Stretches, time: Ints) -> Ints:
    """Return how much of the time before each moment was busy (ns)."""
    start, end = busy
    if not len(start):
        return np.zeros(len(time), np.int64)
    before = np.append(0, np.cumsum(end - start))
    at = np.searchsorted(start, time, side="right") - 1
    inside = at.clip(min=0)
    return np.where(at >= 0, before[inside] + np.minimum(time, end[inside]) - start[inside], 0)
