"""The figure of many ranks: when each of them waits, and the classes of what the worst ones did meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.display.charts import GRID, new_figure
from analyses.display.labels import SHORT
from analyses.display.worst_ranks import RANKS_LISTED
from analyses.matched_collectives import MatchedWindow
from hta_graph.arrays import distinct, split_intervals, summed_by
from hta_graph.colours import BOUND_COLOUR

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["add_class_bars", "figure_of_many_ranks", "waiting_over_time"]

ROWS, TIMES = 512, 200
"""A heat map has no more rows and columns than this."""
TICKS = 8
SCALE = ("rgba(128,128,128,0.08)", "#5a4fcf")
"""From no waiting to nothing else, in a colour that is no class's."""


def waiting_over_time(matched: Sequence[MatchedWindow]) -> pd.DataFrame:
    """Return which share of each stretch of time ranks wait: a row per rank, or equal band of very many ranks.

    Columns are the beginnings of the stretches (ms). Waits of asynchronous collectives overlap, and may be more than
    the whole time.
    """
    found = [item.found for item in matched if len(item.found)]
    if not found:
        return pd.DataFrame()
    rank, start, wait = (np.concatenate([getattr(one, name) for one in found]) for name in ("rank", "arrival", "wait"))
    first, last = int(start.min()), max(int(one.end.max()) for one in found)
    count = min(TIMES, max(last - first, 1))
    edges = first + (last - first) * np.arange(count + 1) // count
    ranks = distinct(rank)
    together = -(-len(ranks) // ROWS)
    member, begin, end = split_intervals(start, start + wait, edges[1:-1])
    row = np.searchsorted(ranks, rank)[member] // together
    column = np.searchsorted(edges[1:-1], begin, side="right")
    labels = [_band_name(ranks[at : at + together].tolist()) for at in range(0, len(ranks), together)]
    sums = summed_by(row * count + column, end - begin, len(labels) * count).reshape(-1, count)
    sizes = np.minimum(together, len(ranks) - together * np.arange(len(labels)))
    share = sums / (sizes[:, None] * np.maximum(np.diff(edges), 1))
    return pd.DataFrame(share.round(4), labels, (edges[:-1] - first) / 1e6)


def _band_name(ranks: Sequence[int]) -> str:
    """Name ranks that share a row.

    >>> _band_name([3]), _band_name([4, 5, 6])
    ('rank 3', 'ranks 4 to 6')
    """
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}"


def figure_of_many_ranks(waiting: pd.DataFrame, charged: pd.DataFrame, ranks: int) -> Figure:
    """Draw when ranks wait, and below what the worst of them did while others waited for them."""
    together = -(-ranks // len(waiting))
    each = f", {together} ranks a row" if together > 1 else ""
    made = new_figure(title=f"When each of {ranks:,} ranks waits for others{each}")
    made.set_subplots(rows=2, cols=1, row_heights=[0.68, 0.32], vertical_spacing=0.14)
    made.update_xaxes(gridcolor=GRID, zeroline=False, automargin=True)
    made.update_yaxes(gridcolor=GRID, zeroline=False, automargin=True)
    made.add_heatmap(
        z=waiting.to_numpy(),
        x=list(waiting.columns),
        y=list(waiting.index),
        zmin=0,
        zmax=min(max(float(waiting.to_numpy().max()), 1e-4), 1.0),
        colorscale=list(SCALE),
        colorbar={"title": "of the time", "tickformat": ".0%", "len": 0.68, "y": 1, "yanchor": "top", "thickness": 12},
        hovertemplate="%{y}<br>from %{x:,.3f} ms: waits %{z:.1%}<extra></extra>",
        row=1,
        col=1,
    )
    named = list(waiting.index[:: -(-len(waiting) // TICKS)])
    made.update_yaxes(autorange="reversed", tickmode="array", tickvals=named, showgrid=False, row=1, col=1)
    made.update_xaxes(title="ms", showgrid=False, row=1, col=1)
    _add_worst_ranks(made, charged)
    return made


def _add_worst_ranks(made: Figure, charged: pd.DataFrame) -> None:
    """Draw below how much waiting the worst ranks caused, by class."""
    worst = charged.groupby("rank")["caused_ns"].sum().sort_values(ascending=False, kind="stable").index[:RANKS_LISTED]
    add_class_bars(made, charged[charged["rank"].isin(worst)], row=2, col=1)
    made.update_layout(barmode="stack", bargap=0.3, legend={"y": -0.12})
    made.update_xaxes(categoryorder="array", categoryarray=[f"rank {rank}" for rank in worst], row=2, col=1)
    made.update_yaxes(title="ms that others waited", row=2, col=1)


def add_class_bars(made: Figure, charged: pd.DataFrame, **place: Any) -> None:
    """Draw a bar per rank of the waiting that it caused, by the class of what it did meanwhile."""
    for bound, colour in BOUND_COLOUR.items():
        own = charged[charged["bound_by"] == bound].sort_values(["rank", "caused_ns"], ascending=[True, False])
        sums = own.groupby("rank")["caused_ns"].sum()
        if len(own):
            made.add_bar(
                name=SHORT[bound],
                x=[f"rank {rank}" for rank in sums.index],
                y=sums / 1e6,
                marker_color=colour,
                customdata=own.groupby("rank")["name"].first().reindex(sums.index).fillna("not known by what"),
                hovertemplate="%{x}: %{y:,.3f} ms, most by %{customdata}",
                **place,
            )
