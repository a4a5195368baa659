"""Pictures of a graph for graphviz: a critical path, an event's surroundings, the way from one event to another.

Computing and drawing are apart: what is shown becomes boxes (runs of alike events) and links; one function draws those.
"""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path

import graphviz
import numpy as np

from hta_graph.algorithms.critical_path import CriticalPath
from hta_graph.algorithms.walk import binding_edges, walk_back
from hta_graph.errors import HtaGraphError, OutputError, QueryError, UsageError
from hta_graph.export.files import write_file
from hta_graph.graph import DependencyGraph
from hta_graph.model import BoundBy, EdgeKind, EventKind, Ids, Ints
from hta_graph.trace.table import Trace

__all__ = [
    "MissingProgramError",
    "Picture",
    "around_picture",
    "between_picture",
    "check_picture",
    "path_picture",
    "short_name",
    "write_picture",
]

FORMATS = {".dot": "dot", ".gv": "dot", ".svg": "svg", ".png": "png"}
"""What a picture can be written as, by the file's suffix."""

SMALL = 0.015
"""Share of the window below which neighbours on the path share a box."""

LINES = 3
"""How many names a box of unlike events lists."""

BOXES_PER_ROW = 8
"""A chain longer than this goes on in the next row, as text does."""

NAME_SIZE = 34
"""Longest name in a box, in characters."""

EDGE_COLOUR: dict[EdgeKind, str] = {
    EdgeKind.THREAD_ORDER: "#8a8a8a",
    EdgeKind.EXECUTION: "#8a8a8a",
    EdgeKind.LAUNCH: "#1f6fb4",
    EdgeKind.STREAM_ORDER: "#2e8b57",
    EdgeKind.GRAPH_ORDER: "#0e9aa7",
    EdgeKind.EVENT_WAIT: "#e07b00",
    EdgeKind.STREAM_SYNC: "#d62728",
    EdgeKind.DEVICE_SYNC: "#8c1d18",
    EdgeKind.EVENT_SYNC: "#e0529c",
    EdgeKind.BLOCKING_COPY: "#7d4fb3",
    EdgeKind.THREAD_HANDOFF: "#8c564b",
    EdgeKind.FORWARD_BACKWARD: "#9a9a1c",
    EdgeKind.RUNTIME_LOCK: "#000000",
    EdgeKind.QUEUE_FULL: "#b15928",
}

FILL: dict[BoundBy | EventKind, str] = {
    BoundBy.CPU_BOUND: "#cfe2f6",
    BoundBy.DATA_LOADING: "#e3d7f2",
    BoundBy.GPU_COMPUTE_BOUND: "#cfeacb",
    BoundBy.GPU_COMMUNICATION_BOUND: "#fbd5ae",
    BoundBy.GPU_MEMORY_BOUND: "#fdf0b5",
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD: "#f2f2f2",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD: "#f2f2f2",
    BoundBy.CPU_GAP: "#f2f2f2",
    BoundBy.SYNC_OVERHEAD: "#f2f2f2",
    BoundBy.UNEXPLAINED: "#f8cfcf",
}
"""Colours of boxes on a path; waits and gaps are grey."""

FILL_OF_KIND: dict[EventKind, str] = {
    EventKind.CPU_OP: "#cfe2f6",
    EventKind.RUNTIME: "#dcdcf5",
    EventKind.KERNEL: "#cfeacb",
    EventKind.MEMCPY: "#fdf0b5",
    EventKind.MEMSET: "#fdf0b5",
}
OTHER_FILL = "#eeeeee"

WAITING: dict[BoundBy, str] = {
    BoundBy.GPU_KERNEL_KERNEL_OVERHEAD: "idle before ",
    BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD: "waits for launch by ",
    BoundBy.CPU_GAP: "gap in ",
    BoundBy.SYNC_OVERHEAD: "returns from ",
    BoundBy.UNEXPLAINED: "unexplained: ",
}
"""What stands before the owner's name where nothing works; such boxes have a dashed border."""

RETURNS = (EdgeKind.STREAM_SYNC, EdgeKind.DEVICE_SYNC, EdgeKind.EVENT_SYNC, EdgeKind.BLOCKING_COPY)


class MissingProgramError(HtaGraphError):
    """Graphviz's ``dot`` is not installed."""

    def __init__(self) -> None:
        super().__init__(
            "a picture as SVG or PNG needs graphviz's program dot; install it with: apt-get install graphviz "
            "(a name that ends in .dot works without it)"
        )


@dataclass(frozen=True)
class Picture:
    """The text for ``dot``, and a line about what was left out."""

    source: str
    left_out: str | None


def path_picture(path: CriticalPath, *, limit: int = 60) -> Picture:
    """Draw a critical path: stretches of time in their lanes, small ones folded until at most ``limit`` boxes remain.

    Raises:
        UsageError: the limit is below 1.
    """
    _check_limit(limit)
    trace = path.graph.trace
    boxes = _shortened(_path_boxes(path), limit, path.length_ns)
    title = (
        f"Critical path of {_clean(path.window.label, 80)}: {duration(path.length_ns)}, "
        f"{path.coverage:.1%} of it explained",
        _clean(trace.path.name, 80) + (f", rank {trace.rank}" if trace.rank is not None else ""),
    )
    links = _path_links(path, boxes)
    return _chain(trace, title, boxes, links, origin_ns=path.window.start_ns, total_ns=path.length_ns)


def between_picture(graph: DependencyGraph, source_index: int, target_index: int, *, limit: int = 60) -> Picture:
    """Draw a path with the fewest edges from one event's start to another's end.

    Raises:
        QueryError: one of them is not there, or no path leads from one to the other.
        UsageError: the limit is below 1.
    """
    _check_limit(limit)
    trace = graph.trace
    ends = graph.subgraph([source_index, target_index])
    rows, steps = _visited(graph, source_index, target_index)
    boxes = [_box_of_event(trace, row, number) for number, row in enumerate(rows)]
    boxes = _shortened(_alike_joined(boxes), limit, sum(box.ns for box in boxes))
    names = [_clean(short_name(ends.event(index)["name"]), NAME_SIZE) for index in (source_index, target_index)]
    title = (
        f"From event {source_index} ({names[0]}) to event {target_index} ({names[1]}): {len(rows):,} events",
        _clean(trace.path.name, 80),
    )
    links = [_Link(at, at + 1, *steps[box.first], bold=True) for at, box in enumerate(boxes[1:])]
    return _chain(trace, title, boxes, links, origin_ns=boxes[0].start_ns, total_ns=0)


def around_picture(graph: DependencyGraph, event_index: int, depth: int = 1, *, limit: int = 30) -> Picture:
    """Draw the events at most ``depth`` edges away from one; bold is what held it up.

    Raises:
        QueryError: there is no such event.
        UsageError: the depth is negative or the limit below 1.
    """
    _check_limit(limit)
    if depth < 0:
        raise UsageError(f"a depth of {depth} is negative")
    near = graph.neighbourhood(event_index, depth)
    focus = int(np.flatnonzero(near.trace.events.index == event_index)[0])
    hops = _hops(near, focus, depth)
    boxes, box_of = _folded_events(near, focus)
    kept = _nearest(near, box_of, hops, focus, limit)
    links = [link for link in _web_links(near, box_of, hops < depth, focus) if {link.source, link.target} <= kept]
    hidden = sum(box.count for at, box in enumerate(boxes) if at not in kept)
    left_out = f"left out: {hidden:,} events, further away than those in the {limit} boxes shown" if hidden else None
    name = _clean(short_name(near.trace.name_of(focus)), NAME_SIZE)
    title = (f"Around event {event_index} ({name}), up to {depth} edges away", _clean(graph.trace.path.name, 80))
    number = {at: place for place, at in enumerate(sorted(kept, key=lambda at: (boxes[at].start_ns, at)))}
    shown = [boxes[at] for at in number]
    moved = [replace(link, source=number[link.source], target=number[link.target]) for link in links]
    drawing = _Drawing(near.trace, title, left_out, bold="bold: what held it up last", origin_ns=shown[0].start_ns)
    return Picture(drawing.source([list(range(len(shown)))], shown, moved), left_out)


def check_picture(target: str | Path) -> None:
    """Refuse a file that no picture can be written to, before any work is done.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
    """
    if _format(target) != "dot" and shutil.which("dot") is None:
        raise MissingProgramError


def write_picture(picture: Picture, target: str | Path) -> None:
    """Write a picture in the format that the file's suffix names; ``-`` prints the text for ``dot``.

    Raises:
        UsageError: the suffix is unknown.
        MissingProgramError: the format needs ``dot``, which is not installed.
        OutputError: the file cannot be written, or ``dot`` failed.
    """
    check_picture(target)
    write_file(target, _rendered(picture.source, _format(target), target))


def _format(target: str | Path) -> str:
    if str(target) == "-":
        return "dot"
    suffix = Path(target).suffix.lower()
    if suffix not in FORMATS:
        raise UsageError(f"{target}: a picture's name ends in {', '.join(FORMATS)}")
    return FORMATS[suffix]


def _rendered(source: str, form: str, target: str | Path) -> bytes:
    if form == "dot":
        return source.encode()
    try:
        return graphviz.pipe("dot", form, source.encode(), quiet=True)
    except graphviz.ExecutableNotFound:
        raise MissingProgramError from None
    except subprocess.CalledProcessError as error:
        said = bytes(error.stderr or b"").decode(errors="replace")
        raise OutputError(f"{target}: dot failed: {said or error.returncode}") from None


def _check_limit(limit: int) -> None:
    if limit < 1:
        raise UsageError(f"a picture of at most {limit} boxes shows nothing")


# -- names and times --------------------------------------------------------------------------------------------------


def short_name(name: str) -> str:
    """Shorten a name: of a C++ kernel the function and what tells it from others, of a Python frame the file's name.

    >>> short_name("void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)")
    'vectorized_elementwise_kernel [CUDAFunctor_add]'
    >>> short_name("torch/nn/modules/module.py(1501): _call_impl"), short_name("aten::mm")
    ('module.py(1501): _call_impl', 'aten::mm')
    """
    if frame := FRAME.match(name):
        return frame[1]
    name = AUTOGRAD.sub("", name)
    if not KERNEL.search(name):
        return name
    base, arguments = _without_arguments(name)
    base = base.split()[-1].rsplit("::", 1)[-1] if base.split() else name
    telling = TELLING.findall(arguments)
    return f"{base} [{telling[-1]}]" if telling else base


def _without_arguments(name: str) -> tuple[str, str]:
    """Split a C++ name into what stands outside all brackets and what stands inside."""
    name = name.replace("(anonymous namespace)::", "")
    outside, inside, depth = [], [], 0
    for part in re.split(r"([<>()\[\]{}])", name):
        depth -= part in tuple(">)]}")
        (inside if depth > 0 else outside).append(" " if part in tuple("<>()[]{}") else part)
        depth += part in tuple("<([{")
    return "".join(outside), "".join(inside)


def _clean(text: str, size: int) -> str:
    """Cut the middle out of a text, on one line, without characters that XML forbids.

    >>> _clean("triton_poi_fused_add_mul_12", 16), _clean("a\\0b", 9)
    ('triton_po…mul_12', 'a\ufffdb')
    """
    line = "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split())) or "(no name)"
    tail = size * 2 // 5
    return line if len(line) <= size else f"{line[: size - tail - 1]}…{line[-tail:]}"


def duration(ns: int) -> str:
    """Print a time with three digits.

    >>> duration(950), duration(96_000), duration(1_234_567), duration(12_345_678_900)
    ('950 ns', '96 µs', '1.23 ms', '12.3 s')
    """
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size * 0.9995:
            return f"{float(f'{ns / size:.3g}'):,g} {unit}"
    return f"{ns} ns"


# -- boxes ------------------------------------------------------------------------------------------------------------


@dataclass
class _Part:
    """What a box holds under one name: its events and their time."""

    events: set[int] = field(default_factory=set)
    ns: int = 0


@dataclass
class _Box:
    """Events drawn as one: ``first`` is the number of its first piece or step."""

    lane: int
    first: int
    start_ns: int
    parts: dict[tuple[int, str], _Part] = field(default_factory=dict)
    fills: Counter[Fill] = field(default_factory=Counter)
    indices: list[int] = field(default_factory=list)
    focus: bool = False

    @property
    def ns(self) -> int:
        return sum(part.ns for part in self.parts.values())

    @property
    def count(self) -> int:
        return sum(len(part.events) for part in self.parts.values())

    @property
    def fill(self) -> Fill:
        return max(self.fills, key=lambda fill: (self.fills[fill], -FILLS.index(fill)))

    def add(self, text: str, event: int, ns: int, fill: Fill) -> None:
        part = self.parts.setdefault((self.lane, text), _Part())
        part.events.add(event)
        part.ns += ns
        self.fills[fill] += ns

    def absorb(self, other: _Box) -> None:
        """Take in the box that follows; the lane with more time wins."""
        for key, part in other.parts.items():
            own = self.parts.setdefault(key, _Part())
            own.events |= part.events
            own.ns += part.ns
        self.fills += other.fills
        self.indices += other.indices
        lanes: Counter[int] = Counter()
        for (lane, _), part in self.parts.items():
            lanes[lane] += part.ns
        self.lane = max(lanes, key=lambda lane: (lanes[lane], -lane))

    def largest(self) -> list[tuple[tuple[int, str], _Part]]:
        """Return the parts, longest first."""
        return sorted(self.parts.items(), key=lambda item: (-item[1].ns, item[0]))

    def unnamed(self) -> list[_Part]:
        """Return the parts that the box has no line for."""
        return [part for _, part in self.largest()[LINES:]]


def _path_boxes(path: CriticalPath) -> list[_Box]:
    """Make a box of each run of alike segments and of small neighbours on one lane."""
    pieces, trace = path.pieces, path.graph.trace
    if not len(pieces):
        return []
    names = _short_codes(trace, pieces.event)
    alike = _runs(pieces.lane, pieces.bound.astype(np.int64), names)
    length = np.bincount(alike, (pieces.end - pieces.start).astype(float))[alike]
    small = np.append(length < SMALL * path.length_ns, False)
    group = _runs(pieces.lane, np.where(small[:-1], -1, alike))
    boxes: list[_Box] = []
    columns = (group, pieces.lane, pieces.start, pieces.end, pieces.bound, pieces.event)
    text: dict[tuple[int, int], str] = {}
    for at, (own, lane, start, end, bound, event) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if own == len(boxes):
            boxes.append(_Box(lane, at, start))
        key = (bound, int(names[at]))
        if key not in text:
            text[key] = _piece_text(trace, event, BoundBy(bound))
        boxes[-1].add(text[key], event if event >= 0 else ~at, end - start, BoundBy(bound))
        boxes[-1].indices += [int(trace.events.index[event])] if event >= 0 else []
    return boxes


def _short_codes(trace: Trace, events: Ids) -> Ints:
    """Number the short names of events; -1 without an event."""
    codes = np.where(events >= 0, trace.events.name[events], -1) if len(trace.events) else events
    used = np.unique(codes)
    number: dict[str, int] = {}
    short = [number.setdefault(short_name(trace.names[c]), len(number)) if c >= 0 else -1 for c in used.tolist()]
    return np.array(short, np.int64)[np.searchsorted(used, codes)]


def _runs(*columns: Ints | Ids) -> Ints:
    """Number the runs of rows that are equal in all columns."""
    new = np.zeros(len(columns[0]), np.bool_)
    for column in columns:
        new[1:] |= column[1:] != column[:-1]
    return np.cumsum(new)


def _piece_text(trace: Trace, event: int, bound: BoundBy) -> str:
    name = _clean(short_name(trace.name_of(event)), NAME_SIZE) if event >= 0 else ""
    if bound in WAITING:
        return f"{WAITING[bound]} {WAITING_FOR[bound]} {name}" if name else WAITING[bound]
    return name or bound.label


def _box_of_event(trace: Trace, row: int, first: int) -> _Box:
    events = trace.events
    box = _Box(int(events.lane[row]), first, int(events.start[row]), indices=[int(events.index[row])])
    text = _clean(short_name(trace.name_of(row)), NAME_SIZE)
    box.add(text, row, int(events.end[row] - events.start[row]), EventKind(int(events.kind[row])))
    return box


def _alike_joined(boxes: Sequence[_Box]) -> list[_Box]:
    """Join neighbours that hold the same on the same lane."""
    joined: list[_Box] = []
    for box in boxes:
        if joined and joined[-1].parts.keys() == box.parts.keys():
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined


def _shortened(boxes: list[_Box], limit: int, total_ns: int) -> list[_Box]:
    """Join small neighbours, at first the smallest and those of one lane, until few enough boxes remain."""
    size = max(SMALL * total_ns, 1.0)
    if total_ns:
        boxes = _joined_below(boxes, size)
    while len(boxes) > limit:
        size *= 1.2
        boxes = _joined_below(boxes, size)
    return boxes


def _joined_below(boxes: Sequence[_Box], size: float) -> list[_Box]:
    joined = list(boxes[:1])
    for box in boxes[1:]:
        if joined[-1].ns + box.ns < (size if box.lane == joined[-1].lane else size / 2):
            joined[-1].absorb(box)
        else:
            joined.append(box)
    return joined
