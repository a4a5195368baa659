"""SVG as text: elements, a time axis and a legend; names are escaped."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from hta_graph.base.text.shorten import shorten_middle

FONT = "Helvetica, Arial, sans-serif"
CHARACTER_WIDTH = 0.58
"""The width of a usual character, as a share of the font's size: fonts differ, so a little more than most need."""
TEXT_COLOUR = "#7c7c7c"
"""The color of text outside bars: readable on white and on black."""


def number(value: float) -> str:
    """Print a place with a tenth of a pixel.

    >>> number(12.04), number(3.96), number(-0.01)
    ('12', '4', '0')
    """
    return f"{value:.1f}".removesuffix(".0").replace("-0", "0") if abs(value) < 1 else f"{value:.1f}".removesuffix(".0")


def text_width(content: str, size: float) -> float:
    """Return about how wide a text is (pixels)."""
    return len(content) * CHARACTER_WIDTH * size


def element(name: str, inside: str = "", **attributes: str | float) -> str:
    """Write an element; underscores in the names of attributes become hyphens, numbers are places.

    >>> element("path", d="M0 0", stroke_width=2)
    '<path d="M0 0" stroke-width="2"/>'
    """
    pairs = (
        (key.rstrip("_").replace("_", "-"), value if isinstance(value, str) else number(value))
        for key, value in attributes.items()
    )
    opened = "".join([f"<{name}", *(f' {key}="{escape(value)}"' for key, value in pairs)])
    return f"{opened}>{inside}</{name}>" if inside else f"{opened}/>"


def rectangle(
    x: float, y: float, width: float, height: float, fill: str, content: str = "", **more: str | float
) -> str:
    """Write a rectangle; ``content`` is its tooltip."""
    return element("rect", tooltip(content), x=x, y=y, width=width, height=height, fill=fill, **more)


def tooltip(content: str) -> str:
    """Write a tooltip; nothing where that is empty."""
    return f"<title>{escape(shorten_middle(content, 160))}</title>" if content else ""


def text(x: float, y: float, content: str, **more: str | float) -> str:
    """Write a line of text from its left end and its base line."""
    return element("text", escape(shorten_middle(content, 240)), x=x, y=y, **more)


def document(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    """Put the parts of a picture into a document of its own, with a transparent ground."""
    size = {"width": number(width), "height": number(height), "viewBox": f"0 0 {number(width)} {number(height)}"}
    sized = "".join(f' {key}="{value}"' for key, value in size.items())
    font = f'font-family="{FONT}" font-size="11" fill="{TEXT_COLOUR}"'
    opened = f'<svg xmlns="http://www.w3.org/2000/svg"{sized} role="img" {font}>'
    return "\n".join([opened, tooltip(title), *parts, "</svg>", ""])


TIME_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
ROUND_DIGITS = (1, 2, 5)


def time_ticks(length_ns: int, most: int) -> list[tuple[int, str]]:
    """Return round times (ns), at most ``most``, and how each is printed, all in one unit.

    >>> time_ticks(90_000, 5)
    [(0, '0'), (20000, '20 µs'), (40000, '40 µs'), (60000, '60 µs'), (80000, '80 µs')]
    >>> time_ticks(3_000_000, 4)
    [(0, '0'), (1000000, '1 ms'), (2000000, '2 ms'), (3000000, '3 ms')]
    """
    steps = (digit * 10**power for power in range(19) for digit in ROUND_DIGITS)
    step = next(step for step in steps if length_ns // step < most)
    unit, size = next((unit, size) for unit, size in TIME_UNITS if size <= max(length_ns, 1))
    times = range(0, length_ns + 1, step)
    return [(time, f"{time / size:.12g} {unit}" if time else "0") for time in times]


LEGEND_FONT_SIZE, LEGEND_LINE_HEIGHT, LEGEND_MARK_WIDTH, LEGEND_GAP = 10.0, 15.0, 14.0, 12.0
LEGEND_TITLE_WIDTH = 40.0
"""The room for the first word of a line."""

DrawMark = Callable[[float, float], str]


@dataclass(frozen=True)
class LegendEntry:
    """A mark, drawn at a place, and its label."""

    mark: DrawMark
    label: str

    @property
    def width(self) -> float:
        """Its width."""
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
