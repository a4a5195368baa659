"""What a report of several ranks opens with: the path of the job, its ranks, what to look at, whom others wait for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from analyses.display.charts import BOUND_COLOUR
from analyses.display.words import meanings_in
from analyses.pages.bars import class_bar
from analyses.pages.page_tables import Section, SectionTable
from analyses.paths.job_report import missing_lines
from hta_graph.algorithms.time.path_meetings import crossings, held_up_by
from hta_graph.columns import summed_by
from hta_graph.model import BoundBy

if TYPE_CHECKING:
    from hta_graph.algorithms.time.critical_path import CriticalPath

__all__ = ["job_section"]

CAUSES_SHOWN = 10


def job_section(path: CriticalPath, causes: pd.DataFrame | None = None) -> Section:
    """Show the path of a job through its ranks.

    Args:
        path: the job's.
        causes: the table of what ranks made others wait with, the largest first, whose first rows are shown.
    """
    tables = [_class_table(path), _rank_table(path), _event_table(path)]
    if causes is not None:
        tables.append(SectionTable("what the others wait for", causes.head(CAUSES_SHOWN)))
    times = len(crossings(path))
    meaning = (
        "The chain of work through all ranks that decided how long the job took; its parts add up to the window. "
        "Where ranks meet it goes on at the one that came last, so that waiting for others is not on it. "
        f"It goes from rank to rank {'once' if times == 1 else f'{times:,} times'}."
    )
    notes = [f"{line[0].upper()}{line[1:]}." for line in missing_lines(path.window)]
    return Section("Critical path of the job", meaning, tables, notes)


def _class_table(path: CriticalPath) -> SectionTable:
    """List the classes, longest first."""
    meanings, length = meanings_in(path.graph), max(path.length_ns, 1)
    found = sorted(((bound, ns) for bound, ns in path.by_bound_ns.items() if ns), key=lambda item: -item[1])
    rows = [
        {"class": bound, "time_ns": ns, "path_share": ns / length, "meaning": meanings[bound]} for bound, ns in found
    ]
    title = "time on the job's path by class"
    return SectionTable(title, pd.DataFrame(rows), colours=[BOUND_COLOUR[bound] for bound, _ in found])


def _rank_table(path: CriticalPath) -> SectionTable:
    """List the ranks: the path's time there, how long the job waited for each alone; all bars have one scale."""
    parts, classes, pieces = path.graph.parts, len(BoundBy), path.pieces
    sums = summed_by(pieces.part.astype("int64") * classes + pieces.bound, pieces.length, len(parts) * classes)
    by_class = [
        {bound.label: int(ns) for bound, ns in zip(BoundBy, own, strict=True)} for own in sums.reshape(-1, classes)
    ]
    rows = [
        {"rank": part.rank, "time_ns": sum(own.values()), "others_wait_ns": held.total}
        for part, own, held in zip(parts, by_class, held_up_by(path), strict=True)
    ]
    longest = max(row["time_ns"] for row in rows)
    bars = [class_bar(own, longest) for own in by_class]
    return SectionTable("time on the job's path by rank, and for how long all others wait", pd.DataFrame(rows), bars)


def _event_table(path: CriticalPath) -> SectionTable:
    """List what takes most of the path."""
    frame = pd.DataFrame(path.event_totals()).fillna({"name": "(nothing recorded)"})
    frame["path_share"] = frame["time_ns"] / max(path.length_ns, 1)
    columns = ["time_ns", "path_share", "calls", "rank", "bound_by", "name"]
    return SectionTable("what to look at first, of all ranks", frame[columns])
