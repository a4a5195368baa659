"""timeline: the lanes of a window with the critical path through them, as a page of its own or as a part of one."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from analyses.display.labels import MEANING
from analyses.display.page import page_of
from analyses.display.text_layout import clipped, duration_text, percent
from analyses.report.packed_scene import NAME_SIZE, packed_scene
from analyses.report.page_labels import capitalized, length_name
from analyses.report.page_tables import Bar, class_bar
from analyses.source.window_facts import WindowFacts, class_meanings, short_labels
from analyses.source.window_report import window_name
from hta_graph.attribution.replayed_names import EVIDENCE, replayed_names
from hta_graph.base.arrays import distinct, first_of_runs, unique_rows
from hta_graph.base.colours import BOUND_COLOUR, EVENT_COLOUR, PATH_COLOUR
from hta_graph.base.errors import UsageError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import Ids
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.lane_scene import LaneScene, SceneLimits, lane_scene
from hta_graph.paths.level_of_detail import BAR_GROUPS, EVENT_WORDS, rows_between
from hta_graph.paths.step_table import StepRow, neighbouring_steps

DEEPEST = 12
"""The most tracks of a lane; deeper nested events are left out."""
MOST_RANKS = 8
"""The most ranks whose lanes a page of a job shows."""
MOST_LANES = 1_000
"""The most threads and streams that a page shows; the labels of more would fill it."""


ROWS, BYTES = 320_000, 700_000
"""The most bars of a page, and the most bytes of these: it stays below 1 MB and opens within 1 s."""
STEPS, ROWS_OF_STEPS = 12, 60_000
"""The most steps of a page, and the most bars of all of them together; the chosen step has all bars that it needs."""
SCRIPTS = ("timeline_data.js", "timeline_view.js", "timeline_input.js")


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

    def _scene_that_fits(self, limit: int) -> tuple[LaneScene, str]:
        """Return the lanes and bars, and the same packed for the page's script."""
        whole = scene_of(self._paths)
        while True:
            scene = whole.merged(limit)
            data = packed_scene(scene, self.span[0], self.chosen)
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
        entries = [ColourMeaning(EVENT_COLOUR[name], EVENT_WORDS.get(name, name)) for name in kinds]
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


def scene_of(paths: Sequence[CriticalPath]) -> LaneScene:
    """Lay out the lanes of the paths' windows, none of their bars merged."""
    codes, texts = _event_names(paths[0].graph)
    return lane_scene(paths, SceneLimits(MOST_RANKS, MOST_LANES, DEEPEST), (codes, texts)).with_paths(codes)


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
