"""timeline: the lanes of a window with the critical path through them, as a page of its own or as a part of one.

A scene consists of lanes, their tracks and the bars on these; a page holds it as packed columns.
"""

from __future__ import annotations

import base64
import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from analyses.display.labels import MEANING, SHORT
from analyses.display.page import page_of
from analyses.display.text_layout import clipped, duration_text, percent
from analyses.report.page_labels import capitalized, length_name
from analyses.report.page_tables import Bar, class_bar
from analyses.source.window_facts import WindowFacts, class_meanings, short_labels
from analyses.source.window_report import window_name
from hta_graph.attribution.replayed_names import EVIDENCE, replayed_names
from hta_graph.base.arrays import distinct, first_of_runs, take_or, unique_rows
from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR, PATH_COLOUR
from hta_graph.base.errors import UsageError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Bools, BoundBy, Ids, Ints
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.level_of_detail import (
    BAR_GROUPS,
    TimelineBars,
    busiest_lanes,
    event_bars,
    lane_order,
    merge_to_limit,
    ranks_on_paths,
    rows_between,
    tracks_on_lanes,
)
from hta_graph.paths.step_table import StepRow, neighbouring_steps

EVENT_LABELS: Mapping[str, str] = {
    "cpu_op": "operator",
    "runtime": "runtime call",
    "memcpy": "copy",
    "memset": "memset",
    "waiting": "waiting for other ranks",
}
"""Labels of the kinds of events that are not called by their keys."""

HEAD_BYTES = 4


def packed_text(head: Mapping[str, Any], columns: Sequence[Ints]) -> str:
    """Return a head and columns of numbers from 0 on as text that needs no escaping.

    Inside the base64 and the zlib stream: the length of the head (4 bytes, little-endian), the head as JSON, and the
    columns one after the other as :func:`varints`. The same input gives the same text.
    """
    # Names from a trace are here only, as base64: no name can end the page's script or begin one.
    text = json.dumps(head, separators=(",", ":")).encode()
    pieces = [len(text).to_bytes(HEAD_BYTES, "little"), text, *map(varints, columns)]
    return base64.b64encode(zlib.compress(b"".join(pieces), 9)).decode()


def varints(values: Ids | Ints) -> bytes:
    r"""Write each number in groups of 7 bits, the lowest first; the upper bit says that more follow (LEB128).

    >>> varints(np.array([5, 300]))
    b'\x05\xac\x02'
    """
    rest = values.astype(np.uint64)
    size = np.ones(len(rest), np.int64)
    for groups in range(1, 10):
        size += rest >= 1 << 7 * groups
    first = np.cumsum(size) - size
    written = np.zeros(int(size.sum()), np.uint8)
    # All numbers write their first group, then all that have a second one, and so on.
    for group in range(int(size.max(initial=0))):
        has = size > group
        more = (size[has] > group + 1) * np.uint64(128)
        written[first[has] + group] = (rest[has] >> np.uint64(7 * group)) % 128 | more
    return written.tobytes()


def zigzag(values: Ints) -> Ints:
    """Map numbers to numbers from 0 on, near 0 to small ones.

    >>> zigzag(np.array([0, -1, 1, -2])).tolist()
    [0, 1, 2, 3]
    """
    return np.where(values < 0, -2 * values - 1, 2 * values)


ON_LANES = BAR_GROUPS.index("path")

DEEPEST = 12
"""The most tracks of a lane; deeper nested events are left out."""
MOST_RANKS = 8
"""The most ranks whose lanes a page of a job shows."""
MOST_LANES = 1_000
"""The most threads and streams that a page shows; the labels of more would fill it."""


@dataclass(frozen=True)
class Lane:
    """A thread or stream: its label, and the number of tracks that its events need."""

    label: str
    depth: int


@dataclass(frozen=True)
class Scene:
    """Lanes from top to bottom and the bars on their tracks.

    Of n paths the first n tracks are the strips of their classes; then each lane has n tracks for where the paths run,
    and one for each depth of nesting. ``resolution_ns`` is the length below which bars are merged (0: none is);
    ``rows`` is how many events and segments the bars stand for, ``too_deep`` how many events are left out, ``ranks``
    which ranks of a job are shown, ``lanes_left`` how many of their lanes are not.
    """

    paths: Sequence[CriticalPath]
    lanes: list[Lane]
    bars: TimelineBars
    resolution_ns: int
    rows: int
    too_deep: int
    ranks: Sequence[int]
    lanes_left: int = 0
    names: Sequence[str] = ()


def scene_of(paths: Sequence[CriticalPath], limit: int) -> Scene:
    """Lay out the events of the paths' windows, with at most about ``limit`` bars."""
    graph = paths[0].graph
    start, end = min(path.window.start_ns for path in paths), max(path.window.end_ns for path in paths)
    parts = ranks_on_paths(paths, MOST_RANKS)
    rows = rows_between(graph, start, end)
    shown_lanes, lanes_left = busiest_lanes(paths, rows, parts, MOST_LANES)
    rows = rows[shown_lanes[graph.event_table.lane[rows]]]
    depth = tracks_on_lanes(graph, rows, DEEPEST)
    shown = depth < DEEPEST
    kept, depth = rows[shown], depth[shown]
    lanes, first_track = _stacked_lanes(paths, kept, depth, shown_lanes)
    codes, names = _event_names(graph)
    bars = [event_bars(paths, kept, first_track[graph.event_table.lane[kept]] + len(paths) + depth, codes)]
    for number, path in enumerate(paths):
        bars += [_class_bars(path, number, codes), _lane_bars(path, first_track + number, shown_lanes)]
    every = TimelineBars.join(bars).in_order()
    merged, resolution = merge_to_limit(every, limit)
    ranks = [graph.rank_graphs[part].rank for part in parts]
    hidden = len(rows) - len(kept)
    return Scene(paths, lanes, merged, resolution, int(every.count.sum()), hidden, ranks, lanes_left, names)


def _event_names(graph: DependencyGraph) -> tuple[Ids, list[str]]:
    """Return the codes of events' names, and the names; kernels of graph replays are called with their operators."""
    codes, names = graph.event_table.name, [*graph.names]
    replayed = replayed_names(graph, "operator")
    rows = np.flatnonzero(replayed.innermost >= 0)
    if not len(rows):
        return codes, names
    keys = replayed.innermost[rows], replayed.evidence[rows], codes[rows]
    first, place = unique_rows(*keys)
    found = codes.copy()
    found[rows] = len(names) + place
    names += [
        f"{clipped(replayed.texts[operator], 40)} ({EVIDENCE[evidence]}) ▸ {clipped(names[kernel], 60)}"
        for operator, evidence, kernel in zip(*(key[first].tolist() for key in keys), strict=True)
    ]
    return found, names


def _stacked_lanes(paths: Sequence[CriticalPath], rows: Ints, depth: Ints, shown: Bools) -> tuple[list[Lane], Ints]:
    """Stack the lanes that have events or path, rank by rank, threads first; return also each lane's first track."""
    graph = paths[0].graph
    size = np.zeros(len(graph.lanes.labels), np.int64)
    np.maximum.at(size, graph.event_table.lane[rows], depth + 1)
    for path in paths:
        np.maximum.at(size, path.segment_table.lane[path.segment_table.lane >= 0], 1)
    size[~shown] = 0
    first, at, lanes = np.zeros(len(size) + 1, np.int64), len(paths), []
    ranks, part = graph.rank_graphs, graph.rank_index_of_lane
    order = lane_order(graph)
    for lane in order[size[order] > 0].tolist():
        first[lane] = at
        of_rank = f"rank {ranks[part[lane]].rank}: " if len(ranks) > 1 else ""
        lanes.append(Lane(of_rank + graph.lanes.labels[lane], int(size[lane])))
        at += len(paths) + int(size[lane])
    return lanes, first


def _class_bars(path: CriticalPath, track: int, names: Ids) -> TimelineBars:
    """Return the path's runs of equal class and stack, coloured by class."""
    runs, events = path.runs, path.graph.event_table
    return TimelineBars.of(track=np.full(len(runs), track), group=runs.bound, on_path=True, start=runs.start,
                           end=runs.end, busy=runs.length, count=runs.segments, name=take_or(names, runs.event),
                           index=take_or(events.index, runs.event))  # fmt: skip


def _lane_bars(path: CriticalPath, track: Ints, shown: Bools) -> TimelineBars:
    """Return where the path stays on a lane that is shown."""
    pieces = path.segment_table
    first = np.flatnonzero(first_of_runs(pieces.lane))
    end = np.append(pieces.start[first[1:]], pieces.end[-1:])
    start, lane = pieces.start[first], pieces.lane[first]
    bars = TimelineBars.of(track=track[lane], group=np.full(len(first), ON_LANES), on_path=True, start=start, end=end,
                           busy=end - start, count=1, name=-1, index=-1)  # fmt: skip
    return bars.take((lane >= 0) & shown[lane])


ROWS, BYTES = 320_000, 700_000
"""The most bars of a page, and the most bytes of these: it stays below 1 MB and opens within 1 s."""
STEPS, ROWS_OF_STEPS = 12, 60_000
"""The most steps of a page, and the most bars of all of them together; the chosen step has all bars that it needs."""
NAME_SIZE = 120
SCRIPTS = ("timeline_data.js", "timeline_view.js", "timeline_input.js")

COLOUR_OF = {**BOUND_COLOUR, **EVENT_COLOUR, "path": PATH_COLOUR}


@dataclass(frozen=True)
class EmbeddedStep:
    """A window that the page can show: its name, a summary, its classes as a bar."""

    label: str
    summary: str
    bar: Bar


@dataclass(frozen=True)
class ColourMeaning:
    """A colour and what it means."""

    colour: str
    text: str
    meaning: str = ""


class TimelinePage:
    """The timeline of a path; for a step, the page also holds as many neighboring steps as fit."""

    def __init__(self, path: CriticalPath, steps: Sequence[StepRow] = (), limit: int = ROWS) -> None:
        self._path = path
        self._paths = _embedded_paths(path, steps)
        self.scene, self.data = self._scene_that_fits(limit)

    def __repr__(self) -> str:
        return f"<TimelinePage {self._path.window.label}: {len(self.scene.bars):,} bars>"

    def _repr_html_(self) -> str:
        """Show in a notebook: the page in a frame of its own."""
        source = b64encode(self.html()).decode()
        return f'<iframe src="data:text/html;base64,{source}" style="width:100%;height:36rem;border:0"></iframe>'

    def html(self) -> bytes:
        """Return the page: it opens without a network, in light and dark."""
        return page_of(
            "timeline.html",
            scripts=SCRIPTS,
            title=self._title,
            file=clipped(self._path.graph.path.name, NAME_SIZE),
            timeline=self,
            class_legend=self.class_legend,
        )

    @property
    def chosen(self) -> int:
        """The index of the chosen path among those of the page."""
        return next(at for at, path in enumerate(self._paths) if path is self._path)

    @property
    def span(self) -> tuple[int, int]:
        """The first and the last time (ns) that the page holds."""
        return min(p.window.start_ns for p in self._paths), max(p.window.end_ns for p in self._paths)

    def link(self, start_ns: int, end_ns: int, event_index: int | None = None) -> str:
        """Return the address of a time range in the page; empty where the page does not hold it."""
        first, last = self.span
        if start_ns > end_ns or start_ns < first or end_ns > last:
            return ""
        # A number alone names no event of a job.
        named = event_index is not None and not self._path.graph.is_job
        return f"#t={start_ns},{end_ns}" + (f"&row={event_index}" if named else "")

    @cached_property
    def steps(self) -> list[EmbeddedStep]:
        """The windows that the page can show."""
        found = []
        for path in self._paths:
            bound, ns = max(path.by_bound_ns.items(), key=lambda item: item[1])
            facts = WindowFacts.of(path.window, path.graph)
            name, labels = clipped(path.window.label, 60), facts.words
            summary = _step_summary(
                facts, length=duration_text(path.length_ns), bound=labels[bound],
                bound_share=percent(ns / max(path.length_ns, 1)), explained=percent(path.coverage),
            )  # fmt: skip
            found.append(EmbeddedStep(name, summary, class_bar(path.by_bound_ns, labels=labels)))
        return found

    def _scene_that_fits(self, limit: int) -> tuple[Scene, str]:
        """Return the lanes and bars, and the same packed for the page's script."""
        while True:
            scene = scene_of(self._paths, limit)
            data = _packed_scene(scene, self.span[0], self.chosen)
            if len(data) <= BYTES or limit < 1:
                return scene, data
            # Bars differ in how well they pack: the next try is a guess from this one.
            limit = min(len(scene.bars) * BYTES * 9 // (len(data) * 10), limit * 9 // 10)

    @property
    def notes(self) -> list[str]:
        """What the page merges or leaves out."""
        scene, notes = self.scene, []
        if scene.resolution_ns:
            notes.append(
                f"Events shorter than {duration_text(scene.resolution_ns)} are merged with neighbors of the same kind "
                f"to keep the page small: {scene.rows:,} events in {len(scene.bars):,} bars."
            )
        ranks = len(self._path.graph.rank_graphs)
        if len(scene.ranks) < ranks:
            listed = ", ".join(map(str, scene.ranks))
            notes.append(
                f"Lanes of {len(scene.ranks)} of {ranks:,} ranks ({listed}): those with most of the path, then "
                "the lowest."
            )
        if scene.lanes_left:
            notes.append(
                f"{len(scene.lanes):,} of {len(scene.lanes) + scene.lanes_left:,} threads and streams: those with "
                "most of the path, then the busiest."
            )
        if scene.too_deep:
            notes.append(f"{scene.too_deep:,} deeply nested events are left out.")
        return notes

    @property
    def class_legend(self) -> list[ColourMeaning]:
        """The classes that occur on the paths."""
        found = {bound: sum(path.by_bound_ns[bound] for path in self._paths) for bound in MEANING}
        labels, meanings = short_labels(self._path.graph), class_meanings(self._path.graph)
        return [ColourMeaning(BOUND_COLOUR[b], labels[b], meanings[b]) for b, ns in found.items() if ns]

    @property
    def event_legend(self) -> list[ColourMeaning]:
        """The kinds of events that occur."""
        used = set(distinct(self.scene.bars.group).tolist())
        kinds = [name for number, name in enumerate(BAR_GROUPS) if number in used and name in EVENT_COLOUR]
        entries = [ColourMeaning(EVENT_COLOUR[name], EVENT_LABELS.get(name, name)) for name in kinds]
        return [*entries, ColourMeaning(PATH_COLOUR, "critical path")]

    @property
    def _title(self) -> str:
        rank = self._path.graph.rank
        ranks = len(self._path.graph.rank_graphs)
        of_whom = f", {ranks:,} ranks" if ranks > 1 else f", rank {rank}" if rank is not None else ""
        return f"Timeline of {clipped(self._path.window.label, 60)}{of_whom}"


def _step_summary(facts: WindowFacts, *, length: str, bound: str, bound_share: str, explained: str) -> str:
    """Sum up a window above its bar."""
    name = capitalized(window_name(facts.window))
    return f"{name}: {length_name(facts)} {length}; largest class: {bound} ({bound_share}); {explained} explained"


def timeline_page(path: CriticalPath, steps: Sequence[StepRow] = (), *, limit: int = ROWS) -> TimelinePage:
    """Draw the window's lanes with the path through them.

    Args:
        path: a critical path.
        steps: the steps of its trace, at least those of ``steps_on_page``; the page can also show those around
            the path's that fit.
        limit: about how many bars the page holds; beyond it the shortest are merged, and the page reports it.

    Raises:
        UsageError: the limit is below 1.
    """
    if limit < 1:
        raise UsageError(f"a timeline needs at least 1 bar, not {limit}")
    return TimelinePage(path, steps, limit)


def steps_on_page(path: CriticalPath) -> set[int]:
    """Return the numbers of the steps that a page about a step can show."""
    return set() if path.window.step is None else neighbouring_steps(path.graph, path.window.step, STEPS)


def _embedded_paths(path: CriticalPath, steps: Sequence[StepRow]) -> list[CriticalPath]:
    """Return the path and those of the steps around it, as many as fit unmerged, in order of time."""
    near = steps_on_page(path)
    steps = [row for row in steps if row.step in near]
    at = next((at for at, row in enumerate(steps) if row.step == path.window.step), None)
    if at is None:
        return [path]
    low, high, found = at, at, [path]
    # Outwards from the chosen step, on both sides in turn: the steps of a page have no holes.
    while len(found) < min(len(steps), STEPS):
        later = high + 1 < len(steps) and (high - at <= at - low or low == 0)
        tried = [*found, steps[high + 1].path] if later else [steps[low - 1].path, *found]
        if _rows_needed(tried) > ROWS_OF_STEPS:
            break
        low, high, found = (low, high + 1, tried) if later else (low - 1, high, tried)
    return found


def _rows_needed(paths: Sequence[CriticalPath]) -> int:
    """Count the bars that some paths need."""
    start, end = min(path.window.start_ns for path in paths), max(path.window.end_ns for path in paths)
    runs = sum(len(path.runs) + int(first_of_runs(path.segment_table.lane).sum()) for path in paths)
    return runs + len(rows_between(paths[0].graph, start, end))


def _packed_scene(scene: Scene, base: int, chosen: int) -> str:
    """Pack a scene; ``timeline_data.js`` reads it."""
    bars, names = scene.bars, scene.names
    first = np.flatnonzero(first_of_runs(bars.series))
    used = distinct(bars.name[bars.name >= 0])
    columns = [bars.track[first], bars.group[first], bars.on_path[first], np.diff(first, append=len(bars))]
    head = {
        "base": str(base),
        "length": max(p.window.end_ns for p in scene.paths) - base,
        "chosen": chosen,
        "windows": [[p.window.start_ns - base, p.window.end_ns - base] for p in scene.paths],
        "lanes": [[clipped(lane.label, NAME_SIZE), lane.depth] for lane in scene.lanes],
        "groups": [[EVENT_LABELS.get(name, SHORT.get(name, name)), COLOUR_OF[name]] for name in BAR_GROUPS],
        "classes": len(BoundBy),
        "names": [clipped(names[code], NAME_SIZE) or "(no name)" for code in used.tolist()],
        "series": [column.tolist() for column in (column.astype(np.int64) for column in columns)],
    }
    name = np.where(bars.name >= 0, np.searchsorted(used, bars.name) + 1, 0)
    return packed_text(head, [*_time_columns(scene, base, first), bars.count - 1, name, _index_steps(bars.index)])


def _time_columns(scene: Scene, base: int, first: Ints) -> list[Ints]:
    """Return gaps between the bars of a series, lengths, and how much of a length is empty."""
    bars = scene.bars
    before = np.append(base, bars.end[:-1])
    before[first] = base
    return [zigzag(bars.start - before), bars.end - bars.start, bars.end - bars.start - bars.busy]


def _index_steps(index: Ints) -> Ints:
    """Return by how much each event's number differs from the one before."""
    return zigzag(np.diff(index, prepend=0))
