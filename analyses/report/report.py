"""report: all answers about a run on one page, a summary first, then sections of sentences and tables."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import accumulate, repeat, takewhile
from typing import Any

import pandas as pd

from analyses.declare.scope import Scope, in_window, with_known_paths
from analyses.display.page import page_pieces, part_of
from analyses.display.phrases import OTHER_STEP
from analyses.display.sentence_format import brief_duration, enumerated
from analyses.report import sections
from analyses.report.engine_section import engine_sections
from analyses.report.gain_curves import worth_a_card
from analyses.report.job_window import is_shared, rank_windows, steps_on_rank
from analyses.report.opportunities import gain_sections, gains_of
from analyses.report.page_labels import (
    LARGEST_ITEMS,
    SAVINGS,
    TIME_BY_CLASS,
    run_name,
    sentence,
    steps_left_out,
    title_of_rank,
)
from analyses.report.page_tables import MOST_ROWS, Section, SectionTable, class_bar, class_legend
from analyses.report.sections import PARTS, ReportPart, class_table, is_of_rank, job_section, linked_items, part_section
from analyses.report.summary import Summary, detailed_rank, summary_of
from analyses.report.timeline import SCRIPTS, TimelinePage, steps_on_page, timeline_page
from analyses.source.window_facts import DefaultWindow, delaying_rank, short_labels
from analyses.source.window_report import default_lines, rows_after_lines, window_name
from hta_graph.base.progress import begin_stage
from hta_graph.paths.critical_path import CriticalPath, critical_path
from hta_graph.paths.step_table import StepRow, notable_steps, step_rows
from hta_graph.paths.windows import Window, step_lengths

TIMELINE = "Timeline"
PATH_MEANING = "The chain of work that determines the length of the window. Its parts add up to the window exactly."
NO_GPU = (
    "No GPU activity was recorded. To analyze the GPU, record with ProfilerActivity.CUDA and profile steps that launch "
    "kernels."
)
OTHER_STEP_ON_PAGE = "for another, run hta-graph report INPUT --step N"

MOST_BYTES = 990_000
"""A page is below 1 MB."""
ROWS_TRIED = [*takewhile(bool, accumulate(repeat(MOST_ROWS), lambda rows, _: rows * 4 // 5))]
"""How many rows of each table a page may show."""


def page(
    summary: Summary, sections: Sequence[Section], timeline: TimelinePage | None = None, overlay: str = ""
) -> bytes:
    """Return the page, with as many rows of each table as fit. ``overlay`` is the address of a file to offer."""
    around = page_pieces(
        "report.html",
        scripts=(*SCRIPTS, "tables.js") if timeline else ("tables.js",),
        title=summary.title,
        summary=summary,
        sections=sections,
        timeline=timeline,
        timeline_classes=True,
        overlay=overlay,
    )
    printed = [section.printed(MOST_ROWS) for section in sections]
    table_of = cache(lambda table, rows: part_of("table.html", table=table.shown(rows)).encode("utf-8", "replace"))

    def with_rows(rows: int) -> bytes:
        tables = [b"".join(table_of(table, min(rows, table.rows)) for table in own) for own in printed]
        return b"".join(piece for pair in zip(around, [*tables, b""], strict=True) for piece in pair)

    def size_guessed(rows: int) -> int:
        every = (table for own in printed for table in own if table.rows)
        return sum(map(len, around)) + sum(
            len(table_of(table, table.rows)) * min(rows, table.rows) // table.rows for table in every
        )

    made = with_rows(MOST_ROWS)
    if len(made) <= MOST_BYTES:
        return made
    # With fewer rows a page is shorter: what fits by a guess from the longest page is nearly right.
    place = bisect_left(ROWS_TRIED, -MOST_BYTES, 1, key=lambda rows: -size_guessed(rows))
    place = min(place, len(ROWS_TRIED) - 1)
    while place > 1 and len(with_rows(ROWS_TRIED[place - 1])) <= MOST_BYTES:
        place -= 1
    while place < len(ROWS_TRIED) - 1 and len(with_rows(ROWS_TRIED[place])) > MOST_BYTES:
        place += 1
    return with_rows(ROWS_TRIED[place])


UNEXPLAINED_LISTED = 3
"""How many intervals without a cause are listed per rank."""
MUCH_UNEXPLAINED, MOST_NAMED_STEPS = 0.2, 10
"""From which unexplained share on steps are named, and how many of them."""
STEPS = 500
"""How many steps are listed one by one."""


def report_page(
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    *,
    overlay: str = "",
    steps: Sequence[StepRow] = (),
    job: CriticalPath | None = None,
    causes: pd.DataFrame | None = None,
    data_load: Sequence[str] = (),
) -> bytes:
    """Return the page about a window.

    Args:
        scopes: one per rank, what the analyses look at.
        paths: the critical path of each rank.
        overlay: the address of a file with the path on top of the trace, to link.
        steps: the table of steps of the job, without one of the rank (:func:`steps_of_report`).
        job: the critical path through all ranks.
        causes: the causes of waiting, listed with the path of the job.
        data_load: as for :func:`hta_graph.critical_path`.
    """
    if job is not None:
        scopes, paths = over_window_of_job(job, scopes, paths, data_load)
    # What is data loading to the paths, no analysis knows.
    scopes = scopes if data_load else with_known_paths(scopes, paths)
    rank = detailed_rank(paths, job)
    path, own_steps = job or paths[rank], timeline_steps(job, paths[rank], rank, steps, data_load)
    begin_stage(_stage(TIMELINE))
    timeline = timeline_page(paths[rank], own_steps)
    begin_stage(_stage(SAVINGS))
    gains, failure = gains_of(path)
    sections = [
        *([job_section(job, causes, paths[rank], timeline)] if job else []),
        _path_section(paths, timeline, rank, job, same_window=is_shared(job)),
        *gain_sections(path, gains, failure),
        _timeline_section(paths, rank),
        *steps_section(path, steps, None if job or len(paths) == 1 else rank, None if job else timeline),
        *_further_sections(scopes, paths, timeline, rank, PARTS),
    ]
    chosen = [gain.chosen for gain in gains.drawn] if gains else []
    window = paths[rank].window
    link = timeline.link(window.start_ns, window.end_ns)
    begin_stage(_stage("Next actions"))
    summary = summary_of(path, _name_of_run(paths), worth_a_card(chosen), link=link)
    return page(summary, sections, timeline, overlay)


def over_window_of_job(
    job: CriticalPath, scopes: Sequence[Scope], paths: Mapping[int, CriticalPath], data_load: Sequence[str]
) -> tuple[Sequence[Scope], Mapping[int, CriticalPath]]:
    """Return the scopes and paths of the ranks over the step of the job; as they are for another window."""
    graphs = {rank: path.graph for rank, path in paths.items()}
    windows = rank_windows(job, graphs)
    if not windows:
        return scopes, paths
    moved = {rank: critical_path(graphs[rank], window, data_load=data_load) for rank, window in windows.items()}
    return [in_window(rank, graphs[rank], window) for rank, window in windows.items()], moved


def timeline_steps(
    job: CriticalPath | None,
    path: CriticalPath,
    rank: int,
    steps: Sequence[StepRow],
    data_load: Sequence[str] = (),
) -> list[StepRow]:
    """Return the steps that the timeline of a rank can show: of a job its steps on that rank."""
    if job is None:
        return list(steps)
    near = steps_on_page(job)
    return steps_on_rank([row for row in steps if row.step in near], path.graph, rank, data_load)


def rank_sections(
    job: CriticalPath,
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    steps: Sequence[StepRow],
    first: int,
) -> tuple[list[Section], TimelinePage]:
    """Return the sections about some of a job's ranks, and the timeline of the first with its steps."""
    timeline = timeline_page(paths[first], steps)
    parts = [part for part in PARTS if not part.takes_all]
    sections = [
        _path_section(paths, timeline, first, job, same_window=is_shared(job)),
        _timeline_section(paths, first),
        *_further_sections(scopes, paths, timeline, first, parts),
    ]
    return sections, timeline


def _further_sections(
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    timeline: TimelinePage,
    rank: int,
    parts: Sequence[ReportPart],
) -> list[Section]:
    """Return the sections below the timeline: an engine's steps, the GPU, unexplained time, the export."""
    return [
        *engine_sections({of: path.graph for of, path in paths.items()}, rank, timeline),
        *_gpu_sections(scopes, timeline, rank, parts),
        _unexplained_section(paths, timeline, rank),
        Section(
            "Open in Perfetto",
            "The trace with the critical path on top opens in ui.perfetto.dev.",
            template="overlay_part.html",
        ),
    ]


def steps_of_report(path: CriticalPath, data_load: Sequence[str] | None = None) -> list[StepRow]:
    """Return the steps that a report lists with a path that is a step's; of many the outliers and the first."""
    if path.window.step is None:
        return []
    begin_stage(_stage("Steps"))
    listed = notable_steps(path.graph, path.window.step, STEPS) | steps_on_page(path)
    return step_rows(path.graph, data_load or (), listed)


def _name_of_run(paths: Mapping[int, CriticalPath]) -> str:
    """Name the file, also one with multiple ranks, or the folder of many."""
    files = {path.graph.path for path in paths.values()}
    name = next(iter(paths.values())).graph.path
    folder = name.parent.name
    return run_name(folder if len(files) > 1 else f"{folder}/{name.name}" if folder else name.name, len(paths))


def _path_section(
    paths: Mapping[int, CriticalPath],
    timeline: TimelinePage,
    rank: int,
    job: CriticalPath | None = None,
    *,
    same_window: bool = False,
) -> Section:
    """Return the critical paths: the classes of one rank's, which explain all colors, the ranks, the largest items."""
    path, several = paths[rank], len(paths) > 1
    of_rank = rank if several else None
    tables = [_rank_table(paths)] if several else []
    # The path of a job may be that of one rank: it is listed once.
    if job is None or not is_of_rank(job, path):
        tables.append(class_table(path, title_of_rank(TIME_BY_CLASS, of_rank)))
        tables.append(linked_items(path, title_of_rank(LARGEST_ITEMS, of_rank), timeline))
    meaning = PATH_MEANING
    if several:
        meaning = _ranks_meaning(path.window, path.length_ns, same_window=same_window)
    notes = [sentence(f"rank {of}: {line}") for of, one in paths.items() for line in rows_after_lines(one.window)]
    title = "Ranks" if several else "Critical path"
    return Section(title, meaning, tables, notes, labels=short_labels(path.graph))


def _ranks_meaning(window: Window, length_ns: int, *, same_window: bool) -> str:
    """Explain the table of ranks."""
    name = window_name(window)
    if same_window:
        return f"Every rank is analyzed over {name} of the job ({brief_duration(length_ns)})."
    return f"Every rank is analyzed over its own {name}." if window.step is not None else "One row per rank."


def _rank_table(paths: Mapping[int, CriticalPath]) -> SectionTable:
    """Compare the ranks' paths; all bars have one scale."""
    lengths = {path.length_ns for path in paths.values()}
    rows = [
        {"rank": rank, "window_ns": path.length_ns, "bound_by": max(path.by_bound_ns, key=path.by_bound_ns.__getitem__),
         "explained_share": path.coverage}
        for rank, path in paths.items()
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    bars = [class_bar(path.by_bound_ns, max(lengths), short_labels(path.graph)) for path in paths.values()]
    # One length for all is said above the table.
    return SectionTable(
        "Critical path of each rank",
        frame.drop(columns="window_ns") if len(lengths) == 1 else frame,
        bars,
        legend=class_legend(path.by_bound_ns for path in paths.values()),
    )


def _timeline_section(paths: Mapping[int, CriticalPath], rank: int) -> Section:
    """Return the lanes of one rank."""
    several = len(paths) > 1
    title = title_of_rank(TIMELINE, rank if several else None)
    other = " For another rank, run hta-graph timeline INPUT --rank N -o FILE.html." if several else ""
    return Section(title, f"Names in the tables link to their place here.{other}", template="timeline_part.html")


def steps_section(
    path: CriticalPath, steps: Sequence[StepRow], rank: int | None, timeline: TimelinePage | None = None
) -> list[Section]:
    """Return the table of steps, where the window was chosen by default; rows link to the timeline that has them."""
    if not path.window.is_default:
        return []
    chosen = str(default_lines(DefaultWindow.of(path.window, path.graph))[0])
    chosen = sentence(_on_page(chosen, OTHER_STEP))
    if not steps:
        return [Section("Steps", chosen)]
    rows = [
        {"step": row.step, "iteration_ns": row.iteration_ns, "latency_ns": row.latency_ns, "bound_by": row.bound_by,
         "delayed_by": None if rank is None else f"rank {rank}", "outlier": row.outlier or ""}
        for row, rank in ((row, delaying_rank(row.path)) for row in steps)
    ]  # fmt: skip
    frame = pd.DataFrame(rows)
    is_job = path.graph.is_job
    # The iterations of a job tile its run; a latency over all ranks would be a second length of the same step.
    frame = frame.drop(columns="latency_ns") if is_job else frame
    frame = frame if frame["outlier"].any() else frame.drop(columns="outlier")
    longest = max(row.path.length_ns for row in steps)
    bars = [class_bar(row.path.by_bound_ns, longest, short_labels(row.path.graph)) for row in steps]
    links = [timeline.link(row.path.window.start_ns, row.path.window.end_ns) for row in steps] if timeline else []
    hidden = len(step_lengths(path.graph)) - len(rows)
    notes = [steps_left_out(hidden)] if hidden else []
    labels = short_labels(path.graph)
    legend = class_legend((row.path.by_bound_ns for row in steps), labels)
    table = SectionTable(title_of_rank("Length of each step", rank), frame, bars, links, legend=legend)
    red = [f"{row.step}" for row in steps if row.path.coverage < 1 - MUCH_UNEXPLAINED]
    notes += [_mostly_unexplained(red)] if 0 < len(red) <= MOST_NAMED_STEPS else []
    meaning = f"{chosen} Iteration: from the end of the previous step's work to the end of this step's work."
    meaning = meaning if is_job else f"{meaning} Latency: from the start of the step to the end of its last work."
    return [Section("Steps", meaning, [table], notes, labels=labels)]


def _on_page(text: str, terminal_remedy: str) -> str:
    """Word a sentence about the window for a page, where options need their command.

    >>> _on_page("No steps. Use --annotation x for one of 3.", "")
    'No steps. Run hta-graph report INPUT --annotation x for one of 3.'
    """
    said = text.replace(terminal_remedy, OTHER_STEP_ON_PAGE) if terminal_remedy else text
    return said.replace(" Use --", " Run hta-graph report INPUT --")


def _mostly_unexplained(steps: Sequence[str]) -> str:
    """Explain bars that are largely red."""
    many, verb = ("Steps", "have") if len(steps) > 1 else ("Step", "has")
    return (
        f"{many} {enumerated(steps)} {verb} much unexplained time (red): the trace records no cause for it, often "
        "because the work was enqueued before the recording started."
    )


def _gpu_sections(
    scopes: Sequence[Scope], timeline: TimelinePage, rank: int, parts: Sequence[ReportPart]
) -> list[Section]:
    """Ask all questions about the GPU, or say once that none was recorded."""
    if not any(scope.graph.is_gpu.any() for scope in scopes):
        return [Section("GPU", "", notes=[NO_GPU])]
    found = []
    for part in parts:
        begin_stage(_stage(part.title))
        found.append(part_section(scopes, part, timeline, rank))
    return found


def _stage(title: str) -> str:
    """Name the section that is being made, on the line of progress."""
    return f"writing the report: {title}"


def _unexplained_section(paths: Mapping[int, CriticalPath], timeline: TimelinePage, rank: int) -> Section:
    """List the time without a cause, and what was repaired or dropped."""
    shown = ["rank", "length_ns", "reason", "while_in", "before"]
    frame = _longest_unexplained(paths)
    counts = [
        {"rank": of, "count": count, "diagnostic": key}
        for of, path in paths.items()
        for key, count in path.graph.diagnostics.items()
        if count
    ]
    links = sections.time_range_links(frame, rank, timeline)
    tables = [
        SectionTable("Longest unexplained intervals", frame[shown], links=links),
        SectionTable("Repaired, dropped or unresolved", pd.DataFrame(counts, columns=["rank", "count", "diagnostic"])),
    ]
    notes = [] if len(frame) else ["Unexplained: 0 ms."]
    return Section(
        "Unexplained time",
        "Time without a recorded cause, and what was repaired or dropped while reading.",
        tables,
        notes,
    )


def _longest_unexplained(paths: Mapping[int, CriticalPath]) -> pd.DataFrame:
    """Return the longest unexplained intervals of every rank, the longest first."""
    columns = ["start_ns", "end_ns", "length_ns", "reason", "while_in", "before"]
    rows: list[dict[str, Any]] = []
    for rank, path in paths.items():
        found = path.unexplained.assign(length_ns=path.unexplained["end_ns"] - path.unexplained["start_ns"])
        longest = found.nlargest(UNEXPLAINED_LISTED, "length_ns").fillna(
            {"while_in": "(no open call)", "before": "the end of the window"}
        )
        rows += [{"rank": rank, **{column: getattr(row, column) for column in columns}} for row in longest.itertuples()]
    frame = pd.DataFrame(rows, columns=["rank", *columns])
    return frame.sort_values("length_ns", ascending=False, kind="stable", ignore_index=True)
