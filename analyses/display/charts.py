"""The look of all figures: one color per class, readable on white and on black, one layout, no network."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from analyses.display.page import page_of
from hta_graph.base.arrays import first_of_runs, last_of_runs
from hta_graph.base.colours import BOUND_COLOUR, IDLE_COLOUR
from hta_graph.base.errors import MissingExtraError
from hta_graph.base.text.sanitize import sanitize_lines

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure


COLOUR = {
    "compute": BOUND_COLOUR["gpu_compute_bound"],
    "computation": BOUND_COLOUR["gpu_compute_bound"],
    "communication": BOUND_COLOUR["gpu_communication_bound"],
    "exposed_communication": BOUND_COLOUR["gpu_communication_bound"],
    "memory": BOUND_COLOUR["gpu_memory_bound"],
    "exposed_memory": BOUND_COLOUR["gpu_memory_bound"],
    "idle": IDLE_COLOUR,
    "not_recorded": "#d8d3cc",
    "unexplained": BOUND_COLOUR["unexplained"],
    "cpu": BOUND_COLOUR["cpu_bound"],
}
"""The color of each part, the same in every figure and on every page."""

SERIES = ("#4f8bd9", "#e8893a", "#3fa65c", "#a06bd0", "#c76b98", "#cfa92c", "#4fb3b3", "#8d99a6", "#e04848", "#8878d2")
"""Colors of series that are no class."""

CONFIG = {"displaylogo": False, "responsive": True}
GREY = "#808a94"
GRID = "rgba(128,128,128,0.25)"
POINTS = 40_000
"""About how many points a figure of lines holds at most: browsers stay quick."""
LINES = 64
"""How many lines a figure has at most: more cannot be distinguished."""

Numbers = np.ndarray[Any, Any]


def plotly_objects() -> Any:
    """Import plotly.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import plotly.graph_objects as go
    except ImportError:
        raise MissingExtraError("a figure", "plot") from None
    return go


MARKUP = re.compile(r"&lt;(br|extra|/extra)&gt;")
"""What figures have of markup themselves: nothing in it leads anywhere."""


@cache
def figure_type() -> type[Figure]:
    """Return the type of figures: Plotly takes texts for markup, and names in a trace may be any."""

    class PlainTextFigure(plotly_objects().Figure):  # type: ignore[misc, name-defined, unused-ignore]
        def to_dict(self) -> dict[str, Any]:
            return _as_plain_text(super().to_dict())  # type: ignore[no-any-return]

    return PlainTextFigure


def _as_plain_text(value: Any) -> Any:
    """Escape all texts of a figure, as it is shown or written."""
    if isinstance(value, str):
        return MARKUP.sub(r"<\1>", escape(sanitize_lines(value), quote=False))
    if isinstance(value, dict):
        return {key: _as_plain_text(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind in "OU"):
        return [_as_plain_text(inner) for inner in value]
    return value


def new_figure(*, title: str, x: str = "", y: str = "") -> Figure:
    """Make an empty figure in the common look: transparent, so that the page behind decides light or dark."""
    made = figure_type()()
    made.update_layout(
        title={"text": title, "x": 0.01, "y": 0.98, "yanchor": "top"},
        font={"family": "system-ui, sans-serif", "size": 13, "color": GREY},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        margin={"l": 60, "r": 20, "t": 80, "b": 50},
        # Above: below stand labels, which slant where there are many.
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom", "traceorder": "normal"},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY},
        colorway=list(SERIES),
    )
    made.update_xaxes(title=x, gridcolor=GRID, zeroline=False, automargin=True)
    made.update_yaxes(title=y, gridcolor=GRID, zeroline=False, automargin=True)
    return made


def empty_figure(title: str, why: str) -> Figure:
    """Make a figure that explains why it is empty."""
    made = new_figure(title=title)
    made.update_xaxes(visible=False)
    made.update_yaxes(visible=False)
    made.add_annotation(text=why, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    return made


def stacked_share_bars(frame: pd.DataFrame, parts: Sequence[str], *, title: str) -> Figure:
    """Draw one stacked bar per row of a table with ``rank``, ``scope``, ``{part}_ns`` and ``{part}_share`` columns."""
    if frame.empty or not frame["window_ns"].any():
        return empty_figure(title, "no GPU activity was recorded")
    made = new_figure(title=title, y="share of the window")
    labels = row_labels(frame)
    for part in parts:
        made.add_bar(
            name=part.replace("_", " "),
            x=labels,
            y=frame[f"{part}_share"],
            customdata=frame[f"{part}_ns"] / 1e6,
            marker_color=COLOUR.get(part),
            hovertemplate="%{x}: %{y:.1%}, %{customdata:,.3f} ms",
        )
    made.update_layout(barmode="stack", bargap=0.3)
    made.update_yaxes(tickformat=".0%", range=[0, 1])
    return made


def step_lines(lines: Mapping[str, tuple[Numbers, Numbers]], *, title: str, x: str, y: str) -> Figure:
    """Draw values that hold until the next one, one line per label; dense ones keep their extremes.

    Of very many lines those with the most points are drawn, and the title reports it.
    """
    if not lines:
        return empty_figure(title, "nothing was recorded")
    if len(lines) > LINES:
        title = f"{title} (the {LINES} with most changes of {len(lines):,})"
        most = set(sorted(lines, key=lambda label: -len(lines[label][0]))[:LINES])
        lines = {label: line for label, line in lines.items() if label in most}
    made = new_figure(title=title, x=x, y=y)
    for label, (places, values) in lines.items():
        kept = downsample(places, values, POINTS // len(lines))
        shape = {"shape": "hv", "width": 1.3}
        made.add_scatter(name=label, x=places[kept], y=values[kept], mode="lines", line=shape)
    made.update_layout(showlegend=True, hovermode="x")
    return made


def steps_by_group(frame: pd.DataFrame, group: str, value: str, *, title: str, y: str) -> Figure:
    """Draw a value over time (``time_ns``), one line per rank, scope and group, as :func:`step_lines` does."""
    ms = (frame["time_ns"] - frame["time_ns"].min()) / 1e6
    keys = frame[["rank", "scope", group]].drop_duplicates()
    names = [f"{label}, {of}" for label, of in zip(row_labels(keys), keys[group], strict=True)]
    parts = frame[value].groupby([frame["rank"], frame["scope"], frame[group]], sort=False)
    lines = {name: (ms[part.index].to_numpy(), part.to_numpy()) for name, (_, part) in zip(names, parts, strict=True)}
    return step_lines(lines, title=title, x="ms", y=y)


def horizontal_bars(labels: Sequence[str], values: Numbers, texts: Sequence[str], *, title: str, x: str) -> Figure:
    """Draw one horizontal bar per label, the first on top; the texts show where the pointer is."""
    if not len(values):
        return empty_figure(title, "nothing was recorded")
    made = new_figure(title=title, x=x)
    places = [str(place) for place in range(len(labels))]
    hover = "%{customdata}<br>%{x:,}<extra></extra>"
    made.add_bar(y=places, x=values, customdata=texts, orientation="h", marker_color=SERIES[0], hovertemplate=hover)
    made.update_yaxes(autorange="reversed", type="category", tickmode="array", tickvals=places, ticktext=labels)
    made.update_layout(showlegend=False, bargap=0.3)
    return made


def downsample(x: Numbers, y: Numbers, limit: int) -> Numbers:
    """Choose about ``limit`` of many points in order: the first, last, lowest and highest of each interval of ``x``.

    >>> downsample(np.arange(9), np.array([0, 0, 5, 0, 0, 0, 0, -3, 0]), 8).tolist()
    [0, 2, 3, 4, 7, 8]
    """
    if len(x) <= limit:
        return np.arange(len(x))
    # Four points per interval keep what the eye sees of a dense line: where it enters, leaves, peaks and dips.
    intervals = max(limit // 4, 1)
    part = ((x - x[0]) / max(x[-1] - x[0], 1e-9) * intervals).astype(np.int64).clip(max=intervals - 1)
    begins, ends = np.flatnonzero(first_of_runs(part)), np.flatnonzero(last_of_runs(part))
    by_height = np.lexsort((y, part))
    return np.unique(np.concatenate([begins, ends, by_height[begins], by_height[ends]]))


def row_labels(frame: pd.DataFrame) -> list[str]:
    """Name the rows of a table by rank, and by scope where a rank has several."""
    # A rank names a row only where it has no second scope, such as another step.
    several = frame[["rank", "scope"]].drop_duplicates()["rank"].duplicated().any()
    pairs = zip(frame["rank"], frame["scope"], strict=True)
    return [f"rank {rank}, {scope}" if several else f"rank {rank}" for rank, scope in pairs]


def figure_html(made: Figure, title: str) -> bytes:
    """Return a page of its own that needs no network and follows the reader's light or dark setting."""
    from plotly.offline import get_plotlyjs

    library = f"window.PlotlyConfig = {{MathJaxConfig: 'local'}};\n{get_plotlyjs()}"
    # Plotly's JSON has no character that could end the script.
    drawn = f"const made = {made.to_json()};\nPlotly.newPlot('figure', made.data, made.layout, {json.dumps(CONFIG)});"
    return page_of("figure.html", script=f"{library}\n{drawn}", title=title)


def can_show() -> bool:
    """Return whether figures can be shown: in a notebook, or in a browser where there is a display."""
    return in_notebook() or has_display()


def has_display() -> bool:
    """Return whether this computer has a display; on a server a browser would be one of text, or none."""
    return sys.platform in {"darwin", "win32"} or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))


def in_notebook() -> bool:
    """Return whether this runs in a notebook."""
    try:
        from IPython import get_ipython  # type: ignore[attr-defined, import-not-found, unused-ignore]
    except ImportError:
        return False
    shell = get_ipython()
    return shell is not None and bool(shell.has_trait("kernel"))


def show(made: Figure) -> None:
    """Show a figure in a notebook; in a script in the browser, if there is a display."""
    if in_notebook():
        made.show(config=CONFIG)
    elif has_display():
        made.show(renderer="browser", config=CONFIG)
