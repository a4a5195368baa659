"""How much memory and how many processors there are for reading, and how much reading a file takes."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.storage.location import Location
from hta_graph.trace.header import text_size
from hta_graph.trace.memory_limit import PEAK_OF_A_PROCESS, PEAK_PER_TEXT, available_memory

__all__ = ["graph_bytes", "memory_share", "peak_bytes", "processor_count"]

MARGIN = 1.25
"""A text may be longer than it is likely to be: one that takes still more is read a second time, alone."""
SHARE = 0.6
"""How much of the memory that is available may be used, if nothing else is said."""


def peak_bytes(path: Location) -> int:
    """Estimate how much memory a process takes at most that reads a file and builds its graph."""
    return PEAK_OF_A_PROCESS + int(MARGIN * PEAK_PER_TEXT * text_size(path))


def processor_count() -> int:
    """Return how many processors this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory_share() -> int:
    """Return how many bytes may be used: a share of what the machine has left, or of the container's limit."""
    return int(SHARE * available_memory())


def graph_bytes(graph: DependencyGraph) -> int:
    """Return how many bytes a graph's columns take."""
    trace = graph.trace
    tables: list[Any] = [getattr(trace, f.name) for f in fields(trace)] + [graph.edge_table, graph.wait_calls]
    columns = [value for table in tables for value in getattr(table, "__dict__", {}).values()]
    return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))
