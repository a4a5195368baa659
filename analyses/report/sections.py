"""The sections that analyses answer: which tables, the bars of their rows, the links to the timeline.

A report of a job begins with the section on its critical path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from analyses.declare.answer import Answer
from analyses.declare.scope import Scope
from analyses.display.charts import COLOUR
from analyses.display.screen_columns import SHARE_OF
from analyses.display.sentence_format import brief_duration, counted
from analyses.questions import catalogue
from analyses.report.page_labels import (
    LARGEST_ITEMS,
    TIME_BY_CLASS,
    capitalized,
    colour_of,
    is_about_options,
    sentence,
    title_of_rank,
    without_commands,
)
from analyses.report.page_tables import MOST_ROWS, Bar, Section, SectionTable, class_bar, time_bar
from analyses.source.window_facts import class_meanings, short_labels
from analyses.source.window_report import missing_lines
from hta_graph.base.arrays import pair_key, summed_by, take_or
from hta_graph.base.colours import IDLE_COLOUR, NEUTRAL_COLOUR, WAITING_COLOUR
from hta_graph.base.errors import HtaGraphError
from hta_graph.graph.event_names import row_labels
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.gpu_activity import WorkType
from hta_graph.paths.rank_crossings import crossings, held_up_by

if TYPE_CHECKING:
    from analyses.report.timeline import TimelinePage


def time_range_links(frame: pd.DataFrame, rank: int, timeline: TimelinePage) -> list[str]:
    """Link rows with rank, start_ns and end_ns; those of other ranks have no link."""
    columns = (frame[name].tolist() for name in ("rank", "start_ns", "end_ns"))
    return [timeline.link(start, end) if of == rank else "" for of, start, end in zip(*columns, strict=True)]


def longest_segments(path: CriticalPath, totals: Mapping[str, Any], timeline: TimelinePage) -> list[str]:
    """Link the first of a path's sums over names and classes, by its columns, to the longest segment in each."""
    pieces, events, (codes, texts) = path.segment_table, path.graph.event_table, row_labels(path.graph)
    order = np.argsort(-pieces.length, kind="stable")[::-1]
    key = pair_key(take_or(codes, pieces.event), pieces.bound.astype(np.int64))[order]
    # What comes later takes the place of what came before: the longest stays, of equals the first in time.
    longest = dict(zip(key.tolist(), order.tolist(), strict=True))
    names = [None if code < 0 else texts[code] for code in (number >> 32 for number in longest)]
    bounds = [BoundBy(number & 0xFFFFFFFF).label for number in longest]
    piece = dict(zip(zip(names, bounds, strict=True), longest.values(), strict=True))
    rows = [piece[found] for found in zip(totals["name"], totals["bound_by"], strict=True)]
    indices = take_or(events.index, pieces.event[rows]).tolist()
    return [
        timeline.link(int(pieces.start[row]), int(pieces.end[row]), index if index >= 0 else None)
        for row, index in zip(rows, indices, strict=True)
    ]


def gap_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link the longest idle gaps."""
    frame = found.tables["longest_gaps"]
    start = scope.start_ns + frame["offset_ns"]
    return time_range_links(frame.assign(start_ns=start, end_ns=start + frame["idle_ns"]), scope.rank, timeline)


def event_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link exposed communication kernels by their event numbers."""
    frame = found.tables["most_exposed"]
    rows = _rows_by_index(scope)
    return [
        _event_link(scope, timeline, rows.get(index, -1) if rank == scope.rank else -1)
        for rank, index in zip(frame["rank"].tolist(), frame["event_index"].tolist(), strict=True)
    ]


def longest_run_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link the names of kernels to their longest runs."""
    table, work = scope.graph.event_table, scope.work
    order = np.argsort(work.start - work.end, kind="stable")[::-1]
    # What comes later takes the place of what came before: the longest stays, of equals the first in time.
    longest = dict(zip(table.name[work.row[order]].tolist(), work.row[order].tolist(), strict=True))
    by_name = {scope.graph.names[code]: row for code, row in longest.items()}
    return [_event_link(scope, timeline, by_name.get(name, -1)) for name in found.tables["kernels"]["kernel"]]


def collective_links(found: Answer, scope: Scope, timeline: TimelinePage) -> list[str]:
    """Link collectives to this rank's kernel in each."""
    members = found.series["members"]
    own = members[(members["rank"] == scope.rank) & members["number"].notna()]
    index = dict(zip(own["number"].tolist(), own["event_index"].tolist(), strict=True))
    rows = _rows_by_index(scope)
    numbers = found.tables["collectives"]["number"].tolist()
    return [_event_link(scope, timeline, rows.get(index.get(number, -1), -1)) for number in numbers]


def _rows_by_index(scope: Scope) -> dict[int, int]:
    """Return the canonical row of each event number of a scope's running work."""
    return dict(zip(scope.graph.event_table.index[scope.running.row].tolist(), scope.running.row.tolist(), strict=True))


def _event_link(scope: Scope, timeline: TimelinePage, row: int) -> str:
    """Link an event by its canonical row; -1 leads nowhere."""
    if row < 0:
        return ""
    table = scope.graph.event_table
    return timeline.link(int(table.start[row]), int(table.end[row]), int(table.index[row]))


OVERLAPPED = "#f3c8a1"
"""Overlapped communication: a tint of the color of communication."""
TYPE_COLOUR = {kind.label: COLOUR[kind.label] for kind in WorkType}
Links = Callable[[Answer, Scope, "TimelinePage"], list[str]]


@dataclass(frozen=True)
class ReportTable:
    """A table of an answer: its bars and its links.

    ``parts`` are the columns of times that make a row's bar, each with its heading and color; ``whole`` is the column
    that they are parts of; without one all bars are compared with the largest. Where ``coloured_by`` names a column,
    a bar has the color of the type of work, class or cause in it. ``share_of`` says of what percentages are, where the
    page must be more exact than a terminal.
    """

    name: str
    parts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    whole: str = ""
    coloured_by: str = ""
    links: Links | None = None
    share_of: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportPart:
    """A section that one analysis answers with some of its tables: about every rank, or about the one in detail.

    ``takes_all``: it needs all ranks of the job. ``options`` are those of the analysis.
    """

    title: str
    analysis: str
    meaning: str
    tables: tuple[ReportTable, ...]
    every_rank: bool = False
    takes_all: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


PARTS = (
    ReportPart(
        "GPU time",
        "temporal-breakdown",
        "Compute time, exposed communication and copies, and idle time.",
        (
            ReportTable(
                "temporal_breakdown",
                {
                    "compute_ns": ("compute", COLOUR["compute"]),
                    "exposed_communication_ns": ("exposed communication", COLOUR["communication"]),
                    "exposed_memory_ns": ("exposed memory", COLOUR["memory"]),
                    "idle_ns": ("idle", IDLE_COLOUR),
                },
                "window_ns",
            ),
        ),
        every_rank=True,
    ),
    ReportPart(
        "Kernels",
        "kernel-breakdown",
        "GPU time by type of work, and the longest kernels. A name links to its longest run.",
        (
            ReportTable(
                "kernel_types",
                {"time_ns": ("time", NEUTRAL_COLOUR)},
                coloured_by="kernel_type",
                share_of={"time_share": "the GPU's busy time in the window"},
            ),
            ReportTable(
                "kernels",
                {"sum_ns": ("sum", NEUTRAL_COLOUR)},
                coloured_by="kernel_type",
                links=longest_run_links,
                share_of={"time_share": "all GPU time launched in the window"},
            ),
        ),
        options={"duration_ratio": 1.0, "num_kernels": MOST_ROWS},
    ),
    ReportPart(
        "Roofline",
        "roofline",
        "Operator throughput for the recorded shapes, and what the window loses against the peak.",
        (
            ReportTable("roofline"),
            ReportTable("losses", {"time_ns": ("time", NEUTRAL_COLOUR)}, coloured_by="cause"),
            ReportTable("collective_rates"),
        ),
    ),
    ReportPart(
        "GPU idle time",
        "idle-time",
        "The cause of each gap between GPU activities.",
        (
            ReportTable("idle_time", {"idle_ns": ("idle", IDLE_COLOUR)}, coloured_by="cause"),
            ReportTable("waits", {"idle_ns": ("idle", IDLE_COLOUR)}, coloured_by="cause"),
            ReportTable("longest_gaps", links=gap_links),
        ),
    ),
    ReportPart(
        "Communication overlap",
        "overlap",
        "How much communication overlaps with compute, and which collectives are exposed.",
        (
            ReportTable(
                "overlap",
                {
                    "overlapped_communication_ns": ("overlapped communication", OVERLAPPED),
                    "exposed_communication_ns": ("exposed communication", COLOUR["communication"]),
                },
            ),
            ReportTable("most_exposed", links=event_links),
        ),
        every_rank=True,
    ),
    ReportPart(
        "Collectives",
        "collectives",
        "The rank that arrives last at each collective, and how long the others wait.",
        (
            ReportTable(
                "ranks",
                {"wait_ns": ("wait", WAITING_COLOUR), "transfer_ns": ("transfer", COLOUR["communication"])},
            ),
            ReportTable("collectives", links=collective_links),
        ),
        every_rank=True,
        takes_all=True,
    ),
    ReportPart(
        "Launches",
        "launch-stats",
        "The duration of launch calls, and the delay until their kernels start.",
        (ReportTable("launch_stats"),),
    ),
)


def part_section(scopes: Sequence[Scope], part: ReportPart, timeline: TimelinePage, rank: int) -> Section:
    """Ask one analysis; an error is printed on the page."""
    scope = next(scope for scope in scopes if scope.rank == rank)
    chosen = scopes if part.every_rank else [scope]
    title = part.title if len(chosen) == len(scopes) else title_of_rank(part.title, rank)
    try:
        found = catalogue.analysis(part.analysis).answer_about(chosen, **part.options).on_command_line()
    # One analysis that cannot answer must not cost the reader all the others.
    except HtaGraphError as error:
        return Section(title, part.meaning, notes=[sentence(str(error))])
    tables = [_section_table(shown, found, scope, timeline) for shown in part.tables if len(found.tables[shown.name])]
    lines = [line for line in (*found.headline, *found.closing) if not is_about_options(line)]
    notes = [sentence(without_commands(line)) for line in lines]
    if len(chosen) > 1 and not part.takes_all:
        notes = _detailed_rank_first(part, scope, notes)
    return Section(title, part.meaning, tables, notes, labels=short_labels(scope.graph))


def _detailed_rank_first(part: ReportPart, scope: Scope, notes: Sequence[str]) -> list[str]:
    """Begin with the conclusion about the rank in detail; the first one about all ranks names another."""
    own = catalogue.analysis(part.analysis).answer_about([scope], **part.options).on_command_line()
    if not own.conclusion or not notes:
        return list(notes)
    first, *others = notes
    said = sentence(without_commands(own.conclusion[0]))
    return [
        _about_rank(scope.rank, said),
        f"All ranks: {first.replace('The ', 'the ', 1) if first.startswith('The ') else first}",
        *others,
    ]


def _about_rank(rank: int, text: str) -> str:
    """Begin a conclusion with the rank that it is about.

    >>> _about_rank(1, "The GPU computes 68% of the time."), _about_rank(1, "11% of communication is exposed.")
    ('Rank 1: the GPU computes 68% of the time.', 'Rank 1: 11% of communication is exposed.')
    """
    return f"Rank {rank}: {text.replace('The ', 'the ', 1) if text.startswith('The ') else text}"


def _section_table(shown: ReportTable, found: Answer, scope: Scope, timeline: TimelinePage) -> SectionTable:
    """Give a table its bars and links."""
    frame = found.tables[shown.name]
    links = shown.links(found, scope, timeline) if shown.links else []
    if len(shown.parts) == 1:
        # Rows are in the order of their bars: at first a reader sees the first ones only.
        order = np.argsort(-frame[next(iter(shown.parts))].to_numpy(), kind="stable")
        frame, links = frame.iloc[order].reset_index(drop=True), [links[at] for at in order] if links else []
    keys = {f"{label} ms": colour for label, colour in shown.parts.values()} if len(shown.parts) > 1 else {}
    title, share_of = capitalized(found.title_of(shown.name)), shown.share_of or SHARE_OF.get(shown.name, {})
    return SectionTable(title, frame, _row_bars(shown, frame), links, keys=keys, share_of=share_of)


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
                (label, int(ns), TYPE_COLOUR.get(kind) or colour_of(str(kind)) or colour)
                for ns, (label, colour) in zip(row, shown.parts.values(), strict=True)
            ],
            of,
        )
        for row, of, kind in zip(times.itertuples(index=False, name=None), whole, kinds, strict=True)
    ]


MOST_RANKS = 200
"""How many ranks and hosts are listed with the path of a job."""


def is_of_rank(job: CriticalPath, path: CriticalPath) -> bool:
    """Return whether the path of a job is that of one rank, so that a page lists it once."""
    return job.by_bound_ns == path.by_bound_ns


def job_section(
    path: CriticalPath,
    causes: pd.DataFrame | None = None,
    detailed: CriticalPath | None = None,
    timeline: TimelinePage | None = None,
) -> Section:
    """Return the section on the path of a job through its ranks.

    Args:
        path: the job's.
        causes: the table of the causes of waiting, the largest first.
        detailed: the path of the rank that is shown in detail.
        timeline: that rank's; the items of the path link to it if the path is that rank's.
    """
    ranks = _ranks_on_path(path)
    items = (
        linked_items(detailed, LARGEST_ITEMS, timeline)
        if detailed and timeline and is_of_rank(path, detailed)
        else _item_table(path)
    )
    tables = [class_table(path, TIME_BY_CLASS), *_rank_tables(path, ranks), items]
    if causes is not None:
        tables.append(SectionTable("Causes of waiting (sums over the ranks that waited)", causes))
    notes = [sentence(line) for line in missing_lines(path.window)]
    meaning = _job_path_meaning(len(crossings(path)))
    if len(ranks) == 1:
        only = ranks.iloc[0]
        waited = brief_duration(int(only["others_wait_ns"])) if only["others_wait_ns"] else ""
        meaning = _job_path_meaning(0, int(only["rank"]), waited)
    return Section("Critical path of the job", meaning, tables, notes, labels=short_labels(path.graph))


def _job_path_meaning(changes: int, rank: int | None = None, others_wait: str = "") -> str:
    """Explain the path of a job; ``rank`` is the only one on it, for which the others wait."""
    often = {0: "It stays on one rank.", 1: "It changes rank once."}.get(changes, f"It changes rank {changes:,} times.")
    if rank is not None:
        often = f"All of it is on rank {rank}."
        often += f" The other ranks wait {others_wait} for it." if others_wait else ""
    return (
        "The chain of work through all ranks that determines the length of the window. At a collective it continues on "
        f"the rank that arrives last, so it contains no waiting for other ranks. {often}"
    )


def class_table(path: CriticalPath, title: str) -> SectionTable:
    """List the classes of a path, the longest first, with their meanings."""
    meanings, length = class_meanings(path.graph), max(path.length_ns, 1)
    rows = [
        {"class": bound, "time_ns": ns, "path_share": ns / length, "meaning": meanings[bound]}
        for bound, ns in sorted(path.by_bound_ns.items(), key=lambda item: -item[1])
        if ns
    ]
    return SectionTable(title, pd.DataFrame(rows))


def _ranks_on_path(path: CriticalPath) -> pd.DataFrame:
    """Return the ranks on the path of a job or waited for: the time of the path on each, how long the job waits for it.

    Ranks with most of the path come first; the index is their place in the job.
    """
    parts = path.graph.rank_graphs
    hosts = path.graph.hosts
    rows = pd.DataFrame({
        "rank": [part.rank for part in parts],
        "host": [hosts.get(part.rank) for part in parts],
        "time_ns": [path.by_rank_ns[part.rank] for part in path.graph.rank_graphs],
        "others_wait_ns": [held.total for held in held_up_by(path)],
    })  # fmt: skip
    found = rows[(rows["time_ns"] > 0) | (rows["others_wait_ns"] > 0)]
    return found.sort_values(["time_ns", "others_wait_ns"], ascending=False, kind="stable")


def _rank_tables(path: CriticalPath, ranks: pd.DataFrame) -> list[SectionTable]:
    """List the ranks with most of the path, and the hosts; a single rank needs no table."""
    hosts = path.graph.hosts
    tables = [] if len(ranks) == 1 else [_rank_table(path, ranks if hosts else ranks.drop(columns="host"))]
    return [*tables, _host_table(path, hosts)] if len(set(hosts.values())) > 1 else tables


def _rank_table(path: CriticalPath, ranks: pd.DataFrame) -> SectionTable:
    """List ranks with the classes of the time on each as bars of one scale."""
    classes, pieces, labels = len(BoundBy), path.segment_table, short_labels(path.graph)
    keys = pieces.part.astype("int64") * classes + pieces.bound
    sums = summed_by(keys, pieces.length, len(path.graph.rank_graphs) * classes).reshape(-1, classes)
    listed, longest = ranks.head(MOST_RANKS), int(ranks["time_ns"].max())
    times = [{bound.label: int(ns) for bound, ns in zip(BoundBy, own, strict=True)} for own in sums[listed.index]]
    note = _ranks_left_out(len(ranks) - len(listed)) if len(listed) < len(ranks) else ""
    bars = [class_bar(own, longest, labels) for own in times]
    return SectionTable("Time on the critical path by rank", listed, bars, note=note)


def _ranks_left_out(count: int) -> str:
    """Say how many ranks a table leaves out.

    >>> _ranks_left_out(1_200)
    '1,200 further ranks, with less of the path, are not listed.'
    """
    return _left_out("rank", count)


def _left_out(noun: str, count: int) -> str:
    return f"{counted(count, f'further {noun}')}, with less of the path, {'is' if count == 1 else 'are'} not listed."


def _host_table(path: CriticalPath, hosts: Mapping[int, str]) -> SectionTable:
    """Add up ranks by host, and list the hosts with most of the path."""
    parts = [part.rank for part in path.graph.rank_graphs]
    rows = pd.DataFrame({
        "host": [hosts.get(rank) for rank in parts],
        "time_ns": [path.by_rank_ns[part.rank] for part in path.graph.rank_graphs],
        "others_wait_ns": [held.total for held in held_up_by(path)],
    })  # fmt: skip
    by_host = rows.groupby("host", sort=False)
    sums = by_host[["time_ns", "others_wait_ns"]].sum().assign(ranks=by_host.size())
    sums = sums[(sums["time_ns"] > 0) | (sums["others_wait_ns"] > 0)]
    most = sums.sort_values(["time_ns", "others_wait_ns"], ascending=False, kind="stable")
    listed = most.reset_index()[["host", "ranks", "time_ns", "others_wait_ns"]].head(MOST_RANKS)
    note = _left_out("host", len(most) - len(listed)) if len(listed) < len(most) else ""
    return SectionTable("Time on the critical path by host", listed, note=note)


def linked_items(path: CriticalPath, title: str, timeline: TimelinePage) -> SectionTable:
    """List what takes most of the path of a rank, linked to its timeline."""
    totals = path.event_totals()
    return SectionTable(title, _items(path, totals), links=longest_segments(path, totals, timeline))


def _item_table(path: CriticalPath) -> SectionTable:
    """List what takes most of the path of a job."""
    return SectionTable(LARGEST_ITEMS, _items(path, path.event_totals()))


def _items(path: CriticalPath, totals: Mapping[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(totals).fillna({"name": "(nothing recorded)"})
    frame["path_share"] = frame["time_ns"] / max(path.length_ns, 1)
    columns = ["time_ns", "path_share", "calls", "rank", "bound_by", "name"]
    return frame[[name for name in columns if name in frame]]
