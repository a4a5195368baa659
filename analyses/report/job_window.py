"""The step of a job on each of its ranks: one window, so that all parts of a page agree on its length."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import CriticalPath, critical_paths
from hta_graph.paths.step_table import StepRow
from hta_graph.paths.window_ends import sink_at, steps_by_number
from hta_graph.paths.windows import Window, WindowQuery, resolved_window, step


def graphs_in_job_time(job: CriticalPath) -> dict[int, DependencyGraph]:
    """Return the graphs of a job's ranks, on the job's clock."""
    return {part.rank: part.graph for part in job.graph.rank_graphs}


def is_shared(job: CriticalPath | None) -> bool:
    """Tell whether a job's window is a step that all ranks can be analyzed over."""
    return job is not None and job.window.step is not None and job.window.form == "gpu"


def rank_windows(job: CriticalPath, graphs: Mapping[int, DependencyGraph]) -> dict[int, WindowQuery]:
    """Return the window of a job's step for each rank that has the step; ``graphs`` are on the job's clock."""
    return {
        rank: resolved_window(_on_rank(job.window, graph))
        for rank, graph in graphs.items()
        if job.window.step in steps_by_number(graph)
    }


def _on_rank(window: Window, graph: DependencyGraph) -> Window:
    """Return the job's window with what the rank launches in its own step."""
    own = step(window.step or 0)(graph)
    return replace(
        own,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        gpu_ns=window.end_ns - window.start_ns,
        sink=sink_at(graph, window.end_ns),
        cpu_start_ns=own.cpu_span[0],
        form="gpu",
        is_default=window.is_default,
    )


def steps_on_rank(
    steps: Sequence[StepRow], graph: DependencyGraph, rank: int, data_load: Sequence[str] = ()
) -> list[StepRow]:
    """Return the steps of a job with the paths of one rank in them, for its timeline."""
    found = []
    for row in steps:
        if is_shared(row.path) and (windows := rank_windows(row.path, {rank: graph})):
            (path,) = critical_paths(graph, [windows[rank]], data_load=data_load)
            found.append(replace(row, path=path))
    return found
