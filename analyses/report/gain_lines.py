r"""Where the lines of what would be gained stand in a picture: a window's length over the time that things take.

measured |\____________  what soon decides nothing
         | \
         |  \______       what counts up to a corner
         100 %     free
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from analyses.advice.format import brief_share
from analyses.display.charts import SERIES
from analyses.opportunities import Gain, SavedTick, corner_text, saved_ticks

__all__ = ["GainFigure", "gain_figure"]

WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1000, 130, 610, 14, 270
"""Of the picture and of the lines in it, in units of the picture."""
LABELS = 640
ROOM = 40
"""What a label of two lines takes."""
SHARES = ((1.0, "100 %"), (0.75, "75 %"), (0.5, "50 %"), (0.25, "25 %"), (0.0, "free"))


@dataclass(frozen=True)
class GainTick:
    """A tick of an axis: where it is and what it says."""

    at: float
    text: str
    beside: str = ""


@dataclass(frozen=True)
class GainCorner:
    """A corner of a line: where it is and what it says where the pointer is."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class GainLine:
    """A line with its corners and its label, which stands beside its end or near it."""

    colour: str
    points: str
    corners: Sequence[GainCorner]
    end: float
    label: float
    name: str
    gained: str
    whole: str


@dataclass(frozen=True)
class GainFigure:
    """A picture: its size, its axes, its lines."""

    width: int
    height: int
    across: Sequence[GainTick]
    down: Sequence[GainTick]
    lines: Sequence[GainLine]
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM
    labels: int = LABELS

    @property
    def text(self) -> str:
        """All lines in words, for those who do not see them."""
        return "; ".join(f"{line.name}: {line.gained}" for line in self.lines)


def gain_figure(gains: Sequence[Gain]) -> GainFigure:
    """Draw one line for each."""
    ticks = saved_ticks([gain.curve for gain in gains])
    ends = [_height_of(gain.curve.corners[-1][1], ticks) for gain in gains]
    lines = [
        _line_of(gain, ticks, SERIES[number], label)
        for number, (gain, label) in enumerate(zip(gains, _spread_labels(ends), strict=True))
    ]
    across = [GainTick(_place_of(share), text) for share, text in SHARES]
    down = [GainTick(_height_of(tick.length_ns, ticks), tick.length, tick.saved) for tick in ticks]
    return GainFigure(WIDTH, BOTTOM + 50, across, down, lines)


def _line_of(gain: Gain, ticks: Sequence[SavedTick], colour: str, label: float) -> GainLine:
    one, curve = gain.chosen, gain.curve
    places = [(_place_of(corner[0]), _height_of(corner[1], ticks)) for corner in curve.corners]
    corners = [
        GainCorner(x, y, f"{gain.name} {corner_text(curve, corner)}")
        for (x, y), corner in zip(places, curve.corners, strict=True)
    ]
    half, free = (brief_share(saved / max(curve.measured_ns, 1)) for saved in (one.saved_half_ns, one.saved_free_ns))
    also = ", ".join(f"{other.kind} {other.name}" for other in gain.alike)
    return GainLine(
        colour,
        " ".join(f"{x:g},{y:g}" for x, y in places),
        corners[1:],
        places[-1][1],
        label,
        gain.name,
        f"{one.kind}: half −{half}, free −{free}",
        f"{one.kind} {one.name}" + (f"; as much is gained by {also}" if also else ""),
    )


def _place_of(share: float) -> float:
    return round(LEFT + (1 - share) * (RIGHT - LEFT), 1)


def _height_of(length_ns: int, ticks: Sequence[SavedTick]) -> float:
    """Return how far down a length stands: that as measured at the top."""
    highest, lowest = ticks[0].length_ns, ticks[-1].length_ns
    return round(TOP + (highest - length_ns) / max(highest - lowest, 1) * (BOTTOM - TOP), 1)


def _spread_labels(ends: Sequence[float]) -> list[float]:
    """Move labels down where the one above them leaves no room, and all up where the last ones leave the picture."""
    order = sorted(range(len(ends)), key=lambda at: ends[at])
    found = list(ends)
    lowest = float(TOP)
    for at in order:
        found[at] = lowest = max(found[at], lowest)
        lowest += ROOM
    highest = float(BOTTOM)
    for at in reversed(order):
        found[at] = highest = min(found[at], highest)
        highest -= ROOM
    return found
