"""info, graph and sync-deps: a trace's contents, its dependency graph, and the waits for GPU work."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from analyses.cli.command import Command
from analyses.cli.options import (
    OUTPUT,
    add_answer,
    add_answer_with_table,
    add_flight,
    add_inputs,
    add_jobs,
    add_window,
    heading,
)
from analyses.cli.outputs import print_first_sentence, print_lines, write_json
from analyses.cli.path_args import OutputFile, OutputFileOrFolder, OutputFolder, input_files
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.base.errors import UsageError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import resolve_location

if TYPE_CHECKING:
    from hta_graph.graph.dependency_graph import DependencyGraph


def _run_info(options: argparse.Namespace) -> None:
    """Print the contents of each rank's trace."""
    from analyses.questions.info import RANKS_LISTED, info_document, info_lines, more_ranks_line

    # Text is printed rank by rank; JSON is one document.
    asked, ranks = RankInputs.of(options), []
    for found in asked.graphs():
        ranks.append(info_document(found))
        if not options.json and (len(ranks) <= RANKS_LISTED or options.wide):
            print_lines([*info_lines(ranks[-1]), ""], wide=options.wide)
    if options.json:
        write_json(options.json, {"schema": "hta-graph/info/1", "ranks": ranks}, options.left_out)
        print_first_sentence(options.json, [line for rank in ranks[:1] for line in info_lines(rank)])
    elif len(ranks) > RANKS_LISTED and not options.wide:
        print_lines([more_ranks_line(ranks[RANKS_LISTED:])])


class _PrintNames(argparse.Action):
    """Prints the names by which kernels and calls are known, and ends the program: no trace is read."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from analyses.questions.known_names import name_lines

        print_lines(name_lines())
        parser.exit()


class _PrintFormats(argparse.Action):
    """Prints the formats of files, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print them."""
        from analyses.questions.known_names import format_lines

        print_lines(format_lines())
        parser.exit()


def _add_names(parser: argparse.ArgumentParser) -> None:
    """Add the list of known names."""
    heading(parser, OUTPUT).add_argument(
        "--names",
        action=_PrintNames,
        nargs=0,
        help="list the names by which communication kernels, waits and copies are known; reads no trace",
    )
    heading(parser, OUTPUT).add_argument(
        "--formats",
        action=_PrintFormats,
        nargs=0,
        help="list the formats of files that are read, with what is missing, and those that are named; reads no trace",
    )


INFO = Command(
    name="info",
    help="Summarize a trace: events, steps, lanes, diagnostics",
    more="Run it first on an unknown trace: the recorded events determine which questions can be answered.",
    examples=("info trace.json.gz", "info job"),
    page="commands.md",
    options=(add_inputs, add_jobs, add_answer, _add_names),
    run=_run_info,
)


def _add_graph_outputs(parser: argparse.ArgumentParser) -> None:
    """Add the graph as Parquet tables, and its trace as Kineto JSON."""
    output = heading(parser, OUTPUT)
    output.add_argument("--parquet", type=OutputFolder, metavar="DIR", help="write the graph as Parquet tables")
    output.add_argument(
        "--kineto",
        type=OutputFileOrFolder,
        metavar="OUT",
        help="write the trace as Kineto JSON (.json, .json.gz or .json.zst); for multiple ranks an existing folder",
    )


def _run_graph(options: argparse.Namespace) -> None:
    """Write the graph as JSON or Parquet, or its trace as Kineto JSON; without any of these, print its counts."""
    from analyses.questions.info import info_document, info_lines
    from hta_graph.export.graph_json import graph_document
    from hta_graph.export.parquet import check_folder, write_parquet

    if options.parquet:  # refused before the trace is read, which may take minutes
        check_folder(resolve_location(options.parquet))
    found = RankInputs.of(options).job_or_graph()
    begin_stage("writing the graph")
    if options.parquet:
        write_parquet(found, options.parquet)
    if options.json:
        write_json(options.json, graph_document(found), options.left_out)
        print_first_sentence(options.json, info_lines(info_document(found)))
    if options.kineto:
        _write_kineto(options, found)
    if not options.parquet and not options.json and not options.kineto:
        print_lines(info_lines(info_document(found)), wide=options.wide)


def _write_kineto(options: argparse.Namespace, graph: DependencyGraph) -> None:
    """Write the trace of a rank to a file, those of multiple ranks to files in a folder.

    Raises:
        UsageError: several ranks would be written to one file.
    """
    from hta_graph.base.storage.output_paths import check_outputs
    from hta_graph.export.kineto import write_kineto

    place = resolve_location(options.kineto)
    ranks = graph.rank_graphs
    targets = [place]
    if place.is_dir():
        targets = [place / f"rank_{part.rank}.json.gz" for part in ranks]
        # The folder can be that of the inputs.
        check_outputs(targets, input_files(options))
    elif len(ranks) > 1:
        raise UsageError(f"{place}: cannot hold {len(ranks)} ranks; name an existing folder, or one rank with --rank")
    for part, target in zip(ranks, targets, strict=True):
        write_kineto(part.graph, target)


GRAPH = Command(
    name="graph",
    help="Write the dependency graph as JSON or Parquet, or its trace as Kineto JSON",
    more="Without an output, it prints the number of events and edges.",
    examples=(
        "graph trace.json.gz",
        "graph trace.json.gz --json graph.json",
        "graph trace.json.gz --kineto for_perfetto.json.gz",
    ),
    page="asking_in_python.md",
    options=(add_inputs, add_jobs, add_flight, add_answer, _add_graph_outputs),
    run=_run_graph,
)


def _add_sync_outputs(parser: argparse.ArgumentParser) -> None:
    """Add further formats of dependencies."""
    output = heading(parser, OUTPUT)
    output.add_argument(
        "--external-ids",
        type=OutputFile,
        metavar="FILE",
        help="write JSON: each operator's external id and those of the operators whose GPU work it waits for",
    )


def _run_sync_deps(options: argparse.Namespace) -> None:
    """Print the waits for GPU work, or write them as JSON, CSV or external ids."""
    from analyses.questions.sync_deps import sync_document, sync_lines, unexported_waits
    from hta_graph.base.storage.atomic_write import write_file
    from hta_graph.export.sync_dependencies import SyncDependencies, external_ids_json, sync_csv

    window = WindowArgs.of(options).window(whole_by_default=True)
    graph = RankInputs.of(options).job_or_graph()
    begin_stage("finding dependencies")
    found = SyncDependencies(graph, window)
    # A job has none: this is refused before anything is written.
    ids = found.external_ids() if options.external_ids else None
    if options.json:
        write_json(options.json, sync_document(found), options.left_out)
        print_first_sentence(options.json, sync_lines(found))
    if options.csv:
        write_file(options.csv, sync_csv(found))
    if ids:
        write_file(options.external_ids, external_ids_json(ids))
        for line in unexported_waits(ids):
            say(f"{options.external_ids}: {line}")
    if not (options.json or options.csv or options.external_ids):
        print_lines(sync_lines(found), wide=options.wide)


SYNC_DEPS = Command(
    name="sync-deps",
    help="List what CPU calls and streams waited for on the GPU",
    more="Covers CPU calls that wait for GPU work and streams that wait for each other, for simulators.",
    examples=("sync-deps trace.json.gz", "sync-deps trace.json.gz --external-ids waits.json"),
    page="simulators.md",
    options=(add_inputs, add_jobs, add_window, add_answer_with_table, _add_sync_outputs),
    run=_run_sync_deps,
)
