"""stragglers: which ranks the others wait for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import empty_figure, new_figure
from analyses.ranks.matched_collectives import Matched, matched_collectives, notes_on
from analyses.scope import Scope
from analyses.tables import Table, joined
from hta_graph.columns import summed_by

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "stragglers"]

COLUMNS = ["rank", "scope", "collectives", "times_last", "last_share", "wait_caused_ns", "wait_caused_share"]


def stragglers(matched: Sequence[Matched]) -> pd.DataFrame:
    """Rank the ranks by the waiting that they cause: that of the others, in collectives to which they come last.

    HTA looks at one kernel by name, the same stream number on all ranks, and the starts alone; here every collective
    counts, by how long the others really waited in it.

    Returns:
        rank, scope, collectives (that it took part in), times_last, last_share, wait_caused_ns, wait_caused_share (of
        all ranks' waiting in the stretch); the worst first.
    """
    return joined([_waiting_caused(item) for item in matched if len(item.found)], COLUMNS)


def _waiting_caused(item: Matched) -> pd.DataFrame:
    """Add up what each rank caused in one stretch, the worst first."""
    found = item.found
    ranks = np.array(sorted(item.scopes), np.int64)
    last = np.searchsorted(ranks, found.rank[found.last])  # ranks need not be numbered from 0
    waited = summed_by(found.number, found.wait, len(found))
    caused = summed_by(last, waited, len(ranks))
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
    })  # fmt: skip
    return frame.sort_values(["wait_caused_ns", "times_last", "rank"], ascending=[False, False, True])


def answer(scopes: Sequence[Scope]) -> Answer:
    """Return the table ``stragglers``: how much waiting each rank caused.

    Args:
        scopes: one for each rank, or the steps of each.
    """
    matched = matched_collectives(scopes)
    summed = {"stragglers": "the other ranks and all collectives"}
    return Answer({"stragglers": stragglers(matched)}, notes_on(scopes, matched), summed=summed)


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


TABLES = {"stragglers": Table(stragglers, COLUMNS)}
