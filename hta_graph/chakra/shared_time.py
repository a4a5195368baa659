"""Work that ran beside other work of its slot: how much there is, and shared out so that none is counted twice."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hta_graph.chakra.simulated import COMMUNICATION, COMPUTE, CPU
from hta_graph.chakra.workload_nodes import Nodes
from hta_graph.model import Ints
from hta_graph.paths.intervals import union

__all__ = ["exclusive_work", "overlap_ns"]


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
