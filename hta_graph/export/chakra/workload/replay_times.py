"""How long each node takes, and how long a slot idles before it: so that a replay keeps to the recording."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.export.chakra.simulator.simulated import COMMUNICATION, COMPUTE, CPU, NO_SLOT
from hta_graph.export.chakra.workload.issue_order import issue_order
from hta_graph.export.chakra.workload.nodes import Nodes
from hta_graph.model import Bools, Ints

__all__ = ["ReplayTimes", "due_times", "replay_times"]

LONGEST_LATENCY_NS = 20_000
"""Nothing above this counts as the usual way from a launch to the GPU (recorded: 3 to 12 µs)."""

USUAL_LATENCY = 0.1
"""The share of launches that are at least as quick as the usual one: what is above it are delays of single kernels."""

SHORTEST_DELAY_NS = 10_000
"""A slot idles for at least so long before a delay is written: until then nodes start early by as much."""

FINEST_DELAY = 5_000
"""In short recordings a delay is written from this part of their length on."""


@dataclass(frozen=True)
class ReplayTimes:
    """Per node how long it works and how long its slot idles before that for no recorded reason (µs).

    ``order`` are the nodes as they start. ``after`` is the node that had the slot before a delay, where that one ended
    after all that the node waits for (-1: none).
    """

    order: Ints
    work: Ints
    delay: Ints
    after: Ints
    own_node: Bools
    """Where the delay is a node of its own, and no part of host time."""
    last: list[int]
    closing: int
    """How long the recording went on when the ``last`` nodes of the slots had ended (µs)."""


def due_times(nodes: Nodes) -> Ints:
    """Return when a simulator should start each node (ns): when it started, on the GPU the usual latency earlier.

    A launch takes some µs to arrive, and the CPU goes on meanwhile. No slot of a simulated rank can stand for that; but
    with the GPU's times that much earlier it costs nothing where the GPU has work, and comes back where the CPU waits:

        CPU      |launch|work        |wait         |goes on
        GPU         <----->|kernel          |
        due      |kernel          |         <----->            a delay on the CPU's slot

    A negative latency is that of a clock which is behind.
    """
    last = np.full(len(nodes), np.iinfo(np.int64).min)
    np.maximum.at(last, nodes.target, nodes.end[nodes.source])
    on_cpu = nodes.slot == CPU
    # Only where the launch was the last that a kernel waited for its latency shows.
    binding = on_cpu[nodes.source] & ~on_cpu[nodes.target] & (nodes.end[nodes.source] == last[nodes.target])
    if not binding.any():
        return nodes.start
    latency = (nodes.start[nodes.target] - nodes.end[nodes.source])[binding]
    usual = min(int(np.quantile(latency, USUAL_LATENCY, method="lower")), LONGEST_LATENCY_NS)
    return np.where(on_cpu, nodes.start, nodes.start - usual)


def replay_times(nodes: Nodes, work: Ints, origin: int) -> ReplayTimes:
    """Lay nodes out as a simulated rank runs them, one on a slot at a time, and find how long slots idle before them.

    Where a node could start earlier than it is due, that is time which no dependency explains (Python between
    operators, gaps between kernels, unexplained waits): a delay, if it is long enough to be worth a node. Shorter ones
    add up, for what follows is early as well, until they are; at last until the recording ends. Communication waits on
    the slot of computation.

    Host time that is no one event's (``row`` -1) gets longer instead.

    Args:
        nodes: the nodes.
        work: how long each works (ns).
        origin: when the simulation begins (ns).
    """
    due = due_times(nodes)
    order = issue_order(nodes, due)
    micros = _rounded_microseconds(nodes, work)
    span = int(nodes.end.max(initial=origin)) - origin
    least = min(SHORTEST_DELAY_NS, span // FINEST_DELAY)
    into = np.argsort(nodes.target, kind="stable")
    first = np.searchsorted(nodes.target[into], np.arange(len(nodes) + 1)).tolist()
    before = nodes.source[into].tolist()
    # One pass over lists: what each node's start is depends on those of all before it.
    slots, starts, took = nodes.slot.tolist(), (due - origin).tolist(), (1000 * micros).tolist()
    grows = (nodes.row < 0).tolist()
    end, delay, after = [0] * len(nodes), [0] * len(nodes), [-1] * len(nodes)
    free, latest = [0] * (NO_SLOT + 1), [-1] * (NO_SLOT + 1)
    for at in order.tolist():
        slot = slots[at]
        if slot == NO_SLOT:
            # A receive takes no slot: others run meanwhile.
            free[slot], latest[slot] = 0, -1
        ready = max([end[one] for one in before[first[at] : first[at + 1]]], default=0)
        begin = max(ready, free[slot])
        idle_from, holder = begin, latest[slot] if free[slot] > ready else -1
        if slot >= COMMUNICATION and free[COMPUTE] > begin:
            idle_from, holder = free[COMPUTE], latest[COMPUTE]
        idle = starts[at] - idle_from
        if idle >= least or (grows[at] and idle > 0):
            idle = (idle + 500) // 1000
            delay[at], after[at] = idle, holder
            begin = idle_from + 1000 * idle
            if slot >= COMMUNICATION:
                free[COMPUTE] = begin
        end[at] = free[slot] = begin + took[at]
        latest[slot] = at
    idle_before = np.array(delay, np.int64)
    own_node = (idle_before > 0) & (nodes.row >= 0)
    last = [at for at in latest if at >= 0]
    closing = max(span - max([end[at] for at in last], default=0) + 500, 0) // 1000
    return ReplayTimes(order, micros, idle_before, np.array(after, np.int64), own_node, last, closing)


def _rounded_microseconds(nodes: Nodes, work: Ints) -> Ints:
    """Round each node's work so that the sums along its thread or stream stay right; none is off by 1 µs."""
    # Rounded one by one, a million nodes of half a microsecond would be off by half a second: so their running sum
    # is rounded, and what is left over goes to the next.
    order = np.argsort(nodes.lane, kind="stable")
    rounded = np.diff((np.cumsum(work[order]) + 500) // 1000, prepend=0)
    result = np.empty_like(rounded)
    result[order] = rounded
    return result
