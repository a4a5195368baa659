"""The stretch of a run that HTA looks at, and what its times count from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from analyses.scope import Scope, spanning, whole
from hta_graph.activities import activities
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import EventKind

__all__ = ["earliest_ns", "hta_scopes"]


def hta_scopes(graphs: Mapping[int, DependencyGraph], *, include_last_step: bool = False) -> list[Scope]:
    """Look at the stretch that HTA documents: without the last profiler step and work that no kept call launched.

    Where all ranks together name fewer than two steps, everything stays. HTA itself cuts later where the profiler also
    wrote the steps as GPU annotations; that is its mistake and is not repeated.
    """
    names = {item.number for graph in graphs.values() for item in graph.steps()}
    # The only step of a run is not left out: nothing would remain.
    if len(names) < 2:
        return [whole(rank, graph) for rank, graph in graphs.items()]
    return [_before_last_step(rank, graph, include_last_step=include_last_step) for rank, graph in graphs.items()]


def _before_last_step(rank: int, graph: DependencyGraph, *, include_last_step: bool) -> Scope:
    """Look at what was launched before the last step, or before its end."""
    steps = graph.steps()
    if not steps:
        return whole(rank, graph)
    last = max(steps, key=lambda item: item.start_ns)
    cut = last.end_ns + 1 if include_last_step else last.start_ns
    work = activities(graph)
    calls = np.flatnonzero((graph.event_table.kind == EventKind.RUNTIME) & (graph.event_table.start < cut))
    # Work stays with its call: what a kept call launched may run into the last step.
    correlation = graph.event_table.correlation
    own = correlation[work.row]
    kept = (own > 0) & np.isin(own, correlation[calls])
    return spanning(rank, graph, "HTA's window", work.take(kept), cut)


def earliest_ns(scopes: Iterable[Scope]) -> int:
    """Return when the first row with a duration starts in any of the scopes' traces; 0 without rows."""
    firsts = [scope.graph.event_table for scope in scopes]
    starts = [events.start[events.kind != EventKind.MEMORY] for events in firsts]
    return min((int(start.min()) for start in starts if len(start)), default=0)
