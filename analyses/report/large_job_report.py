"""report of a job of rank summaries: what all ranks together show, and two of them in detail."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analyses.declare.scope import Scope, empty_scope, in_window
from analyses.judgement.verdict import WHY_REPRESENTATIVE, representative_ranks
from analyses.questions import catalogue
from analyses.report.gain_curves import distinct_opportunities, worth_a_card
from analyses.report.opportunities import opportunities_of_summaries
from analyses.report.page_labels import run_name
from analyses.report.page_tables import Section
from analyses.report.report import over_window_of_job, page, rank_sections, steps_section, timeline_steps
from analyses.report.sections import job_section
from analyses.report.summary import summary_of
from analyses.report.wait_heatmap import wait_section
from hta_graph.paths.critical_path import CriticalPath, critical_path
from hta_graph.what_if.predict import WindowReplay, summary_replay

if TYPE_CHECKING:
    from analyses.declare.answer import Answer
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.step_table import StepRow
    from hta_graph.paths.windows import WindowQuery


@dataclass(frozen=True)
class LargeJob:
    """What the ranks of a job together show about a window.

    ``path`` is the job's; ``waiting`` and ``together`` are the answers of ``stragglers`` and ``collectives``;
    ``replayed`` predicts savings. ``shown_as`` are the ranks to show in detail, the one that matters first, with the
    reasons (:data:`WHY_REPRESENTATIVE`).
    """

    path: CriticalPath
    waiting: Answer
    together: Answer
    replayed: WindowReplay | None
    shown_as: Mapping[int, str]


def large_job(job: DependencyGraph, window: WindowQuery, data_load: Sequence[str] = ()) -> LargeJob:
    """Ask a job of rank summaries.

    Raises:
        QueryError: it has no such window.
        HtaGraphError: a file cannot be read once more.
    """
    path = critical_path(job, window, data_load=data_load)
    scopes = _scopes(job, window, path.window.missing)
    waiting, together = (
        catalogue.analysis(name).answer(scopes).on_command_line() for name in ("stragglers", "collectives")
    )
    elsewhere = summary_replay(job)
    replayed = None if elsewhere is None else elsewhere(window(job), window.asked)
    shown_as = representative_ranks(path, waiting.tables["causes"], together.tables["ranks"])
    return LargeJob(path, waiting, together, replayed, shown_as)


def _scopes(job: DependencyGraph, window: WindowQuery, missing: Collection[int]) -> list[Scope]:
    """Return the window of each rank; those that lack it are there, so that what ranks did together stays known."""
    graphs = {part.rank: job.graph(part.rank) for part in job.rank_graphs}
    found = {rank: in_window(rank, graph, window) for rank, graph in graphs.items() if rank not in missing}
    label = next(iter(found.values())).label
    return [found.get(rank) or empty_scope(rank, graph, label) for rank, graph in graphs.items()]


def large_job_page(
    many: LargeJob,
    scopes: Sequence[Scope],
    paths: Mapping[int, CriticalPath],
    *,
    steps: Sequence[StepRow] = (),
    overlay: str = "",
    data_load: Sequence[str] = (),
) -> bytes:
    """Return the page about a job of many ranks.

    Args:
        many: what all ranks show.
        scopes: of the ranks to show in detail, what the analyses look at.
        paths: the critical paths of these ranks.
        steps: where the window is a step, the table of the job's.
        overlay: the address of a file with that rank's path on top of its trace, to link.
        data_load: as for :func:`hta_graph.critical_path`.
    """
    path, causes, first = many.path, many.waiting.tables["causes"], next(iter(many.shown_as))
    scopes, paths = over_window_of_job(path, scopes, paths, data_load)
    first = first if first in paths else next(iter(paths))
    own_steps = timeline_steps(path, paths[first], first, steps, data_load)
    of_ranks, timeline = rank_sections(path, scopes, paths, own_steps, first)
    outlook, gains = opportunities_of_summaries(many.replayed) if many.replayed else (None, [])
    sections = [
        job_section(path, causes, paths[first], timeline),
        wait_section(many.waiting, many.together),
        *steps_section(path, steps, None),
        *gains,
        _representative_ranks_section(many),
        *of_ranks,
    ]
    run = run_name(path.graph.path.name, len(path.graph.rank_graphs))
    chosen = worth_a_card(distinct_opportunities(outlook)) if outlook else []
    window = paths[first].window
    link = timeline.link(window.start_ns, window.end_ns)
    return page(summary_of(path, run, chosen, link=link), sections, timeline, overlay)


def _representative_ranks_section(many: LargeJob) -> Section:
    """Say which ranks follow, and why these."""
    reasons = [(rank, WHY_REPRESENTATIVE[reason]) for rank, reason in many.shown_as.items()]
    return Section("Ranks in detail", _detail_ranks(len(many.path.graph.rank_graphs), reasons))


def _detail_ranks(count: int, reasons: Sequence[tuple[int, str]]) -> str:
    """Say which ranks of a large job are shown in detail, and why."""
    shown = "; ".join(f"rank {rank}, {reason}" for rank, reason in reasons)
    return f"Shown in detail, of {count:,} ranks: {shown}. For another rank, run hta-graph report INPUT --rank N."
