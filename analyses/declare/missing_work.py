"""Sentences about launched work that a recording does not hold."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from analyses.display.sentence_format import counted, time_and_share
from hta_graph.base.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.unrecorded_work import launch_calls, rows_of_gpu_use, unrecorded_times, unrecorded_work


def missing_work(graph: DependencyGraph, start_ns: int, end_ns: int) -> list[str]:
    """Say of a rank what was launched in a window and not recorded, and for how long what the GPU did is unknown.

    Nothing where all of it was recorded, or where the recording holds no work of a GPU at all.
    """
    unknown_ns = unrecorded_times(graph).clip(start_ns, end_ns).total
    if not unknown_ns:
        return []
    lost_for = time_and_share(unknown_ns, end_ns - start_ns)
    return [f"{lost_launches_named(graph, start_ns, end_ns)}: what the GPU did is not recorded for {lost_for}"]


def lost_launches_named(graph: DependencyGraph, start_ns: int, end_ns: int) -> str:
    """Count the launches of a rank whose work is not recorded, of all in a window; else its graphs that lost nodes."""
    found, launches = unrecorded_work(graph), launch_calls(graph)
    unknown, low, high = unrecorded_times(graph), found.start.clip(start_ns, end_ns), found.end.clip(start_ns, end_ns)
    found = found.take(unknown.covered_until(high) > unknown.covered_until(low))
    calls = distinct(found.call[~found.is_node])
    if not len(calls):
        replays = distinct(found.call)
        of_graphs = counted(int(launches.is_graph.sum()), "CUDA graph launch", "CUDA graph launches")
        return f"{len(replays):,} of {of_graphs} {'lacks' if len(replays) == 1 else 'lack'} nodes that ran"
    begin, start = min(start_ns, int(launches.start[calls].min())), launches.start
    every = int(np.count_nonzero((start >= begin) & (start < end_ns)))
    graphs = int(np.count_nonzero(launches.is_graph[calls]))
    of_graphs = f" ({graphs:,} of CUDA graphs)" if graphs else ""
    have = "has" if len(calls) == 1 else "have"
    return f"{len(calls):,} of {counted(every, 'launch call')}{of_graphs} {have} no recorded GPU activity"


def rows_of_a_gpu_program(graph: DependencyGraph) -> str:
    """Count what shows that a GPU worked of which nothing is recorded: launch calls, waits, or its operators; or none.

    A recording of the CPU alone holds no calls: there PyTorch's names of operators show it.
    """
    names = (
        ("launch call", "launch calls"),
        ("call that waits for a GPU", "calls that wait for a GPU"),
        ("operator that only a GPU runs", "operators that only a GPU runs"),
    )
    counts = (int(rows.sum()) for rows in rows_of_gpu_use(graph))
    return next((counted(count, *of) for count, of in zip(counts, names, strict=True) if count), "")


def missing_work_of(windows: Iterable[tuple[int, DependencyGraph, int, int]]) -> list[str]:
    """Say the same of the windows of ranks, one rank after the other; of the windows of one, of all together."""
    spans: dict[int, tuple[DependencyGraph, int, int]] = {}
    for rank, graph, start_ns, end_ns in windows:
        known = spans.get(rank, (graph, start_ns, end_ns))
        spans[rank] = (graph, min(known[1], start_ns), max(known[2], end_ns))
    return [f"rank {rank}: {line}" for rank, span in spans.items() for line in missing_work(*span)]
