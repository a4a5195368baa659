"""counters: write traces with counter tracks from the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

__all__ = ["add_counters", "counters"]

SERIES = ("queue-length", "memory-bandwidth")


def add_counters(parser: argparse.ArgumentParser) -> None:
    """Add where the trace goes, and which counters it gets."""
    parser.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="a .json or .json.gz file; of several ranks a folder"
    )
    parser.add_argument("--only", choices=SERIES, help="only this counter")


def counters(options: argparse.Namespace) -> None:
    """Write each rank's trace with its counters and say what they hold."""
    from analyses.command_line.commands import check_outputs, graphs_by_rank, print_lines
    from analyses.launches.counter_series import BOTH, TimeSeriesTypes, counter_tracks
    from analyses.scope import whole
    from hta_graph.export.perfetto.counter_tracks import write_counters

    chosen = dict(zip(SERIES, TimeSeriesTypes, strict=True)).get(options.only, BOTH)
    if not Path(options.output).is_dir():
        check_outputs(options, options.output)
    scopes = [whole(rank, graph) for rank, graph in graphs_by_rank(options)]
    for scope, target in zip(scopes, _targets(options, [scope.graph.trace.path for scope in scopes]), strict=True):
        tracks = counter_tracks(scope, chosen)
        points = write_counters(scope.graph.trace, tracks, target)
        counted = f"{points:,} points on {len(tracks)} counter tracks"
        print_lines([f"{target}: {counted}; open it in ui.perfetto.dev" if points else f"{target}: {scope.missing()}"])


def _targets(options: argparse.Namespace, paths: list[Path]) -> list[Path]:
    """Return the file for each rank: the output, or one in that folder.

    Raises:
        UsageError: several ranks would be written to one file.
    """
    from analyses.launches.counter_series import output_name
    from hta_graph.errors import UsageError

    place = Path(options.output)
    targets = [place / output_name(path, "_with_counters") if place.is_dir() else place for path in paths]
    if len(set(targets)) < len(targets):
        raise UsageError(f"{targets[0]}: several ranks would be written there; name a folder, or one rank with --rank")
    return targets
