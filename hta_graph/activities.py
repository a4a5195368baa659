"""The GPU activities of a graph as columns, and what kind of work each is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hta_graph.arrays import Columns
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Codes, Ids, Ints
from hta_graph.paths.intervals import Intervals, union

__all__ = ["Activities", "WorkType", "activities"]


class WorkType(IntEnum):
    """What a GPU activity does: compute, talk to other ranks, or move memory."""

    COMPUTATION = 0
    COMMUNICATION = 1
    MEMORY = 2

    @property
    def label(self) -> str:
        """The name in output: lower case."""
        return self.name.lower()


@dataclass(frozen=True, eq=False)
class Activities(Columns):
    """GPU activities in canonical order: canonical row, times (ns), lane, type of work, launching call (-1: none)."""

    row: Ids
    start: Ints
    end: Ints
    lane: Ids
    type: Codes
    call: Ids

    def busy(self, *types: WorkType) -> Intervals:
        """Return when activities run, of some types or of all."""
        chosen = np.isin(self.type, types) if types else slice(None)
        return union(self.start[chosen], self.end[chosen])


@memoized
def activities(graph: DependencyGraph) -> Activities:
    """Return all GPU activities of a graph: kernels, copies and sets by category, whatever their stream.

    MTIA writes the waits of its streams and its copies among the kernels: those are no work, these are memory.
    """
    marks, events = graph.marks, graph.event_table
    rows = np.flatnonzero(graph.is_gpu & ~marks.waits_on_device).astype(np.int32)
    types = np.full(len(rows), WorkType.COMPUTATION, np.int8)
    types[marks.moves_memory[rows]] = WorkType.MEMORY
    types[marks.communicates[rows]] = WorkType.COMMUNICATION
    calls = graph.launching_call[rows]
    return Activities(rows, events.start[rows], events.end[rows], events.lane[rows], types, calls)
