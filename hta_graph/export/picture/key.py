"""The legend of a picture of lanes: what of its colours occurs, in as many lines as that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hta_graph.export.picture.svg import element, rectangle, text, text_width

__all__ = ["LegendEntry", "arrow_entry", "legend_lines", "colour_entry"]

LEGEND_FONT_SIZE, LEGEND_LINE_HEIGHT, LEGEND_MARK_WIDTH, LEGEND_GAP = 10.0, 15.0, 14.0, 12.0
LEGEND_TITLE_WIDTH = 40.0
"""The room for the word that a line begins with."""

DrawMark = Callable[[float, float], str]


@dataclass(frozen=True)
class LegendEntry:
    """A mark, drawn at a place, and what it stands for."""

    mark: DrawMark
    label: str

    @property
    def width(self) -> float:
        """How much room it takes."""
        return LEGEND_MARK_WIDTH + text_width(self.label, LEGEND_FONT_SIZE) + LEGEND_GAP


def colour_entry(colour: str, label: str) -> LegendEntry:
    """Explain the colour of bars."""
    return LegendEntry(lambda x, y: rectangle(x, y - 8, 9, 9, colour), label)


def arrow_entry(colour: str, label: str, *, dashed: bool = False, thick: bool = False) -> LegendEntry:
    """Explain the colour of arrows."""
    dash = {"stroke_dasharray": "3 2"} if dashed else {}
    width = 2.4 if thick else 1.3
    return LegendEntry(
        lambda x, y: element("path", d=f"M{x:.1f} {y - 3.5:.1f}h11", stroke=colour, stroke_width=width, **dash), label
    )


def legend_lines(
    groups: Sequence[tuple[str, Sequence[LegendEntry]]], top: float, left: float, right: float
) -> tuple[list[str], float]:
    """Write groups of entries, each on lines of its own; return also where the last one ends."""
    parts, y = [], top
    for title, entries in groups:
        x = left + LEGEND_TITLE_WIDTH
        parts += [text(left, y, title, font_size=LEGEND_FONT_SIZE)] if entries else []
        for at, entry in enumerate(entries):
            if at and x + entry.width - LEGEND_GAP > right:
                x, y = left + LEGEND_TITLE_WIDTH, y + LEGEND_LINE_HEIGHT
            parts += [entry.mark(x, y), text(x + LEGEND_MARK_WIDTH, y, entry.label, font_size=LEGEND_FONT_SIZE)]
            x += entry.width
        y += LEGEND_LINE_HEIGHT if entries else 0
    return parts, y - LEGEND_LINE_HEIGHT
