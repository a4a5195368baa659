"""A rank's graph in the time of its job."""

from __future__ import annotations

from dataclasses import replace

from hta_graph.arrays import freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.graph_timeline import Timeline
from hta_graph.model import Ints

__all__ = ["shift_to_job_time"]


def shift_to_job_time(graph: DependencyGraph, start: Ints, end: Ints) -> DependencyGraph:
    """Return a graph with other starts and ends (ns) of its events; the graph itself where they are its own."""
    events = graph.event_table
    if (start == events.start).all() and (end == events.end).all():
        return graph
    trace = replace(graph.trace, events=replace(events, start=freeze(start), end=freeze(end)))
    notes = {key: count for key, count in graph.diagnostics.items() if key not in trace.diagnostics}
    return DependencyGraph(trace, Timeline(trace), graph.edge_table, notes, graph.wait_calls)
