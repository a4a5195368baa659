"""The section on what would be gained: curves, the opportunities, what is nearly critical.

A curve is a window's length over the time that things take:

measured |╲____________  what soon decides nothing
         | ╲
         |  ╲______       what counts up to a corner
         100%     free
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyses.display.charts import SERIES
from analyses.display.sentence_format import brief_share
from analyses.report.gain_curves import Gain, SavedTick, conclusion_without_curves, corner_text, find_gains, saved_ticks
from analyses.report.page_tables import Bar, Section, SectionTable, time_bar
from hta_graph.errors import HtaGraphError, QueryError
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.opportunities import opportunity_frame
from hta_graph.what_if.predict import JobPrediction, WindowReplay
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.slack import near_critical

if TYPE_CHECKING:
    import pandas as pd

    from hta_graph.paths.critical_path import CriticalPath


WIDTH, LEFT, RIGHT, TOP, BOTTOM = 1000, 130, 610, 14, 270
"""Of the picture and of the lines in it, in units of the picture."""
LABELS = 640
ROOM = 40
"""What a label of two lines takes."""
SHARES = ((1.0, "100%"), (0.75, "75%"), (0.5, "50%"), (0.25, "25%"), (0.0, "free"))


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


TITLE = "What would be gained"
HALF, FREE = "#5f7d8c", "#b3c5ce"
ASSUMED = (
    "The window is replayed with less time for one thing: all other work takes what it took, and who waits for what "
    "follows anew. An operator or module counts with all that it launches. That work which runs side by side slows "
    "itself down is not foreseen."
)
NO_CURVES = "Curves take the whole graphs of all ranks: where memory allows, --summaries never draws them."
NEAR = 0.01
"""What is within this share of the window of being critical is listed."""


@dataclass(frozen=True)
class GainSection(Section):
    """A section with a picture of lines, and what it takes for granted."""

    figure: GainFigure | None = None
    assumed: Sequence[str] = field(default_factory=tuple)


def gain_sections(path: CriticalPath) -> list[Section]:
    """Tell what the window of a path, a rank's or a job's, would gain; nothing where nothing would be gained."""
    try:
        gains = find_gains(path.graph, path.window)
        if not gains.drawn:
            return []
        near = [] if len(path.graph.rank_graphs) < 2 else _near_tables(path)
        assumed = _assumptions(replay(path.graph, window=resolved_window(path.window)))
    # A window that cannot be replayed must not cost the reader all the rest.
    except HtaGraphError as error:
        return [Section(TITLE, "", notes=[str(error)])]
    return [
        GainSection(
            TITLE,
            gains.conclusion,
            [_opportunity_table(gains.table, path.length_ns, gains.drawn), *near],
            template="gain_part.html",
            figure=gain_figure(gains.drawn),
            assumed=assumed,
        )
    ]


def gain_sections_of_summaries(replayed: WindowReplay) -> list[Section]:
    """Tell the same, without curves, of a job whose ranks are asked one by one.

    Raises:
        HtaGraphError: a file cannot be read once more, or has changed: the rest of the page would be of another run.
    """
    try:
        outlook = replayed.opportunities({})
    except QueryError as error:
        return [Section(TITLE, "", notes=[error.on_command_line])]
    conclusion, recorded = conclusion_without_curves(outlook), outlook.recorded
    if not conclusion:
        return []
    table = _opportunity_table(opportunity_frame(outlook.opportunities), recorded.measured_ns)
    assumed = [*_assumptions(recorded), NO_CURVES]
    return [GainSection(TITLE, conclusion, [table], template="gain_part.html", assumed=assumed)]


def _opportunity_table(table: pd.DataFrame, length: int, drawn: Sequence[Gain] = ()) -> SectionTable:
    """List what lies on the path; a bar is the window, its parts what is saved of it."""
    is_rank = table["kind"] == "rank"
    shown = table.assign(name=table["name"].where(~is_rank, "rank " + table["name"])).rename(
        columns={"saved_half_ns": "saved_at_half_ns", "saved_free_ns": "saved_if_free_ns"}
    )
    bars = [
        _saved_bar(half, free, length)
        for half, free in zip(table["saved_half_ns"].tolist(), table["saved_free_ns"].tolist(), strict=True)
    ]
    keys = {"saved at half ms": HALF, "saved if free ms": FREE}
    colour_of = {
        (one.kind, one.name): colour
        for gain, colour in zip(drawn, SERIES, strict=False)
        for one in (gain.chosen, *gain.alike)
    }
    colours = [colour_of.get(key, "") for key in zip(table["kind"], table["name"], strict=True)]
    return SectionTable("opportunities: they overlap, so that gains do not add up", shown, bars, (), colours, keys)


def _saved_bar(half: int, free: int, length: int) -> Bar:
    return time_bar([("saved at half", half, HALF), ("more if free", free - half, FREE)], length)


def _near_tables(path: CriticalPath) -> list[SectionTable]:
    """List how much of the window each rank does work that is nearly critical, and the ways that are nearly as long."""
    length = path.window.end_ns - path.window.start_ns
    near = near_critical(path.graph, resolved_window(path.window), share=NEAR)
    ranks: pd.DataFrame = near.by_rank.rename(columns={"near_ns": "near_critical_ns", "share": "window_share"})
    ways = near.alternatives.drop(columns="event_index").rename(
        columns={"slack_ns": "shorter_by_ns", "near_ns": "time_ns"}
    )
    bars = [time_bar([("nearly critical", ns, HALF)], length) for ns in near.by_rank["near_ns"].tolist()]
    within = f"within {brief_share(NEAR)} of the window of being critical"
    return [
        SectionTable(f"work {within}, by rank", ranks, bars),
        SectionTable(f"other ways to the end {within}: the longest of each rank and class", ways),
    ]


def _assumptions(as_is: Replayed | JobPrediction) -> list[str]:
    """Say what no change moves, and what a replay does not know."""
    frozen = (
        f"{brief_share(as_is.frozen_share)} of the path is frozen: time without a known cause, which no change moves, "
        "and communication whose partners are not in the trace, which may hold waiting for them."
        if as_is.frozen_share
        else "Nothing of the path is frozen: all of it has a known cause."
    )
    inferred = (
        f" Of its time {brief_share(as_is.inferred_share)} hangs on inferred edges." if as_is.inferred_share else ""
    )
    return [ASSUMED, frozen + inferred]
