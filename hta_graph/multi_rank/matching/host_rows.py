"""What Gloo leaves in a trace: the rows of its work, the calls that asked for it, what was recorded on either."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind, Ids
from hta_graph.multi_rank.matching.communications import count_elements
from hta_graph.trace.event_args import EventArgs, read_event_args

__all__ = ["GlooEvents", "read_gloo_events"]


@dataclass(frozen=True)
class GlooEvents:
    """Rows of work and calls (canonical rows, in order of start), and per row and per call what was recorded on it.

    ``inputs`` are ``Concrete Inputs`` and ``sizes`` the elements (-1: not recorded), by canonical row; ``types`` one
    per row of work; ``distributed`` is the header's part about the job.
    """

    graph: DependencyGraph
    rows: Ids
    calls: Ids
    names: list[str]
    inputs: dict[int, Any]
    sizes: dict[int, int]
    types: list[Any]
    distributed: dict[str, Any]


def read_gloo_events(graph: DependencyGraph, calls: Collection[str]) -> GlooEvents | None:
    """Return Gloo's rows and the calls of some names; None if there are no such rows.

    Raises:
        TraceError: the file, which is read once more where there are such rows, is gone or has changed.
    """
    rows = _rows_by_start(graph, graph.marks.gloo_collective)
    if not len(rows):
        return None
    is_call = np.array([name in calls for name in graph.names])[graph.event_table.name]
    asked = _rows_by_start(graph, is_call & (graph.event_table.kind == EventKind.CPU_OP))
    both = np.concatenate((rows, asked))
    details = read_event_args(graph.trace, ("Concrete Inputs", "Input Dims", "Input type"), both)
    return GlooEvents(
        graph,
        rows,
        asked,
        [graph.name_of(row) for row in rows.tolist()],
        dict(zip(both.tolist(), details["Concrete Inputs"], strict=True)),
        dict(zip(both.tolist(), map(count_elements, details["Input Dims"]), strict=True)),
        _input_types(details, len(rows)),
        details.distributed,
    )


def _rows_by_start(graph: DependencyGraph, mask: np.ndarray[Any, np.dtype[np.bool_]]) -> Ids:
    found = np.flatnonzero(mask).astype(np.int32)
    return found[np.argsort(graph.event_table.start[found], kind="stable")]


def _input_types(details: EventArgs, rows: int) -> list[Any]:
    return [own[0] if isinstance(own, list) and own else None for own in details["Input type"][:rows]]
