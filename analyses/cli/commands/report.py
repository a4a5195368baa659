"""report: one page about a run."""

from __future__ import annotations

import argparse
import os
import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from analyses.cli.command import Command
from analyses.cli.options import (
    OUTPUT,
    add_flight,
    add_inputs,
    add_jobs,
    add_summaries,
    add_window_and_loading,
    heading,
)
from analyses.cli.outputs import check_page_name, print_open_in_browser, write_json
from analyses.cli.path_args import JsonFile, OutputFile
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import is_remote, resolve_location

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.windows import WindowQuery

    VerdictAndPage = tuple[Callable[[], dict[str, Any]], Callable[[], bytes]]
    """What makes the document about a verdict, and the page."""


def _add_report(parser: argparse.ArgumentParser) -> None:
    """Add the files for the page, the verdict and the overlay."""
    output = heading(parser, OUTPUT)
    output.add_argument("-o", "--output", type=OutputFile, metavar="FILE", help=".html file to write")
    output.add_argument(
        "--json", type=JsonFile, metavar="FILE", help="write each rank's verdict as JSON (- for standard output)"
    )
    output.add_argument(
        "--overlay",
        type=OutputFile,
        metavar="FILE",
        help="also write the slowest rank's trace with its path, linked from the page",
    )


def _run_report(options: argparse.Namespace) -> None:
    """Write a page with all answers about a run."""
    if not options.output and not options.json:
        raise UsageError("no output; name a page with -o FILE.html, or --json FILE for the verdict")
    if options.output:
        check_page_name(options.output)
    if options.overlay and not options.output:
        raise UsageError("--overlay needs a page that links it; add -o FILE.html")
    verdict, page = _verdict_and_page(options)
    if options.json:
        write_json(options.json, verdict(), options.left_out)
    if options.output:
        from hta_graph.base.storage.atomic_write import write_file

        write_file(options.output, page())
        print_open_in_browser(options.output)


def _verdict_and_page(options: argparse.Namespace) -> VerdictAndPage:
    """Read the ranks and find their paths."""
    window_args = WindowArgs.of(options)
    window_args.window()  # an invalid window is refused before anything is read
    asked = RankInputs.of(options)
    few = asked.job_of_summaries(window_args.summary_with_causes)
    if few is not None and few.is_job:
        return _of_summaries(few, window_args, options)
    return _of_graphs(
        asked.graphs_by_rank(communications=True) if few is None else {few.rank or 0: few}, window_args, options
    )


def _of_graphs(
    graphs: Mapping[int, DependencyGraph], window_args: WindowArgs, options: argparse.Namespace
) -> VerdictAndPage:
    """Find the paths of ranks that are held in full."""
    from analyses.judgement.verdict import verdict_document
    from hta_graph.paths.critical_path import critical_path

    graphs = _with_events(graphs)
    window, patterns = window_args.window(job=list(graphs.values())), options.data_load or ()
    begin_stage("finding the critical path")
    paths = {rank: critical_path(graph, window, data_load=patterns) for rank, graph in graphs.items()}
    job = _path_of_job(graphs, window, patterns)

    def page() -> bytes:
        from analyses.declare.scope import in_window
        from analyses.questions.stragglers import answer as stragglers
        from analyses.report.report import report_page, steps_of_report
        from analyses.report.summary import detailed_rank

        begin_stage("writing the report")
        scopes = [in_window(rank, graph, window) for rank, graph in graphs.items()]
        detailed = detailed_rank(paths, job)
        steps = steps_of_report(job or paths[detailed], options.data_load)
        link = _write_overlay(paths[detailed], options)
        causes = stragglers(scopes).tables["causes"] if job else None
        return report_page(scopes, paths, overlay=link, steps=steps, job=job, causes=causes, data_load=patterns)

    return lambda: verdict_document(paths, job), page


def _with_events(graphs: Mapping[int, DependencyGraph]) -> Mapping[int, DependencyGraph]:
    """Leave out ranks without events, which have no path, with a line for each; if no rank has any, none is."""
    found = {rank: graph for rank, graph in graphs.items() if len(graph.event_table)}
    for rank in sorted(graphs.keys() - found.keys()) if found else ():
        say(f"rank {rank}: the trace has no events; it is left out of the report")
    return found or graphs


def _of_summaries(job: DependencyGraph, window_args: WindowArgs, options: argparse.Namespace) -> VerdictAndPage:
    """Find the path of rank summaries, and those of two ranks in full."""
    from analyses.declare.scope import in_window
    from analyses.judgement.verdict import verdict_document
    from analyses.report.large_job_report import large_job, large_job_page
    from analyses.report.report import steps_of_report
    from hta_graph.graph.job_graph import full_rank_graphs
    from hta_graph.paths.critical_path import critical_path

    begin_stage("finding the critical path")
    window, patterns = window_args.window(job=[job.graph(part.rank) for part in job.rank_graphs]), options.data_load
    many = large_job(job, window, patterns)
    graphs = full_rank_graphs(job, many.shown_as)
    paths = {rank: critical_path(graph, window, data_load=patterns) for rank, graph in graphs.items()}

    def page() -> bytes:
        begin_stage("writing the report")
        scopes = [in_window(rank, graph, window) for rank, graph in graphs.items()]
        steps = steps_of_report(many.path, patterns)
        link = _write_overlay(paths[next(iter(many.shown_as))], options)
        return large_job_page(many, scopes, paths, steps=steps, overlay=link, data_load=patterns or ())

    return lambda: verdict_document(paths, many.path, many.shown_as), page


def _write_overlay(path: CriticalPath, options: argparse.Namespace) -> str:
    """Write the requested overlay; return its link."""
    from hta_graph.export.perfetto.path_overlay import write_overlay

    if not options.overlay:
        return ""
    write_overlay(path, options.overlay)
    # The page and the trace move together, so the link is relative to the page.
    return _relative_link(options.overlay, options.output)


def _relative_link(overlay: str, page: str) -> str:
    """Return the link from a page to an overlay: relative, unless only one of them is local."""
    target, folder = resolve_location(overlay), resolve_location(page).absolute().parent
    if not is_remote(target) and not is_remote(folder):
        return quote(os.fsencode(os.path.relpath(target, folder)))
    if is_remote(target) and is_remote(folder) and target.parts[0] == folder.parts[0]:
        return quote(posixpath.relpath("/".join(target.parts[1:]) or ".", "/".join(folder.parts[1:]) or "."))
    return target.as_uri() if not is_remote(target) and target.is_absolute() else quote(str(target), safe="/:")


def _path_of_job(
    graphs: Mapping[int, DependencyGraph], window: WindowQuery, patterns: Sequence[str] | None
) -> CriticalPath | None:
    """Return the job's path; None if the ranks form no job, with a line that gives the reason."""
    from hta_graph.multi_rank.build_job import build_job
    from hta_graph.paths.critical_path import critical_path

    if len(graphs) < 2:
        return None
    try:
        return critical_path(build_job(graphs.values()), window, data_load=patterns or ())
    except QueryError as error:
        say(f"the report covers single ranks only: {error.on_command_line}")
        return None


REPORT = Command(
    name="report",
    help="Write one page with all answers about a run",
    more="It contains the verdict, path, kernels, idle causes, overlap and ranks in one file that works offline.",
    examples=("report trace.json.gz -o report.html", "report job -o job.html"),
    page="pages.md",
    options=(add_inputs, add_jobs, add_flight, add_summaries, add_window_and_loading, _add_report),
    run=_run_report,
)
