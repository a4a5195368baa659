"""The step of a job on each of its ranks: one window, so that all parts of a page agree on its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.step_table import StepRow
from hta_graph.paths.window_ends import sink_at, steps_by_number
from hta_graph.paths.windows import Window, WindowQuery, resolved_window, step


def is_shared(job: CriticalPath | None) -> bool:
    """Return whether a job's window is a step that all ranks can be analyzed over."""
    return job is not None and job.window.step is not None and job.window.form == "gpu"


def rank_windows(job: CriticalPath, graphs: Mapping[int, DependencyGraph]) -> dict[int, WindowQuery]:
    """Return the window of a job's step on the clock of each rank that has the step; none of another window."""
    if not is_shared(job):
        return {}
    clocks = job.graph.clock_table
    ahead = dict(zip(clocks.rank.tolist(), clocks.offset.tolist(), strict=True))
    return {
        rank: resolved_window(_on_rank(job.window, graph, ahead.get(rank, 0)))
        for rank, graph in graphs.items()
        if job.window.step in steps_by_number(graph)
    }


def _on_rank(window: Window, graph: DependencyGraph, ahead_ns: int) -> Window:
    """Return the job's window with what the rank launches in its own step."""
    own, end = step(window.step or 0)(graph), window.end_ns + ahead_ns
    return replace(
        own,
        start_ns=window.start_ns + ahead_ns,
        end_ns=end,
        gpu_ns=window.end_ns - window.start_ns,
        sink=sink_at(graph, end),
        cpu_start_ns=own.cpu_span[0],
        form="gpu",
        is_default=window.is_default,
    )


def steps_on_rank(
    steps: Sequence[StepRow], graph: DependencyGraph, rank: int, data_load: Sequence[str] = ()
) -> list[StepRow]:
    """Return the steps of a job with the paths of one rank in them: those of its timeline."""
    found = [(row, windows[rank]) for row in steps if (windows := rank_windows(row.path, {rank: graph}))]
    paths = critical_paths(graph, [window for _, window in found], data_load=data_load)
    return [replace(row, path=path) for (row, _), path in zip(found, paths, strict=True)]
