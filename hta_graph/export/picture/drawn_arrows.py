"""Arrows between bars as SVG, with the name of their kind where there is room for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from hta_graph.export.picture.lane_layout import LaneArrows
from hta_graph.export.picture.places import BAR_HEIGHT, STRIP_HEIGHT, LaneLayout
from hta_graph.export.picture.style import link_colour
from hta_graph.export.picture.svg import element, number, text, text_width
from hta_graph.model import EdgeKind

__all__ = ["ArrowRenderer", "OccupiedArea"]

ARROW_LABEL_FONT_SIZE, ARROW_HEAD_SIZE = 9.5, 5.0
"""The size of a label, and of an arrow's head."""
LABEL_POSITIONS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92)
"""Where along an arrow its label is tried."""
LABEL_OVERHANG = 30.0
"""So far left of the window a label may begin."""
MAX_LABELS_PER_KIND = 3
"""So often a kind is named; the legend has all of them."""
OCCUPIED_SPACING = 5.0
"""An arrow takes the room around points of it that are so far apart."""
MIN_LINE_LENGTH = 6.0
"""An arrow within a lane that is shorter is drawn as an arc above it."""

Point = tuple[float, float]


@dataclass(frozen=True)
class OccupiedArea:
    """Room that is taken already."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: OccupiedArea) -> bool:
        """Say whether two share any of it."""
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)


@dataclass
class ArrowRenderer:
    """Draws arrows one after the other; labels go where nothing is yet."""

    places: LaneLayout
    taken: list[OccupiedArea]
    parts: list[str] = field(default_factory=list)
    labels: list[str] = field(default_factory=list)

    def draw(self, arrows: LaneArrows) -> None:
        """Draw all arrows, then as many labels as there is room for, those of the path first."""
        lines = [self._ends(arrows, at) for at in range(len(arrows))]
        labels: Counter[int] = Counter()
        for at, (start, end) in enumerate(lines):
            self.taken += _areas_along(start, end)
            kind = EdgeKind(int(arrows.kind[at]))
            self._draw_line(start, end, kind, inferred=bool(arrows.inferred[at]), bold=bool(arrows.on_path[at]))
        for at in (~arrows.on_path).argsort(kind="stable").tolist():
            kind = EdgeKind(int(arrows.kind[at]))
            if labels[kind] < MAX_LABELS_PER_KIND:
                labels[kind] += self._label(lines[at][0], lines[at][1], kind)

    def _ends(self, arrows: LaneArrows, at: int) -> tuple[Point, Point]:
        """Return where an arrow begins and ends: on the edges of the bars that face each other."""
        source, target = int(arrows.source[at]), int(arrows.target[at])
        tops = [self._bar_top(row) for row in (source, target)]
        times = [self.places.x(int(time[at])) for time in (arrows.source_ns, arrows.target_ns)]
        if source == target:
            return (times[0], tops[0] + BAR_HEIGHT + 2.5), (times[1], tops[0] + BAR_HEIGHT + 2.5)
        if tops[0] == tops[1]:
            return (times[0], tops[0] + BAR_HEIGHT / 2), (times[1], tops[1] + BAR_HEIGHT / 2)
        down = tops[0] < tops[1]
        return (times[0], tops[0] + (BAR_HEIGHT if down else 0)), (times[1], tops[1] + (0 if down else BAR_HEIGHT))

    def _bar_top(self, row: int) -> float:
        scene = self.places.scene
        return self.places.bar_top(int(scene.path.graph.event_table.lane[row]), max(int(scene.depth[row]), 0))

    def _draw_line(self, start: Point, end: Point, kind: EdgeKind, *, inferred: bool, bold: bool) -> None:
        colour, width = link_colour(kind), 2.0 if bold else 1.1
        dash = {"stroke_dasharray": "4 2.5"} if inferred else {}
        shape, before = _line_shape(start, end)
        line = element("path", d=shape, stroke=colour, stroke_width=width, fill="none", **dash)
        self.parts += [line, _arrow_head(before, end, colour)]

    def _label(self, start: Point, end: Point, kind: EdgeKind) -> bool:
        """Name the kind beside the arrow, unless that would hide something; say whether it is named."""
        width = text_width(kind.label, ARROW_LABEL_FONT_SIZE)
        for left, base in _label_positions(start, end, width):
            box = OccupiedArea(left, base - 8, left + width, base + 2)
            inside = self.places.left - LABEL_OVERHANG <= left and box.right <= self.places.width
            if inside and not any(box.meets(other) for other in self.taken):
                self.taken.append(box)
                self.labels.append(
                    text(left, base, kind.label, font_size=ARROW_LABEL_FONT_SIZE, fill=link_colour(kind))
                )
                return True
        return False


def _label_positions(start: Point, end: Point, width: float) -> Iterator[Point]:
    """Yield where the name of an arrow might begin, the best place first: beside it, above it, below it."""
    if start[1] == end[1]:
        middle = (start[0] + end[0] - width) / 2
        yield middle, start[1] + BAR_HEIGHT / 2 + 11
        yield middle, start[1] - BAR_HEIGHT / 2 - STRIP_HEIGHT - 5
        return
    for share in LABEL_POSITIONS:
        x, y = (a + (b - a) * share for a, b in zip(start, end, strict=True))
        yield x + 5, y + 3
        yield x - width - 5, y + 3
        for base in (y + 12, y - 5):
            yield x, base
            yield x - width, base


def _areas_along(start: Point, end: Point) -> list[OccupiedArea]:
    """Return what an arrow takes of the room for labels."""
    (x1, y1), (x2, y2) = start, end
    count = int(max(abs(x2 - x1), abs(y2 - y1)) / OCCUPIED_SPACING) + 1
    points = [(x1 + (x2 - x1) * at / count, y1 + (y2 - y1) * at / count) for at in range(count + 1)]
    return [OccupiedArea(x - 1.5, y - 1.5, x + 1.5, y + 1.5) for x, y in points]


def _line_shape(start: Point, end: Point) -> tuple[str, Point]:
    """Return the line from one point to another, and from where it comes to its end."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2 and x2 - x1 < MIN_LINE_LENGTH:
        # Too near for a line: an arc over the bars.
        top = y1 - BAR_HEIGHT / 2 - 8
        middle = (x1 + x2) / 2
        left, right = min(x1, middle - 7), max(x2, middle + 7)
        ends = f"{number(right)} {number(top)} {number(x2)} {number(y2 - BAR_HEIGHT / 2)}"
        return f"M{number(x1)} {number(y1 - BAR_HEIGHT / 2)}C{number(left)} {number(top)} {ends}", (right, top)
    return f"M{number(x1)} {number(y1)}L{number(x2)} {number(y2)}", start


def _arrow_head(before: Point, end: Point, colour: str) -> str:
    """Draw the head of an arrow that comes from a point to another."""
    dx, dy = end[0] - before[0], end[1] - before[1]
    length = max((dx * dx + dy * dy) ** 0.5, 0.1)
    dx, dy = dx / length * ARROW_HEAD_SIZE, dy / length * ARROW_HEAD_SIZE
    corners = [end, (end[0] - dx - dy / 2, end[1] - dy + dx / 2), (end[0] - dx + dy / 2, end[1] - dy - dx / 2)]
    return element("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in corners) + "Z", fill=colour)
