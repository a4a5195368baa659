"""The figure of the kernel breakdown: types of work over the longest kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.display.charts import COLOUR, GRID, SERIES, empty_figure, new_figure, row_labels
from hta_graph.text.shorten import short_name

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["types_and_kernels"]

TITLE = "What the GPU does while it is busy"
KERNELS_SHOWN = 12
NAME_SIZE = 48


def types_and_kernels(types: pd.DataFrame, kernels: pd.DataFrame) -> Figure:
    """Draw stacked bars of the types' shares, a rank or step each, and below them bars of the longest kernels."""
    if types.empty:
        return empty_figure(TITLE, "no GPU activity was recorded")
    made = new_figure(title=TITLE)
    _add_types(made, types)
    _add_kernels(made, kernels)
    # The upper half grows with the ranks, up to half of the figure.
    upper = 1 - min(0.14 + 0.04 * types.groupby(["rank", "scope"]).ngroups, 0.5)
    made.update_layout(
        barmode="stack",
        xaxis={"anchor": "y", "side": "top", "tickformat": ".0%", "range": [0, 1], "title": None},
        yaxis={"domain": [upper, 1], "autorange": "reversed", "showgrid": False, "title": None, "dtick": 1},
        xaxis2={"anchor": "y2", "title": "ms, all runs together", "gridcolor": GRID, "zeroline": False},
        yaxis2={"anchor": "x2", "domain": [0, upper - 0.06], "autorange": "reversed", "automargin": True, "dtick": 1},
        legend={"orientation": "h", "y": -0.12, "yanchor": "top"},
        margin={"t": 80},
    )
    return made


def _add_types(made: Figure, types: pd.DataFrame) -> None:
    """Add a stacked bar of the types of each rank or step."""
    labelled = types.assign(label=row_labels(types))
    # Overlaps of types have no colour of their own.
    mixed = iter(SERIES[3:] * len(types))
    for kind, own in labelled.groupby("kernel_type", sort=False):
        made.add_bar(
            name=str(kind),
            orientation="h",
            y=own["label"],
            x=own["time_share"],
            customdata=own["time_ns"] / 1e6,
            marker_color=COLOUR.get(str(kind)) or next(mixed),
            legendgroup=str(kind),
            hovertemplate="%{y}: %{x:.1%}, %{customdata:,.3f} ms",
        )


def _add_kernels(made: Figure, kernels: pd.DataFrame) -> None:
    """Add the longest kernels of all ranks together; names that are shortened alike share a bar."""
    rows = zip(kernels["kernel"], kernels["kernel_type"], strict=True)
    labels = [f"other {kind}" if name == "others" else _short_label(name) for name, kind in rows]
    totals = kernels.assign(label=labels).groupby(["label", "kernel_type"])[["sum_ns", "count"]].sum()
    longest = totals.nlargest(KERNELS_SHOWN, "sum_ns").reset_index()
    made.add_bar(
        orientation="h",
        y=longest["label"],
        x=longest["sum_ns"] / 1e6,
        customdata=longest["count"],
        marker_color=longest["kernel_type"].map(COLOUR),
        xaxis="x2",
        yaxis="y2",
        showlegend=False,
        hovertemplate="%{y}: %{x:,.3f} ms in %{customdata:,} runs<extra></extra>",
    )


def _short_label(name: str) -> str:
    """Shorten a name to what stands beside a bar."""
    short = short_name(name)
    return short if len(short) <= NAME_SIZE else f"{short[: NAME_SIZE - 1]}…"
