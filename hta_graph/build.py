"""The one composer: a trace and the rules that infer edges → a dependency graph without clock faults and cycles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from hta_graph.dependencies.context import RuleContext
from hta_graph.dependencies.rules import DEFAULT_RULES, DependencyRule
from hta_graph.graph.dependency_graph import BUILD_DIAGNOSTICS, DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import edges_that_close_cycles
from hta_graph.log import log_info, log_warning
from hta_graph.model import CLOCK_FAULT_LIMIT_NS
from hta_graph.progress import begin_stage
from hta_graph.trace.table import Trace


def build_graph(trace: Trace, rules: Iterable[DependencyRule] = DEFAULT_RULES) -> DependencyGraph:
    """Build the dependency graph of a trace.

    Args:
        trace: what :func:`read_trace` returns.
        rules: the reasons to wait; each gives edges of one kind.

    Returns:
        an immutable graph; ``graph.diagnostics`` counts what was repaired or left out.
    """
    graph = build_without_log(trace, rules)
    log_clock_faults(graph)
    return graph


def log_clock_faults(graph: DependencyGraph) -> None:
    """Say which dependencies the clocks of a trace contradict."""
    dropped, clamped = (graph.diagnostics[key] for key in ("edges_dropped_back_in_time", "edges_clamped"))
    limit = f"{CLOCK_FAULT_LIMIT_NS / 1e6:g} ms"
    if dropped:
        log_warning(f"{graph.path}: {dropped:,} dependencies go back in time by more than {limit} and are left out")
    if clamped:
        log_info(f"{graph.path}: {clamped:,} dependencies go back in time by at most {limit} and count as no wait")


def build_without_log(trace: Trace, rules: Iterable[DependencyRule] = DEFAULT_RULES) -> DependencyGraph:
    """Build a graph whose faults are told by who asked for it: it may be built in another process."""
    begin_stage("building the graph")
    timeline = Timeline(trace)
    context = RuleContext(trace, timeline)
    edges = EdgeTable.join([rule(context) for rule in rules])
    notes = context.notes
    notes["nesting_violations"] = timeline.calls.violations
    edges = drop_impossible_edges(edges, timeline, notes)
    counts = {key: notes[key] for key in BUILD_DIAGNOSTICS}
    return DependencyGraph(trace, timeline, edges, counts, context.wait_calls)


def drop_impossible_edges(
    edges: EdgeTable, timeline: Timeline, notes: Counter[str], known: EdgeTable | None = None
) -> EdgeTable:
    """Leave out edges that go back in time by more than a clock fault, or that close a cycle; count both.

    Args:
        edges: edges, checked here.
        timeline: the order of their points.
        notes: is told what was left out and what goes back a little.
        known: edges that are sound alone; they are returned first.
    """
    # Faults first: an edge that is dropped for its times can close no cycle.
    edges = _without_clock_faults(edges, timeline, notes)
    return _without_cycles(edges if known is None else EdgeTable.join([known, edges]), timeline, notes)


def _without_clock_faults(edges: EdgeTable, timeline: Timeline, notes: Counter[str]) -> EdgeTable:
    """Keep edges that go back in time by a clock fault (lag 0, clamped); leave out those beyond the limit."""
    back = timeline.times[edges.source] - timeline.times[edges.target]
    impossible = back > CLOCK_FAULT_LIMIT_NS
    notes["edges_dropped_back_in_time"] = int(np.count_nonzero(impossible))
    notes["edges_clamped"] = int(np.count_nonzero(back > 0)) - notes["edges_dropped_back_in_time"]
    return edges.take(~impossible) if impossible.any() else edges


def _without_cycles(edges: EdgeTable, timeline: Timeline, notes: Counter[str]) -> EdgeTable:
    closing = edges_that_close_cycles(edges, timeline)
    notes["edges_dropped_cycle"] = len(closing)
    return edges.take(np.setdiff1d(np.arange(len(edges)), closing)) if len(closing) else edges
