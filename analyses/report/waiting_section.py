"""Whom the ranks of a job wait for, as a section of a page: the worst ranks, hosts and groups, and when each waits."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from analyses.display.worst_ranks import MANY_RANKS, RANKS_LISTED, worst_and_typical
from analyses.report.bars import Bar, class_bar
from analyses.report.page_tables import Section, SectionTable
from analyses.report.wait_heatmap import WaitHeatmap, wait_heatmap
from hta_graph.model import BoundBy

if TYPE_CHECKING:
    from analyses.answer import Answer

__all__ = ["WaitSection", "wait_section"]

TITLE = "Who waits for whom"
MEANING = (
    "Each wait is charged to what the late rank did more of since the two last met, also where others passed it on "
    "(caused); all waiting in a collective counts for the rank that came last to it (wait caused)."
)
BY_RANK = ["rank", "scope"]


@dataclass(frozen=True)
class WaitSection(Section):
    """A section with a picture of when ranks wait, where there are many, and what is to be said of its numbers."""

    figure: WaitHeatmap | None = None
    figure_title: str = ""
    said: str = ""


def wait_section(waiting: Answer, together: Answer) -> Section:
    """Show the waiting of all ranks.

    Args:
        waiting: what ``stragglers`` answers.
        together: what ``collectives`` answers about the same stretches.
    """
    caused, charged = waiting.tables["stragglers"], waiting.tables["causes"]
    tables = [
        _rank_table(caused, charged, together.tables["ranks"]),
        _first_rows("hosts", waiting.tables["hosts"], "caused_ns"),
        _first_rows("groups by what they are for", together.tables["group_kinds"], "waited_ns"),
        _first_rows("groups", together.tables["groups"], "waited_ns"),
    ]
    ranks = caused["rank"].nunique()
    drawn = waiting.drawn.get("waiting", pd.DataFrame())
    told = [f"{text[0].upper()}{text[1:]}." for text in waiting.opening]
    meaning = " ".join([*told, MEANING])
    return WaitSection(
        TITLE,
        meaning,
        tables,
        template="waiting_part.html",
        figure=wait_heatmap(drawn) if len(drawn) else None,
        figure_title=_figure_title(ranks, len(drawn)) if len(drawn) else "",
        said="".join(f"{text[0].upper()}{text[1:]}. " for text in waiting.closing),
    )


def _figure_title(ranks: int, rows: int) -> str:
    """Name the picture.

    >>> _figure_title(64, 64), _figure_title(1024, 512)
    ('when each of 64 ranks waits for others', 'when each of 1,024 ranks waits for others, 2 ranks a row')
    """
    together = -(-ranks // rows)
    return f"when each of {ranks:,} ranks waits for others" + (f", {together} ranks a row" if together > 1 else "")


def _rank_table(caused: pd.DataFrame, charged: pd.DataFrame, own: pd.DataFrame) -> SectionTable:
    """List the ranks that cause most waiting, of many also what is typical; bars are classes of what they did."""
    by_class = charged.pivot_table("caused_ns", BY_RANK, "bound_by", aggfunc="sum", fill_value=0)
    frame = caused[[*BY_RANK, "times_last", "wait_caused_ns"]].merge(
        own[[*BY_RANK, "wait_ns", "transfer_ns"]], on=BY_RANK, how="left"
    )
    of_rows = by_class.reindex(pd.MultiIndex.from_frame(frame[BY_RANK]), fill_value=0)
    frame.insert(len(BY_RANK), "caused_ns", of_rows.sum(axis=1).to_numpy(np.int64))
    frame = frame.sort_values("caused_ns", ascending=False, kind="stable", ignore_index=True)
    title = "what ranks make others wait with, and how long they wait"
    if len(frame) > MANY_RANKS:
        frame, hidden = worst_and_typical(frame, "caused_ns")
        title = f"{title}; {hidden:,} ranks more are not listed"
    longest = int(frame["caused_ns"].max()) if len(frame) else 0
    told = {key: dict(zip(by_class, row, strict=True)) for key, *row in by_class.itertuples(name=None)}
    bars = [_class_bar(told.get(key, {}), longest) for key in zip(frame["rank"], frame["scope"], strict=True)]
    return SectionTable(title, frame, bars)


def _class_bar(times: Mapping[Hashable, int], longest: int) -> Bar:
    return class_bar({bound.label: int(times.get(bound.label, 0)) for bound in BoundBy}, longest)


def _first_rows(title: str, frame: pd.DataFrame, by: str) -> SectionTable:
    """Show the first rows of a table, which stands in order of waiting."""
    hidden = len(frame) - RANKS_LISTED
    most = frame.sort_values(by, ascending=False, kind="stable").head(RANKS_LISTED)
    return SectionTable(f"{title}; the {RANKS_LISTED} of {len(frame):,} with most" if hidden > 0 else title, most)
