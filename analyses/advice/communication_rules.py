"""Advice about collectives on the path: as far as one rank can tell, of a job without waiting for other ranks."""

from __future__ import annotations

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.finding import PathFinding
from analyses.advice.format import brief_duration, quoted
from hta_graph.activities import WorkType
from hta_graph.arrays import first_of_runs
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy

__all__ = ["exposed_communication", "gloo_communication"]

CAUSES = {
    "computation": "they start after computation that they wait for, and nothing is left to run beside them",
    "communication": "they queue behind other communication",
    "host": "the host launches them late",
}
"""What a collective came right after on the path, and what that means."""


def exposed_communication(facts: PathFacts) -> PathFinding | None:
    """Communication that no computation hides: start it earlier, or make it smaller; it may be waiting for others."""
    pieces = facts.path.pieces
    talks = facts.in_classes(BoundBy.GPU_COMMUNICATION_BOUND)
    computing = facts.work.busy(WorkType.COMPUTATION)
    hidden = computing.covered_until(pieces.end[talks]) - computing.covered_until(pieces.start[talks])
    on_path_ns = facts.time_of(talks)
    exposed_ns = on_path_ns - int(hidden.sum())
    if not facts.is_worth(exposed_ns):
        return None
    after = _time_by_cause(facts)
    cause, cause_ns = max(after.items(), key=lambda item: item[1])
    largest = facts.largest_names(talks)
    evidence = {
        "on_path_ns": on_path_ns, "exposed_ns": exposed_ns, "after_ns": after,
        "largest": facts.largest_records(talks),
    }  # fmt: skip
    # Where no cause has most of the time none is told; Gloo's has no launch.
    why = f"; for the most part {CAUSES[cause]}" if 2 * cause_ns > on_path_ns and facts.has_gpu_rows else ""
    saved = _saved_without_communication(facts, on_path_ns)
    beside = " What could be saved counts communication beside the path, too." if saved > on_path_ns else ""
    waiting = (
        "Waiting for other ranks is not in it."
        if isinstance(facts.graph, JobGraph)
        else "It may include waiting for other ranks, which one rank cannot tell (hta-graph stragglers, with all "
        "ranks)."
    )
    text = (
        f"Communication takes {facts.told(on_path_ns)} of the path, for "
        f"{brief_duration(exposed_ns)} of which nothing computes; mostly {quoted(largest[0][0])} "
        f"({largest[0][2]:,} ×){facts.where(talks)}{why}. {waiting}{beside}"
    )
    return PathFinding(text, evidence, "medium", saved)


def _saved_without_communication(facts: PathFacts, on_path_ns: int) -> int:
    """Return what would be saved at most (ns) if nobody communicated."""
    if isinstance(facts.graph, JobGraph):
        return on_path_ns
    # All communication counts, also what is beside the path; all else stays, and its busiest stream is serial.
    return min(facts.work_ns(WorkType.COMMUNICATION), facts.standing_without(WorkType.COMMUNICATION))


def gloo_communication(facts: PathFacts) -> PathFinding | None:
    """The path's thread is silent while a collective of Gloo runs on another one: communication through the CPU."""
    silent, rows = facts.in_classes(BoundBy.CPU_GAP), facts.graph.marks.gloo_collective
    if isinstance(facts.graph, JobGraph):
        # Edges tell who waits for what was matched.
        rows = rows & ~facts.marked(facts.graph.members.row[facts.graph.members.number >= 0])
    time_ns = facts.time_during(silent, rows)
    if not facts.is_worth(time_ns):
        return None
    events, window = facts.graph.event_table, facts.path.window
    found = np.flatnonzero(rows & (events.end > window.start_ns) & (events.start < window.end_ns))
    longest = facts.graph.name_of(int(found[np.argmax(events.end[found] - events.start[found])]))
    evidence = {"time_ns": time_ns, "collectives": len(found), "longest": longest}
    text = (
        f"For {facts.told(time_ns)} no operator is open on the path's thread "
        f"while {quoted(longest)} runs on another one: it very probably waits for that communication, "
        "which may include waiting for other ranks (hta-graph stragglers, with all ranks). Start it earlier, make it "
        "smaller, or send it through GPUs (NCCL)."
    )
    return PathFinding(text, evidence, "medium", time_ns)


def _time_by_cause(facts: PathFacts) -> dict[str, int]:
    """Add up the collectives' time on the path (ns) by what the path comes from: see :data:`CAUSES`."""
    pieces = facts.path.pieces
    talks = facts.in_classes(BoundBy.GPU_COMMUNICATION_BOUND)
    # A collective's own pieces, cut by others or not, are one; lags between it and its cause tell nothing.
    lags = facts.in_classes(BoundBy.GPU_KERNEL_KERNEL_OVERHEAD, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD)
    told = pieces.take(~lags)
    talks = talks[~lags]
    begins = np.flatnonzero(first_of_runs(np.where(talks, told.event, -1)) & talks)
    number = np.cumsum(first_of_runs(np.where(talks, told.event, -1)))
    before = np.append(told.bound, -1)[begins - 1]
    causes = {
        "computation": np.isin(before, (BoundBy.GPU_COMPUTE_BOUND, BoundBy.GPU_MEMORY_BOUND)),
        "communication": before == BoundBy.GPU_COMMUNICATION_BOUND,
        "host": np.isin(before, (BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.DATA_LOADING, BoundBy.SYNC_OVERHEAD)),
    }
    return {
        cause: int(told.length[talks & np.isin(number, number[begins[chosen]])].sum())
        for cause, chosen in causes.items()
    }
