"""critical-path: what bounds a window, as text, JSON, an overlay for Perfetto or graphviz source."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from analyses.cli.command import Command
from analyses.cli.options import (
    OUTPUT,
    add_answer_with_table,
    add_flight,
    add_inputs,
    add_jobs,
    add_near,
    add_summaries,
    add_window_and_loading,
    heading,
)
from analyses.cli.outputs import print_lines, write_output
from analyses.cli.path_args import OutputFile
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.progress import begin_stage

if TYPE_CHECKING:
    from analyses.display.text_layout import Line
    from analyses.questions.critical_path import RankSteps
    from hta_graph.paths.critical_path import CriticalPath
    from hta_graph.paths.step_table import StepRow


def _add_path_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the forms in which a path is printed and written."""
    parser.add_argument("--per-step", action="store_true", help="print one row per step: lengths, class and coverage")
    parser.add_argument(
        "--evidence",
        metavar="ID",
        help="list the events behind a finding of the judgement, by its id in --json (such as cause:host_work)",
    )
    output = heading(parser, OUTPUT)
    output.add_argument("--all", action="store_true", dest="all_rows", help="list every item of the critical path")
    output.add_argument(
        "--overlay",
        type=OutputFile,
        metavar="FILE",
        help="also write the trace with the path on top; open it at ui.perfetto.dev",
    )
    output.add_argument("--dot", type=OutputFile, metavar="FILE", help="also write the path as graphviz source")
    output.add_argument(
        "--merge-runs",
        action="store_true",
        help="write long runs of one class as one JSON segment; of one stack, too",
    )


def _run_critical_path(options: argparse.Namespace) -> None:
    """Print the critical path of a window, or write it as JSON, an overlay or graphviz source."""
    if options.merge_runs and (options.per_step or not options.json):
        raise UsageError("--merge-runs needs --json and one path; omit it or --per-step")
    if options.evidence is not None and (options.per_step or options.overlay or options.dot):
        raise UsageError("--evidence lists events only; omit --per-step, --overlay and --dot")
    if options.per_step:
        _path_per_step(options)
        return
    if (options.near is not None or options.overlay or options.evidence) and RankInputs.of(options).many_ranks:
        raise UsageError("--near, --overlay and --evidence need all events; use --rank N or --summaries never")
    from hta_graph.trace.event_args import forget_inputs, keep_inputs

    keep_inputs()
    try:
        _write_path(options)
    finally:
        forget_inputs()


def _write_path(options: argparse.Namespace) -> None:
    path = path_of_window(options)
    if options.evidence is not None:
        _write_evidence(path, options)
        return
    from analyses.questions.critical_path import PathText, path_lines
    from analyses.source.window_report import slack_lines

    text, near = PathText.of(path, _steps_of_default_window(path, options, every=False)), _near_critical(path, options)

    def lines() -> list[Line]:
        further = ["", *slack_lines(near, text.facts.words, is_job=text.facts.is_job)] if near else []
        return [*path_lines(text, all_rows=options.all_rows), *further]

    write_output(options, lambda: _document_of(path, near, options), lines, table="segments")
    if options.overlay:
        write_path_overlay(path, options.overlay)
    if options.dot:
        _write_path_dot(path, options.dot)


def _write_evidence(path: CriticalPath, options: argparse.Namespace) -> None:
    """Print or write the events behind a finding."""
    from analyses.cli.commands.what_if import changes_of_finding
    from analyses.questions.critical_path import EventsBehind, evidence_document, evidence_lines, finding_of

    finding = finding_of(path, options.evidence)
    changes = [one.change for one in changes_of_finding(finding)]
    found = EventsBehind.of(path, finding, changes)
    write_output(
        options,
        lambda: evidence_document(found),
        lambda: evidence_lines(found, all_rows=options.all_rows),
        table="events",
    )


def _document_of(path: CriticalPath, near: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    from analyses.questions.critical_path import path_document

    steps = _steps_of_default_window(path, options, every=True)
    document = path_document(path, steps, merge_runs=options.merge_runs, replayed=bool(near) or not path.graph.is_job)
    return {**document, **({"near": near} if near else {})}


def path_of_window(options: argparse.Namespace) -> CriticalPath:
    """Return the critical path of a command line's window."""
    window_args = WindowArgs.of(options)
    window, asked = window_args.window(), RankInputs.of(options)
    graph = asked.job_or_graph(window_args.summary_with_causes if hasattr(options, "summaries") else None)
    from hta_graph.paths.critical_path import critical_path

    begin_stage("finding the critical path")
    return critical_path(graph, window, data_load=options.data_load)


def _path_per_step(options: argparse.Namespace) -> None:
    """Print or write as JSON what bounds each step of each rank."""
    if not WindowArgs.of(options).names_nothing:
        raise UsageError("--per-step covers all steps; omit the other window options")
    if options.overlay or options.dot or options.near is not None:
        raise UsageError("--overlay, --dot and --near need one path; use --step N instead of --per-step")
    from analyses.questions.critical_path import per_step_document, per_step_lines

    ranks = _steps_of_ranks(options)
    write_output(options, lambda: per_step_document(ranks), lambda: per_step_lines(ranks), table="steps")


def _steps_of_ranks(options: argparse.Namespace) -> list[RankSteps]:
    from analyses.questions.critical_path import STEPS_LISTED, RankSteps
    from hta_graph.paths.critical_path import has_partial_rows
    from hta_graph.paths.step_table import notable_steps, step_rows

    graph = RankInputs.of(options).job_or_graph(WindowArgs().summary_with_causes)
    # Each rank alone, then the job; of rank summaries only the job.
    asked = [graph]
    if graph.is_job and not has_partial_rows(graph):
        asked = [*(graph.graph(part.rank) for part in graph.rank_graphs), graph]
    begin_stage("finding the critical path of each step")
    # Thousands of lines are unreadable: a terminal gets the notable ones.
    listed = [None if options.json else notable_steps(found, None, STEPS_LISTED) for found in asked]
    ranks = [
        RankSteps.of(found, step_rows(found, options.data_load, steps))
        for found, steps in zip(asked, listed, strict=True)
    ]
    if not any(rank.rows for rank in ranks):
        raise QueryError(f"{ranks[0].path}: no profiler steps; call prof.step() in the training loop, or name a window")
    return ranks


def _steps_of_default_window(path: CriticalPath, options: argparse.Namespace, *, every: bool) -> list[StepRow]:
    """Return the table of steps for a default window: all steps, or those that are printed."""
    from analyses.source.window_facts import listed_steps
    from hta_graph.paths.step_table import step_rows

    begin_stage("comparing steps")
    if every and path.window.is_default:
        return step_rows(path.graph, options.data_load, known=path)
    return listed_steps(path)


def _near_critical(path: CriticalPath, options: argparse.Namespace) -> dict[str, Any]:
    """Return the near-critical work of a path's window as JSON has it; nothing if it was not asked for."""
    if options.near is None:
        return {}
    from analyses.source.window_facts import slack_record
    from hta_graph.paths.windows import resolved_window
    from hta_graph.what_if.slack import near_critical

    begin_stage("computing slack")
    return slack_record(near_critical(path.graph, resolved_window(path.window), share=options.near))


def print_default_window(path: CriticalPath, options: argparse.Namespace) -> None:
    """Print the default window on standard error, for an answer that cannot contain it."""
    from analyses.source.window_facts import DefaultWindow, StepFacts
    from analyses.source.window_report import default_lines

    steps = StepFacts.of(_steps_of_default_window(path, options, every=False))
    lines = default_lines(DefaultWindow.of(path.window, path.graph), steps)
    with suppress(OSError):  # standard error may be closed
        print_lines(lines, to=sys.stderr)


def write_path_overlay(path: CriticalPath, target: str) -> None:
    """Write the trace with the path on top; print what is merged or left out, and where to open it."""
    from hta_graph.export.perfetto.path_overlay import PERFETTO_URL, write_overlay

    begin_stage(f"writing {target}")
    counts = write_overlay(path, target)
    if counts.runs < counts.segments:
        say(f"{target}: {counts.segments:,} segments in {counts.runs:,} slices; long runs of equal stack are merged")
    if counts.arrows_left_out:
        say(f"{target}: {counts.arrows:,} arrows; {counts.arrows_left_out:,} smaller ones are left out")
    say(f"{target}: open it at {PERFETTO_URL}")


def _write_path_dot(path: CriticalPath, target: str) -> None:
    """Write the path as graphviz source, and print what it leaves out."""
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.export.picture import path_picture

    picture = path_picture(path)
    write_file(target, picture.source.encode())
    if picture.left_out:
        say(f"{target}: {picture.left_out}")


CRITICAL_PATH = Command(
    name="critical-path",
    help="Show the critical path of a step and what bounds it",
    more=(
        "The window is the median step by default, or the whole trace if it has no steps. The path covers the window "
        "to the nanosecond: each segment has a class and a cause, or counts as unexplained. Several files are one job."
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
        add_window_and_loading,
        add_near,
        add_answer_with_table,
        _add_path_outputs,
    ),
    run=_run_critical_path,
)
