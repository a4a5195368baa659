"""What a report of several ranks opens with: the path of the job, its ranks, what to look at, whom others wait for."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.display.labels import class_meanings
from analyses.display.worst_ranks import MANY_RANKS, RANKS_LISTED
from analyses.report.bars import class_bar
from analyses.report.page_tables import Section, SectionTable
from analyses.window_report import missing_lines
from hta_graph.arrays import summed_by
from hta_graph.colours import BOUND_COLOUR
from hta_graph.graph.job_graph import JobGraph
from hta_graph.model import BoundBy
from hta_graph.paths.rank_crossings import crossings, held_up_by

if TYPE_CHECKING:
    from hta_graph.paths.critical_path import CriticalPath

__all__ = ["job_section"]

CAUSES_LISTED = 10


def job_section(path: CriticalPath, causes: pd.DataFrame | None = None, drawn: Collection[str] = ()) -> Section:
    """Show the path of a job through its ranks.

    Args:
        path: the job's.
        causes: the table of what ranks made others wait with, the largest first, whose first rows are shown.
        drawn: classes whose colours the page explains too, though no time on the path is of them.
    """
    tables = [_class_table(path, drawn), *_rank_tables(path), _event_table(path)]
    if causes is not None:
        tables.append(SectionTable("what the others wait for", causes.head(CAUSES_LISTED)))
    times = len(crossings(path))
    meaning = (
        "The chain of work through all ranks that decided how long the job took; its parts add up to the window. "
        "Where ranks meet it goes on at the one that came last, so that waiting for others is not on it. "
        f"It goes from rank to rank {'once' if times == 1 else f'{times:,} times'}."
    )
    notes = [f"{line[0].upper()}{line[1:]}." for line in missing_lines(path.window)]
    return Section("Critical path of the job", meaning, tables, notes)


def _class_table(path: CriticalPath, drawn: Collection[str]) -> SectionTable:
    """List the classes, longest first."""
    meanings, length = class_meanings(path.graph), max(path.length_ns, 1)
    shown = ((bound, ns) for bound, ns in path.by_bound_ns.items() if ns or bound in drawn)
    found = sorted(shown, key=lambda item: -item[1])
    rows = [
        {"class": bound, "time_ns": ns, "path_share": ns / length, "meaning": meanings[bound]} for bound, ns in found
    ]
    title = "time on the job's path by class"
    return SectionTable(title, pd.DataFrame(rows), colours=[BOUND_COLOUR[bound] for bound, _ in found])


def _rank_tables(path: CriticalPath) -> list[SectionTable]:
    """List the ranks: the path's time there, how long the job waited for each alone; of many the most, and hosts."""
    parts, classes, pieces = path.graph.parts, len(BoundBy), path.pieces
    sums = summed_by(pieces.part.astype("int64") * classes + pieces.bound, pieces.length, len(parts) * classes)
    by_class = sums.reshape(-1, classes)
    hosts = path.graph.hosts if isinstance(path.graph, JobGraph) else {}
    rows = pd.DataFrame({
        "rank": [part.rank for part in parts],
        "host": [hosts.get(part.rank) for part in parts],
        "time_ns": by_class.sum(axis=1),
        "others_wait_ns": [held.total for held in held_up_by(path)],
    })  # fmt: skip
    title = "time on the job's path by rank, and for how long all others wait"
    if len(rows) <= MANY_RANKS:
        return [_with_bars(title, rows.drop(columns="host"), by_class)]
    most = rows.sort_values(["time_ns", "others_wait_ns"], ascending=False, kind="stable").head(RANKS_LISTED)
    title = f"{title}; the {RANKS_LISTED} of {len(rows):,} ranks with most of it"
    if not hosts:
        return [_with_bars(title, most.drop(columns="host"), by_class[most.index])]
    return [_with_bars(title, most, by_class[most.index]), _host_table(rows)]


def _with_bars(title: str, rows: pd.DataFrame, by_class: np.ndarray[Any, Any]) -> SectionTable:
    """Draw beside each row what its time is made of; all bars have one scale."""
    longest = int(rows["time_ns"].max())
    told = [{bound.label: int(ns) for bound, ns in zip(BoundBy, own, strict=True)} for own in by_class]
    return SectionTable(title, rows, [class_bar(own, longest) for own in told])


def _host_table(rows: pd.DataFrame) -> SectionTable:
    """Add up ranks by host."""
    by_host = rows.groupby("host", sort=False)
    sums = by_host[["time_ns", "others_wait_ns"]].sum().assign(ranks=by_host.size())
    most = sums.sort_values(["time_ns", "others_wait_ns"], ascending=False, kind="stable").head(RANKS_LISTED)
    title = "time on the job's path by host"
    more = f"; the {RANKS_LISTED} of {len(sums):,} hosts with most of it" if len(sums) > len(most) else ""
    return SectionTable(title + more, most.reset_index()[["host", "ranks", "time_ns", "others_wait_ns"]])


def _event_table(path: CriticalPath) -> SectionTable:
    """List what takes most of the path."""
    frame = pd.DataFrame(path.event_totals()).fillna({"name": "(nothing recorded)"})
    frame["path_share"] = frame["time_ns"] / max(path.length_ns, 1)
    columns = ["time_ns", "path_share", "calls", "rank", "bound_by", "name"]
    return SectionTable("what to look at first, of all ranks", frame[columns])
