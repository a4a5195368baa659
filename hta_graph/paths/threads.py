"""Which threads do the program's work."""

from __future__ import annotations

import numpy as np

from hta_graph.arrays import freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import CPU_KINDS, Bools, EdgeKind, EventKind, kind_mask

__all__ = ["working_threads"]


@memoized
def working_threads(graph: DependencyGraph) -> Bools:
    """Mark the lanes that are threads which run operators, launch, or synchronise; a watchdog's polls are no work."""
    events = graph.event_table
    works = (events.kind == EventKind.CPU_OP) | graph.marks.blocking_call
    works[graph.edges_of(EdgeKind.LAUNCH).source] = True
    lanes = np.zeros(len(graph.lanes.labels), np.bool_)
    lanes[events.lane[works & kind_mask(events.kind, CPU_KINDS)]] = True
    return freeze(lanes)
