"""The figure of the idle time: stacked bars by cause."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from analyses.display.charts import COLOUR, empty_figure, new_figure, row_labels
from hta_graph.model import GapCause

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["bars_of_causes"]

TITLE = "Why the GPU has nothing to run"
CAUSE_COLOUR: Mapping[GapCause, str] = {
    GapCause.HOST_OPERATOR: COLOUR["cpu"],
    GapCause.HOST_CALL: "#2f6fbd",
    GapCause.HOST_BLOCKED: "#1d4f91",
    GapCause.HOST_NO_OPERATOR: "#8fb8ea",
    GapCause.DATA_LOADING: "#4fb3b3",
    GapCause.OTHER_THREAD: "#8878d2",
    GapCause.QUEUE_FULL: "#c76b98",
    GapCause.LAUNCH: "#a06bd0",
    GapCause.STREAM_ORDER: "#3fa65c",
    GapCause.GRAPH_ORDER: "#2f8049",
    GapCause.EVENT_WAIT: "#e8893a",
    GapCause.LAUNCH_UNKNOWN: "#b9a7a7",
    GapCause.UNKNOWN: COLOUR["unexplained"],
    GapCause.NO_MORE_WORK: COLOUR["idle"],
    GapCause.OTHER_RANK: "#b5532a",
}
"""Blue: the host; purple: launching; green and orange: the GPU's own order; red and grey: not known."""
BARS = [(cause.label, CAUSE_COLOUR[cause]) for cause in GapCause]
"""The causes as a figure stacks them; one without a colour is an error when this module is imported."""


def bars_of_causes(causes: pd.DataFrame) -> Figure:
    """Draw one stacked bar per rank or step: idle time by cause, as a share of the window."""
    if causes.empty:
        return empty_figure(TITLE, "no idle time: no GPU activity was recorded, or there are no gaps")
    made = new_figure(title=TITLE, y="share of the window")
    labelled = causes.assign(label=row_labels(causes))
    order = list(dict.fromkeys(labelled["label"]))
    for cause, colour in BARS:
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
