"""How much memory there is for reading, and how much reading a file takes."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from hta_graph.graph import DependencyGraph
from hta_graph.trace.peek import text_size

__all__ = ["graph_bytes", "memory_share", "peak_bytes"]

SHARE = 0.6
"""How much of the memory that is available may be used, if nothing else is said."""
PEAK_OF_A_PROCESS = 64 << 20
PEAK_PER_TEXT = 2.1
"""What a process takes for each byte of text: up to 1.8, where it is decompressed 2.1 (measured for 9 MB to 4 GB)."""
UNKNOWN_MEMORY = 4 << 30


def peak_bytes(path: Path) -> int:
    """Estimate how much memory a process takes that reads a file and builds its graph."""
    return PEAK_OF_A_PROCESS + int(PEAK_PER_TEXT * text_size(path))


def memory_share() -> int:
    """Return how many bytes may be used: a share of what the machine has left, or of the container's limit."""
    return int(SHARE * min(_available_bytes(), _control_group_limit()))


def _available_bytes() -> int:
    """Return the memory that is available; where the system does not tell, half of what it has."""
    with suppress(OSError, ValueError, IndexError):
        text = Path("/proc/meminfo").read_text(encoding="ascii")
        return int(text.split("MemAvailable:")[1].split()[0]) << 10
    with suppress(OSError, ValueError, AttributeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    return UNKNOWN_MEMORY


def _control_group_limit() -> int:
    """Return the limit of this process's control group, a container's for example (Linux, cgroup v2)."""
    limits = []
    with suppress(OSError, ValueError, IndexError):
        group = Path("/proc/self/cgroup").read_text(encoding="utf-8").split("::")[1].strip()
        # Inside a container its own group is the root of what it sees.
        for folder in [Path("/sys/fs/cgroup", group.lstrip("/")), Path("/sys/fs/cgroup")]:
            with suppress(OSError, ValueError):
                limits.append(int((folder / "memory.max").read_text(encoding="ascii")))
    return min(limits, default=1 << 62)


def graph_bytes(graph: DependencyGraph) -> int:
    """Return how many bytes a graph's columns take."""
    trace = graph.trace
    tables: list[Any] = [getattr(trace, f.name) for f in fields(trace)] + [graph.edge_table, graph.wait_calls]
    columns = [value for table in tables for value in getattr(table, "__dict__", {}).values()]
    return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))
