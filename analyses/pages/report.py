"""report: all answers about a run on one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from analyses import catalogue
from analyses.catalogue import Analysis
from analyses.display.charts import BOUND_COLOUR, new_figure
from analyses.display.window_text import default_lines, rows_after_lines
from analyses.display.words import MEANING
from analyses.pages.report_page import Section, page
from analyses.paths.verdict import verdict
from analyses.scope import Scope
from hta_graph.algorithms.time.critical_path import CriticalPath
from hta_graph.algorithms.time.step_table import StepRow
from hta_graph.errors import HtaGraphError

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["report_page"]


@dataclass(frozen=True)
class ReportPart:
    """A section that one analysis answers with some of its tables: about every rank, or about the slowest one."""

    title: str
    analysis: Analysis[Any]
    meaning: str
    tables: tuple[str, ...]
    every_rank: bool = False


PARTS = (
    ReportPart(
        "Where the GPU's time goes",
        catalogue.temporal_breakdown,
        "Compute, communication and copies that nothing hides, and idle time.",
        ("temporal_breakdown",),
        every_rank=True,
    ),
    ReportPart(
        "Top kernels",
        catalogue.kernel_breakdown,
        "GPU time by type of work, and the kernels that take most of it.",
        ("kernel_types", "kernels"),
    ),
    ReportPart(
        "Why the GPU is idle",
        catalogue.idle_time,
        "What each gap between GPU activities waited for.",
        ("idle_time", "waits", "longest_gaps"),
    ),
    ReportPart(
        "Communication and overlap",
        catalogue.overlap,
        "How much communication computation hides, and which collectives are exposed.",
        ("overlap", "most_exposed"),
        every_rank=True,
    ),
    ReportPart(
        "Ranks compared",
        catalogue.collectives,
        "Who comes last to each collective, and how long the others wait.",
        ("ranks", "collectives"),
        every_rank=True,
    ),
    ReportPart(
        "Launches",
        catalogue.launch_stats,
        "How long launch calls take, and how long their kernels then wait.",
        ("launch_stats",),
    ),
)


def report_page(
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    *,
    overlay: str = "",
    steps: Mapping[int, Sequence[StepRow]] | None = None,
) -> bytes:
    """Return the page about the chosen stretch of each rank.

    Args:
        scopes: one per rank, what the analyses look at.
        paths: the critical path of each rank.
        overlay: a file with the path on top of the trace, to link.
        steps: of each rank whose window is a default the table of its steps.
    """
    # The whole job waits for the slowest rank: where one rank is enough, it is that.
    slowest = max(paths, key=lambda rank: paths[rank].length_ns)
    sections = [
        _path_section(paths),
        *_steps_section(paths, steps or {}),
        *(_part_section(scopes, part, slowest) for part in PARTS),
        _unexplained_section(paths),
        _overlay_section(overlay),
    ]
    first = next(iter(paths.values()))
    name = first.graph.path
    title = f"{name.parent.name}/{name.name}" if len(paths) == 1 else f"{name.parent.name}, {len(paths)} ranks"
    return page(f"Report of {title}", verdict(paths), sections)


def _part_section(scopes: Sequence[Scope], part: ReportPart, slowest: int) -> Section:
    """Ask one analysis; what it cannot answer is said on the page."""
    chosen = scopes if part.every_rank else [scope for scope in scopes if scope.rank == slowest]
    title = part.title if len(chosen) == len(scopes) else f"{part.title}, rank {slowest}"
    try:
        found = part.analysis.answer(chosen, part.analysis.flags()).on_command_line()
    # One analysis that cannot answer must not cost the reader all the others.
    except HtaGraphError as error:
        return Section(title, part.meaning, notes=[str(error)])
    figures = [part.analysis.figure(found)] if any(map(len, found.tables.values())) else []
    tables = [(name.replace("_", " "), found.tables[name]) for name in part.tables]
    return Section(title, part.meaning, figures, tables, found.notes)


def _path_section(paths: Mapping[int, CriticalPath]) -> Section:
    """Show the critical paths."""
    rows = [
        {"rank": rank, "scope": path.window.label, "window_ns": path.length_ns, "explained_share": path.coverage}
        | {f"{bound}_ns": ns for bound, ns in path.by_bound_ns.items()}
        for rank, path in paths.items()
    ]
    frame = pd.DataFrame(rows)
    meaning = "The chain of work that decided how long the window took; its parts add up to the window exactly."
    # Classes without any time on any rank would only widen the table.
    empty = [name for name in map(str, frame.columns) if name.endswith("_ns") and not frame[name].any()]
    slowest = max(paths, key=lambda rank: paths[rank].length_ns)
    shown = [bound for bound in MEANING if frame[f"{bound}_ns"].any()]
    tables = [
        ("time on the path by class", frame.drop(columns=empty)),
        (f"what to look at first, rank {slowest}", _path_events(paths[slowest])),
        ("what the classes mean", pd.DataFrame({"class": shown, "meaning": [MEANING[bound] for bound in shown]})),
    ]
    notes = [f"Rank {rank}: {line}." for rank, path in paths.items() for line in rows_after_lines(path.window)]
    return Section("Critical path", meaning, [_path_figure(frame)], tables, notes)


def _steps_section(paths: Mapping[int, CriticalPath], steps: Mapping[int, Sequence[StepRow]]) -> list[Section]:
    """Show the steps beside the one that was chosen, where nobody named a window; of ranks the slowest's."""
    chosen = {rank: path for rank, path in paths.items() if path.window.is_default}
    if not chosen:
        return []
    slowest = max(chosen, key=lambda rank: chosen[rank].length_ns)
    rows = [
        {"step": row.step, "iteration_ns": row.iteration_ns, "latency_ns": row.latency_ns, "bound_by": row.bound_by,
         "outlier": row.outlier or ""}
        for row in steps.get(slowest, ())
    ]  # fmt: skip
    meaning = (
        "The page is about one step, which stands for the run. An iteration goes from the end of the work before the "
        "step to that of its own, a latency from its start to the end of its last work."
    )
    first = default_lines(chosen[slowest].window, chosen[slowest].graph, steps.get(slowest, ()))[:1]
    tables = [(f"all steps of rank {slowest}", pd.DataFrame(rows))] if rows else []
    return [Section("Which step this is about", meaning if rows else "", (), tables, [f"{line}." for line in first])]


def _path_events(path: CriticalPath) -> pd.DataFrame:
    """List what takes most of a path."""
    frame = pd.DataFrame(path.event_totals())
    frame["share"] = frame["time_ns"] / max(path.length_ns, 1)
    frame["name"] = frame["name"].fillna("(nothing recorded)")
    return frame.rename(columns={"share": "path_share"})[["time_ns", "path_share", "calls", "bound_by", "name"]]


def _path_figure(frame: pd.DataFrame) -> Figure:
    """Draw the classes of each rank's path as a bar."""
    made = new_figure(title="")
    made.update_xaxes(ticksuffix=" ms")
    labels = [f"rank {rank}" for rank in frame["rank"]]
    for bound in (bound for bound in MEANING if frame[f"{bound}_ns"].any()):
        made.add_bar(
            orientation="h",
            name=bound,
            y=labels,
            x=frame[f"{bound}_ns"] / 1e6,
            marker_color=BOUND_COLOUR[bound],
            hovertemplate="%{y}: %{x:,.3f} ms",
        )
    made.update_layout(barmode="stack", height=220 + 30 * len(frame), margin={"t": 10})
    made.update_yaxes(autorange="reversed")
    return made


def _unexplained_section(paths: Mapping[int, CriticalPath]) -> Section:
    """List the stretches without a cause, and what was repaired or dropped."""
    rows: list[dict[str, Any]] = []
    columns = ["length_ns", "reason", "while_in", "before"]
    for rank, path in paths.items():
        found = path.unexplained.assign(length_ns=path.unexplained["end_ns"] - path.unexplained["start_ns"])
        longest = found.nlargest(3, "length_ns").fillna({"while_in": "", "before": "the end of the window"})
        rows += [{"rank": rank, **{column: getattr(row, column) for column in columns}} for row in longest.itertuples()]
    frame = pd.DataFrame(rows, columns=["rank", *columns])
    counts = [
        {"rank": rank, "count": count, "diagnostic": key}
        for rank, path in paths.items()
        for key, count in path.graph.diagnostics.items()
        if count
    ]
    tables = [
        ("longest stretches without a cause", frame.sort_values("length_ns", ascending=False, kind="stable")),
        ("what was repaired, dropped or left open", pd.DataFrame(counts, columns=["rank", "count", "diagnostic"])),
    ]
    notes = [] if rows else ["Nothing: every nanosecond of the critical paths has a cause."]
    return Section(
        "What is unexplained", "Time for which the trace shows no cause, and what was unsound.", (), tables, notes
    )


def _overlay_section(overlay: str) -> Section:
    """Tell where the path can be looked at."""
    from html import escape

    meaning = "The path drawn on top of the trace opens in ui.perfetto.dev; the graph of it in any browser."
    if overlay:
        html = f'<p><a href="{escape(overlay)}" download>{escape(overlay)}</a>: load it in ui.perfetto.dev.</p>'
    else:
        html = "<p>Make it with <code>hta-graph critical-path TRACE --overlay overlay.json</code>.</p>"
    return Section("Look at it in the trace", meaning, html=html)
