"""stragglers: which ranks the others wait for, and what these did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.answer import Answer
from analyses.display.charts import BOUND_COLOUR, empty_figure, new_figure
from analyses.display.words import SHORT
from analyses.ranks.causes_of_waits import CAUSES, causes, causes_in_words
from analyses.ranks.hosts import HOSTS, host_names, hosts
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
    # Those that met others in the stretch have a row, even if it is none of theirs, such as a step that they lack.
    ranks = np.union1d(np.array(sorted(item.scopes), np.int64), found.rank)
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
    """Return the tables ``stragglers`` and ``hosts``, how much waiting each caused, and ``causes``, by what.

    Args:
        scopes: one for each rank, or the steps of each.
    """
    matched = matched_collectives(scopes)
    caused, charged = stragglers(matched), causes(matched)
    tables = {"stragglers": caused, "hosts": hosts(caused, charged, matched), "causes": charged}
    summed = dict.fromkeys(("stragglers", "hosts"), "the other ranks and all collectives")
    return Answer(
        tables,
        notes_on(scopes, matched),
        opening=causes_in_words(charged, host_names(matched)),
        summed=summed | {"causes": "the ranks that waited"},
        worst_by={"stragglers": "wait_caused_ns"},
    )


def figure(found: Answer) -> Figure:
    """Draw how much waiting each rank caused, by the class of what it did meanwhile."""
    frame = found.tables["causes"]
    title = "Waiting that each rank caused, by what it did meanwhile"
    if not len(frame):
        return empty_figure(title, "no waiting of one rank for another was found")
    made = new_figure(title=title, y="ms, of all other ranks together")
    for bound, colour in BOUND_COLOUR.items():
        own = frame[frame["bound_by"] == bound].sort_values(["rank", "caused_ns"], ascending=[True, False])
        sums = own.groupby("rank")["caused_ns"].sum()
        if len(own):
            made.add_bar(
                name=SHORT[bound],
                x=[f"rank {rank}" for rank in sums.index],
                y=sums / 1e6,
                marker_color=colour,
                customdata=own.groupby("rank")["name"].first().reindex(sums.index).fillna("not known by what"),
                hovertemplate="%{x}: %{y:,.3f} ms, most by %{customdata}",
            )
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(
        categoryorder="array", categoryarray=[f"rank {rank}" for rank in sorted(frame["rank"].dropna().unique())]
    )
    return made


TABLES = {
    "stragglers": Table(stragglers, COLUMNS),
    "hosts": Table(hosts, HOSTS),
    "causes": Table(causes, CAUSES),
}
