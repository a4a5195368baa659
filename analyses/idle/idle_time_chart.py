"""The figure of the idle time: stacked bars by cause."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.display.charts import COLOUR, empty_figure, new_figure, row_labels

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["bars_of_causes"]

TITLE = "Why the GPU has nothing to run"
CAUSE_COLOUR = {
    "host_operator": COLOUR["cpu"],
    "host_call": "#2f6fbd",
    "host_blocked": "#1d4f91",
    "host_no_operator": "#8fb8ea",
    "data_loading": "#4fb3b3",
    "other_thread": "#8878d2",
    "queue_full": "#c76b98",
    "launch": "#a06bd0",
    "stream_order": "#3fa65c",
    "graph_order": "#2f8049",
    "event_wait": "#e8893a",
    "launch_unknown": "#b9a7a7",
    "unknown": COLOUR["unexplained"],
    "no_more_work": COLOUR["idle"],
}
"""Blue: the host; purple: launching; green and orange: the GPU's own order; red and grey: not known."""


def bars_of_causes(causes: pd.DataFrame) -> Figure:
    """Draw one stacked bar per rank or step: idle time by cause, as a share of the window."""
    if causes.empty:
        return empty_figure(TITLE, "no idle time: no GPU activity was recorded, or there are no gaps")
    made = new_figure(title=TITLE, y="share of the window")
    labelled = causes.assign(label=row_labels(causes))
    order = list(dict.fromkeys(labelled["label"]))
    for cause, colour in CAUSE_COLOUR.items():
        own = labelled[labelled["cause"] == cause]
        if len(own):
            made.add_bar(
                name=cause.replace("_", " "),
                x=own["label"],
                y=own["window_share"],
                customdata=own["idle_ns"] / 1e6,
                marker_color=colour,
                hovertemplate="%{x}: %{y:.1%}, %{customdata:,.3f} ms",
            )
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_xaxes(categoryorder="array", categoryarray=order)
    made.update_yaxes(tickformat=".3~%", rangemode="tozero")
    return made
