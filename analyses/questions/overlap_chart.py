"""The figure of the overlap: hidden and exposed communication and copies per rank or step."""

from __future__ import annotations

from typing import TYPE_CHECKING

from analyses.display.charts import COLOUR, empty_figure, new_figure, row_labels

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

__all__ = ["hidden_and_exposed"]

TITLE = "Communication and copies: hidden behind other work, or exposed"
PARTS = {
    "overlapped_communication": ("communication, hidden", "rgba(232,137,58,0.4)"),
    "exposed_communication": ("communication, exposed", COLOUR["communication"]),
    "overlapped_memory": ("copies, hidden", "rgba(207,169,44,0.4)"),
    "exposed_memory": ("copies, exposed", COLOUR["memory"]),
}
BAR = {"communication": "comm.", "copies": "copies"}


def hidden_and_exposed(overlap: pd.DataFrame) -> Figure:
    """Draw one stacked bar for communication and one for copies, per row of the table."""
    if not (overlap["communication_ns"].any() or overlap["memory_ns"].any()):
        return empty_figure(TITLE, "no communication and no copies were recognised")
    made = new_figure(title=TITLE, y="ms")
    labels = row_labels(overlap)
    for part, (name, colour) in PARTS.items():
        whole = overlap[f"{part.rpartition('_')[2]}_ns"]  # of communication or of copies, by the last word
        made.add_bar(
            name=name,
            x=[labels, [BAR[name.partition(",")[0]]] * len(labels)],
            y=overlap[f"{part}_ns"] / 1e6,
            customdata=(overlap[f"{part}_ns"] / whole.where(whole > 0)).fillna(0),
            marker_color=colour,
            hovertemplate="%{y:,.3f} ms, %{customdata:.1%}",
        )
    made.update_layout(barmode="stack", bargap=0.2, legend={"y": 1.02, "yanchor": "bottom"}, margin={"t": 90})
    made.update_xaxes(showgrid=False)
    return made
