"""What each command does: read, ask, write. Everything heavy is imported when a command runs."""

from __future__ import annotations

import argparse
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from analyses.command_line.asked_ranks import AskedRanks, print_lines, say
from analyses.command_line.outputs import write_json
from analyses.command_line.stretch import Stretch
from hta_graph.errors import QueryError, UsageError
from hta_graph.places.named_places import named_place

if TYPE_CHECKING:
    from analyses.display.terminal import Line
    from hta_graph.algorithms.time.critical_path import CriticalPath
    from hta_graph.algorithms.time.step_table import StepRow

__all__ = ["critical_path", "graph", "info", "render", "sync_deps", "timeline", "write_path_overlay"]


def info(options: argparse.Namespace) -> None:
    """Print what is in each rank's trace."""
    from analyses.paths.trace_info import RANKS_TOLD, info_document, info_lines, more_ranks_line

    # The text of a rank is printed as soon as that is read; JSON is one document of all.
    asked, ranks = AskedRanks.of(options), []
    for found in asked.graphs():
        ranks.append(info_document(found))
        if not options.json and (len(ranks) <= RANKS_TOLD or options.wide):
            print_lines([*info_lines(ranks[-1]), ""], wide=options.wide)
    if options.json:
        write_json(options.json, {"schema": "hta-graph/info/1", "ranks": ranks}, options.left_out)
    elif len(ranks) > RANKS_TOLD and not options.wide:
        print_lines([more_ranks_line(ranks[RANKS_TOLD:])])


def critical_path(options: argparse.Namespace) -> None:
    """Print the critical path of a window, or write it as JSON, an overlay or a picture's source."""
    from analyses.paths.path_report import path_document, path_lines

    if options.merge_runs and (options.per_step or not options.json):
        raise UsageError("--merge-runs goes with --json of one path")
    if options.per_step:
        _path_per_step(options)
        return
    if (options.near is not None or options.overlay) and AskedRanks.of(options).many_ranks:
        raise UsageError("--near and --overlay take all rows of all ranks; name one with --rank, or --skeletons never")
    path = _asked_path(options)
    steps = _steps_beside(path, options, every=bool(options.json))
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


def graph(options: argparse.Namespace) -> None:
    """Write the graph as JSON or Parquet; without either, print its counts."""
    from analyses.paths.trace_info import info_document, info_lines
    from hta_graph.export.graph_json import graph_document
    from hta_graph.export.parquet import check_folder, save_graph

    if options.parquet:  # refused before the trace is read, which may take minutes
        check_folder(named_place(options.parquet))
    found = AskedRanks.of(options).job_or_graph()
    if options.parquet:
        save_graph(found, options.parquet)
    if options.json:
        write_json(options.json, graph_document(found), options.left_out)
    if not options.parquet and not options.json:
        print_lines(info_lines(info_document(found)), wide=options.wide)


def sync_deps(options: argparse.Namespace) -> None:
    """Print what waited for GPU work, or write it as JSON, CSV or external ids."""
    from analyses.paths.sync_report import left_out, sync_document, sync_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.sync_dependencies import SyncDependencies, external_ids_json, sync_csv

    window = Stretch.of(options).window(otherwise_whole=True)
    found = SyncDependencies(AskedRanks.of(options).job_or_graph(), window)
    # A job has none: that is said before anything is written.
    ids = found.external_ids() if options.external_ids else None
    if options.json:
        write_json(options.json, sync_document(found), options.left_out)
    if options.csv:
        write_file(options.csv, sync_csv(found))
    if ids:
        write_file(options.external_ids, external_ids_json(ids))
        for line in left_out(ids):
            say(f"{options.external_ids}: {line}")
    if not (options.json or options.csv or options.external_ids):
        print_lines(sync_lines(found), wide=options.wide)


def render(options: argparse.Namespace) -> None:
    """Draw the path, the lanes of a window, an event's surroundings, or the way between two events."""
    from hta_graph.export import picture as drawn

    drawn.check_picture(options.output, lanes=options.lanes)
    if options.path or options.lanes:
        path = _asked_path(options)
        _say_default(path, options)
        picture = drawn.lanes_picture(path) if options.lanes else drawn.path_picture(path)
    elif options.around is not None:
        picture = drawn.around_picture(AskedRanks.of(options).job_or_graph(), options.around, options.depth)
    else:
        picture = drawn.between_picture(AskedRanks.of(options).job_or_graph(), *options.between)
    drawn.write_picture(picture, options.output)
    if picture.left_out:
        say(f"{options.output}: {picture.left_out}")


def timeline(options: argparse.Namespace) -> None:
    """Write a page of lanes with the path drawn through them."""
    from analyses.command_line.outputs import check_page_name
    from analyses.pages.timeline_page import steps_on_page, timeline_page
    from hta_graph.algorithms.time.step_table import step_rows
    from hta_graph.export.files import write_file

    check_page_name(options.output)
    path = _asked_path(options)
    _say_default(path, options)
    # A page about a step can turn to those around it, whoever named it.
    steps = step_rows(path.graph, options.data_load, steps_on_page(path))
    write_file(options.output, timeline_page(path, steps).html())


def _asked_path(options: argparse.Namespace) -> CriticalPath:
    """Return the critical path of the window that a command line names."""
    from hta_graph.algorithms.time.critical_path import critical_path as extract

    stretch = Stretch.of(options)
    window, few = stretch.window(), stretch.skeleton() if hasattr(options, "skeletons") else None
    return extract(AskedRanks.of(options).job_or_graph(few), window, data_load=options.data_load)


def _path_per_step(options: argparse.Namespace) -> None:
    """Print what bounds each step of each rank, or write it as JSON."""
    from analyses.paths.path_report import STEPS_LISTED, RankSteps, per_step_document, per_step_lines
    from hta_graph.algorithms.time.critical_path import is_told_elsewhere
    from hta_graph.algorithms.time.step_table import step_rows, telling_steps
    from hta_graph.graph.job_graph import JobGraph

    if not Stretch.of(options).names_nothing:
        raise UsageError("--per-step asks about every step's usual window; leave other windows out")
    if options.overlay or options.dot or options.near is not None:
        raise UsageError("--overlay, --dot and --near are about one path; name a step instead of --per-step")
    graph = AskedRanks.of(options).job_or_graph(Stretch().skeleton())
    # Of several ranks each alone, then the job; of many ranks the job.
    asked = [graph]
    if isinstance(graph, JobGraph) and not is_told_elsewhere(graph):
        asked = [*(graph.graph(part.rank) for part in graph.parts), graph]
    # Nobody reads thousands of lines: a terminal gets those that tell most.
    listed = [None if options.json else telling_steps(found, None, STEPS_LISTED) for found in asked]
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


def _steps_beside(path: CriticalPath, options: argparse.Namespace, *, every: bool) -> list[StepRow]:
    """Return the table of steps that goes with a window that nobody named: all, or those that are printed."""
    from analyses.display.window_text import listed_steps
    from hta_graph.algorithms.time.step_table import step_rows

    if every and path.window.is_default:
        return step_rows(path.graph, options.data_load)
    return listed_steps(path.window, path.graph, options.data_load)


def _near_critical(path: CriticalPath, share: float) -> tuple[dict[str, Any], list[Line]]:
    """Return what is nearly critical in a path's window, for other programs and for a person."""
    from analyses.paths.near_report import near_lines, near_record
    from hta_graph.algorithms.replay.slack import near_critical
    from hta_graph.algorithms.time.windows import same_window

    found = near_critical(path.graph, same_window(path.window), share=share)
    return near_record(found), near_lines(found, path.graph)


def _say_default(path: CriticalPath, options: argparse.Namespace) -> None:
    """Say on standard error which window was chosen, beside an answer that has no room for it."""
    from analyses.display.window_text import default_lines

    lines = default_lines(path.window, path.graph, _steps_beside(path, options, every=False))
    with suppress(OSError):  # where standard error takes no more, nobody can be told
        print_lines(lines, to=sys.stderr)


def write_path_overlay(path: CriticalPath, target: str) -> None:
    """Write the trace with the path on top; say what is merged, which arrows had no room, and where to open it."""
    from hta_graph.export.perfetto.path_overlay import ADDRESS, write_overlay

    counts = write_overlay(path, target)
    if counts.runs < counts.segments:
        say(f"{target}: {counts.segments:,} segments in {counts.runs:,} slices, long runs of equal stack merged")
    if counts.arrows_left_out:
        say(f"{target}: {counts.arrows:,} arrows drawn, {counts.arrows_left_out:,} smaller ones left out")
    say(f"{target}: open it at {ADDRESS}")


def _write_path_dot(path: CriticalPath, target: str) -> None:
    """Write a picture of the path as graphviz source, and say what it leaves out."""
    from hta_graph.export.files import write_file
    from hta_graph.export.picture import path_picture

    picture = path_picture(path)
    write_file(target, picture.source.encode())
    if picture.left_out:
        say(f"{target}: {picture.left_out}")
