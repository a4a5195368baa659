"""info, graph and sync-deps: what is in a trace, its dependency graph, and what waited for GPU work."""

from __future__ import annotations

import argparse

from analyses.cli.command import Command
from analyses.cli.options import add_flight, add_inputs, add_jobs, add_json, add_window
from analyses.cli.outputs import write_json
from analyses.cli.path_args import OutputFile, OutputFolder
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.cli.window_args import WindowArgs
from analyses.display.stderr import say
from hta_graph.storage.location import resolve_location


def _run_info(options: argparse.Namespace) -> None:
    """Print what is in each rank's trace."""
    from analyses.questions.info import RANKS_LISTED, info_document, info_lines, more_ranks_line

    # The text of a rank is printed as soon as that is read; JSON is one document of all.
    asked, ranks = RankInputs.of(options), []
    for found in asked.graphs():
        ranks.append(info_document(found))
        if not options.json and (len(ranks) <= RANKS_LISTED or options.wide):
            print_lines([*info_lines(ranks[-1]), ""], wide=options.wide)
    if options.json:
        write_json(options.json, {"schema": "hta-graph/info/1", "ranks": ranks}, options.left_out)
    elif len(ranks) > RANKS_LISTED and not options.wide:
        print_lines([more_ranks_line(ranks[RANKS_LISTED:])])


INFO = Command(
    name="info",
    help="What is in a trace: events, lanes, steps, edges, diagnostics.",
    more="Ask it first of a trace that you do not know: what was recorded decides what can be answered.",
    examples=("info trace.json.gz", "info job"),
    page="commands.md",
    options=(add_inputs, add_jobs, add_json),
    run=_run_info,
)


def _add_graph_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what a graph can be written as."""
    parser.add_argument(
        "--parquet", type=OutputFolder, metavar="DIR", help="write the graph's columns as Parquet tables"
    )


def _run_graph(options: argparse.Namespace) -> None:
    """Write the graph as JSON or Parquet; without either, print its counts."""
    from analyses.questions.info import info_document, info_lines
    from hta_graph.export.graph_json import graph_document
    from hta_graph.export.parquet import check_folder, save_graph

    if options.parquet:  # refused before the trace is read, which may take minutes
        check_folder(resolve_location(options.parquet))
    found = RankInputs.of(options).job_or_graph()
    if options.parquet:
        save_graph(found, options.parquet)
    if options.json:
        write_json(options.json, graph_document(found), options.left_out)
    if not options.parquet and not options.json:
        print_lines(info_lines(info_document(found)), wide=options.wide)


GRAPH = Command(
    name="graph",
    help="Dump the dependency graph as JSON or Parquet; without either, count its edges.",
    more="Events and edges, for programs of your own.",
    examples=("graph trace.json.gz", "graph trace.json.gz --json graph.json"),
    page="asking_in_python.md",
    options=(add_inputs, add_jobs, add_flight, add_json, _add_graph_outputs),
    run=_run_graph,
)


def _add_sync_outputs(parser: argparse.ArgumentParser) -> None:
    """Add what dependencies can be written as."""
    parser.add_argument("--csv", type=OutputFile, metavar="FILE", help="write one table of both directions as CSV")
    parser.add_argument(
        "--external-ids",
        type=OutputFile,
        metavar="FILE",
        help="write {operator: [operators whose GPU work it waits for]} by external id, as JSON",
    )


def _run_sync_deps(options: argparse.Namespace) -> None:
    """Print what waited for GPU work, or write it as JSON, CSV or external ids."""
    from analyses.questions.sync_deps import sync_document, sync_lines, unexported_waits
    from hta_graph.export.sync_dependencies import SyncDependencies, external_ids_json, sync_csv
    from hta_graph.storage.atomic_write import write_file

    window = WindowArgs.of(options).window(whole_by_default=True)
    found = SyncDependencies(RankInputs.of(options).job_or_graph(), window)
    # A job has none: that is said before anything is written.
    ids = found.external_ids() if options.external_ids else None
    if options.json:
        write_json(options.json, sync_document(found), options.left_out)
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
    help="What CPU calls and streams waited for, in the whole trace or a window; for simulators.",
    more="Both directions: calls on the CPU that wait for GPU work, and streams that wait for each other.",
    examples=("sync-deps trace.json.gz", "sync-deps trace.json.gz --external-ids waits.json"),
    page="simulators.md",
    options=(add_inputs, add_jobs, add_json, add_window, _add_sync_outputs),
    run=_run_sync_deps,
)
