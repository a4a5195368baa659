"""Boxes of a picture: runs of events drawn as one, and how neighbours are joined until few enough remain."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hta_graph.arrays import run_numbers, take_or
from hta_graph.export.picture.short_names import MAX_NAME_LENGTH, short_label
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BoundBy, EventKind, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.text.shorten import short_name

__all__ = ["IDLE_PREFIX", "Box", "NamedTime", "box_of_event", "fold_boxes", "path_boxes"]

SMALL_SHARE = 0.015
"""Share of the window below which neighbours on the path share a box."""

TINY_SHARE = 0.005
"""Share of the window below which a stretch goes into its neighbour's box."""

MAIN_SHARE = 0.9
"""Share of a box's time that makes a name stand for the box."""

USUAL_LINES, MAX_LINES = 3, 7
"""How many names a box of unlike events lists: a few, and more where they take more than ``SMALL_SHARE`` of the whole."""

IDLE_PREFIX = {
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label: "idle before",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD.label: "waits for launch:",
    BoundBy.CPU_GAP.label: "gap:",
    BoundBy.SYNC_OVERHEAD.label: "return of",
    BoundBy.UNEXPLAINED.label: "unexplained:",
}
"""What stands before the owner's name where nothing works; such boxes have a dashed border."""


@dataclass
class NamedTime:
    """What a box holds under one name: its events and their time."""

    events: set[int] = field(default_factory=set)
    ns: int = 0


@dataclass
class Box:
    """Events drawn as one: ``first`` is the number of its first piece or step, ``part`` the place of its rank."""

    lane: int
    first: int
    start_ns: int
    part: int = 0
    parts: dict[tuple[int, str], NamedTime] = field(default_factory=dict)
    fills: Counter[str] = field(default_factory=Counter)
    indices: list[int] = field(default_factory=list)
    focus: bool = False
    long_ns: float = 0

    @property
    def ns(self) -> int:
        """The time of all its events."""
        return sum(part.ns for part in self.parts.values())

    @property
    def count(self) -> int:
        """How many events it holds."""
        return sum(len(part.events) for part in self.parts.values())

    @property
    def fill(self) -> str:
        """The class or kind that takes most of its time."""
        return max(self.fills, key=lambda fill: (self.fills[fill], fill))

    def add(self, text: str, event: int, ns: int, fill: str) -> None:
        """Add time of an event under a name."""
        part = self.parts.setdefault((self.lane, text), NamedTime())
        part.events.add(event)
        part.ns += ns
        self.fills[fill] += ns

    @property
    def lines(self) -> int:
        """How many parts are named."""
        if self.main is not None:
            return 1
        long = sum(part.ns >= self.long_ns for part in self.parts.values()) if self.long_ns else 0
        return min(max(USUAL_LINES, long), MAX_LINES)

    @property
    def main(self) -> str | None:
        """The name that stands for the box: that of nearly all of its time."""
        (lane, text), part = self.largest()[0]
        return text if lane == self.lane and part.ns >= MAIN_SHARE * self.ns else None

    def absorb(self, other: Box) -> None:
        """Take in the box that follows; the lane with more time wins."""
        for key, part in other.parts.items():
            own = self.parts.setdefault(key, NamedTime())
            own.events |= part.events
            own.ns += part.ns
        self.fills.update(other.fills)
        self.indices += other.indices
        lanes: Counter[int] = Counter()
        for (lane, _), part in self.parts.items():
            lanes[lane] += part.ns
        # Of equal times the lower lane, so that a picture does not depend on the order of joining.
        largest = max(lanes, key=lambda lane: (lanes[lane], -lane))
        # A lane that overtakes did so by what came in.
        self.part = self.part if largest == self.lane else other.part
        self.lane = largest

    def largest(self) -> list[tuple[tuple[int, str], NamedTime]]:
        """Return the parts, longest first."""
        return sorted(self.parts.items(), key=lambda item: (-item[1].ns, item[0]))

    def unnamed(self) -> list[NamedTime]:
        """Return the parts that the box has no line for."""
        return [part for _, part in self.largest()[self.lines :]]


def box_of_event(graph: DependencyGraph, row: int, first: int) -> Box:
    """Make the box of one event, which is reached by step ``first``."""
    events = graph.event_table
    lane = int(events.lane[row])
    part = int(graph.rank_index_of_lane[lane])
    box = Box(lane, first, int(events.start[row]), part, indices=[int(events.index[row])])
    text = short_label(short_name(graph.name_of(row)), MAX_NAME_LENGTH)
    box.add(text, row, int(events.end[row] - events.start[row]), EventKind(int(events.kind[row])).label)
    return box


def path_boxes(path: CriticalPath, limit: int) -> list[Box]:
    """Fold a critical path into at most ``limit`` boxes, each a stretch of time."""
    small, tiny = SMALL_SHARE * path.length_ns, TINY_SHARE * path.length_ns
    return fold_boxes(_absorb_tiny(_join_below(_boxes_of_runs(path), small), tiny), limit)


def fold_boxes(boxes: Sequence[Box], limit: int) -> list[Box]:
    """Join alike neighbours, then small ones, until at most ``limit`` boxes remain."""
    return _join_until_few(_join_alike(boxes), limit)


def _boxes_of_runs(path: CriticalPath) -> list[Box]:
    """Make a box of each run of alike segments and of small neighbours on one lane."""
    pieces, graph = path.pieces, path.graph
    if not len(pieces):
        return []
    names = _short_codes(graph, pieces.event)
    alike = run_numbers(pieces.lane, pieces.part, pieces.bound, names)
    length = np.bincount(alike, pieces.length.astype(float))[alike]
    small = length < SMALL_SHARE * path.length_ns
    # All small runs count as alike, so that neighbours among them share a box.
    group = run_numbers(pieces.lane, pieces.part, np.where(small, -1, alike))
    boxes: list[Box] = []
    columns = (group, pieces.lane, pieces.part, pieces.start, pieces.end, pieces.bound, pieces.event)
    text: dict[tuple[int, int], str] = {}
    for at, (own, lane, part, start, end, bound, event) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if own == len(boxes):
            boxes.append(Box(lane, at, start, part, long_ns=SMALL_SHARE * path.length_ns))
        key = (bound, int(names[at]))
        if key not in text:
            text[key] = _segment_text(graph, event, BoundBy(bound).label)
        boxes[-1].add(text[key], event if event >= 0 else ~at, end - start, BoundBy(bound).label)
        boxes[-1].indices += [int(graph.event_table.index[event])] if event >= 0 else []
    return boxes


def _short_codes(graph: DependencyGraph, events: Ids) -> Ints:
    """Number the short names of events; -1 without an event."""
    used, code = np.unique(take_or(graph.event_table.name, events), return_inverse=True)
    number: dict[str, int] = {}
    short = [number.setdefault(short_name(graph.names[c]), len(number)) if c >= 0 else -1 for c in used.tolist()]
    return np.array(short, np.int64)[code]


def _segment_text(graph: DependencyGraph, event: int, bound: str) -> str:
    name = short_label(short_name(graph.name_of(event)), MAX_NAME_LENGTH) if event >= 0 else ""
    if bound in IDLE_PREFIX:
        return f"{IDLE_PREFIX[bound]} {name}" if name else IDLE_PREFIX[bound].rstrip(":")
    return name or bound


def _absorb_tiny(boxes: Sequence[Box], size: float) -> list[Box]:
    """Put stretches that are hardly visible into the box before or after them on their lane."""
    joined: list[Box] = []
    for box in boxes:
        if joined and joined[-1].lane == box.lane and (box.ns < size or joined[-1].ns < size):
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


def _join_alike(boxes: Sequence[Box]) -> list[Box]:
    """Join neighbours on one lane for which the same name stands."""
    joined: list[Box] = []
    for box in boxes:
        if joined and joined[-1].lane == box.lane and box.main is not None and joined[-1].main == box.main:
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


def _join_until_few(boxes: Sequence[Box], limit: int) -> list[Box]:
    """Join small neighbours, the smallest first, until few enough boxes remain."""
    shortened, size = list(boxes), 1.0
    while len(shortened) > limit:
        # Grows until it fits: a fixed size would leave long windows unreadable and short ones empty.
        size *= 1.2
        shortened = _join_below(shortened, size, between_ranks=size / 8)
    return shortened


def _join_below(boxes: Sequence[Box], size: float, between_ranks: float = 0) -> list[Box]:
    """Join neighbours that together stay below a size; on different lanes, below half of it.

    Those of different ranks have a limit of their own: whom the others wait for is what a picture of a job is for.
    """
    joined = list(boxes[:1])
    for box in boxes[1:]:
        same_rank = size if box.lane == joined[-1].lane else size / 2
        if joined[-1].ns + box.ns < (same_rank if box.part == joined[-1].part else between_ranks):
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined
