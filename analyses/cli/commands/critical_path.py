"""critical-path: what decides how long a window takes, as a table, JSON, an overlay or a picture's source."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from analyses.cli.command import Command
from analyses.cli.options import (
    add_flight,
    add_inputs,
    add_jobs,
    add_json,
    add_near,
    add_summaries,
    add_window_and_loading,
)
from analyses.cli.outputs import write_json
from analyses.cli.path_args import OutputFile
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.errors import QueryError, UsageError

if TYPE_CHECKING:
    from analyses.display.text_layout import Line
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.step_table import StepRow


def _add_path_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what a path can be written as."""
    parser.add_argument(
        "--overlay", type=OutputFile, metavar="OUT", help="write the trace with the path on top, for ui.perfetto.dev"
    )
    parser.add_argument("--dot", type=OutputFile, metavar="OUT", help="write a picture of the path as graphviz source")
    parser.add_argument("--per-step", action="store_true", help="one row per step: its lengths, class and coverage")
    parser.add_argument(
        "--merge-runs", action="store_true", help="in JSON one segment for each long run of equal class and stack"
    )


def _run_critical_path(options: argparse.Namespace) -> None:
    """Print the critical path of a window, or write it as JSON, an overlay or a picture's source."""
    from analyses.questions.critical_path import path_document, path_lines

    if options.merge_runs and (options.per_step or not options.json):
        raise UsageError("--merge-runs goes with --json of one path")
    if options.per_step:
        _path_per_step(options)
        return
    if (options.near is not None or options.overlay) and RankInputs.of(options).many_ranks:
        raise UsageError("--near and --overlay take all rows of all ranks; name one with --rank, or --skeletons never")
    path = path_of_window(options)
    steps = _steps_of_default_window(path, options, every=bool(options.json))
    near = None if options.near is None else _near_critical(path, options.near)
    if options.json:
        near_key = {"near": near[0]} if near else {}
        document = path_document(path, steps, merge_runs=options.merge_runs, replayed=near is not None)
        write_json(options.json, {**document, **near_key}, options.left_out)
    if options.overlay:
        write_path_overlay(path, options.overlay)
    if options.dot:
        _write_path_dot(path, options.dot)
    if not options.json:
        print_lines([*path_lines(path, steps), *(["", *near[1]] if near else [])], wide=options.wide)


def path_of_window(options: argparse.Namespace) -> CriticalPath:
    """Return the critical path of the window that a command line names."""
    from hta_graph.paths.critical_path import critical_path

    window_args = WindowArgs.of(options)
    window, few = window_args.window(), window_args.summary_request() if hasattr(options, "skeletons") else None
    return critical_path(RankInputs.of(options).job_or_graph(few), window, data_load=options.data_load)


def _path_per_step(options: argparse.Namespace) -> None:
    """Print what bounds each step of each rank, or write it as JSON."""
    from analyses.questions.critical_path import STEPS_LISTED, RankSteps, per_step_document, per_step_lines
    from hta_graph.graph.job_graph import JobGraph
    from hta_graph.paths.critical_path import has_partial_rows
    from hta_graph.paths.step_table import notable_steps, step_rows

    if not WindowArgs.of(options).names_nothing:
        raise UsageError("--per-step asks about every step's usual window; leave other windows out")
    if options.overlay or options.dot or options.near is not None:
        raise UsageError("--overlay, --dot and --near are about one path; name a step instead of --per-step")
    graph = RankInputs.of(options).job_or_graph(WindowArgs().summary_request())
    # Of several ranks each alone, then the job; of many ranks the job.
    asked = [graph]
    if isinstance(graph, JobGraph) and not has_partial_rows(graph):
        asked = [*(graph.graph(part.rank) for part in graph.rank_graphs), graph]
    # Nobody reads thousands of lines: a terminal gets those that tell most.
    listed = [None if options.json else notable_steps(found, None, STEPS_LISTED) for found in asked]
    ranks = [
        RankSteps.of(found, step_rows(found, options.data_load, steps))
        for found, steps in zip(asked, listed, strict=True)
    ]
    if not any(rank.rows for rank in ranks):
        raise QueryError(f"{ranks[0].path}: it has no steps; call prof.step() in the training loop, or name a window")
    if options.json:
        write_json(options.json, per_step_document(ranks), options.left_out)
    else:
        print_lines(per_step_lines(ranks), wide=options.wide)


def _steps_of_default_window(path: CriticalPath, options: argparse.Namespace, *, every: bool) -> list[StepRow]:
    """Return the table of steps that goes with a window that nobody named: all, or those that are printed."""
    from analyses.window_report import listed_steps
    from hta_graph.paths.step_table import step_rows

    if every and path.window.is_default:
        return step_rows(path.graph, options.data_load)
    return listed_steps(path.window, path.graph, options.data_load)


def _near_critical(path: CriticalPath, share: float) -> tuple[dict[str, Any], list[Line]]:
    """Return what is nearly critical in a path's window, for other programs and for a person."""
    from analyses.window_report import slack_lines, slack_record
    from hta_graph.paths.windows import resolved_window
    from hta_graph.what_if.slack import near_critical

    found = near_critical(path.graph, resolved_window(path.window), share=share)
    return slack_record(found), slack_lines(found, path.graph)


def print_default_window(path: CriticalPath, options: argparse.Namespace) -> None:
    """Say on standard error which window was chosen, beside an answer that has no room for it."""
    from analyses.window_report import default_lines

    lines = default_lines(path.window, path.graph, _steps_of_default_window(path, options, every=False))
    with suppress(OSError):  # where standard error takes no more, nobody can be told
        print_lines(lines, to=sys.stderr)


def write_path_overlay(path: CriticalPath, target: str) -> None:
    """Write the trace with the path on top; say what is merged, which arrows had no room, and where to open it."""
    from hta_graph.export.perfetto.path_overlay import PERFETTO_URL, write_overlay

    counts = write_overlay(path, target)
    if counts.runs < counts.segments:
        say(f"{target}: {counts.segments:,} segments in {counts.runs:,} slices, long runs of equal stack merged")
    if counts.arrows_left_out:
        say(f"{target}: {counts.arrows:,} arrows drawn, {counts.arrows_left_out:,} smaller ones left out")
    say(f"{target}: open it at {PERFETTO_URL}")


def _write_path_dot(path: CriticalPath, target: str) -> None:
    """Write a picture of the path as graphviz source, and say what it leaves out."""
    from hta_graph.export.picture import path_picture
    from hta_graph.storage.atomic_write import write_file

    picture = path_picture(path)
    write_file(target, picture.source.encode())
    if picture.left_out:
        say(f"{target}: {picture.left_out}")


CRITICAL_PATH = Command(
    name="critical-path",
    help="The critical path of a window; by default the median step, else the whole trace.",
    more=(
        "The path tiles the window to the nanosecond: each piece has a class and a cause, or is called "
        "unexplained. Of several ranks it is the job's."
    ),
    examples=(
        "critical-path trace.json.gz",
        "critical-path trace.json.gz --per-step",
        "critical-path job --overlay overlay.json",
    ),
    page="windows.md",
    options=(
        add_inputs,
        add_jobs,
        add_flight,
        add_summaries,
        add_json,
        add_window_and_loading,
        _add_path_outputs,
        add_near,
    ),
    run=_run_critical_path,
)
