"""report: all answers about a run on one page, a verdict and sections of sentences and tables around one timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from analyses.advice.verdict import representative_rank, verdict
from analyses.display.labels import MEANING
from analyses.display.page import page_of
from analyses.report import sections
from analyses.report.opportunities import gain_sections
from analyses.report.page_tables import Section, SectionTable, class_bar
from analyses.report.sections import PARTS, ReportPart, job_section, part_section
from analyses.report.timeline import SCRIPTS, TimelinePage, steps_on_page, timeline_page
from analyses.scope import Scope
from analyses.window_report import default_lines, rows_after_lines
from hta_graph.colours import BOUND_COLOUR
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.step_table import StepRow, notable_steps, step_rows
from hta_graph.paths.windows import step_lengths


def page(
    title: str,
    verdict: Sequence[str],
    sections: Sequence[Section],
    timeline: TimelinePage | None = None,
    overlay: str = "",
) -> bytes:
    """Return the page. ``overlay`` is the address of a file to offer."""
    return page_of(
        "report.html",
        scripts=(*SCRIPTS, "tables.js") if timeline else ("tables.js",),
        title=title,
        verdict=verdict,
        sections=sections,
        timeline=timeline,
        overlay=overlay,
    )


UNEXPLAINED_LISTED = 3
"""How many stretches without a cause are listed of each rank."""
STEPS = 500
"""How many steps are listed one by one."""


def report_page(
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    *,
    overlay: str = "",
    steps: Mapping[int, Sequence[StepRow]] | None = None,
    job: CriticalPath | None = None,
    causes: pd.DataFrame | None = None,
) -> bytes:
    """Return the page about the chosen stretch of each rank.

    Args:
        scopes: one per rank, what the analyses look at.
        paths: the critical path of each rank.
        overlay: the address of a file with the path on top of the trace, to link.
        steps: of ranks whose window is a step the table of steps (:func:`steps_of_report`).
        job: the critical path through all ranks.
        causes: what ranks made others wait with, to be listed beside it.
    """
    # The whole job waits for the slowest rank: where one rank is enough, it is that.
    slowest = representative_rank(paths, job)
    own_steps = (steps or {}).get(slowest, ())
    timeline = timeline_page(paths[slowest], own_steps)
    sections = [
        *([job_section(job, causes)] if job else []),
        _path_section(paths, own_steps, timeline, slowest),
        *gain_sections(job or paths[slowest]),
        _timeline_section(paths, slowest),
        *steps_section(paths[slowest], own_steps, f"rank {slowest}", timeline),
        *_further_sections(scopes, paths, timeline, slowest, PARTS),
    ]
    return page(f"Report of {_name_of_run(paths)}", verdict(paths, job), sections, timeline, overlay)


def rank_sections(
    scopes: Sequence[Scope], paths: Mapping[int, CriticalPath], steps: Sequence[StepRow], first: int
) -> tuple[list[Section], TimelinePage]:
    """Return the sections about some of a job's ranks, and the timeline of the first, whose table of steps is given."""
    timeline = timeline_page(paths[first], steps)
    parts = [part for part in PARTS if not part.takes_all]
    sections = [
        _path_section(paths, steps, timeline, first),
        _timeline_section(paths, first),
        *_further_sections(scopes, paths, timeline, first, parts),
    ]
    return sections, timeline


def _further_sections(
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    timeline: TimelinePage,
    slowest: int,
    parts: Sequence[ReportPart],
) -> list[Section]:
    """Show what stands below the timeline: the GPU, what is unexplained, where else to look."""
    look = "The path drawn on top of the trace opens in ui.perfetto.dev; the graph of it in any browser."
    return [
        *_gpu_sections(scopes, timeline, slowest, parts),
        _unexplained_section(paths, timeline, slowest),
        Section("Look at it in the trace", look, template="overlay_part.html"),
    ]


def steps_of_report(path: CriticalPath, data_load: Sequence[str] | None = None) -> list[StepRow]:
    """Return the steps that a report lists beside a path that is a step's; of many the outliers and the first."""
    if path.window.step is None:
        return []
    listed = notable_steps(path.graph, path.window.step, STEPS) | steps_on_page(path)
    return step_rows(path.graph, data_load or (), listed)


def _name_of_run(paths: Mapping[int, CriticalPath]) -> str:
    """Name the file, or the folder of several."""
    name = next(iter(paths.values())).graph.path
    if len(paths) == 1 and not name.parent.name:
        return name.name
    return f"{name.parent.name}/{name.name}" if len(paths) == 1 else f"{name.parent.name}, {len(paths)} ranks"


def _path_section(
    paths: Mapping[int, CriticalPath], steps: Sequence[StepRow], timeline: TimelinePage, slowest: int
) -> Section:
    """Show the critical paths: the slowest rank's classes, which explain all colours, the ranks, the largest items."""
    path = paths[slowest]
    of_rank = f", rank {slowest}" if len(paths) > 1 else ""
    drawn = [*paths.values(), *(row.path for row in steps)]
    tables = [_class_table(drawn, f"time on the path by class{of_rank}", path)]
    if len(paths) > 1:
        tables.append(_rank_table(paths))
    totals = path.event_totals()
    links = sections.longest_segments(path, totals, timeline)
    tables.append(SectionTable(f"what to look at first{of_rank}", _path_events(path, totals), links=links))
    meaning = "The chain of work that decided how long the window took; its parts add up to the window exactly."
    notes = [f"Rank {rank}: {line}" for rank, path in paths.items() for line in rows_after_lines(path.window)]
    return Section("Critical path" if len(paths) == 1 else "Critical paths of the ranks", meaning, tables, notes)


def _class_table(drawn: Sequence[CriticalPath], title: str, path: CriticalPath) -> SectionTable:
    """List the classes of all paths that are drawn, with the times of one, longest first: the legend of the page."""
    shown = [bound for bound in MEANING if any(other.by_bound_ns[bound] for other in drawn)]
    shown.sort(key=lambda bound: -path.by_bound_ns[bound])
    length = max(path.length_ns, 1)
    rows = [
        {"class": bound, "time_ns": path.by_bound_ns[bound], "path_share": path.by_bound_ns[bound] / length,
         "meaning": MEANING[bound]}
        for bound in shown
    ]  # fmt: skip
    return SectionTable(title, pd.DataFrame(rows), colours=[BOUND_COLOUR[bound] for bound in shown])


def _rank_table(paths: Mapping[int, CriticalPath]) -> SectionTable:
    """Compare the ranks' paths; all bars have one scale."""
    rows = [
        {"rank": rank, "window_ns": path.length_ns, "explained_share": path.coverage} for rank, path in paths.items()
    ]
    longest = max(path.length_ns for path in paths.values())
    bars = [class_bar(path.by_bound_ns, longest) for path in paths.values()]
    return SectionTable("the ranks' paths", pd.DataFrame(rows), bars)


def _path_events(path: CriticalPath, totals: Mapping[str, Any]) -> pd.DataFrame:
    """List what takes most of a path."""
    frame = pd.DataFrame(totals).fillna({"name": "(nothing recorded)"})
    frame["path_share"] = frame["time_ns"] / max(path.length_ns, 1)
    return frame[["time_ns", "path_share", "calls", "bound_by", "name"]]


def _timeline_section(paths: Mapping[int, CriticalPath], slowest: int) -> Section:
    """Show the lanes of the slowest rank."""
    title = "Timeline" if len(paths) == 1 else f"Timeline, rank {slowest}"
    others = (
        "" if len(paths) == 1 else " Another rank has its own page: hta-graph timeline INPUT --rank N -o FILE.html."
    )
    return Section(title, f"What ran when; names in the tables lead here.{others}", template="timeline_part.html")


def steps_section(
    path: CriticalPath, steps: Sequence[StepRow], whose: str, timeline: TimelinePage | None = None
) -> list[Section]:
    """Show the steps beside the one that was chosen, where nobody named a window.

    ``whose`` they are is said; rows lead to the timeline that holds them.
    """
    if not path.window.is_default:
        return []
    chosen = str(default_lines(path.window, path.graph, steps)[0])
    if not steps:
        return [Section("Which step this is about", chosen)]
    rows = [
        {"step": row.step, "iteration_ns": row.iteration_ns, "latency_ns": row.latency_ns, "bound_by": row.bound_by,
         "held_up_by": None if row.held_up_by is None else f"rank {row.held_up_by}", "outlier": row.outlier or ""}
        for row in steps
    ]  # fmt: skip
    longest = max(row.path.length_ns for row in steps)
    bars = [class_bar(row.path.by_bound_ns, longest) for row in steps]
    links = [timeline.link(row.path.window.start_ns, row.path.window.end_ns) for row in steps] if timeline else []
    meaning = (
        f"{chosen} It stands for the run. An iteration goes from the end of the work before the step to that of its "
        "own, a latency from its start to the end of its last work."
    )
    title, notes = f"all steps of {whose}", []
    if more := len(step_lengths(path.graph)) - len(rows):
        title = f"{len(rows):,} steps of {whose}"
        notes = [f"{more:,} usual steps more are not listed; hta-graph critical-path --per-step lists all."]
    table = SectionTable(title, pd.DataFrame(rows), bars, links)
    return [Section("Which step this is about", meaning, [table], notes)]


def _gpu_sections(
    scopes: Sequence[Scope], timeline: TimelinePage, slowest: int, parts: Sequence[ReportPart]
) -> list[Section]:
    """Ask all questions about the GPU, or say once that none was recorded."""
    if not any(scope.graph.is_gpu.any() for scope in scopes):
        return [Section("The GPU", "", notes=[scope.missing() for scope in scopes])]
    return [part_section(scopes, part, timeline, slowest) for part in parts]


def _unexplained_section(paths: Mapping[int, CriticalPath], timeline: TimelinePage, slowest: int) -> Section:
    """List the stretches without a cause, and what was repaired or dropped."""
    shown = ["rank", "length_ns", "reason", "while_in", "before"]
    frame = _longest_unexplained(paths)
    counts = [
        {"rank": rank, "count": count, "diagnostic": key}
        for rank, path in paths.items()
        for key, count in path.graph.diagnostics.items()
        if count
    ]
    links = sections.time_range_links(frame, slowest, timeline)
    tables = [
        SectionTable("longest stretches without a cause", frame[shown], links=links),
        SectionTable(
            "what was repaired, dropped or left open", pd.DataFrame(counts, columns=["rank", "count", "diagnostic"])
        ),
    ]
    notes = [] if len(frame) else [f"Nothing: every nanosecond of {_rank_names(paths)} has a cause."]
    return Section(
        "What is unexplained", "Time for which the trace shows no cause, and what was unsound.", tables, notes
    )


def _rank_names(paths: Mapping[int, CriticalPath]) -> str:
    return "the critical path" if len(paths) == 1 else "the critical paths of the single ranks"


def _longest_unexplained(paths: Mapping[int, CriticalPath]) -> pd.DataFrame:
    """Return the longest unexplained stretches of every rank, the longest first."""
    columns = ["start_ns", "end_ns", "length_ns", "reason", "while_in", "before"]
    rows: list[dict[str, Any]] = []
    for rank, path in paths.items():
        found = path.unexplained.assign(length_ns=path.unexplained["end_ns"] - path.unexplained["start_ns"])
        longest = found.nlargest(UNEXPLAINED_LISTED, "length_ns").fillna(
            {"while_in": "(nothing open)", "before": "the end of the window"}
        )
        rows += [{"rank": rank, **{column: getattr(row, column) for column in columns}} for row in longest.itertuples()]
    frame = pd.DataFrame(rows, columns=["rank", *columns])
    return frame.sort_values("length_ns", ascending=False, kind="stable", ignore_index=True)
