"""The one composer: a trace and the rules that infer edges → a dependency graph without clock faults and cycles.

A rule is a function from what a trace shows to edges of one kind. To add an edge kind: a member of ``EdgeKind`` with
its row in ``EDGE_MEANING``, a rule of its name, a line in :data:`DEFAULT_RULES`, and its test.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from hta_graph.base.errors import QueryError, log_info, log_warning
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.dependencies import host, streams, synchronization
from hta_graph.dependencies.context import LaunchedActivities, RuleContext
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.edges import EdgeTable
from hta_graph.graph.timeline import Timeline
from hta_graph.graph.validate import edges_that_close_cycles
from hta_graph.model import BUILD_DIAGNOSTICS, CLOCK_FAULT_LIMIT_NS
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.critical_path import critical_path as path_of_graph
from hta_graph.paths.windows import WindowQuery
from hta_graph.trace.event_times import in_host_time
from hta_graph.trace.read import read_trace
from hta_graph.trace.table import Trace

DependencyRule = Callable[[RuleContext], EdgeTable]

DEFAULT_RULES: tuple[DependencyRule, ...] = (
    host.thread_order,
    streams.execution,
    streams.launch,
    streams.stream_order,
    streams.graph_order,
    streams.event_wait,
    synchronization.stream_sync,
    synchronization.device_sync,
    synchronization.event_sync,
    synchronization.blocking_copy,
    host.thread_handoff,
    host.forward_backward,
    host.runtime_lock,
    streams.queue_full,
    synchronization.host_poll,
)
"""The rules in the order of their edges in a graph; each makes the edges of the kind that it is named after."""


def build_graph(trace: Trace | str | Location, rules: Iterable[DependencyRule] = DEFAULT_RULES) -> DependencyGraph:
    """Build the dependency graph of a trace.

    Args:
        trace: what :func:`read_trace` returns, or the name of a trace file, which is read first.
        rules: the reasons to wait; :data:`DEFAULT_RULES`, and rules of your own
            (``RuleContext.custom_edges`` gives their edges).

    Returns:
        an immutable graph; ``graph.diagnostics`` counts what was repaired or left out.

    Raises:
        TraceError: the file cannot be read or is not a trace.
        TypeError: neither a trace nor the name of a file is given.
    """
    graph = build_without_log(_trace_of(trace, "build_graph"), rules)
    log_clock_faults(graph)
    return graph


def critical_path(
    graph: DependencyGraph | Trace | str | Location,
    window: WindowQuery | None = None,
    *,
    data_load: Sequence[str] = (),
) -> CriticalPath:
    """Extract the critical path of a window.

    Args:
        graph: a dependency graph. A trace or the name of a trace file works too: its graph is built first. To analyze
            several windows, build the graph once and pass it.
        window: :func:`step`, :func:`annotation`, :func:`between` or :func:`whole`; without one the median step, else
            the whole trace.
        data_load: regular expressions of operator and annotation names that mean data loading; if none are given, those
            of PyTorch's loaders.

    Returns:
        segments that tile the window; time that no edge explains is ``unexplained``.

    Raises:
        QueryError: the window is not in the trace, or a pattern is not a regular expression.
        TraceError: the file cannot be read or is not a trace.
        UsageError: the window is not one, such as a number.
        TypeError: the first argument is neither a graph nor a trace nor the name of a file.
    """
    known = graph
    if not isinstance(known, DependencyGraph):
        known = build_graph(_trace_of(known, "critical_path", "a graph, a trace"))
    return path_of_graph(known, window, data_load=data_load)


def _trace_of(trace: object, function: str, taken: str = "a trace") -> Trace:
    """Return a trace as it is, or read the one that a file holds."""
    if isinstance(trace, Trace):
        return trace
    if isinstance(trace, DependencyGraph):
        raise TypeError(f"{function} takes a trace or a file name, not a graph; use the graph as it is")
    if not isinstance(trace, str | Location):
        said = f"{function} takes {taken} or the name of a trace file, not {type(trace).__name__}"
        several = isinstance(trace, list | tuple)
        raise TypeError(f"{said}; read several ranks with read_job" if several else said)
    place = resolve_location(trace)
    if place.is_dir():
        raise QueryError(f"{place}: is a folder; name one file, or read all ranks with read_job({str(place)!r})")
    return read_trace(place)


def log_clock_faults(graph: DependencyGraph) -> None:
    """Log which dependencies the clocks of a trace contradict."""
    dropped, clamped = (graph.diagnostics[key] for key in ("edges_dropped_back_in_time", "edges_clamped"))
    limit = f"{CLOCK_FAULT_LIMIT_NS / 1e6:g} ms"
    if dropped:
        log_warning(f"{graph.path}: {dropped:,} dependencies go back in time by more than {limit} and are dropped")
    if clamped:
        log_info(f"{graph.path}: {clamped:,} dependencies go back in time by at most {limit} and are kept with lag 0")


def build_without_log(trace: Trace, rules: Iterable[DependencyRule] = DEFAULT_RULES) -> DependencyGraph:
    """Build a graph without logging its clock faults, which the caller does: this may be another process."""
    begin_stage("building the graph")
    launches = LaunchedActivities(trace)
    in_file_time, trace = trace, in_host_time(trace, launches.clocks())
    timeline = Timeline(trace)
    # Where events moved, their rows are others.
    context = RuleContext(trace, timeline, launches if trace.events is in_file_time.events else None)
    edges = streams.without_silenced(context, EdgeTable.join([rule(context) for rule in rules]))
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
        notes: counts what is left out and what goes back a little.
        known: edges that need no check; they are returned first.
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
