"""Advice about the rank that holds up a job: the same work takes longer there than on all other ranks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.finding import PathFinding
from hta_graph.activities import WorkType, activities
from hta_graph.arrays import distinct, percentiles_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.rank_crossings import held_up_by, straggler_place

__all__ = ["slow_gpu", "slow_host"]

SLOWER = 1.1
"""So much longer at least: clocks of sound GPUs differ by a few per cent, medians of operators by less than ten."""

NEARLY_ALL = 0.8
"""More work makes some names longer, a slow machine nearly all of them."""

FEWEST_NAMES = 5
FEWEST_CALLS = 5
"""A median of fewer is chance."""


@dataclass(frozen=True)
class Slowdown:
    """How much longer the same names take on a rank than on the next slowest one, and how many were compared."""

    ratio: float
    names: int
    longer: int


def slow_gpu(facts: PathFacts) -> PathFinding | None:
    """The same kernels take longer on the rank that holds up the job than on every other one."""
    work = activities(facts.graph)
    rows = work.row[work.type == WorkType.COMPUTATION]
    computes = facts.in_classes(BoundBy.GPU_COMPUTE_BOUND)
    return _slow_rank(facts, rows, computes, "GPU", "kernels", "throttled (nvidia-smi -q -d PERFORMANCE)")


def slow_host(facts: PathFacts) -> PathFinding | None:
    """The same operators that do not wait take longer on the rank that holds up the job than on every other one."""
    works = facts.in_classes(*HOST_CLASSES)
    return _slow_rank(facts, _own_operators(facts.graph), works, "host", "operators", "throttled or short of cores")


def _own_operators(graph: DependencyGraph) -> Ids:
    """Return the innermost operators that neither wait for a GPU nor for other ranks."""
    if not isinstance(graph, JobGraph):
        return np.empty(0, np.int32)
    own = graph.event_table.kind == EventKind.CPU_OP
    around = graph.operator_around
    own[distinct(around[own & (around >= 0)])] = False
    waiting = around[graph.marks.blocking_call]
    own[waiting[waiting >= 0]] = False
    own[graph.members.call[graph.members.call >= 0]] = False
    return np.flatnonzero(own).astype(np.int32)


def _slow_rank(facts: PathFacts, rows: Ids, on_path: Bools, who: str, what: str, why: str) -> PathFinding | None:
    place = straggler_place(facts.path)
    # Of a job of skeletons only what the path passes is there: nothing to compare all ranks by.
    if place < 0 or has_partial_rows(facts.graph):
        return None
    found = _slowdown(facts, rows, place)
    if found is None:
        return None
    own_ns = facts.time_of(on_path & (facts.path.pieces.part == place))
    saved = min(held_up_by(facts.path)[place].total, int(own_ns * (1 - 1 / found.ratio)))
    if not facts.is_worth(saved):
        return None
    rank = facts.graph.parts[place].rank
    evidence = {"rank": rank, "ratio": round(found.ratio, 3), "names": found.names, "longer": found.longer}
    text = (
        f"Rank {rank}'s {who} is slow: the same {what} take {found.ratio:.2f} × as long there as on any other rank "
        f"({found.longer} of {found.names} names are longer). It may be {why}, shared with another program, or given "
        "larger inputs."
    )
    return PathFinding(text, evidence, "medium", saved)


def _slowdown(facts: PathFacts, rows: Ids, place: int) -> Slowdown | None:
    """Compare a rank with every other one by the medians of equal names; None where it is not slower than each."""
    medians, counts = _medians(facts, rows)
    others = [at for at in range(medians.shape[1]) if at != place]
    found = []
    for other in others:
        both = (counts[:, place] >= FEWEST_CALLS) & (counts[:, other] >= FEWEST_CALLS)
        own, its = medians[both, place], medians[both, other]
        longer = int(np.count_nonzero(own > its))
        ratio = float((own * counts[both, place]).sum() / max((its * counts[both, place]).sum(), 1))
        if len(own) < FEWEST_NAMES or ratio < SLOWER or longer < NEARLY_ALL * len(own):
            return None
        found.append(Slowdown(ratio, len(own), longer))
    return min(found, key=lambda one: one.ratio, default=None)


def _medians(facts: PathFacts, rows: Ids) -> tuple[Ints, Ints]:
    """Return the lower median duration (ns), and the number, of each name on each rank."""
    events, parts = facts.graph.event_table, len(facts.graph.parts)
    names = distinct(events.name[rows])
    key = np.searchsorted(names, events.name[rows]) * parts + facts.graph.rank_index_of(rows)
    medians = percentiles_by(key, events.end[rows] - events.start[rows], len(names) * parts, 50)
    counts = np.bincount(key, minlength=len(names) * parts)
    return medians.reshape(-1, parts), counts.reshape(-1, parts)
