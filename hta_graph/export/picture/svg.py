"""SVG as text: numbers, names and elements, each whole and without anything that a name could bring in."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hta_graph.text.shorten import shorten_middle

__all__ = ["CHARACTER_WIDTH", "TEXT_COLOUR", "document", "element", "number", "rectangle", "text", "text_width"]

FONT = "Helvetica, Arial, sans-serif"
CHARACTER_WIDTH = 0.58
"""The width of a usual character, as a share of the font's size: fonts differ, so a little more than most need."""
TEXT_COLOUR = "#7c7c7c"
"""Of what stands on the page's own ground: it reads on white and on black."""


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
    """Write an element; underscores in the names of attributes stand for hyphens, numbers are places.

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
    """Write a rectangle; what it says is shown where a mouse rests on it."""
    return element("rect", tooltip(content), x=x, y=y, width=width, height=height, fill=fill, **more)


def tooltip(content: str) -> str:
    """Write what an element says of itself; nothing where that is empty."""
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
