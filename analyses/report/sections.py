"""The parts of a report that an analysis answers: which tables, the bars beside their rows, where rows lead."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses import catalogue
from analyses.answer import Answer
from analyses.display.charts import COLOUR
from analyses.report import row_links
from analyses.report.bars import Bar, time_bar
from analyses.report.page_tables import Section, SectionTable
from analyses.scope import Scope
from hta_graph.activities import WorkType
from hta_graph.errors import HtaGraphError

if TYPE_CHECKING:
    from analyses.report.timeline import TimelinePage

__all__ = ["PARTS", "ReportPart", "part_section"]

HIDDEN = "#f3c8a1"
MIXED = "#7f9aa8"
"""Of time in which several types of work run."""
TYPE_COLOUR = {kind.label: COLOUR[kind.label] for kind in WorkType}
Links = Callable[[Answer, Scope, "TimelinePage"], list[str]]


@dataclass(frozen=True)
class ReportTable:
    """A table of an answer: its bars and its links.

    ``parts`` are the columns of times that make a row's bar, each with its heading and colour; ``whole`` is the column
    that they are parts of, or nothing: then all bars are compared with the largest. Where ``coloured_by`` names a
    column, a bar has the colour of the type of work that stands in it.
    """

    name: str
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    whole: str = ""
    coloured_by: str = ""
    links: Links | None = None


@dataclass(frozen=True)
class ReportPart:
    """A section that one analysis answers with some of its tables: about every rank, or about the slowest one.

    ``takes_all``: it says nothing about some of a job's ranks.
    """

    title: str
    analysis: str
    meaning: str
    tables: tuple[ReportTable, ...]
    every_rank: bool = False
    takes_all: bool = False


PARTS = (
    ReportPart(
        "Where the GPU's time goes",
        "temporal-breakdown",
        "Compute, communication and copies that nothing hides, and idle time.",
        (
            ReportTable(
                "temporal_breakdown",
                {
                    "compute_ns": ("compute", COLOUR["compute"]),
                    "exposed_communication_ns": ("exposed communication", COLOUR["communication"]),
                    "exposed_memory_ns": ("exposed memory", COLOUR["memory"]),
                    "idle_ns": ("idle", COLOUR["idle"]),
                },
                "window_ns",
            ),
        ),
        every_rank=True,
    ),
    ReportPart(
        "Top kernels",
        "kernel-breakdown",
        "GPU time by type of work, and the kernels that take most of it; a name leads to its longest run.",
        (
            ReportTable("kernel_types", {"time_ns": ("time", MIXED)}, coloured_by="kernel_type"),
            ReportTable(
                "kernels", {"sum_ns": ("sum", MIXED)}, coloured_by="kernel_type", links=row_links.longest_run_links
            ),
        ),
    ),
    ReportPart(
        "How near it is to the GPU's limits",
        "roofline",
        "What operators achieve by the shapes that they were given, and where the window goes that is not at the peak.",
        (
            ReportTable("roofline"),
            ReportTable("losses", {"time_ns": ("time", MIXED)}),
            ReportTable("collective_rates"),
        ),
    ),
    ReportPart(
        "Why the GPU is idle",
        "idle-time",
        "What each gap between GPU activities waited for.",
        (
            ReportTable("idle_time", {"idle_ns": ("idle", COLOUR["idle"])}),
            ReportTable("waits", {"idle_ns": ("idle", COLOUR["idle"])}),
            ReportTable("longest_gaps", links=row_links.gap_links),
        ),
    ),
    ReportPart(
        "Communication and overlap",
        "overlap",
        "How much communication computation hides, and which collectives are exposed.",
        (
            ReportTable(
                "overlap",
                {
                    "overlapped_communication_ns": ("overlapped communication", HIDDEN),
                    "exposed_communication_ns": ("exposed communication", COLOUR["communication"]),
                },
            ),
            ReportTable("most_exposed", links=row_links.event_links),
        ),
        every_rank=True,
    ),
    ReportPart(
        "Ranks compared",
        "collectives",
        "Who comes last to each collective, and how long the others wait.",
        (
            ReportTable(
                "ranks",
                {"wait_ns": ("wait", COLOUR["idle"]), "transfer_ns": ("transfer", COLOUR["communication"])},
            ),
            ReportTable("collectives", links=row_links.collective_links),
        ),
        every_rank=True,
        takes_all=True,
    ),
    ReportPart(
        "Launches",
        "launch-stats",
        "How long launch calls take, and how long their kernels then wait.",
        (ReportTable("launch_stats"),),
    ),
)


def part_section(scopes: Sequence[Scope], part: ReportPart, timeline: TimelinePage, slowest: int) -> Section:
    """Ask one analysis; what it cannot answer is said on the page."""
    scope = next(scope for scope in scopes if scope.rank == slowest)
    chosen = scopes if part.every_rank else [scope]
    title = part.title if len(chosen) == len(scopes) else f"{part.title}, rank {slowest}"
    try:
        found = catalogue.analysis(part.analysis).answer(chosen).on_command_line()
    # One analysis that cannot answer must not cost the reader all the others.
    except HtaGraphError as error:
        return Section(title, part.meaning, notes=[str(error)])
    tables = [_section_table(shown, found, scope, timeline) for shown in part.tables if len(found.tables[shown.name])]
    return Section(title, part.meaning, tables, [*found.headline, *found.closing])


def _section_table(shown: ReportTable, found: Answer, scope: Scope, timeline: TimelinePage) -> SectionTable:
    """Give a table its bars and links."""
    frame = found.tables[shown.name]
    links = shown.links(found, scope, timeline) if shown.links else []
    if len(shown.parts) == 1:
        # What is drawn as one bar stands in the order of bars: the first rows are all that is seen at first.
        order = np.argsort(-frame[next(iter(shown.parts))].to_numpy(), kind="stable")
        frame, links = frame.iloc[order].reset_index(drop=True), [links[at] for at in order] if links else []
    keys = {f"{words} ms": colour for words, colour in shown.parts.values()} if len(shown.parts) > 1 else {}
    return SectionTable(found.title_of(shown.name), frame, _row_bars(shown, frame), links, keys=keys)


def _row_bars(shown: ReportTable, frame: pd.DataFrame) -> list[Bar]:
    """Make the bar of each row."""
    if not shown.parts:
        return []
    times = frame[list(shown.parts)]
    whole = frame[shown.whole] if shown.whole else frame.assign(all=int(times.sum(axis=1).max()))["all"]
    kinds = frame[shown.coloured_by] if shown.coloured_by else [""] * len(frame)
    return [
        time_bar(
            [
                (words, int(ns), TYPE_COLOUR.get(kind, colour))
                for ns, (words, colour) in zip(row, shown.parts.values(), strict=True)
            ],
            of,
        )
        for row, of, kind in zip(times.itertuples(index=False, name=None), whole, kinds, strict=True)
    ]
