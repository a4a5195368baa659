"""Fonts, colours, borders and short texts of pictures."""

from __future__ import annotations

from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR
from hta_graph.base.text.shorten import shorten_middle
from hta_graph.model import EDGE_MEANING, EdgeKind, EventKind
from hta_graph.trace.table import Trace

MAX_NAME_LENGTH = 44
"""Longest name in a box, in characters."""


def short_label(text: str, size: int) -> str:
    r"""Cut the middle out of a text, on one line, without characters that XML forbids.

    >>> short_label("triton_poi_fused_add_mul_12", 16), short_label("a\0b", 9)
    ('triton_po…mul_12', 'a\ufffdb')
    """
    return shorten_middle(text, size) or "(no name)"


def format_duration(ns: int, digits: int = 3) -> str:
    """Print a time with three digits, or with another number of them.

    >>> format_duration(950), format_duration(96_000), format_duration(1_234_567), format_duration(12_345_678_900)
    ('950 ns', '96 µs', '1.23 ms', '12.3 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{float(f'{ns / size:.{digits}g}'):,.{max(digits, 4)}g} {unit}"
    return f"{ns} ns"


def trace_label(trace: Trace) -> str:
    """Print the name of a trace's file and its rank."""
    return short_label(trace.path.name, 80) + (f", rank {trace.rank}" if trace.rank is not None else "")


FONT = "Helvetica"
GRAPH = {
    "rankdir": "LR", "newrank": "true", "labelloc": "t", "labeljust": "l", "fontname": FONT, "fontsize": "11",
    "bgcolor": "white", "nodesep": "0.12", "ranksep": "0.3", "compound": "true", "charset": "UTF-8",
}  # fmt: skip
NODE = {"shape": "box", "fontname": FONT, "fontsize": "11", "margin": "0.13,0.05", "color": "#404040"}
EDGE = {"fontname": FONT, "fontsize": "8", "arrowsize": "0.7"}
CLUSTER = {"labeljust": "l", "style": "filled,rounded", "color": "#d8d8d8", "fillcolor": "#fafafa", "fontsize": "10"}
GRAPH_CLUSTER = {
    **CLUSTER,
    "color": EDGE_MEANING[EdgeKind.GRAPH_ORDER].colour,
    "fillcolor": "#f0f7f7",
    "penwidth": "1.5",
}
ANCHOR = {"shape": "point", "style": "invis", "width": "0.01", "label": ""}
CONNECTOR = {"shape": "circle", "fixedsize": "true", "width": "0.25", "fillcolor": "#ffe680", "style": "filled"}

TINT = 0.75
"""The share of white in the fill of a box."""


def _tinted(colour: str) -> tuple[str, str]:
    """Return the fill and the border of a box of a color.

    >>> _tinted("#3fa65c")
    ('#cfe9d6', '#3fa65c')
    """
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round(part + (255 - part) * TINT):02x}" for part in parts), colour


FILL: dict[str, tuple[str, str]] = {
    **{bound: _tinted(colour) for bound, colour in BOUND_COLOUR.items()},
    **{kind.label: _tinted(EVENT_COLOUR[kind.label]) for kind in EventKind if kind.label in EVENT_COLOUR},
    EventKind.RENDEZVOUS.label: _tinted(BOUND_COLOUR["gpu_communication_bound"]),
}
"""Fill and border of boxes, by class on a path and by kind elsewhere."""

OTHER_FILL = ("#ffffff", "#777777")
UNKNOWN_COLOUR = "#8a8a8a"


def fill_and_border(fill: str) -> tuple[str, str]:
    """Return the colours of a box, white for what has none of its own."""
    return FILL.get(fill, OTHER_FILL)


def link_colour(kind: EdgeKind | None) -> str:
    """Return the colour of a link, grey where its kind is not known."""
    return UNKNOWN_COLOUR if kind is None else EDGE_MEANING[kind].colour
