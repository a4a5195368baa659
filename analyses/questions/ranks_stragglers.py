"""stragglers: which ranks the others wait for, and what these did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses import column_types
from analyses.analysis import Analysis
from analyses.answer import Answer
from analyses.display.charts import empty_figure, new_figure
from analyses.display.worst_ranks import MANY_RANKS
from analyses.matched_collectives import MatchedWindow, matched_collectives, matching_notes
from analyses.questions.hosts import HOSTS, host_names, hosts
from analyses.questions.stragglers import CAUSES, _headline, causes
from analyses.questions.waiting_figure import add_class_bars, figure_of_many_ranks, waiting_over_time
from analyses.scope import Scope
from analyses.tables import Table, joined
from hta_graph.arrays import summed_by

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["TABLES", "answer", "figure", "stragglers"]

COLUMNS = ["rank", "scope", "collectives", "times_last", "last_share", "wait_caused_ns", "wait_caused_share"]


def stragglers(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Rank the ranks by the waiting that they cause: that of the others, in collectives to which they come last.

    HTA looks at one kernel by name, the same stream number on all ranks, and the starts alone; here every collective
    counts, by how long the others really waited in it.

    Returns:
        rank, scope, collectives (that it took part in), times_last, last_share, wait_caused_ns, wait_caused_share (of
        all ranks' waiting in the stretch); the worst first.
    """
    return joined([_waiting_caused(item) for item in matched if len(item.found)], COLUMNS)


def _waiting_caused(item: MatchedWindow) -> pd.DataFrame:
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
    said = _headline(charged, host_names(matched))
    return Answer(
        tables,
        matching_notes(scopes, matched),
        opening=said,
        conclusion=said,
        summed=summed | {"causes": "the ranks that waited"},
        worst_by={"stragglers": "wait_caused_ns"},
        drawn={"waiting": waiting_over_time(matched)} if caused["rank"].nunique() > MANY_RANKS else {},
    )


def figure(found: Answer) -> Figure:
    """Draw how much waiting each rank caused, by the class of what it did meanwhile; of many also when they wait."""
    frame = found.tables["causes"]
    title = "Waiting that each rank caused, by what it did meanwhile"
    if not len(frame):
        return empty_figure(title, "no waiting of one rank for another was found")
    if "waiting" in found.drawn:
        return figure_of_many_ranks(found.drawn["waiting"], frame, found.tables["stragglers"]["rank"].nunique())
    made = new_figure(title=title, y="ms, of all other ranks together")
    add_class_bars(made, frame)
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(
        categoryorder="array", categoryarray=[f"rank {rank}" for rank in sorted(frame["rank"].dropna().unique())]
    )
    return made


MEANINGS = {
    "collectives": column_types.whole("How many collectives it took part in."),
    "last_share": column_types.share("The same, of those that it took part in", null=True),
    "wait_caused_share": column_types.share("The same, of all ranks' waiting", null=True),
    "ranks": column_types.whole("How many ranks there are."),
    "caused_ns": column_types.ns("The waiting of others that it caused"),
    "wait_ns": column_types.ns("How long its own ranks waited"),
    "name": column_types.text("What it did more of; null: what cannot be charged to anything.", null=True),
    "direct_ns": column_types.ns("Of those that waited for this rank itself"),
    "propagated_ns": column_types.ns("Of those that waited for ranks that had waited for it"),
}
TABLES = {
    "stragglers": Table(stragglers, COLUMNS, MEANINGS),
    "hosts": Table(hosts, HOSTS, MEANINGS),
    "causes": Table(
        causes, CAUSES, {**MEANINGS, "collectives": column_types.whole("In how many collectives they waited.")}
    ),
}

ANALYSIS = Analysis(
    name="stragglers",
    help="Which ranks the others wait for.",
    more="A rank that comes last makes the others wait; what it did meanwhile is the cause.",
    question="which ranks do the others wait for, and [why](which_rank.md)?",
    examples=("stragglers job", "stragglers job --per-step", "stragglers job --json -"),
    page="which_rank.md",
    from_summaries="with causes",
    tables=TABLES,
    answer=answer,
    figure=figure,
)
