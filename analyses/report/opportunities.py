"""The section on savings: curves, opportunities, near-critical work.

A curve is a window's length over the time that one item takes:

measured |╲____________  soon no longer the bottleneck
         | ╲
         |  ╲______       saves time up to a corner
         100%     removed
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyses.display.phrases import untrusted
from analyses.display.sentence_format import brief_duration, brief_share
from analyses.report.gain_curves import (
    OpportunityCurve,
    OpportunityCurves,
    SavedTick,
    conclusion_without_curves,
    corner_text,
    find_gains,
    saved_ticks,
)
from analyses.report.page_labels import SAVINGS, length_name, sentence
from analyses.report.page_tables import Bar, Section, SectionTable, time_bar
from analyses.source.window_facts import WindowFacts, short_labels
from hta_graph.base.colours import BOUND_COLOUR, NEUTRAL_COLOUR
from hta_graph.base.errors import HtaGraphError, QueryError
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.bounds import priced_window
from hta_graph.what_if.opportunities import opportunity_frame
from hta_graph.what_if.predict import JobOpportunities, JobPrediction, WindowReplay
from hta_graph.what_if.reliability import Reliability, reliability, with_unrecorded_work
from hta_graph.what_if.replay import Replayed, replay, replay_graph
from hta_graph.what_if.slack import near_critical

if TYPE_CHECKING:
    import pandas as pd

    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.critical_path import CriticalPath

ASSUMPTIONS = (
    "The dependency graph is replayed with less time for one item. All other work keeps its duration, and waits follow "
    "from the dependencies. An operator or module includes everything it launches. Work that runs concurrently is "
    "assumed not to slow down."
)


WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1000, 130, 610, 14, 270
"""Of the picture and of the lines in it, in units of the picture."""
LABELS = 640
ROOM = 40
"""The height of a label of two lines."""
DASHES = ("", "8 4", "2 3", "10 3 2 3", "4 4")
"""Dashes of lines of one color."""
SHARES = ((1.0, "100%"), (0.75, "75%"), (0.5, "50%"), (0.25, "25%"), (0.0, "removed"))


@dataclass(frozen=True)
class GainTick:
    """A tick of an axis: its place and its labels."""

    at: float
    text: str
    saved: str = ""


@dataclass(frozen=True)
class GainCorner:
    """A corner of a line: its place and its tooltip."""

    x: float
    y: float
    text: str


@dataclass(frozen=True)
class GainLine:
    """A line with its corners, its dashes and its label, which is at or near its end."""

    colour: str
    dash: str
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
        """All lines as text, for readers who cannot see them."""
        return "; ".join(f"{line.name}: {line.gained}" for line in self.lines)


def gain_figure(gains: Sequence[OpportunityCurve]) -> GainFigure:
    """Draw one line for each."""
    ticks = saved_ticks([gain.curve for gain in gains])
    ends = [_height_of(gain.curve.corners[-1][1], ticks) for gain in gains]
    lines = [
        _line_of(gain, ticks, dash, label)
        for gain, dash, label in zip(gains, _dashes_of(gains), _spread_labels(ends), strict=True)
    ]
    across = [GainTick(_place_of(share), text) for share, text in SHARES]
    down = [GainTick(_height_of(tick.length_ns, ticks), tick.length, tick.saved) for tick in ticks]
    return GainFigure(WIDTH, BOTTOM + 50, across, down, lines)


def _dashes_of(gains: Sequence[OpportunityCurve]) -> list[str]:
    """Choose dashes that distinguish lines of one class, which share its color."""
    return [DASHES[sum(before.bound == one.bound for before in gains[:at])] for at, one in enumerate(gains)]


def _line_of(gain: OpportunityCurve, ticks: Sequence[SavedTick], dash: str, label: float) -> GainLine:
    one, curve = gain.chosen, gain.curve
    places = [(_place_of(corner[0]), _height_of(corner[1], ticks)) for corner in curve.corners]
    corners = [
        GainCorner(x, y, f"{gain.name} {corner_text(curve, corner)}")
        for (x, y), corner in zip(places, curve.corners, strict=True)
    ]
    half, free = (brief_share(saved / max(curve.measured_ns, 1)) for saved in (one.saved_half_ns, one.saved_free_ns))
    also = ", ".join(f"{other.kind} {other.name}" for other in gain.alike)
    return GainLine(
        BOUND_COLOUR.get(gain.bound, NEUTRAL_COLOUR),
        dash,
        " ".join(f"{x:g},{y:g}" for x, y in places),
        corners[1:],
        places[-1][1],
        label,
        gain.name,
        f"{one.kind}: 2x speed −{half}, removed −{free}",
        f"{one.kind} {one.name}" + (f"; {also} would save the same" if also else ""),
    )


def _place_of(share: float) -> float:
    return round(LEFT + (1 - share) * (RIGHT - LEFT), 1)


def _height_of(length_ns: int, ticks: Sequence[SavedTick]) -> float:
    """Return how far down a length is; the measured one is at the top."""
    highest, lowest = ticks[0].length_ns, ticks[-1].length_ns
    return round(TOP + (highest - length_ns) / max(highest - lowest, 1) * (BOTTOM - TOP), 1)


def _spread_labels(ends: Sequence[float]) -> list[float]:
    """Move labels down to where there is room, and all of them up where the last ones would leave the picture."""
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


HALF, FREE = "#5f7d8c", "#b3c5ce"
NEAR = 0.01
"""Work with less slack than this share of the window is near-critical."""


@dataclass(frozen=True)
class GainSection(Section):
    """A section with a picture of lines, and its assumptions."""

    figure: GainFigure | None = None
    assumed: Sequence[str] = field(default_factory=tuple)


def gains_of(path: CriticalPath) -> tuple[OpportunityCurves | None, str]:
    """Find what the window of a path could save, of a step its iteration; where it cannot be replayed, return why."""
    try:
        # A job's window of a step is its iteration; other windows of a job are replayed as they are, by summaries too.
        is_job = path.graph.is_job
        return find_gains(path.graph, path.window if is_job else priced_window(path.graph, path.window)), ""
    # A window that cannot be replayed must not cost the reader all the rest.
    except HtaGraphError as error:
        return None, str(error)


def gain_sections(path: CriticalPath, gains: OpportunityCurves | None, failure: str = "") -> list[Section]:
    """Return what the window of a path, a rank's or a job's, could save; nothing where nothing would be saved."""
    if gains is None:
        return [Section(SAVINGS, "", notes=[sentence(failure)])]
    if not gains.drawn:
        return []
    trusted = reliability(replay_graph(path.graph, resolved_window(gains.window)))
    if trusted.missing:
        return [_unknown_savings(trusted)]
    try:
        near, notes = ([], []) if not path.graph.is_job else _near_tables(path)
        assumed = _assumptions(replay(path.graph, window=resolved_window(gains.window)))
    except HtaGraphError as error:
        return [Section(SAVINGS, "", notes=[sentence(str(error))])]
    return [
        GainSection(
            SAVINGS,
            "",
            [_opportunity_table(path.graph, gains.table, gains.length_ns, gains.drawn), *near],
            [*_not_reliable(trusted), gains.conclusion, *_base_of_savings(path, gains), *notes],
            template="gain_part.html",
            labels=short_labels(path.graph),
            figure=gain_figure(gains.drawn),
            assumed=assumed,
        )
    ]


def _not_reliable(trusted: Reliability) -> list[str]:
    """Say first where replay cannot be trusted."""
    if trusted.reason is None:
        return []
    return [f"These savings are not reliable: {untrusted(trusted.reason, trusted.share)}."]


def _unknown_savings(trusted: Reliability) -> Section:
    """Say why no savings are listed where the recording lacks what they depend on."""
    return Section(SAVINGS, "", notes=[f"Savings are unknown: {untrusted(trusted.reason or '', trusted.share)}."])


def _base_of_savings(path: CriticalPath, gains: OpportunityCurves) -> list[str]:
    """Say of what savings are, where that is the iteration of a latency."""
    if gains.window == path.window:
        return []
    return [
        (
            f"Percentages of savings are of the {length_name(WindowFacts.of(gains.window, path.graph))} "
            f"({brief_duration(gains.length_ns)})."
        )
    ]


def gain_sections_of_summaries(outlook: JobOpportunities) -> list[Section]:
    """Return the same, without curves, for a job whose ranks are replayed one by one."""
    conclusion, recorded = conclusion_without_curves(outlook), outlook.recorded
    if not conclusion:
        return []
    trusted = with_unrecorded_work(Reliability(recorded.frozen_share), recorded.graph, recorded.window)
    if trusted.missing:
        return [_unknown_savings(trusted)]
    table = _opportunity_table(recorded.graph, opportunity_frame(outlook.opportunities), recorded.measured_ns)
    assumed = [
        *_assumptions(recorded),
        "Curves need the complete graphs of all ranks; if memory allows, add --summaries never.",
    ]
    return [GainSection(SAVINGS, "", [table], [conclusion], template="gain_part.html", assumed=assumed)]


def opportunities_of_summaries(replayed: WindowReplay) -> tuple[JobOpportunities | None, list[Section]]:
    """Return what a job of rank summaries could save, and a section instead where its window cannot be replayed.

    Raises:
        HtaGraphError: a file cannot be read once more, or has changed: the rest of the page would be of another run.
    """
    try:
        outlook = replayed.opportunities({})
    except QueryError as error:
        return None, [Section(SAVINGS, "", notes=[sentence(error.on_command_line)])]
    return outlook, gain_sections_of_summaries(outlook)


def _opportunity_table(
    graph: DependencyGraph, table: pd.DataFrame, length: int, drawn: Sequence[OpportunityCurve] = ()
) -> SectionTable:
    """List what lies on the path; a bar is the window, its parts what is saved of it."""
    labels = short_labels(graph)
    names = [
        labels[name] if kind == "class" else f"rank {name}" if kind == "rank" else name
        for kind, name in zip(table["kind"], table["name"], strict=True)
    ]
    shown = table.assign(name=names).rename(
        columns={
            "saved_half_ns": "saved_at_2x_speed_ns",
            "saved_free_ns": "saved_if_removed_ns",
        }
    )
    bars = [
        _saved_bar(half, free, length)
        for half, free in zip(table["saved_half_ns"].tolist(), table["saved_free_ns"].tolist(), strict=True)
    ]
    keys = {"saved at 2x speed ms": HALF, "saved if removed ms": FREE}
    colour_of = {(one.kind, one.name): gain.bound for gain in drawn for one in (gain.chosen, *gain.alike)}
    colours = [
        BOUND_COLOUR.get(name if kind == "class" else colour_of.get((kind, name), ""), "")
        for kind, name in zip(table["kind"], table["name"], strict=True)
    ]
    return SectionTable("Estimated savings; they overlap, do not add them", shown, bars, (), colours, keys)


def _saved_bar(half: int, free: int, length: int) -> Bar:
    return time_bar([("saved at 2x speed", half, HALF), ("more if removed", free - half, FREE)], length)


def _near_tables(path: CriticalPath) -> tuple[list[SectionTable], list[str]]:
    """List the near-critical work of each rank, or name the only one, and the paths that are nearly as long."""
    length = path.window.end_ns - path.window.start_ns
    near = near_critical(path.graph, resolved_window(path.window), share=NEAR)
    ranks: pd.DataFrame = near.by_rank.rename(columns={"near_ns": "near_critical_ns", "share": "window_share"})
    others = near.alternatives.drop(columns="event_index").rename(columns={"near_ns": "time_ns"})
    ranks = ranks[ranks["near_critical_ns"] > 0]
    bars = [time_bar([("near-critical", ns, HALF)], length) for ns in ranks["near_critical_ns"].tolist()]
    within = brief_share(NEAR)
    paths = SectionTable(f"Longest near-critical paths per rank and class (slack below {within} of the window)", others)
    if len(ranks) == 1:
        return [paths], [
            f"Near-critical work (slack below {within} of the window) is on rank {int(ranks['rank'].iloc[0])} only."
        ]
    return [SectionTable(f"Near-critical work by rank (slack below {within} of the window)", ranks, bars), paths], []


def _assumptions(as_is: Replayed | JobPrediction) -> list[str]:
    """Say what no change moves, and what a replay assumes."""
    fixed = brief_share(as_is.frozen_share) if as_is.frozen_share else ""
    inferred = brief_share(as_is.inferred_share) if as_is.inferred_share else ""
    said = (
        (
            f"{fixed} of the path is fixed in every scenario: time without a recorded cause, and communication whose "
            "partners are not in the trace, which may include waiting for them."
        )
        if fixed
        else "No part of the path is fixed."
    )
    return [ASSUMPTIONS, (f"{said} {inferred} of its time depends on inferred edges." if inferred else said)]
