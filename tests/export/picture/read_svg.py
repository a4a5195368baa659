"""Reads pictures of lanes back: bars, strips, arrows and texts with their places."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from itertools import pairwise

__all__ = ["Arrow", "Shape", "arrows_in", "bars_in", "lanes_in", "parsed", "texts_in"]

SVG = "{http://www.w3.org/2000/svg}"


@dataclass(frozen=True)
class Shape:
    """A rectangle, its colour, and what it says of itself."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    said: str


@dataclass(frozen=True)
class Arrow:
    """The line of an arrow."""

    start: tuple[float, float]
    end: tuple[float, float]
    colour: str
    width: float
    dashed: bool


def parsed(source: str) -> ET.Element:
    """Parse a picture; one that is no XML is an error."""
    return ET.fromstring(source)  # noqa: S314 - it was written here


def bars_in(source: str, *, of_events: bool = True) -> list[Shape]:
    """Return the bars of events in the order of drawing, or the other rectangles that say what they are: strips."""
    found = []
    for rect in parsed(source).iter(f"{SVG}rect"):
        said = rect.findtext(f"{SVG}title") or ""
        shape = Shape(*(float(rect.get(key, "0")) for key in ("x", "y", "width", "height")), rect.get("fill", ""), said)
        if said and (shape.height == 14) == of_events:
            found.append(shape)
    return found


def arrows_in(source: str) -> list[Arrow]:
    """Return the lines of arrows: what is drawn from one place to another and has a head."""
    paths = list(parsed(source).iter(f"{SVG}path"))
    found = []
    for line, head in pairwise(paths):
        if line.get("fill") == "none" and (head.get("d") or "").endswith("Z"):
            numbers = [float(number) for number in re.findall(r"-?[\d.]+", line.get("d") or "")]
            ends = (numbers[0], numbers[1]), (numbers[-2], numbers[-1])
            dashed = line.get("stroke-dasharray") is not None
            found.append(Arrow(*ends, line.get("stroke", ""), float(line.get("stroke-width", "1")), dashed))
    return found


def texts_in(source: str) -> list[str]:
    """Return all lines of text."""
    return [text.text or "" for text in parsed(source).iter(f"{SVG}text")]


def lanes_in(source: str) -> list[str]:
    """Return the names of lanes from top to bottom."""
    texts = parsed(source).iter(f"{SVG}text")
    named = [text.text or "" for text in texts if text.get("text-anchor") == "end"]
    return [name for name in named if re.search(r"(thread|stream|communication) ?", name)]
