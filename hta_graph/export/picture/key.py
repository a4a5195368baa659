"""The legend of a picture of lanes: what of its colours occurs, in as many lines as that takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hta_graph.export.picture.svg import element, rectangle, text, text_width

__all__ = ["KeyEntry", "arrow_entry", "key_lines", "swatch_entry"]

SIZE, LINE, MARK, GAP = 10.0, 15.0, 14.0, 12.0
TITLE = 40.0
"""The room for the word that a line begins with."""

Mark = Callable[[float, float], str]


@dataclass(frozen=True)
class KeyEntry:
    """A mark, drawn at a place, and what it stands for."""

    mark: Mark
    label: str

    @property
    def width(self) -> float:
        """How much room it takes."""
        return MARK + text_width(self.label, SIZE) + GAP


def swatch_entry(colour: str, label: str) -> KeyEntry:
    """Explain the colour of bars."""
    return KeyEntry(lambda x, y: rectangle(x, y - 8, 9, 9, colour), label)


def arrow_entry(colour: str, label: str, *, dashed: bool = False, thick: bool = False) -> KeyEntry:
    """Explain the colour of arrows."""
    dash = {"stroke_dasharray": "3 2"} if dashed else {}
    width = 2.4 if thick else 1.3
    return KeyEntry(
        lambda x, y: element("path", d=f"M{x:.1f} {y - 3.5:.1f}h11", stroke=colour, stroke_width=width, **dash), label
    )


def key_lines(
    groups: Sequence[tuple[str, Sequence[KeyEntry]]], top: float, left: float, right: float
) -> tuple[list[str], float]:
    """Write groups of entries, each on lines of its own; return also where the last one ends."""
    parts, y = [], top
    for title, entries in groups:
        x = left + TITLE
        parts += [text(left, y, title, font_size=SIZE)] if entries else []
        for at, entry in enumerate(entries):
            if at and x + entry.width - GAP > right:
                x, y = left + TITLE, y + LINE
            parts += [entry.mark(x, y), text(x + MARK, y, entry.label, font_size=SIZE)]
            x += entry.width
        y += LINE if entries else 0
    return parts, y - LINE
