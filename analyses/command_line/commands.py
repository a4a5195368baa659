"""What each command does: read, ask, write. Everything heavy is imported when a command runs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from shutil import which
from typing import TYPE_CHECKING

from analyses.command_line.progress import ProgressLine
from hta_graph.errors import HtaGraphError, MissingExtraError, UsageError

if TYPE_CHECKING:
    from hta_graph.algorithms.time.critical_path import CriticalPath
    from hta_graph.graph import DependencyGraph
    from hta_graph.job.reading import Progress
    from hta_graph.trace import Trace

__all__ = [
    "check_outputs",
    "critical_path",
    "demo",
    "graph",
    "graphs_by_rank",
    "info",
    "one_graph",
    "print_lines",
    "render",
    "say",
    "sync_deps",
    "timeline",
]


def say(line: str) -> None:
    """Print a line about the work on standard error."""
    print(line, file=sys.stderr)  # noqa: T201


def info(options: argparse.Namespace) -> None:
    """Print what is in each rank's trace."""
    from analyses.paths.trace_info import info_document, info_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json

    check_outputs(options, options.json)
    ranks = []
    for found in _graphs(options):
        ranks.append(info_document(found))
        if not options.json:
            print_lines([*info_lines(ranks[-1]), ""])
    if options.json:
        write_file(options.json, to_json({"schema": "hta-graph/info/1", "ranks": ranks}))


def critical_path(options: argparse.Namespace) -> None:
    """Print the critical path of a window, or write it as JSON, an overlay or a picture's source."""
    from analyses.paths.path_report import path_document, path_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json

    check_outputs(options, options.json, options.overlay, options.dot)
    path = _path(options)
    if options.json:
        write_file(options.json, to_json(path_document(path)))
    if options.overlay:
        _write_overlay(path, options.overlay)
    if options.dot:
        _write_dot(path, options.dot)
    if not options.json:
        print_lines(path_lines(path))


def graph(options: argparse.Namespace) -> None:
    """Write the graph as JSON or Parquet; without either, print its counts."""
    from analyses.paths.trace_info import info_document, info_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.graph_json import graph_document
    from hta_graph.export.json_text import to_json
    from hta_graph.export.parquet import check_folder, save_graph

    check_outputs(options, options.json)
    if options.parquet:
        check_folder(Path(options.parquet))
        if options.json and Path(options.json).absolute().is_relative_to(Path(options.parquet).absolute()):
            raise UsageError("--json and --parquet name the same place")
    found = one_graph(options)
    if options.parquet:
        save_graph(found, options.parquet)
    if options.json:
        write_file(options.json, to_json(graph_document(found)))
    if not options.parquet and not options.json:
        print_lines(info_lines(info_document(found)))


def sync_deps(options: argparse.Namespace) -> None:
    """Print what waited for GPU work, or write it as JSON, CSV or external ids."""
    from analyses.command_line.options import asked_window
    from analyses.paths.sync_report import left_out, sync_document, sync_lines
    from hta_graph.export.files import write_file
    from hta_graph.export.json_text import to_json
    from hta_graph.export.sync_dependencies import SyncDependencies, external_ids_json, sync_csv

    check_outputs(options, options.json, options.csv, options.external_ids)
    window = asked_window(options, otherwise_whole=True)
    found = SyncDependencies(one_graph(options), window)
    if options.json:
        write_file(options.json, to_json(sync_document(found)))
    if options.csv:
        write_file(options.csv, sync_csv(found))
    if options.external_ids:
        ids = found.external_ids()
        write_file(options.external_ids, external_ids_json(ids))
        for line in left_out(ids):
            say(f"{options.external_ids}: {line}")
    if not (options.json or options.csv or options.external_ids):
        print_lines(sync_lines(found))


def render(options: argparse.Namespace) -> None:
    """Draw the path, an event's surroundings, or the way between two events."""
    from hta_graph.export.picture import around_picture, between_picture, check_picture, path_picture, write_picture

    check_outputs(options, options.output)
    check_picture(options.output)
    if options.path:
        picture = path_picture(_path(options))
    elif options.around is not None:
        picture = around_picture(one_graph(options), options.around, options.depth)
    else:
        picture = between_picture(one_graph(options), *options.between)
    write_picture(picture, options.output)
    if picture.left_out:
        say(f"{options.output}: {picture.left_out}")


def timeline(options: argparse.Namespace) -> None:
    """Write a page of lanes with the path drawn through them."""
    from analyses.pages.timeline_page import timeline_html
    from hta_graph.export.files import write_file

    check_outputs(options, options.output)
    write_file(options.output, timeline_html(_path(options)))


def demo(options: argparse.Namespace) -> None:
    """Do the main job on the bundled sample: print the table, write overlay, picture and timeline here."""
    from importlib.resources import as_file, files

    with as_file(files("analyses") / "sample" / "sample_trace.json.gz") as sample:
        options.inputs, options.rank, options.salvage = [str(sample)], None, False
        _demo(options)


def _demo(options: argparse.Namespace) -> None:
    from analyses.pages.timeline_page import timeline_html
    from analyses.paths.path_report import path_lines
    from hta_graph.algorithms.time.critical_path import critical_path as extract
    from hta_graph.algorithms.time.windows import step
    from hta_graph.export.files import write_file
    from hta_graph.export.picture import path_picture, write_picture

    path = extract(one_graph(options), step(2))
    print_lines(["three simulated training steps, the second of them:", "", *path_lines(path), ""])
    _write_overlay(path, "demo_overlay.json")
    picture = "demo_path.svg" if which("dot") else "demo_path.dot"
    write_picture(path_picture(path), picture)
    try:
        write_file("demo_timeline.html", timeline_html(path))
    except MissingExtraError as error:
        say(f"no timeline: {error}")
    print_lines(
        [
            "written here:",
            "  demo_overlay.json   open it in ui.perfetto.dev",
            f"  {picture}       the path as a picture",
            "  demo_timeline.html  open it in a browser",
        ]
    )


def _path(options: argparse.Namespace) -> CriticalPath:
    from analyses.command_line.options import asked_window
    from hta_graph.algorithms.time.critical_path import critical_path as extract
    from hta_graph.trace.vocabulary import DATA_LOADING

    window = asked_window(options)
    return extract(one_graph(options), window, data_load=options.data_load or DATA_LOADING)


def _write_overlay(path: CriticalPath, target: str) -> None:
    from hta_graph.export.perfetto.path_overlay import write_overlay

    counts = write_overlay(path, target)
    if counts.arrows_left_out:
        say(f"{target}: {counts.arrows:,} arrows drawn, {counts.arrows_left_out:,} smaller ones left out")


def _write_dot(path: CriticalPath, target: str) -> None:
    from hta_graph.export.files import write_file
    from hta_graph.export.picture import path_picture

    picture = path_picture(path)
    write_file(target, picture.source.encode())
    if picture.left_out:
        say(f"{target}: {picture.left_out}")


def print_lines(lines: Sequence[str]) -> None:
    """Print lines on standard output."""
    sys.stdout.write("\n".join(lines) + "\n")


def check_outputs(options: argparse.Namespace, *outputs: str | None) -> None:
    """Refuse outputs that cannot be written, or are inputs, before any work is done."""
    from hta_graph.export.files import check_output
    from hta_graph.trace.rank_files import expand

    named = [output for output in outputs if output]
    if len({str(Path(output).absolute()) for output in named}) < len(named):
        raise UsageError("two outputs name the same file")
    inputs = expand([Path(item) for item in options.inputs]) if named else []
    for output in named:
        check_output(output, inputs)


def graphs_by_rank(options: argparse.Namespace) -> Iterator[tuple[int, DependencyGraph]]:
    """Build the graph of each rank that the options name, lowest rank first."""
    for found in _graphs(options):
        yield found.trace.rank or 0, found


def _graphs(options: argparse.Namespace) -> Iterator[DependencyGraph]:
    """Build the graph of each rank, in parallel where that pays; say what was dropped, and which rank is left out."""
    with ProgressLine("reading traces") as line:
        for found in _read(options, line, jobs=getattr(options, "jobs", None), progress=line.update):
            line.clear()
            _report_repairs(found.trace)
            yield found


def one_graph(options: argparse.Namespace) -> DependencyGraph:
    """Build the graph of the rank asked for, else of the lowest that can be read."""
    found = next(_read(options, ProgressLine(""), jobs=1))
    _report_repairs(found.trace)
    if options.left_out:
        say(f"going on with {found.trace.path}, rank {found.trace.rank}")
    return found


def _read(
    options: argparse.Namespace, line: ProgressLine, *, jobs: int | None, progress: Progress = lambda *_: None
) -> Iterator[DependencyGraph]:
    from hta_graph.job.reading import read_graphs

    def leave_out(error: HtaGraphError) -> None:
        options.left_out.append(error)
        line.say(f"hta-graph: {error.on_command_line}")

    return read_graphs(
        options.inputs,
        ranks=None if options.rank is None else [options.rank],
        jobs=jobs,
        memory=getattr(options, "memory", None),
        salvage=options.salvage,
        report=leave_out,
        say=line.say,
        progress=progress,
    )


def _report_repairs(trace: Trace) -> None:
    from hta_graph.trace.table import READING_DIAGNOSTICS

    if trace.salvaged:
        say(f"{trace.path}: {trace.salvaged}")
    found = {key: count for key, count in trace.diagnostics.items() if count and key.startswith("rows_")}
    if found:
        listed = [f"{count:,} {READING_DIAGNOSTICS[key].split(',')[0]} ({key})" for key, count in found.items()]
        say(f"{trace.path}: {', '.join(listed)}")
