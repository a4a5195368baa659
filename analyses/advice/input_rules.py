"""Advice about what comes around a step's own work: loading data, memory from the driver, idle time between steps."""

from __future__ import annotations

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.finding import PathFinding
from analyses.advice.format import counted, quoted
from hta_graph.arrays import distinct, take_or
from hta_graph.model import BoundBy
from hta_graph.paths.window_ends import step_work_ends

__all__ = ["data_loading_exposed", "driver_allocations", "idle_between_steps"]

UNLIKE_OTHERS = 5
"""The GPU's silence between steps counts from this multiple of the usual one inside steps on."""


def data_loading_exposed(facts: PathFacts) -> PathFinding | None:
    """The path waits for data: more worker processes, prefetching, cheaper transforms."""
    loads = facts.in_classes(BoundBy.DATA_LOADING)
    time_ns = facts.time_of(loads)
    saved = min(time_ns, facts.standing_ns)
    if not facts.is_worth(saved):
        return None
    largest = facts.largest_names(loads)
    evidence = {
        "loading_ns": time_ns, "gpu_busy_meanwhile_ns": int(facts.beside_gpu(loads).sum()),
        "largest": facts.largest_records(loads),
    }  # fmt: skip
    remedy = (
        "It runs in the measured process itself: num_workers > 0 moves it to others"
        if facts.graph.marks.loads_in_process.any()
        else "More worker processes or prefetching (num_workers, prefetch_factor) have the next batch there in time"
    )
    text = (
        f"Data loading is on the path for {facts.told(time_ns)}{facts.where(loads)}, mostly "
        f"{quoted(largest[0][0])}. {remedy}; else make the preparation of a batch cheaper."
    )
    return PathFinding(text, evidence, "high", saved)


def driver_allocations(facts: PathFacts) -> PathFinding | None:
    """Memory is asked from the driver, or given back, after the warm-up too: the caching allocator runs out of room."""
    pieces, events, steps = facts.path.pieces, facts.graph.event_table, facts.graph.steps()
    if not steps:  # nothing tells where the warm-up ends
        return None
    chosen = facts.owned_by(facts.graph.marks.allocation_call)
    chosen &= pieces.start >= steps[0].end_ns
    time_ns = facts.time_of(chosen)
    saved = min(time_ns, facts.standing_ns)
    if not facts.is_worth(saved):
        return None
    largest = facts.largest_names(chosen)
    rows = distinct(pieces.event[chosen])
    evidence = {
        "time_ns": time_ns, "calls": len(rows), "sites": facts.sites(rows, events.end[rows] - events.start[rows]),
        "largest": facts.largest_records(chosen),
    }  # fmt: skip
    text = (
        f"Memory is still asked from the driver, or given back to it, after the warm-up: {facts.told(time_ns)}"
        f"{facts.where(chosen)} in {counted(len(rows), 'call')} of {quoted(largest[0][0])} and the like. Shapes that "
        "change or fragmented memory do that: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or pad shapes to a few "
        "sizes."
    )
    return PathFinding(text, evidence, "high", saved)


def idle_between_steps(facts: PathFacts) -> PathFinding | None:
    """Between the last work of the step before and the first work of this one the GPU stands still."""
    bounds = _between_steps(facts)
    if bounds is None:
        return None
    begun, first = bounds
    idle_ns = first - begun - int(np.diff(facts.busy.covered_until(np.array([begun, first])))[0])
    others = facts.busy.gaps(first, facts.path.window.end_ns)
    usual_ns = int(np.median(others.end - others.start)) if len(others.start) else 0
    pieces = facts.path.pieces
    inside = facts.in_classes(*HOST_CLASSES) & (pieces.start < first) & (pieces.end > begun)
    loads = facts.in_classes(BoundBy.DATA_LOADING)
    if not facts.is_worth(idle_ns) or idle_ns < UNLIKE_OTHERS * usual_ns or 2 * facts.time_of(inside & loads) > idle_ns:
        return None
    largest = facts.largest_names(inside & ~loads)
    if not largest:
        return None
    evidence = {
        "idle_ns": idle_ns, "usual_idle_ns": usual_ns,
        "largest": facts.largest_records(inside & ~loads),
    }  # fmt: skip
    text = (
        f"Before its first work in this step the GPU stands still for {facts.told(idle_ns)}, mostly with the host in "
        f"{quoted(largest[0][0])}. Move what is done there (logging, evaluation, preparation) behind the step's "
        "launches, or to another thread."
    )
    return PathFinding(text, evidence, "medium", min(idle_ns, facts.standing_ns))


def _between_steps(facts: PathFacts) -> tuple[int, int] | None:
    """Return when all earlier steps' work ends and when this step's first begins (ns), cut to the window."""
    window, graph = facts.path.window, facts.graph
    place = [at for at, item in enumerate(graph.steps()) if item.number == window.step]
    if window.step is None or window.form == "cpu" or not place or not place[0]:
        return None
    item = graph.steps()[place[0]]
    calls = facts.work.call
    launched = take_or(graph.event_table.start, calls, otherwise=0)
    own = facts.work.start[(calls >= 0) & (launched >= item.start_ns) & (launched < item.end_ns)]
    # Of a job the window begins where the last rank's earlier work ends.
    of_job = len(graph.parts) > 1
    before = window.start_ns if of_job else int(step_work_ends(graph)[: place[0]].max())
    begun, first = max(before, window.start_ns), int(own.min(initial=window.end_ns))
    return (begun, first) if window.end_ns > first > begun else None
