"""What would be gained, as a section of a page: a conclusion, curves, the opportunities, what is nearly critical."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from analyses.advice.format import brief_share
from analyses.display.charts import SERIES
from analyses.opportunities import Gain, conclusion_without_curves, find_gains
from analyses.report.bars import Bar, time_bar
from analyses.report.gain_lines import GainFigure, gain_figure
from analyses.report.page_tables import Section, SectionTable
from hta_graph.errors import HtaGraphError, QueryError
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.opportunities import opportunity_frame
from hta_graph.what_if.predict import JobPrediction, WindowReplay
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.slack import near_critical

if TYPE_CHECKING:
    import pandas as pd

    from hta_graph.paths.critical_path import CriticalPath

__all__ = ["GainSection", "gain_sections", "gain_sections_of_summaries"]

TITLE = "What would be gained"
HALF, FREE = "#5f7d8c", "#b3c5ce"
ASSUMED = (
    "The window is replayed with less time for one thing: all other work takes what it took, and who waits for what "
    "follows anew. An operator or module counts with all that it launches. That work which runs side by side slows "
    "itself down is not foreseen."
)
NO_CURVES = "Curves take the whole graphs of all ranks: where memory allows, --skeletons never draws them."
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
        near = [] if len(path.graph.parts) < 2 else _near_tables(path)
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
