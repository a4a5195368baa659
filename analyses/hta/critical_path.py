"""HTA's view of a critical path: its edges as objects with a type, and the events that each joins.

Scripts walk these to export dependencies, such as the one of mlcommons/chakra pull request 57.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np

from hta_graph.graph.edges import EventEdges
from hta_graph.model import EDGE_MEANING, EdgeKind, EdgeRole
from hta_graph.paths.critical_path import CriticalPath


class CPEdgeType(Enum):
    """HTA's types of edges."""

    OPERATOR_KERNEL = "critical_path_operator"
    """A part of an operator, a call or a GPU activity."""
    DEPENDENCY = "critical_path_dependency"
    """From one to the next on a thread, or from thread to thread."""
    KERNEL_LAUNCH_DELAY = "critical_path_kernel_launch_delay"
    KERNEL_KERNEL_DELAY = "critical_path_kernel_kernel_delay"
    SYNC_DEPENDENCY = "critical_path_sync_dependency"
    """From GPU work to what waited for it: a call, or work on another stream."""


TYPE_OF_ROLE = {
    EdgeRole.THREAD: CPEdgeType.DEPENDENCY,
    EdgeRole.ACTIVITY: CPEdgeType.OPERATOR_KERNEL,
    EdgeRole.LAUNCH: CPEdgeType.KERNEL_LAUNCH_DELAY,
    EdgeRole.STREAM: CPEdgeType.KERNEL_KERNEL_DELAY,
    EdgeRole.RETURN: CPEdgeType.SYNC_DEPENDENCY,
    EdgeRole.HOLD: CPEdgeType.DEPENDENCY,
    EdgeRole.RESUMPTION: CPEdgeType.DEPENDENCY,
    EdgeRole.RELEASE: CPEdgeType.SYNC_DEPENDENCY,
    EdgeRole.TRANSFER: CPEdgeType.SYNC_DEPENDENCY,
    EdgeRole.AWAKENING: CPEdgeType.SYNC_DEPENDENCY,
}


def edge_type(kind: EdgeKind) -> CPEdgeType:
    """Return HTA's type of a kind of edge.

    >>> edge_type(EdgeKind.EVENT_WAIT).name, edge_type(EdgeKind.STREAM_ORDER).name
    ('SYNC_DEPENDENCY', 'KERNEL_KERNEL_DELAY')
    """
    meaning = EDGE_MEANING[kind]
    return CPEdgeType.SYNC_DEPENDENCY if meaning.exported else TYPE_OF_ROLE[meaning.role]


@dataclass(frozen=True)
class CPEdge:
    """An edge between two points (``2 * event`` is its start, ``2 * event + 1`` its end), its length (µs) and type."""

    begin: int
    end: int
    weight: float
    type: CPEdgeType


class HtaCriticalPath(CriticalPath):
    """A critical path with the names of HTA's graph; ``graph`` has all edges, also those that were not critical."""

    @classmethod
    def of(cls, path: CriticalPath) -> HtaCriticalPath:
        """Take over a path."""
        return cls(path.graph, path.window, path.chain, path.segment_table, path.data_load)

    @cached_property
    def critical_path_edges_set(self) -> set[CPEdge]:
        """The edges of the path."""
        edges, times = self._edges, self.chain.times
        # A thread works from a point on unless that ended an outermost row.
        idle = edges.from_end & (self.graph.calls.parent[edges.source] < 0)
        columns = (2 * edges.source + edges.from_end, 2 * edges.target + edges.to_end, times[:-1] - times[1:])
        found = zip(*(column.tolist() for column in (*columns, edges.kind, idle)), strict=True)
        return {
            CPEdge(begin, end, length / 1e3, self._type_of(kind, idle=rests))
            for begin, end, length, kind, rests in found
        }

    @cached_property
    def _edges(self) -> EventEdges:
        return self.graph.edges_at(self.chain.edges)

    @staticmethod
    def _type_of(kind: int, *, idle: bool) -> CPEdgeType:
        works = kind == EdgeKind.THREAD_ORDER and not idle
        return CPEdgeType.OPERATOR_KERNEL if works else edge_type(EdgeKind(kind))

    @cached_property
    def critical_path_nodes(self) -> list[int]:
        """The points of the path, in order of time."""
        nodes: list[int] = self.chain.points[::-1].tolist()
        return nodes

    @cached_property
    def critical_path_events_set(self) -> set[int]:
        """The events of the path, by their places in ``traceEvents``."""
        rows = np.unique(np.append(self._edges.source, self._edges.target))
        return set(self.graph.event_table.index[rows].tolist())

    def get_events_for_edge(self, edge: CPEdge) -> tuple[int, int]:
        """Return the events that an edge joins, by their places in ``traceEvents``."""
        index = self.graph.event_table.index
        return int(index[edge.begin >> 1]), int(index[edge.end >> 1])
