"""What an analysis looks at: a stretch of one rank's trace and the GPU activities in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.algorithms.time.windows import WHOLE_TRACE, ResolvedWindow, Window, step
from hta_graph.algorithms.work.activities import Activities, activities
from hta_graph.columns import freeze
from hta_graph.errors import QueryError
from hta_graph.graph import DependencyGraph
from hta_graph.model import Bools, EventKind, Ids, Ints

__all__ = ["Scope", "earliest_ns", "in_window", "like_hta", "per_step", "whole"]


@dataclass(frozen=True)
class Scope:
    """A stretch of one rank's trace: [start_ns, end_ns) for time that is accounted for, and what belongs to it.

    CPU rows belong if they start in [cpu_start_ns, cpu_end_ns). ``work`` are the activities that these launch (of
    explicit times and whole traces: that start there), with their full lengths, for tables of activities; ``running``
    are those that run in the stretch, cut to it, for accounts of time.
    """

    rank: int
    graph: DependencyGraph
    label: str
    start_ns: int
    end_ns: int
    cpu_start_ns: int
    cpu_end_ns: int
    work: Activities
    running: Activities

    @property
    def window_ns(self) -> int:
        """The length of the stretch."""
        return self.end_ns - self.start_ns

    @property
    def is_open(self) -> bool:
        """Whether it holds all that came before, as the whole trace and HTA's window do; a step does not."""
        return self.cpu_start_ns == np.iinfo(np.int64).min

    def holds(self, rows: Ids | Ints) -> Bools:
        """Mark the CPU rows (canonical) that belong to the stretch."""
        start = self.graph.trace.events.start[rows]
        inside: Bools = (start >= self.cpu_start_ns) & (start < self.cpu_end_ns)
        return inside

    def missing(self) -> str:
        """Say what a question about the GPU lacks here; empty if it lacks nothing."""
        if len(self.running):
            return ""
        if len(activities(self.graph)):
            return f"rank {self.rank}: no GPU activity in {self.label}; choose another window"
        return (
            f"rank {self.rank}: the trace holds no GPU activity; record with ProfilerActivity.CUDA "
            "and profile steps that launch kernels"
        )


def whole(rank: int, graph: DependencyGraph) -> Scope:
    """Look at the whole trace: from the first GPU activity's start to the last one's end, and at every CPU row."""
    work = activities(graph)
    return _spanning(rank, graph, WHOLE_TRACE, work, np.iinfo(np.int64).max)


def in_window(rank: int, graph: DependencyGraph, window: Window) -> Scope:
    """Look at a window such as a step; at the whole trace as :func:`whole` does.

    Raises:
        QueryError: the trace has no such window.
    """
    found = window(graph)
    if found.label == WHOLE_TRACE and not found.is_named:
        return whole(rank, graph)
    every = activities(graph)
    running = every.take((every.start < found.end_ns) & (every.end > found.start_ns))
    running = replace(
        running,
        start=freeze(running.start.clip(min=found.start_ns)),
        end=freeze(running.end.clip(max=found.end_ns)),
    )
    work = every.take(_belongs(graph, every, found))
    return Scope(rank, graph, found.label, found.start_ns, found.end_ns, *found.cpu_span, work, running)


def _belongs(graph: DependencyGraph, every: Activities, found: ResolvedWindow) -> Bools:
    """Mark what a step or annotation launched; of explicit times what starts in the window."""
    if not found.is_named:
        return (every.start >= found.start_ns) & (every.start < found.end_ns)
    first, last = found.cpu_span
    called = graph.trace.events.start[every.call]
    return (every.call >= 0) & (called >= first) & (called < last)


def per_step(rank: int, graph: DependencyGraph, *, cpu_window: bool = False, gpu_window: bool = False) -> list[Scope]:
    """Look at each profiler step, as ``--step N`` does, to its end on the CPU, or from end to end on the GPU.

    Raises:
        QueryError: the trace has no steps.
    """
    steps = graph.trace.steps()
    if not steps:
        raise QueryError(
            f"{graph.trace.path}: has no profiler steps; call prof.step() in the training loop, "
            "or ask about the whole trace"
        )
    windows = [step(item.number, cpu_window=cpu_window, gpu_window=gpu_window) for item in steps]
    return [in_window(rank, graph, window) for window in windows]


def like_hta(graphs: Mapping[int, DependencyGraph], *, include_last_step: bool = False) -> list[Scope]:
    """Look at the stretch that HTA documents: without the last profiler step and work that no kept call launched.

    Where all ranks together name fewer than two steps, everything stays. HTA itself cuts later where the profiler also
    wrote the steps as GPU annotations; that is its mistake and is not repeated.
    """
    names = {item.number for graph in graphs.values() for item in graph.trace.steps()}
    if len(names) < 2:
        return [whole(rank, graph) for rank, graph in graphs.items()]
    return [_before_last_step(rank, graph, include_last_step=include_last_step) for rank, graph in graphs.items()]


def _before_last_step(rank: int, graph: DependencyGraph, *, include_last_step: bool) -> Scope:
    steps = graph.trace.steps()
    if not steps:
        return whole(rank, graph)
    last = max(steps, key=lambda item: item.start_ns)
    cut = last.end_ns + 1 if include_last_step else last.start_ns
    work = activities(graph)
    calls = np.flatnonzero((graph.trace.events.kind == EventKind.RUNTIME) & (graph.trace.events.start < cut))
    kept = np.isin(work.row, _with_correlation_of(graph, work.row, calls))
    return _spanning(rank, graph, "HTA's window", work.take(kept), cut)


def _with_correlation_of(graph: DependencyGraph, rows: Ids, calls: Ints) -> Ids:
    correlation = graph.trace.events.correlation
    kept: Ids = rows[(correlation[rows] > 0) & np.isin(correlation[rows], correlation[calls])]
    return kept


def _spanning(rank: int, graph: DependencyGraph, label: str, work: Activities, cpu_end_ns: int) -> Scope:
    start, end = (int(work.start.min()), int(work.end.max())) if len(work) else (0, 0)
    return Scope(rank, graph, label, start, end, np.iinfo(np.int64).min, cpu_end_ns, work, work)


def earliest_ns(scopes: Iterable[Scope]) -> int:
    """Return when the first row with a duration starts in any of the scopes' traces; 0 without rows."""
    firsts = [scope.graph.trace.events for scope in scopes]
    starts = [events.start[events.kind != EventKind.MEMORY] for events in firsts]
    return min((int(start.min()) for start in starts if len(start)), default=0)
