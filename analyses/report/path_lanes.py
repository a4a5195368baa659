"""The picture that a report opens with: the critical path through its threads and streams.

critical path       ████████▒▒▒▒▒▒████████     colored by class
rank 1: thread 7    ████████░░                 colored: on the path; grey: other work
rank 1: stream 7          ░░▒▒▒▒▒▒████████
                    0 ms       10        20
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from analyses.display.sentence_format import brief_share, counted
from analyses.display.text_layout import clipped
from analyses.source.window_facts import WindowFacts
from analyses.source.window_report import window_name
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.export.picture.svg import time_ticks
from hta_graph.model import Bools, BoundBy, Ints
from hta_graph.paths.lane_scene import PathOverview, PathStrips, SceneLane, SceneLimits

CELLS = 600
"""The number of columns that the window is cut into."""
LIMITS = SceneLimits(ranks=4, lanes=6, tracks=1)
MOST_CHANGES = 80
"""The number of changes of lane that are drawn, those next to the longest segments."""
LEVELS = 3
"""Shades of grey for other work."""
TICKS, LAST_TICK = 8, 0.94
"""The most ticks, and the share of the window behind which a label would be cut."""
ROW, BAR, STRIP = 26, 14, 18
"""The heights of a row, of a bar in it, and of the whole path on top."""
LONGEST_NAME = 60
LANE_LABEL = re.compile(r"(?:rank \d+: )?(?:thread|stream|communication) \d+")


@dataclass(frozen=True)
class PictureShape:
    """All rectangles of one color: an outline in units of the picture, and a tooltip."""

    outline: str
    colour: str
    text: str
    opacity: float = 1.0


@dataclass(frozen=True)
class PictureTick:
    """A time on the axis: its place (percent of the width) and its label."""

    at: float
    text: str


@dataclass(frozen=True)
class PictureClass:
    """A class of the path: its color, its label, its meaning, its share of the path."""

    colour: str
    label: str
    meaning: str
    share: str


@dataclass(frozen=True)
class PathPicture:
    """The picture: names of rows, shapes, ticks, the legend, and what is left out."""

    title: str
    names: Sequence[str]
    shapes: Sequence[PictureShape]
    changes: Sequence[str]
    ticks: Sequence[PictureTick]
    classes: Sequence[PictureClass]
    left_out: str
    link: str
    width: int = CELLS
    row: int = ROW

    @property
    def height(self) -> int:
        """The height of all rows."""
        return ROW * len(self.names)

    @property
    def text(self) -> str:
        """The classes and their shares, for readers who cannot see the picture."""
        return ", ".join(f"{one.label} {one.share}" for one in self.classes)


def path_picture(
    facts: WindowFacts, shown: PathOverview, by_bound_ns: Mapping[str, int], ranks: int, link: str = ""
) -> PathPicture:
    """Draw the few lanes of a path of a rank or of a job; ``link`` leads to the timeline."""
    length, lanes = facts.length_ns, list(enumerate(shown.lanes, 1))
    whole = _class_shapes(shown.strip, facts.words, 0, STRIP)
    own = [shape for row, lane in lanes for shape in _class_shapes(lane.strip, facts.words, row, BAR)]
    other = [shape for row, lane in lanes for shape in _busy_shapes(*lane.busy, row)]
    of_job = f", {ranks:,} ranks" if ranks > 1 else ""
    return PathPicture(
        f"Critical path of {window_name(facts.window)}{of_job}",
        ["critical path", *_lane_names([lane.lane for lane in shown.lanes])],
        [*other, *whole, *own],
        list(_change_lines(shown)),
        [
            PictureTick(round(100 * time / length, 2), text)
            for time, text in time_ticks(length, TICKS)
            if time < LAST_TICK * length
        ],
        _classes(facts, by_bound_ns),
        f"{counted(shown.left_out, 'lane')} with less of the path are not shown." if shown.left_out else "",
        link,
    )


def _lane_names(lanes: Sequence[SceneLane]) -> list[str]:
    """Name lanes in short, where short names distinguish them."""
    # "stream 0:1:7" is stream 7 of context 1 on device 0, "thread 42:43" is thread 43 of process 42.
    short = [f"{lane.of_rank}{lane.name.split(' ')[0]} {lane.name.split(':')[-1]}" for lane in lanes]
    is_short = len(set(short)) == len(short) and all(map(LANE_LABEL.fullmatch, short))
    return [clipped(name, LONGEST_NAME) for name in (short if is_short else [lane.label for lane in lanes])]


def _class_shapes(strip: PathStrips, words: Mapping[str, str], row: int, height: int) -> list[PictureShape]:
    """Draw a strip: a shape per class."""
    found = []
    for bound in sorted(set(strip.bound.tolist())):
        own, key = strip.take(strip.bound == bound), BoundBy(bound).label
        found.append(PictureShape(_outline(own.first, own.last + 1, row, height), BOUND_COLOUR[key], words[key]))
    return found


def _busy_shapes(first: Ints, last: Ints, level: Ints, row: int) -> list[PictureShape]:
    """Draw in shades of grey how busy a lane is in each cell."""
    found = []
    for shade in range(1, LEVELS + 1):
        own: Bools = level == shade
        if own.any():
            outline, opacity = _outline(first[own], last[own] + 1, row, BAR), round(0.3 * shade / LEVELS, 2)
            found.append(PictureShape(outline, "currentColor", "other work, not on the critical path", opacity))
    return found


def _outline(first: Ints, end: Ints, row: int, height: int) -> str:
    """Return rectangles from first to last cells as one outline."""
    top = row * ROW + (ROW - height) // 2
    pairs = zip(first.tolist(), end.tolist(), strict=True)
    return "".join(f"M{start} {top}H{stop}v{height}H{start}z" for start, stop in pairs)


def _change_lines(shown: PathOverview) -> Iterator[str]:
    """Yield a line for each change of lane, from bar to bar."""
    rows, found = {lane.lane.code: row for row, lane in enumerate(shown.lanes, 1)}, shown.changes
    most = np.sort(np.argsort(-found.near_ns, kind="stable")[:MOST_CHANGES])
    columns = (found.cell[most].tolist(), found.before[most].tolist(), found.after[most].tolist())
    for cell, before, after in zip(*columns, strict=True):
        top, bottom = sorted((rows[before], rows[after]))
        yield f"M{cell} {top * ROW + ROW // 2 + BAR // 2}V{bottom * ROW + ROW // 2 - BAR // 2}"


def _classes(facts: WindowFacts, by_bound_ns: Mapping[str, int]) -> list[PictureClass]:
    """Return the legend, the largest class first."""
    found = sorted(((ns, bound) for bound, ns in by_bound_ns.items() if ns), key=lambda item: -item[0])
    return [
        PictureClass(BOUND_COLOUR[bound], facts.words[bound], facts.meanings[bound], brief_share(ns / facts.length_ns))
        for ns, bound in found
    ]
