"""HTA's stragglers and profiler steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analyses.hta.frame import iterations
from analyses.matched_collectives import MatchedWindow, matched_collectives
from analyses.questions.ranks_stragglers import stragglers
from analyses.scope import Scope
from hta_graph.errors import QueryError

__all__ = ["hta_potential_stragglers", "hta_profiler_steps"]


def hta_profiler_steps(scopes: Sequence[Scope]) -> list[int]:
    """Return the numbers of ``TraceAnalysis.get_profiler_steps``."""
    steps = ((scope, step) for scope in scopes for step in scope.graph.steps())
    return sorted({step.number for scope, step in steps if scope.holds(np.array([step.event]))[0]})


def hta_potential_stragglers(
    scopes: Sequence[Scope], profiler_steps: Sequence[int] | None, num_candidates: int
) -> list[int]:
    """Return the ranks of ``TraceAnalysis.get_potential_stragglers``, the one that causes most waiting first."""
    matched = matched_collectives(scopes)
    if profiler_steps is not None:
        known = hta_profiler_steps(scopes)
        if not set(profiler_steps) & set(known):
            listed = ", ".join(map(str, known)) or "none"
            raise QueryError(f"no step of {list(profiler_steps)} is in the traces; there are: {listed}")
        matched = [item.take(step in set(profiler_steps) for step in _launching_steps(item)) for item in matched]
    frame = stragglers(matched)
    if not len(frame):
        return []
    caused = frame.groupby("rank")["wait_caused_ns"].sum()
    # Whom nobody waits for is no straggler, even if fewer are found than asked for.
    worst = caused[caused > 0].sort_values(ascending=False, kind="stable")
    return [int(rank) for rank in worst.index[:num_candidates]]


def _launching_steps(item: MatchedWindow) -> list[int]:
    """Return the step in which the last rank launched each collective."""
    last = item.found.last
    step = np.full(len(last), -1, np.int64)
    rank, rows = item.found.rank[last], item.rows(last)
    for one in np.unique(rank).tolist():
        step[rank == one] = iterations(item.scopes[one].graph, rows[rank == one].astype(np.int32))
    return [int(number) for number in step]
