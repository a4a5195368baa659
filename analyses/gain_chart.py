"""The figure of what would be gained: a window's length over the time that things on its path take."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.display.charts import empty_figure, new_figure
from analyses.opportunities import corner_text, saved_ticks
from hta_graph.text.shorten import shorten_middle
from hta_graph.what_if.sensitivity import Curve

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["gain_curves"]

TITLE = "What would be gained"
LONGEST_LINE_NAME = 60


def gain_curves(*curves: Curve) -> Figure:
    """Draw the length of a window for every share of their time that things may take, one line each.

    Args:
        curves: what :func:`hta_graph.sensitivity` returns, of one window.
    """
    if not curves:
        return empty_figure(TITLE, "nothing on the path that could take less time")
    made = new_figure(title=TITLE, x="time that it takes, of today's")
    for curve in curves:
        made.add_scatter(
            name=shorten_middle(curve.what, LONGEST_LINE_NAME),
            x=[corner[0] for corner in curve.corners],
            y=[corner[1] / 1e6 for corner in curve.corners],
            customdata=[corner_text(curve, corner) for corner in curve.corners],
            mode="lines+markers",
            marker_size=7,
            hovertemplate="%{customdata}<extra>%{fullData.name}</extra>",
        )
    ticks = saved_ticks(curves)
    labels = [f"{tick.length}  {tick.saved}" for tick in ticks]
    made.update_xaxes(range=[1.02, -0.02], tickformat=".0%")
    made.update_yaxes(tickvals=[tick.length_ns / 1e6 for tick in ticks], ticktext=labels)
    made.update_layout(showlegend=True)
    return made
