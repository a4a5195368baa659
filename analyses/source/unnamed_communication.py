"""Kernels that wait for other ranks although they are not known to communicate.

        rank 0   |--------------|     begins early and waits
        rank 1          |-------|     begins late, ends with the other: only a rendezvous does that

The name of a library may be unknown; what its kernels do shows in the ranks' traces, whatever the clocks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from analyses.declare.scope import Scope
from analyses.display.sentence_format import quoted
from hta_graph.base.arrays import first_of_runs
from hta_graph.model import Ints
from hta_graph.paths.gpu_activity import WorkType

NAMED = 3
"""How many kernels a sentence names."""

FEWEST_RUNS = 20
"""The number of runs of a kernel with which it is no chance."""
TOGETHER_NS = 10_000
"""Nine of ten ends of a rendezvous are that close, once the clocks' constant difference is taken out."""
APART = 5
"""The median of the differences between starts is at least as many times that."""

Runs = tuple[Ints, Ints]


def unnamed_communication(scopes: Sequence[Scope]) -> list[str]:
    """Return a note about kernels that count as computation, but end together on several ranks; none for one rank."""
    ranks = [scope.rank for scope in scopes]
    if len(ranks) < 2 or len(set(ranks)) < len(ranks):
        return []
    first, *others = map(_runs_by_name, scopes)
    found = [name for name, runs in first.items() if any(_rendezvous(runs, other.get(name)) for other in others)]
    found.sort(key=lambda name: (-int((first[name][1] - first[name][0]).sum()), name))
    return [_waits_for_ranks(found)] if found else []


def _waits_for_ranks(names: Sequence[str]) -> str:
    """Say which kernels wait for other ranks and count as computation."""
    shown = ", ".join(map(quoted, names[:NAMED])) + (f" and {len(names) - NAMED} more" if len(names) > NAMED else "")
    their, they_wait = ("its", "it probably waits") if len(names) == 1 else ("their", "they probably wait")
    return (
        f"{shown}: counted as computation, but {their} runs end at the same time on several ranks whenever they begin, "
        f"so {they_wait} for other ranks (unknown communication)"
    )


def _runs_by_name(scope: Scope) -> dict[str, Runs]:
    """Return starts and ends of the runs of each kernel that computes, in order."""
    work = scope.work.take(scope.work.type == WorkType.COMPUTATION)
    name = scope.graph.event_table.name[work.row]
    order = np.lexsort((work.start, name))
    begins = np.append(np.flatnonzero(first_of_runs(name[order])), len(order)).tolist()
    groups = [order[begin:end] for begin, end in pairwise(begins) if end - begin >= FEWEST_RUNS]
    return {scope.graph.names[int(name[rows[0]])]: (work.start[rows], work.end[rows]) for rows in groups}


def _rendezvous(one: Runs, other: Runs | None) -> bool:
    """Say whether runs end together that begin apart, on two ranks that run the kernel equally often."""
    if other is None or len(one[0]) != len(other[0]):
        return False
    starts, ends = (np.abs(difference - np.median(difference)) for difference in (one[0] - other[0], one[1] - other[1]))
    return bool(np.quantile(ends, 0.9) <= TOGETHER_NS and np.median(starts) >= APART * TOGETHER_NS)
