"""How long each node takes, and how long a slot idles before it: so that a replay keeps to the recording.

Work that overlaps other work of its slot is counted once if requested.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from hta_graph.chakra.astra_sim_executor import COMMUNICATION, COMPUTE, CPU, NO_SLOT
from hta_graph.chakra.nodes import Nodes, issue_order
from hta_graph.model import Bools, Ids, Ints
from hta_graph.paths.intervals import union


def overlap_ns(nodes: Nodes, slot: int) -> int:
    """Return how much longer a slot's nodes took together than the time in which any of them ran (ns)."""
    own = nodes.slot == slot
    return int((nodes.end - nodes.start)[own].sum()) - union(nodes.start[own], nodes.end[own]).total


def exclusive_work(nodes: Nodes) -> Ints:
    """Take from each node the time at which busier threads or streams of its slot worked; return what is left (ns).

    busiest stream    |=====|   |=======|
    another one          |=====|             its node keeps the part in the gap, the rest is the first one's
    """
    work = nodes.end - nodes.start
    for slot in (CPU, COMPUTE, COMMUNICATION):
        busy = union(work[:0], work[:0])
        for own in _busiest_first(nodes, slot):
            start, end = nodes.start[own], nodes.end[own]
            # A row that begins before the one before it on its stream has ended shares with that one.
            start = np.maximum(start, np.append(start[:1], np.maximum.accumulate(end)[:-1])).clip(max=end)
            work[own] = (end - start) - (busy.covered_until(end) - busy.covered_until(start))
            busy = union(np.concatenate([busy.start, start]), np.concatenate([busy.end, end]))
    return work


def _busiest_first(nodes: Nodes, slot: int) -> Iterator[Ints]:
    """Yield a slot's nodes, thread by thread or stream by stream; first of the one that has most."""
    rows = np.flatnonzero(nodes.slot == slot)
    lanes, count = np.unique(nodes.lane[rows], return_counts=True)
    for lane in lanes[np.argsort(-count, kind="stable")].tolist():
        yield rows[nodes.lane[rows] == lane]


MAX_LATENCY_NS = 20_000
"""Nothing above this counts as the usual way from a launch to the GPU (recorded: 3 to 12 µs)."""

USUAL_LATENCY = 0.1
"""The share of launches that are at least as quick as the usual one: what is above it are delays of single kernels."""

MIN_DELAY_NS = 10_000
"""A slot idles for at least so long before a delay is written: until then nodes start early by as much."""

MIN_DELAY_DIVISOR = 5_000
"""In short recordings a delay is written from this part of their length on."""


@dataclass(frozen=True)
class ReplayTimes:
    """Per node how long it works and how long its slot idles before that for no recorded reason (µs).

    ``order`` are the nodes as they start. ``after`` is what had the slot before a node and its delay, where that ended
    well after all that the node waits for (-1: none).
    """

    order: Ints
    work: Ints
    delay: Ints
    after: Ints
    own_node: Bools
    """Where the delay is a node of its own, and no part of host time."""
    last: list[int]
    closing: int
    """How long the recording continued after the ``last`` nodes of the slots had ended (µs)."""


def due_times(nodes: Nodes) -> Ints:
    """Return when a simulator should start each node (ns): when it started, on the GPU the usual latency earlier.

    A launch takes some µs to arrive, and meanwhile the CPU continues. No slot of a simulated rank models that; but
    with the GPU's times that much earlier it costs nothing where the GPU has work, and comes back where the CPU waits:

        CPU      |launch|work        |wait         |next
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
    usual = min(int(np.quantile(latency, USUAL_LATENCY, method="lower")), MAX_LATENCY_NS)
    return np.where(on_cpu, nodes.start, nodes.start - usual)


def replay_times(nodes: Nodes, work: Ints, origin: int, end: int) -> ReplayTimes:
    """Lay nodes out as a simulated rank runs them, one on a slot at a time, and find how long slots idle before them.

    Where a node could start earlier than it is due, no dependency explains that time (Python between
    operators, gaps between kernels, unexplained waits): a delay, if it is long enough to be worth a node. Shorter ones
    add up until they are, since all that follows is early too; at last until the recording ends. If the slot worked
    meanwhile, the node waits for what had it. Communication waits on the slot of computation:

        computation      |=====|delay|=====|=======|
        communication    |==|        |====|   |====|      the second waits for a delay; the third for a kernel, since
        could start         ^              ^              in the midst of another one nothing can hold it

    Host time that is no one event's (``row`` -1) gets longer instead.

    Args:
        nodes: the nodes.
        work: how long each works (ns).
        origin: when the simulation begins (ns).
        end: when the recording ended (ns).
    """
    due = due_times(nodes)
    order = issue_order(nodes, due)
    micros = rounded_microseconds(nodes.lane, work)
    span = end - origin
    least = min(MIN_DELAY_NS, span // MIN_DELAY_DIVISOR)
    into = np.argsort(nodes.target, kind="stable")
    first = np.searchsorted(nodes.target[into], np.arange(len(nodes) + 1)).tolist()
    before = nodes.source[into].tolist()
    # One pass over lists: what each node's start is depends on those of all before it.
    slots, starts, took = nodes.slot.tolist(), (due - origin).tolist(), (1000 * micros).tolist()
    grows = (nodes.row < 0).tolist()
    ended, delay, after = [0] * len(nodes), [0] * len(nodes), [-1] * len(nodes)
    ran = _Slots()
    for at in order.tolist():
        slot = slots[at]
        ready = max([ended[one] for one in before[first[at] : first[at + 1]]], default=0)
        begin, holder = ran.free_after(slot, ready)
        can_idle = True
        if slot >= COMMUNICATION and starts[at] - begin >= least:
            begin, holder, can_idle = ran.beside_computation(begin, holder, starts[at])
        idle = starts[at] - begin
        if can_idle and (idle >= least or (grows[at] and idle > 0)):
            idle = (idle + 500) // 1000
            delay[at], after[at] = idle, holder
            begin += 1000 * idle
            ran.idle(COMPUTE if slot >= COMMUNICATION else slot, begin)
        elif slot >= COMMUNICATION and min(begin, starts[at]) - ready >= least:
            after[at] = holder
        ended[at] = begin + took[at]
        ran.add(slot, at, ended[at])
    idle_before = np.array(delay, np.int64)
    own_node = (idle_before > 0) & (nodes.row >= 0)
    closing = max(span - ran.end + 500, 0) // 1000
    return ReplayTimes(order, micros, idle_before, np.array(after, np.int64), own_node, ran.last_nodes, closing)


class _Slots:
    """What each slot ran until now: its nodes in order and when each ended (ns from the beginning)."""

    def __init__(self) -> None:
        self._ends: list[list[int]] = [[] for _ in range(NO_SLOT + 1)]
        self._nodes: list[list[int]] = [[] for _ in range(NO_SLOT + 1)]

    def free_after(self, slot: int, ready: int) -> tuple[int, int]:
        """Return from when on a node that is ready can have a slot, and which node it waits for there (-1: none)."""
        ends = self._ends[slot]
        # A receive takes no slot: others run meanwhile.
        if slot == NO_SLOT or not ends or ends[-1] <= ready:
            return ready, -1
        return ends[-1], self._nodes[slot][-1]

    def beside_computation(self, begin: int, holder: int, due: int) -> tuple[int, int, bool]:
        """Return what communication that is due later waits for: computation that ended until then, if any did later.

        And whether the slot of computation is idle when it is due.
        """
        ends = self._ends[COMPUTE]
        place = bisect_right(ends, due) - 1
        if place >= 0 and ends[place] > begin:
            begin, holder = ends[place], self._nodes[COMPUTE][place]
        return begin, holder, place == len(ends) - 1

    def idle(self, slot: int, until: int) -> None:
        """Let a slot idle."""
        if self._ends[slot]:
            self._ends[slot][-1] = max(self._ends[slot][-1], until)

    def add(self, slot: int, node: int, end: int) -> None:
        """Let a slot run a node."""
        self._ends[slot].append(end)
        self._nodes[slot].append(node)

    @property
    def last_nodes(self) -> list[int]:
        """The last node of each slot."""
        return [own[-1] for own in self._nodes if own]

    @property
    def end(self) -> int:
        """When the last slot is free (ns)."""
        return max([own[-1] for own in self._ends if own], default=0)


def rounded_microseconds(lane: Ids, work: Ints) -> Ints:
    """Round each node's work (ns) so that the sums along its thread or stream stay right; none is off by 1 µs."""
    # Rounded one by one, a million nodes of half a microsecond would be off by half a second: so their running sum
    # is rounded, and what is left over goes to the next.
    order = np.argsort(lane, kind="stable")
    rounded = np.diff((np.cumsum(work[order]) + 500) // 1000, prepend=0)
    result = np.empty_like(rounded)
    result[order] = rounded
    return result
