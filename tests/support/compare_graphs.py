"""Whether a stripped trace has the graph of its original, in all but names, numbers of lanes and a shift of times."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import hta_graph as hg
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.event_flags import EventFlags
from hta_graph.trace.table import Trace

MARKS = [name for name, value in vars(EventFlags).items() if not name.startswith("_") and not callable(value)]


def differences(one: DependencyGraph, other: DependencyGraph) -> Iterator[str]:
    """Yield what differs between two graphs besides names."""
    yield from _events(one.trace, other.trace)
    left, right = (_edges(graph) for graph in (one, other))
    if left != right:
        yield f"edges: {len(left)} and {len(right)}, {len(left ^ right)} only in one"
    for mark in MARKS:
        mine, yours = getattr(one.event_flags, mark), getattr(other.event_flags, mark)
        if isinstance(mine, np.ndarray) and not np.array_equal(_by_index(one, mine), _by_index(other, yours)):
            yield f"marks: {mark}"
    yield from _paths(one, other)


def _events(one: Trace, other: Trace) -> Iterator[str]:
    mine, yours = one.events, other.events
    if not np.array_equal(np.sort(mine.index), np.sort(yours.index)):
        yield f"events: {len(mine)} and {len(yours)}"
        return
    a, b = np.argsort(mine.index), np.argsort(yours.index)
    for column in ("kind", "correlation", "external_id", "sequence", "forward_thread", "collective"):
        if not np.array_equal(getattr(mine, column)[a], getattr(yours, column)[b]):
            yield f"events: {column}"
    shift = set((mine.start[a] - yours.start[b]).tolist()) | set((mine.end[a] - yours.end[b]).tolist())
    if len(shift) > 1:
        yield f"events: {len(shift)} shifts of time"
    lanes = set(zip(mine.lane[a].tolist(), yours.lane[b].tolist(), strict=True))
    if any(len(set(side)) < len(lanes) for side in zip(*lanes, strict=True)):
        yield "events: lanes"
    names = set(zip(mine.name[a].tolist(), mine.kind[a].tolist(), yours.name[b].tolist(), strict=True))
    if len({(name, kind) for name, kind, _ in names}) < len(names):
        yield "events: one name has two pseudonyms"
    if len({(name, kind) for _, kind, name in names}) < len(names):
        yield "events: two names have one pseudonym"


def _edges(graph: DependencyGraph) -> set[tuple[Any, ...]]:
    edges = graph.edges
    keys = [column for column in edges.columns if column not in ("source_name", "target_name")]
    return set(map(tuple, edges[keys].astype(object).where(edges[keys].notna(), None).to_numpy().tolist()))


def _by_index(graph: DependencyGraph, marks: Any) -> Any:
    index = graph.event_table.index
    return marks[np.argsort(index)] if len(marks) == len(index) and marks.dtype == np.bool_ else np.zeros(0)


def _paths(one: DependencyGraph, other: DependencyGraph) -> Iterator[str]:
    if not len(one.event_table):
        return
    mine, yours = (hg.critical_path(graph) for graph in (one, other))
    if mine.by_bound().to_dict() != yours.by_bound().to_dict():
        yield "critical path: classes"
    columns = ["event_index", "edge", "evidence", "bound_by", "duration_ns"]
    columns = [column for column in columns if column in mine.segments and column in yours.segments]
    if not mine.segments[columns].equals(yours.segments[columns]):
        yield "critical path: segments"
