"""A window as lanes in SVG: events, the critical path through them, and arrows between lanes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from textwrap import wrap

import numpy as np

from hta_graph.attribution.replayed_names import replayed_names
from hta_graph.base.arrays import distinct
from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR
from hta_graph.base.errors import UsageError
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.export.picture.boxes import operator_over
from hta_graph.export.picture.dot import Picture
from hta_graph.export.picture.style import format_duration, link_colour, short_label, trace_label
from hta_graph.export.picture.svg import (
    TEXT_COLOUR,
    LegendEntry,
    arrow_entry,
    colour_entry,
    document,
    element,
    legend_lines,
    number,
    rectangle,
    text,
    text_width,
    time_ticks,
)
from hta_graph.model import BoundBy, EdgeKind
from hta_graph.paths.critical_path import CriticalPath, require_all_rows
from hta_graph.paths.lane_scene import (
    LaneArrows,
    LaneScene,
    PathStrips,
    SceneLane,
    SceneLimits,
    arrows_between_lanes,
    arrows_of_kinds,
    lane_changes,
    lane_scene,
    lane_strip,
    window_strip,
)
from hta_graph.paths.level_of_detail import BAR_GROUPS, EVENT_WORDS

SHOWN = SceneLimits(ranks=4, lanes=12, tracks=3, keeps_deeper=True)
"""Events deeper than the last track are drawn on it, on top of those around them: the innermost one works."""
MOST_BARS, MOST_ARROWS = 600, 60


BAR_HEIGHT, TRACK_HEIGHT, STRIP_HEIGHT = 14.0, 16.0, 5.0
"""The heights of a bar, of a track, and of the path's strip on a lane."""
TITLE_HEIGHT, PATH_STRIP_HEIGHT, LANE_GAP = 24.0, 13.0, 24.0
"""The heights of the title and of the path's strip of the whole window; the room between lanes, for arrows."""
CELL_WIDTH = 0.5
"""How fine strips are, in pixels."""
MAX_LABEL_LENGTH, LABEL_FONT_SIZE = 30, 10.0
"""The most characters of a lane's name, and their size."""
MARGIN = 6.0
MIN_WINDOW_WIDTH = 60.0


@dataclass(frozen=True)
class LaneLayout:
    """The places of a scene's parts."""

    scene: LaneScene
    width: float

    @cached_property
    def left(self) -> float:
        """Where the window starts: right of the lanes' names."""
        names = ["critical path", *map(_lane_label, self.scene.lanes)]
        return min(max(text_width(name, LABEL_FONT_SIZE) for name in names) + 2 * MARGIN, self.width / 3)

    @property
    def right(self) -> float:
        """Where the window ends."""
        return max(self.width - MARGIN, self.left + MIN_WINDOW_WIDTH)

    @property
    def cells(self) -> int:
        """Into how many cells strips are cut."""
        return int((self.right - self.left) / CELL_WIDTH)

    def x(self, time_ns: int) -> float:
        """Return where a time is; of one outside the window its nearer end."""
        window = self.scene.paths[0].window
        share = (time_ns - window.start_ns) / max(window.end_ns - window.start_ns, 1)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def x_of_cell(self, cell: int) -> float:
        """Return where a cell of strips begins."""
        return self.left + (self.right - self.left) * cell / self.cells

    @cached_property
    def tops(self) -> dict[int, float]:
        """Return where the strip of each lane begins."""
        found, at = {}, TITLE_HEIGHT + PATH_STRIP_HEIGHT + LANE_GAP
        for lane in self.scene.lanes:
            found[lane.code] = at
            at += self.height_of(lane) + LANE_GAP
        return found

    def height_of(self, lane: SceneLane) -> float:
        """Return the height of a lane: its strip and its tracks."""
        return STRIP_HEIGHT + 1 + TRACK_HEIGHT * lane.depth

    def bar_top(self, lane: int, depth: int) -> float:
        """Return the upper edge of the bars of a track."""
        return self.tops[lane] + STRIP_HEIGHT + 1 + TRACK_HEIGHT * depth

    @property
    def bottom(self) -> float:
        """Where the lanes end."""
        ends = (self.tops[lane.code] + self.height_of(lane) for lane in self.scene.lanes)
        return max(ends, default=TITLE_HEIGHT + PATH_STRIP_HEIGHT)


def _lane_label(lane: SceneLane) -> str:
    return lane.of_rank + short_label(lane.name, MAX_LABEL_LENGTH - len(lane.of_rank))


ARROW_LABEL_FONT_SIZE, ARROW_HEAD_SIZE = 9.5, 5.0
"""The size of a label, and of an arrow's head."""
LABEL_POSITIONS = (0.5, 0.35, 0.65, 0.2, 0.8, 0.08, 0.92)
"""Where along an arrow its label is tried."""
LABEL_OVERHANG = 30.0
"""How far left of the window a label can begin."""
MAX_LABELS_PER_KIND = 3
"""How often a kind is named; the legend lists all kinds."""
OCCUPIED_SPACING = 5.0
"""The distance between points of an arrow whose surroundings stay free."""
MIN_LINE_LENGTH = 6.0
"""An arrow within a lane that is shorter is drawn as an arc above it."""

Point = tuple[float, float]


@dataclass(frozen=True)
class OccupiedArea:
    """An area that is taken."""

    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: OccupiedArea) -> bool:
        """Return whether two overlap."""
        apart = self.right <= other.left or other.right <= self.left
        return not (apart or self.bottom <= other.top or other.bottom <= self.top)


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
        return self.places.bar_top(int(scene.paths[0].graph.event_table.lane[row]), max(int(scene.depth[row]), 0))

    def _draw_line(self, start: Point, end: Point, kind: EdgeKind, *, inferred: bool, bold: bool) -> None:
        colour, width = link_colour(kind), 2.0 if bold else 1.1
        dash = {"stroke_dasharray": "4 2.5"} if inferred else {}
        shape, before = _line_shape(start, end)
        line = element("path", d=shape, stroke=colour, stroke_width=width, fill="none", **dash)
        self.parts += [line, _arrow_head(before, end, colour)]

    def _label(self, start: Point, end: Point, kind: EdgeKind) -> bool:
        """Name the kind next to the arrow, unless that would hide something; return whether it is named."""
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
    """Yield where the name of an arrow can begin, the best place first: next to it, above it, below it."""
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
    """Return the areas that an arrow takes from labels."""
    (x1, y1), (x2, y2) = start, end
    count = int(max(abs(x2 - x1), abs(y2 - y1)) / OCCUPIED_SPACING) + 1
    points = [(x1 + (x2 - x1) * at / count, y1 + (y2 - y1) * at / count) for at in range(count + 1)]
    return [OccupiedArea(x - 1.5, y - 1.5, x + 1.5, y + 1.5) for x, y in points]


def _line_shape(start: Point, end: Point) -> tuple[str, Point]:
    """Return the line from one point to another, and the point before its end."""
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


MIN_PICTURE_WIDTH, DEFAULT_WIDTH, MAX_PICTURE_WIDTH = 200, 700, 20_000
BAR_TEXT_COLOUR = "#101418"
"""The color of text on bars, which have medium lightness."""
NAME_FONT_SIZE = 10.0
TICK_SPACING = 75.0
MAX_LANE_CHANGES, NEARBY_CELLS = 120, 4
"""The most changes of lane that are drawn, and within how many cells an arrow already shows one."""
MIN_NAME_LENGTH = 8
"""Shorter cuts of a name are not drawn."""


def lanes_picture(
    path: CriticalPath,
    *,
    width: int = DEFAULT_WIDTH,
    kinds: Collection[EdgeKind] | None = None,
    title: str | None = None,
) -> Picture:
    """Draw the lanes of a path's window as SVG: events, nested ones below, the path through them, arrows.

    Args:
        path: a critical path, of a rank or of a job.
        width: in pixels.
        kinds: which edges are arrows; by default those between lanes.
        title: the title; by default the window, its length, the file and its rank.

    Raises:
        UsageError: the width is not between 200 and 20,000.
        QueryError: the path's graph is one of rank summaries.
    """
    require_all_rows(path.graph, "a picture of lanes")
    if not MIN_PICTURE_WIDTH <= width <= MAX_PICTURE_WIDTH:
        raise UsageError(
            f"the width of a picture must be {MIN_PICTURE_WIDTH} to {MAX_PICTURE_WIDTH:,} pixels, not {width}"
        )
    scene = lane_scene([path], SHOWN).merged(MOST_BARS, max(path.length_ns // width, 1))
    if kinds is None:
        arrows, arrows_left = arrows_between_lanes(path, scene.shown, MOST_ARROWS)
    else:
        arrows, arrows_left = arrows_of_kinds(path, scene.shown, kinds), 0
    left_out = _left_out(scene, arrows_left)
    return _LanesDrawing(LaneLayout(scene, float(width)), arrows, left_out, title).picture()


def _left_out(scene: LaneScene, arrows_left: int) -> str | None:
    """Describe in one line what is merged or left out."""
    notes = []
    if scene.resolution_ns and scene.events > len(scene.bars):
        notes.append(f"{scene.events:,} events in {len(scene.bars):,} bars: events below "
                    f"{format_duration(scene.resolution_ns)} are merged with neighbors")  # fmt: skip
    if scene.ranks_left:
        notes.append(f"{scene.ranks_left:,} ranks with less of the path")
    if scene.lanes_left:
        notes.append(f"{scene.lanes_left:,} threads and streams with less work")
    if arrows_left:
        notes.append(f"{arrows_left:,} arrows")
    return f"left out: {'; '.join(notes)}" if notes else None


class _LanesDrawing:
    """Writes the parts of one picture."""

    def __init__(self, places: LaneLayout, arrows: LaneArrows, left_out: str | None, title: str | None) -> None:
        self._places, self._scene, self._path = places, places.scene, places.scene.paths[0]
        self._of_edges, self._left_out = arrows, left_out
        self._title = _default_title(self._path) if title is None else title
        self._taken: list[OccupiedArea] = []

    def picture(self) -> Picture:
        """Return the whole picture."""
        # Drawn in this order, since what comes later lies on top.
        parts = [*self._axis(), *self._head(), *self._lanes(), *self._turns(), *self._bars(), *self._arrows()]
        foot, bottom = self._foot()
        return Picture(document(self._places.width, bottom, self._title, [*parts, *foot]), self._left_out, "svg")

    def _head(self) -> Iterator[str]:
        """Write the title and the strip of the whole path."""
        yield text(MARGIN, 14, self._title, font_size=11.5, font_weight="bold")
        yield self._label("critical path", TITLE_HEIGHT + 10)
        self._taken.append(OccupiedArea(0, 0, self._places.width, TITLE_HEIGHT + PATH_STRIP_HEIGHT))
        strip = window_strip(self._path, self._places.cells)
        yield from self._strip(strip, TITLE_HEIGHT, PATH_STRIP_HEIGHT)
        for start, end, bound in self._runs(strip):
            if text_width(bound, NAME_FONT_SIZE) + 4 <= end - start:
                yield text(start + 2, TITLE_HEIGHT + 10, bound, font_size=NAME_FONT_SIZE, fill=BAR_TEXT_COLOUR)

    def _label(self, content: str, y: float) -> str:
        """Write the name of a lane, to its right end."""
        return text(self._places.left - MARGIN, y, content, font_size=LABEL_FONT_SIZE, text_anchor="end")

    def _runs(self, strip: PathStrips) -> Iterator[tuple[float, float, str]]:
        """Yield the ends and the class of each run of a strip."""
        for first, last, bound in zip(*(c.tolist() for c in (strip.first, strip.last, strip.bound)), strict=True):
            yield self._places.x_of_cell(first), self._places.x_of_cell(last + 1), BoundBy(bound).label

    def _strip(self, strip: PathStrips, top: float, height: float) -> Iterator[str]:
        for start, end, bound in self._runs(strip):
            yield rectangle(start, top, end - start, height, BOUND_COLOUR[bound], bound)

    def _axis(self) -> Iterator[str]:
        """Write the times below the lanes, and lines up from them."""
        places, window = self._places, self._path.window
        bottom, most = places.bottom + 6, max(int((places.right - places.left) / TICK_SPACING), 2)
        for time, content in time_ticks(window.end_ns - window.start_ns, most):
            x = places.x(window.start_ns + time)
            line = f"M{x:.1f} {TITLE_HEIGHT:.0f}V{bottom:.1f}"
            yield element("path", d=line, stroke=TEXT_COLOUR, stroke_opacity=0.25, stroke_width=1)
            anchor = "middle" if x + text_width(content, LABEL_FONT_SIZE) / 2 <= places.width else "end"
            yield text(x, bottom + 11, content, font_size=LABEL_FONT_SIZE, text_anchor=anchor)

    def _lanes(self) -> Iterator[str]:
        """Write each lane's ground, its name, and where the path runs on it."""
        places = self._places
        for lane in self._scene.lanes:
            top, height = places.tops[lane.code], places.height_of(lane)
            ground = places.left, top, places.right - places.left, height
            yield rectangle(*ground, TEXT_COLOUR, fill_opacity="0.08")
            yield self._label(_lane_label(lane), top + STRIP_HEIGHT + 12)
            strip = lane_strip(self._path, lane.code, places.cells)
            yield from self._strip(strip, top, STRIP_HEIGHT)
            self._taken += [OccupiedArea(start, top, end, top + STRIP_HEIGHT) for start, end, _ in self._runs(strip)]
            self._taken.append(OccupiedArea(0, top - 1, places.left - MARGIN, top + height))

    def _turns(self) -> Iterator[str]:
        """Write where the path changes lanes and no arrow shows it."""
        tops, found = self._places.tops, lane_changes(self._path, self._scene.shown, self._places.cells)
        found = found.take(np.sort(np.argsort(-found.near_ns, kind="stable")[:MAX_LANE_CHANGES]))
        drawn = self._lane_changes_with_arrow()
        columns = (found.cell, found.before, found.after)
        for cell, before, after in zip(*(column.tolist() for column in columns), strict=True):
            if any((near, before, after) in drawn for near in range(cell - NEARBY_CELLS, cell + NEARBY_CELLS + 1)):
                continue
            x, ends = self._places.x_of_cell(cell), sorted((tops[before], tops[after]))
            line = f"M{x:.1f} {ends[0] + STRIP_HEIGHT / 2:.1f}V{ends[1] + STRIP_HEIGHT / 2:.1f}"
            yield element("path", d=line, stroke=TEXT_COLOUR, stroke_width=1, stroke_dasharray="1.5 2")

    def _lane_changes_with_arrow(self) -> set[tuple[int, int, int]]:
        """Return the cells and lanes at both ends of the path's arrows."""
        arrows, lane, window = self._of_edges, self._path.graph.event_table.lane, self._path.window
        own = arrows.take(arrows.on_path)
        lanes = list(zip(lane[own.source].tolist(), lane[own.target].tolist(), strict=True))
        cells = [
            ((time - window.start_ns) * self._places.cells // max(self._path.length_ns, 1)).tolist()
            for time in (own.source_ns, own.target_ns)
        ]
        return {(cell, *ends) for at in cells for cell, ends in zip(at, lanes, strict=True)}

    def _bars(self) -> Iterator[str]:
        """Write the events, outer ones first, and then their names."""
        bars, lanes = self._scene.bars, self._scene.lanes
        place = np.searchsorted([lane.first for lane in lanes], bars.track, side="right") - 1
        lane = np.array([lane.code for lane in lanes], np.int64)[place]
        # The first track of a lane is the path's.
        depth = bars.track - np.array([lane.first + 1 for lane in lanes], np.int64)[place]
        order = np.lexsort((bars.on_path, bars.group, depth, lane, bars.start, bars.start - bars.end))
        columns = (lane, depth, bars.group, bars.start, bars.end, bars.busy, bars.count, bars.name, bars.index)
        drawn: list[tuple[OccupiedArea, str]] = []
        for code, track, group, start, end, busy, count, name, index in zip(
            *(column[order].tolist() for column in columns), strict=True
        ):
            left, right, top = self._places.x(start), self._places.x(end), self._places.bar_top(code, track)
            box = OccupiedArea(left, top, max(right, left + 1), top + BAR_HEIGHT)
            called = self._scene.names[name] if name >= 0 else ""
            content = (
                f"{count:,} events, {format_duration(busy)}"
                if count > 1
                else f"{called}: {format_duration(end - start)}, #{index}"
            )
            if count == 1 and (code, index) in self._replayed:
                called, evidence = self._replayed[code, index]
                content += f"; {called}: {evidence}"
            # A bar of several events is as dense as they are.
            density = 0.35 + 0.65 * min(busy / max(end - start, 1), 1) if count > 1 else 1.0
            yield _bar_element(box, EVENT_COLOUR[BAR_GROUPS[group]], content, density)
            drawn.append((box, short_name(called) if count == 1 else ""))
        self._taken += [box for box, _ in drawn]
        yield from _bar_names(drawn)

    @cached_property
    def _replayed(self) -> dict[tuple[int, int], tuple[str, str]]:
        """The operators over replayed kernels by lane and event index, and how they are known."""
        graph, events = self._path.graph, self._path.graph.event_table
        named = np.flatnonzero(replayed_names(graph, "operator").innermost >= 0)
        named = named[np.isin(events.lane[named], list(self._places.tops))]
        return {
            (lane, index): found
            for lane, index, row in zip(
                *(c[named].tolist() for c in (events.lane, events.index)), named.tolist(), strict=True
            )
            if (found := operator_over(graph, row))
        }

    def _arrows(self) -> list[str]:
        drawer = ArrowRenderer(self._places, self._taken)
        drawer.draw(self._of_edges)
        return [*drawer.parts, *drawer.labels]

    def _foot(self) -> tuple[list[str], float]:
        """Write the legend and the note on what is left out; return also where the picture ends."""
        groups = [("path", self._class_entries()), ("bars", self._bar_entries()), ("arrows", self._arrow_entries())]
        parts, bottom = legend_lines(groups, self._places.bottom + 38, MARGIN, self._places.width - MARGIN)
        most = int((self._places.width - 2 * MARGIN) / text_width("x", NAME_FONT_SIZE))
        notes = [
            f"kernels of graph replays are called by their operators: {evidence}"
            for evidence in sorted({evidence for _, evidence in self._replayed.values()})
        ]
        for line in (line for note in [*notes, self._left_out or ""] for line in wrap(note, most)):
            bottom += 15
            parts.append(text(MARGIN, bottom, line, font_size=NAME_FONT_SIZE, font_style="italic"))
        return parts, bottom + 8

    def _class_entries(self) -> list[LegendEntry]:
        found = self._path.by_bound_ns
        return [colour_entry(colour, bound) for bound, colour in BOUND_COLOUR.items() if found[bound]]

    def _bar_entries(self) -> list[LegendEntry]:
        used = [BAR_GROUPS[group] for group in distinct(self._scene.bars.group).tolist()]
        return [colour_entry(EVENT_COLOUR[name], EVENT_WORDS.get(name, name)) for name in used]

    def _arrow_entries(self) -> list[LegendEntry]:
        arrows = self._of_edges
        kinds = [EdgeKind(code) for code in distinct(arrows.kind).tolist()]
        entries = [arrow_entry(link_colour(kind), kind.label) for kind in kinds]
        dashed = [arrow_entry(TEXT_COLOUR, "dashed: inferred", dashed=True)] if arrows.inferred.any() else []
        thick = [arrow_entry(TEXT_COLOUR, "thick: on the path", thick=True)] if arrows.on_path.any() else []
        return [*entries, *dashed, *thick]


def _default_title(path: CriticalPath) -> str:
    return (
        f"{short_label(path.window.label, 60)}: {format_duration(path.length_ns, 4)} · {trace_label(path.graph.trace)}"
    )


def _bar_element(box: OccupiedArea, colour: str, content: str, density: float) -> str:
    shape = box.left, box.top, box.right - box.left, box.bottom - box.top
    if density < 1:
        return rectangle(*shape, colour, content, fill_opacity=f"{density:.2f}")
    return rectangle(*shape, colour, content)


def _bar_names(drawn: Sequence[tuple[OccupiedArea, str]]) -> Iterator[str]:
    """Write the names of bars, as much of each as there is room for before the next bar on top of it."""
    on_top: dict[float, list[OccupiedArea]] = defaultdict(list)
    for box, name in reversed(drawn):
        others = on_top[box.top]
        covered = any(other.left <= box.left + 2 < other.right for other in others)
        end = min((other.left for other in others if box.left < other.left < box.right), default=box.right)
        room = 0 if covered else int((end - box.left - 3) / text_width("x", NAME_FONT_SIZE))
        if name and room >= min(len(name), MIN_NAME_LENGTH):
            yield text(
                box.left + 2, box.top + 10.5, shorten_middle(name, room), font_size=NAME_FONT_SIZE, fill=BAR_TEXT_COLOUR
            )
        others.append(box)
