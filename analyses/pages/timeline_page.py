"""timeline: the lanes of a window with the critical path drawn through them, as a plotly figure or its own page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from analyses.display.charts import BOUND_COLOUR, plotly_objects
from analyses.display.page import html_page
from analyses.display.terminal import clipped, duration_text
from analyses.pages.timeline_scene import GROUPS, Bars, Floats, Scene, plain, scene_of
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.model import BoundBy

__all__ = ["timeline_figure", "timeline_html"]

ROW_PX = 17
FADED = 0.45
"""Opacity of what is not on the path."""

PATH_COLOUR = "#e6007a"
BAND = "rgba(128,128,128,0.10)"
KIND_COLOUR = {
    "annotation": "#8d99a6",
    "cpu_op": "#4f8bd9",
    "runtime": "#8878d2",
    "kernel": "#3fa65c",
    "communication kernel": "#e8893a",
    "memcpy": "#cfa92c",
    "memset": "#a88a2a",
}
"""Colours of events; of medium lightness, so that they show on white and on black."""

HOVER = "<b>%{hovertext}</b><br>starts at %{customdata[0]:,.6~f} ms, lasts %{customdata[1]:,.3~f} µs"

CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d"]}

STYLE = """body { padding: 12px; font: 14px/1.45 system-ui, sans-serif; }
h1 { font-size: 1.25rem; margin: 0 0 .25rem; overflow-wrap: anywhere; }
p { margin: .15rem 0; overflow-wrap: anywhere; }
.left-out { color: #c2570c; }
.main-svg text:not(.hoverlayer text) { fill: CanvasText !important; }
"""

BODY = """<h1>{title}</h1>
<p>{verdict}</p>
{left_out}<p>Drag sideways to zoom, double-click to see all, hover or tap for details.
What is not on the path is faded.</p>
{figure}"""


def timeline_figure(path: CriticalPath, *, limit: int = 20_000) -> Any:
    """Draw the window's lanes with the path through them: a ``plotly.graph_objects.Figure``.

    Args:
        path: a critical path.
        limit: most events; the shortest are left out. Of more than a quarter as many segments only the classes are
            drawn. The title says so.

    Raises:
        MissingExtraError: plotly is not installed.
        UsageError: the limit is below 1.
    """
    return _drawn_scene(path, scene_of(path, limit), titled=True)


def timeline_html(path: CriticalPath, *, limit: int = 20_000) -> bytes:
    """Return a page that shows the timeline without a network, in light and dark.

    Raises:
        MissingExtraError: plotly is not installed.
        UsageError: the limit is below 1.
    """
    scene = scene_of(path, limit)
    figure = _drawn_scene(path, scene, titled=False)
    plot = figure.to_html(full_html=False, include_plotlyjs=True, config=CONFIG, div_id="timeline")
    body = BODY.format(
        title=escape(_page_title(path)),
        verdict=escape(_verdict_line(path)),
        left_out=f'<p class="left-out">{escape(scene.left_out)}</p>\n' if scene.left_out else "",
        figure=plot,
    )
    return html_page(_page_title(path), body, style=STYLE)


def _drawn_scene(path: CriticalPath, scene: Scene, *, titled: bool) -> Any:
    """Draw a scene."""
    go = plotly_objects("a timeline")
    bounds = {bound.label: BOUND_COLOUR.get(bound.label, BAND) for bound in BoundBy}
    figure = go.Figure([
        *_bar_traces(go, scene.segments, bounds),
        *_bar_traces(go, scene.events, {group: KIND_COLOUR[group] for group in GROUPS}),
        *_path_traces(go, *scene.runs),
    ])  # fmt: skip
    figure.update_layout(
        **_page_layout(path, scene, titled=titled), title=_figure_heading(path, scene) if titled else None
    )
    return figure


def _bar_traces(go: Any, bars: Bars, colours: dict[str, str]) -> list[Any]:
    """Make one trace a colour."""
    # A trace a colour, not a bar: plotly draws thousands of bars of one trace quickly.
    found = [(number, label) for number, label in enumerate(colours) if (bars.group == number).any()]
    return [_bar_trace(go, bars.of_group(number), label, colours[label]) for number, label in found]


def _bar_trace(go: Any, bars: Bars, label: str, colour: str) -> Any:
    """Draw the bars of one colour."""
    return go.Bar(
        name=label,
        orientation="h",
        base=bars.start,
        x=bars.length,
        y=bars.row,
        width=0.86,
        marker={"color": colour, "opacity": np.where(bars.faded, FADED, 1.0), "line": {"width": 0}},
        hovertext=bars.text,
        customdata=np.stack([bars.start, bars.length * 1e3, bars.number], axis=1),
        hovertemplate=HOVER + f"<extra>{label}</extra>",
    )


def _path_traces(go: Any, start: Floats, end: Floats, height: Floats) -> list[Any]:
    """Draw the path bold along its lanes and thin between them, so that many changes of lane hide nothing."""
    # Two lines of many pieces with breaks between them: a shape for each piece would take seconds.
    along = {
        "x": _with_breaks(start, end),
        "y": _with_breaks(height, height),
        "line": {"color": PATH_COLOUR, "width": 4},
    }
    across = {"x": _with_breaks(start[1:], start[1:]), "y": _with_breaks(height[:-1], height[1:]), "opacity": 0.3}
    across["line"] = {"color": PATH_COLOUR, "width": 1.5}
    common = {"mode": "lines", "hoverinfo": "skip", "legendgroup": "path"}
    return [
        go.Scatter(name="critical path", **along, **common),
        go.Scatter(name="changes of lane", showlegend=False, **across, **common),
    ]


def _with_breaks(*columns: Floats) -> Floats:
    """Weave columns into one, with a break after each row."""
    return np.stack([*columns, np.full(len(columns[0]), np.nan)], axis=1).reshape(-1)


def _page_layout(path: CriticalPath, scene: Scene, *, titled: bool) -> dict[str, Any]:
    """Return axes, bands and labels."""
    plot_px = round(scene.height * ROW_PX)  # the legend is placed in pixels below a plot of any height
    return {
        "barmode": "overlay",
        "bargap": 0,
        "height": plot_px + 200,
        "margin": {"l": 8, "r": 8, "t": 90 if titled else 36, "b": 50},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 12, "color": "#808080"},
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "namelength": -1},
        "dragmode": "zoom",
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": "#909090", "activecolor": PATH_COLOUR},
        "legend": {"orientation": "h", "yanchor": "top", "y": -60 / plot_px, "x": 0, "itemwidth": 30},
        "xaxis": {
            "title": {"text": f"ms after the start of {plain(path.window.label)}"},
            "range": [0, max(path.length_ns, 1) / 1e6],
            "gridcolor": "rgba(128,128,128,0.25)",
            "zeroline": False,
        },
        "yaxis": {"visible": False, "fixedrange": True, "range": [scene.height + 0.3, 0]},
        "shapes": [_lane_band(top, bottom) for _, top, bottom in scene.lanes],
        "annotations": [_lane_label("critical path", 0.0), *(_lane_label(text, top) for text, top, _ in scene.lanes)],
    }


def _lane_band(top: float, bottom: float) -> dict[str, Any]:
    """Return the grey rectangle behind a lane."""
    span = {"x0": 0, "x1": 1, "y0": top, "y1": bottom}
    return {"type": "rect", "xref": "paper", "layer": "below", "line": {"width": 0}, "fillcolor": BAND, **span}


def _lane_label(text: str, top: float) -> dict[str, Any]:
    """Return the label at the head of a lane."""
    place = {"xref": "paper", "x": 0, "xanchor": "left", "y": top + 0.55, "yanchor": "middle"}
    return {"text": f"<b>{plain(text)}</b>", "showarrow": False, "font": {"size": 11}, **place}


def _figure_heading(path: CriticalPath, scene: Scene) -> dict[str, Any]:
    """Return the title of a figure and the line below it."""
    lines: Sequence[str] = [line for line in (_verdict_line(path), scene.left_out) if line]
    below = {"text": escape("; ".join(lines), quote=False)}
    return {
        "text": escape(_page_title(path), quote=False),
        "subtitle": below,
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
    }


def _page_title(path: CriticalPath) -> str:
    """Name the window and the rank."""
    rank = path.graph.rank
    return f"Timeline of {clipped(path.window.label, 60)}" + (f", rank {rank}" if rank is not None else "")


def _verdict_line(path: CriticalPath) -> str:
    """Say how long the path is and what bounds it."""
    largest, ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
    name, length = clipped(path.graph.path.name, 60), duration_text(path.length_ns)
    return f"{name}: {length}, of which {duration_text(ns)} {largest}; {path.coverage:.1%} explained"
