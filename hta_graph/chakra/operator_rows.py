"""What two traces of one process are compared by: their operators and annotations, in the order of their beginning."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.chakra.host_trace import HostTrace
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids, Ints, kind_mask

__all__ = ["OperatorRows", "RowPairs", "device_operators", "host_operators"]

RowPairs = tuple[Ints, Ints]
"""Places in the one side's rows and in the other's."""


@dataclass(frozen=True)
class OperatorRows:
    """Operators and annotations of one trace in the order in which they began: rows, the host's name codes, threads."""

    row: Ints
    code: Ids
    thread: Ints


def host_operators(host: HostTrace) -> OperatorRows:
    """Return those of a host trace."""
    rows = np.flatnonzero(host.is_operator)
    return OperatorRows(rows, host.name[rows], host.thread[rows])


def device_operators(graph: DependencyGraph, host: HostTrace) -> OperatorRows:
    """Return those of a device trace; a name that the host trace does not have is -1."""
    events = graph.event_table
    code = {name: at for at, name in enumerate(host.names)}
    of_name = np.array([code.get(name, -1) for name in graph.names] or [-1], np.int32)
    rows = np.flatnonzero(kind_mask(events.kind, (EventKind.CPU_OP, EventKind.ANNOTATION)))
    # Of two that start at one instant the ids tell the first.
    rows = rows[np.lexsort((events.external_id[rows], events.start[rows]))]
    return OperatorRows(rows, of_name[events.name[rows]], events.lane[rows].astype(np.int64))
