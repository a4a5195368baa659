"""The picture that a report opens with: the critical path through its threads and streams.

critical path       ████████▒▒▒▒▒▒████████     colored by class
rank 1: thread 7    ████████░░                 colored: on the path; grey: other work
rank 1: stream 7          ░░▒▒▒▒▒▒████████
                    0 ms       10        20
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from analyses.display.sentence_format import brief_share, counted
from analyses.display.text_layout import clipped
from analyses.source.window_facts import class_meanings, short_labels
from analyses.source.window_report import window_name
from hta_graph.base.arrays import first_of_runs, last_of_runs
from hta_graph.base.colours import BOUND_COLOUR
from hta_graph.export.picture.lane_layout import PathStrips, lane_changes, lane_strip, window_strip
from hta_graph.export.picture.svg import time_ticks
from hta_graph.model import GPU_KINDS, Bools, BoundBy, EventKind, Ints, kind_mask
from hta_graph.paths.critical_path import CriticalPath, has_partial_rows
from hta_graph.paths.intervals import union
from hta_graph.paths.level_of_detail import busiest_lanes, lane_order, ranks_on_paths, rows_between

CELLS = 600
"""The number of columns that the window is cut into."""
MOST_LANES, MOST_RANKS = 6, 4
LEAST_SHARE = 0.002
"""Lanes with less of the path than this share are left out."""
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
WORK = (EventKind.CPU_OP, EventKind.RUNTIME, *GPU_KINDS)
"""Annotations and Python frames surround work and are none themselves."""


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


def path_picture(path: CriticalPath, link: str = "") -> PathPicture | None:
    """Draw a path of a rank or of a job; ``link`` leads to the timeline. None of an empty window."""
    if not path.length_ns:
        return None
    lanes, left_out = _lanes_to_draw(path)
    whole = [_class_shapes(path, window_strip(path, CELLS), 0, STRIP)]
    own = [_class_shapes(path, lane_strip(path, lane, CELLS), row, BAR) for row, lane in enumerate(lanes, 1)]
    other = [shape for row, lane in enumerate(lanes, 1) for shape in _busy_shapes(path, lane, row)]
    ranks = len(path.graph.rank_graphs)
    of_job = f", {ranks:,} ranks" if ranks > 1 else ""
    return PathPicture(
        f"Critical path of {window_name(path.window)}{of_job}",
        ["critical path", *_lane_names(path, lanes)],
        [*other, *(shape for shapes in [*whole, *own] for shape in shapes)],
        list(_change_lines(path, lanes)),
        [
            PictureTick(round(100 * time / path.length_ns, 2), text)
            for time, text in time_ticks(path.length_ns, TICKS)
            if time < LAST_TICK * path.length_ns
        ],
        _classes(path),
        f"{counted(left_out, 'lane')} with less of the path are not shown." if left_out else "",
        link,
    )  # fmt: skip


def _lanes_to_draw(path: CriticalPath) -> tuple[list[int], int]:
    """Return the lanes with most of the path and the busiest others, in order; count the lanes left out."""
    graph, pieces = path.graph, path.segment_table
    on_path = np.zeros(len(graph.lanes.labels), np.int64)
    np.add.at(on_path, pieces.lane[pieces.lane >= 0], pieces.length[pieces.lane >= 0])
    wanted = np.flatnonzero(on_path >= max(LEAST_SHARE * path.length_ns, 1))
    chosen = wanted[np.argsort(-on_path[wanted], kind="stable")][:MOST_LANES].tolist()
    if len(chosen) < MOST_LANES and not has_partial_rows(graph):
        chosen += [lane for lane in _busy_streams(path) if lane not in chosen][: MOST_LANES - len(chosen)]
    order = [lane for lane in lane_order(graph).tolist() if lane in chosen]
    return order, len(wanted) - sum(lane in chosen for lane in wanted.tolist())


def _busy_streams(path: CriticalPath) -> list[int]:
    """Return the GPU streams that work in the window on the ranks with most of the path, the busiest first."""
    graph, window = path.graph, path.window
    rows = rows_between(graph, window.start_ns, window.end_ns)
    rows = rows[graph.is_gpu[rows]]
    parts = [part for part in ranks_on_paths([path], MOST_RANKS) if path.by_rank_ns[graph.rank_graphs[part].rank]]
    shown, _ = busiest_lanes([path], rows, parts, MOST_LANES)
    events = graph.event_table
    busy = np.bincount(events.lane[rows], weights=events.end[rows] - events.start[rows], minlength=len(shown))
    found = np.flatnonzero(shown & (busy > 0))
    busiest: list[int] = found[np.argsort(-busy[found], kind="stable")].tolist()
    return busiest


def _lane_names(path: CriticalPath, lanes: Sequence[int]) -> list[str]:
    """Name lanes in short, where short names distinguish them."""
    graph, labels = path.graph, path.graph.lanes.labels
    ranks = [graph.rank_graphs[int(graph.rank_index_of_lane[lane])].rank for lane in lanes]
    of_rank = [f"rank {rank}: " if graph.is_job else "" for rank in ranks]
    # "stream 0:1:7" is stream 7 of context 1 on device 0, "thread 42:43" is thread 43 of process 42.
    short = [
        f"{rank}{labels[lane].split(' ')[0]} {labels[lane].split(':')[-1]}"
        for rank, lane in zip(of_rank, lanes, strict=True)
    ]
    full = [rank + labels[lane] for rank, lane in zip(of_rank, lanes, strict=True)]
    chosen = short if len(set(short)) == len(short) and all(map(LANE_LABEL.fullmatch, short)) else full
    return [clipped(name, LONGEST_NAME) for name in chosen]


def _class_shapes(path: CriticalPath, strip: PathStrips, row: int, height: int) -> list[PictureShape]:
    """Draw a strip: a shape per class."""
    labels, found = short_labels(path.graph), []
    for bound in sorted(set(strip.bound.tolist())):
        own = strip.take(strip.bound == bound)
        key = BoundBy(bound).label
        outline = _outline(own.first, own.last + 1, row, height)
        found.append(PictureShape(outline, BOUND_COLOUR[key], labels[key]))
    return found


def _busy_shapes(path: CriticalPath, lane: int, row: int) -> list[PictureShape]:
    """Draw in shades of grey how busy a lane is in each cell."""
    graph, window = path.graph, path.window
    if has_partial_rows(graph):
        return []
    events = graph.event_table
    rows = rows_between(graph, window.start_ns, window.end_ns)
    rows = rows[(events.lane[rows] == lane) & kind_mask(events.kind[rows], WORK)]
    busy = union(events.start[rows], events.end[rows])
    borders = np.linspace(window.start_ns, window.end_ns, CELLS + 1).astype(np.int64)
    share = np.diff(busy.covered_until(borders)) / np.maximum(np.diff(borders), 1)
    level = np.ceil(share.clip(0, 1) * LEVELS).astype(np.int64)
    first, last = (np.flatnonzero(runs(level)) for runs in (first_of_runs, last_of_runs))
    found = []
    for shade in range(1, LEVELS + 1):
        own: Bools = level[first] == shade
        if own.any():
            outline = _outline(first[own], last[own] + 1, row, BAR)
            found.append(
                PictureShape(
                    outline, "currentColor", "other work, not on the critical path", round(0.3 * shade / LEVELS, 2)
                )
            )
    return found


def _outline(first: Ints, end: Ints, row: int, height: int) -> str:
    """Return rectangles from first to last cells as one outline."""
    top = row * ROW + (ROW - height) // 2
    pairs = zip(first.tolist(), end.tolist(), strict=True)
    return "".join(f"M{start} {top}H{stop}v{height}H{start}z" for start, stop in pairs)


def _change_lines(path: CriticalPath, lanes: Sequence[int]) -> Iterator[str]:
    """Yield a line for each change of lane, from bar to bar."""
    rows = {lane: row for row, lane in enumerate(lanes, 1)}
    shown = np.zeros(len(path.graph.lanes.labels), np.bool_)
    shown[list(lanes)] = True
    found = lane_changes(path, shown, CELLS)
    most = np.sort(np.argsort(-found.near_ns, kind="stable")[:MOST_CHANGES])
    columns = (found.cell[most].tolist(), found.before[most].tolist(), found.after[most].tolist())
    for cell, before, after in zip(*columns, strict=True):
        top, bottom = sorted((rows[before], rows[after]))
        yield f"M{cell} {top * ROW + ROW // 2 + BAR // 2}V{bottom * ROW + ROW // 2 - BAR // 2}"


def _classes(path: CriticalPath) -> list[PictureClass]:
    """Return the legend, the largest class first."""
    labels, meanings = short_labels(path.graph), class_meanings(path.graph)
    found = sorted(((ns, bound) for bound, ns in path.by_bound_ns.items() if ns), key=lambda item: -item[0])
    return [
        PictureClass(BOUND_COLOUR[bound], labels[bound], meanings[bound], brief_share(ns / path.length_ns))
        for ns, bound in found
    ]
