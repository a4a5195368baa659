"""counters: write traces with counter tracks from the command line."""

from __future__ import annotations

import argparse

from analyses.cli.command import Command
from analyses.cli.options import add_inputs, add_output_place
from analyses.cli.path_args import input_files
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.description import COUNTER_SERIES
from hta_graph.errors import UsageError
from hta_graph.storage.location import Location
from hta_graph.storage.named_places import resolve_location

__all__ = ["COUNTERS"]


def _add_counters(parser: argparse.ArgumentParser) -> None:
    """Add where the trace goes, and which counters it gets."""
    add_output_place(parser, "a .json or .json.gz file; of several ranks a folder")
    parser.add_argument("--only", choices=COUNTER_SERIES, help="only this counter")


def _run_counters(options: argparse.Namespace) -> None:
    """Write each rank's trace with its counters and say what they hold."""
    from analyses.questions.counter_tracks import counter_tracks
    from analyses.scope import whole
    from hta_graph.export.perfetto.counter_tracks import write_counters
    from hta_graph.storage.output_paths import check_outputs

    scopes = [whole(rank, graph) for rank, graph in RankInputs.of(options).graphs_by_rank()]
    targets = _output_files(resolve_location(options.output), [scope.graph.path for scope in scopes])
    # A folder gets files whose names are those of the inputs and more; one of them may be another input's name.
    check_outputs(targets, input_files(options))
    for scope, target in zip(scopes, targets, strict=True):
        tracks = counter_tracks(scope, [options.only] if options.only else COUNTER_SERIES)
        points = write_counters(scope.graph.trace, tracks, target)
        counted = f"{points:,} points on {len(tracks)} counter tracks"
        print_lines([f"{target}: {counted}; open it in ui.perfetto.dev" if points else f"{target}: {scope.missing()}"])


def _output_files(place: Location, paths: list[Location]) -> list[Location]:
    """Return the file for each rank: the output, or one in that folder.

    Raises:
        UsageError: several ranks would be written to one file.
    """
    from analyses.questions.counter_tracks import output_name

    targets = [place / output_name(path, "_with_counters") if place.is_dir() else place for path in paths]
    if len(set(targets)) < len(targets):
        raise UsageError(f"{targets[0]}: several ranks would be written there; name a folder, or one rank with --rank")
    return targets


COUNTERS = Command(
    name="counters",
    help="The trace with queue lengths and copy rates as counter tracks, for ui.perfetto.dev.",
    more="Open what it writes at ui.perfetto.dev.",
    examples=("counters trace.json.gz -o counters.json",),
    page="overlay.md",
    options=(add_inputs, _add_counters),
    run=_run_counters,
)
