"""stragglers: which ranks the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import empty_figure, new_figure
from analyses.hta.trace_frame import iterations
from analyses.ranks.matched_collectives import Matched, matched_collectives, notes_on
from analyses.scope import Scope
from hta_graph.errors import QueryError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["answer", "figure", "hta_potential_stragglers", "hta_profiler_steps", "stragglers"]

COLUMNS = ["rank", "scope", "collectives", "times_last", "last_share", "wait_caused_ns", "wait_caused_share"]


def stragglers(matched: Sequence[Matched]) -> pd.DataFrame:
    """Rank the ranks by the waiting that they cause: that of the others, in collectives to which they come last.

    HTA looks at one kernel by name, the same stream number on all ranks, and the starts alone; here every collective
    counts, by how long the others really waited in it.

    Returns:
        rank, scope, collectives (that it took part in), times_last, last_share, wait_caused_ns, wait_caused_share (of
        all ranks' waiting in the stretch); the worst first.
    """
    parts = [_of(item) for item in matched if len(item.found)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame(columns=COLUMNS)


def _of(item: Matched) -> pd.DataFrame:
    found = item.found
    ranks = np.array(sorted(item.scopes), np.int64)
    last = np.searchsorted(ranks, found.rank[found.last])
    waited = np.zeros(len(found), np.int64)
    np.add.at(waited, found.number, found.wait)
    caused = np.zeros(len(ranks), np.int64)
    np.add.at(caused, last, waited)
    taken = np.bincount(np.searchsorted(ranks, found.rank), minlength=len(ranks))
    times = np.bincount(last, minlength=len(ranks))
    frame = pd.DataFrame({
        "rank": ranks,
        "scope": item.label,
        "collectives": taken,
        "times_last": times,
        "last_share": times / len(found),
        "wait_caused_ns": caused,
        "wait_caused_share": caused / max(int(caused.sum()), 1),
    }, columns=COLUMNS)  # fmt: skip
    return frame.sort_values(["wait_caused_ns", "times_last", "rank"], ascending=[False, False, True])


def hta_profiler_steps(scopes: Sequence[Scope]) -> list[int]:
    """Return the numbers of the steps in the scopes, sorted; steps that the profiler copied to the GPU do not count."""
    steps = ((scope, step) for scope in scopes for step in scope.graph.trace.steps())
    return sorted({step.number for scope, step in steps if scope.holds(np.array([step.event]))[0]})


def hta_potential_stragglers(
    scopes: Sequence[Scope], profiler_steps: Sequence[int] | None = None, num_candidates: int = 2
) -> list[int]:
    """Return up to ``num_candidates`` ranks, the one that causes most waiting first.

    HTA's answer rests on the one kernel name whose durations vary most, knows the ``ncclKernel`` prefix only, needs
    steps and equal stream numbers, and orders equal ranks by chance. A rank that nobody waits for is no straggler here.

    Args:
        scopes: one for each rank.
        profiler_steps: only collectives launched in these steps (by the rank that came last); all if not given.
        num_candidates: how many ranks to name at most.

    Raises:
        QueryError: none of the steps is there.
    """
    matched = matched_collectives(scopes)
    if profiler_steps is not None:
        known = hta_profiler_steps(scopes)
        if not set(profiler_steps) & set(known):
            listed = ", ".join(map(str, known)) or "none"
            raise QueryError(f"no step of {list(profiler_steps)} is in the traces; there are: {listed}")
        matched = [item.take(step in set(profiler_steps) for step in _steps(item)) for item in matched]
    frame = stragglers(matched)
    if not len(frame):
        return []
    caused = frame.groupby("rank")["wait_caused_ns"].sum()
    worst = caused[caused > 0].sort_values(ascending=False, kind="stable")
    return [int(rank) for rank in worst.index[:num_candidates]]


def _steps(item: Matched) -> list[int]:
    """Return the step in which the last rank launched each collective."""
    last = item.found.last
    step = np.full(len(last), -1, np.int64)
    rank, rows = item.found.rank[last], item.rows(last)
    for one in np.unique(rank).tolist():
        step[rank == one] = iterations(item.scopes[one].graph, rows[rank == one].astype(np.int32))
    return [int(number) for number in step]


def answer(scopes: Sequence[Scope]) -> Answer:
    """Answer the command."""
    matched = matched_collectives(scopes)
    return Answer({"stragglers": stragglers(matched)}, notes_on(scopes, matched))


def figure(found: Answer) -> Figure:
    """Draw how much waiting each rank caused."""
    frame = found.main
    title = "Waiting that each rank caused by coming last"
    if not len(frame):
        return empty_figure(title, "no collective of several ranks was found")
    made = new_figure(title=title, y="ms, of all other ranks together")
    for scope, unordered in frame.groupby("scope", sort=False):
        part = unordered.sort_values("rank")
        made.add_bar(
            name=str(scope),
            x=[f"rank {rank}" for rank in part["rank"]],
            y=part["wait_caused_ns"] / 1e6,
            customdata=part["times_last"],
            hovertemplate="%{x}: %{y:,.3f} ms, last %{customdata} times",
        )
    made.update_layout(barmode="stack", bargap=0.3)
    return made
