"""strip and counters: traces written again, without what their owner would not give away, or with counter tracks."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from analyses.cli.command import Command
from analyses.cli.options import add_inputs, add_trace_output
from analyses.cli.path_args import input_files
from analyses.cli.rank_inputs import RankInputs, print_lines
from analyses.description import COUNTER_SERIES
from analyses.display.stderr import say
from analyses.display.text_layout import Line, clipped, table
from hta_graph.errors import HtaGraphError, TraceError, UsageError
from hta_graph.export.anonymize.keep_options import KEEP_OPTIONS
from hta_graph.storage.location import Location, resolve_location
from hta_graph.text.sanitize import one_line

if TYPE_CHECKING:
    from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
    from hta_graph.trace.rank_files import RankFile
    from hta_graph.trace.table import Trace


SUFFIXES = (".json", ".json.gz", ".json.zst")
KEYS_LISTED = 8
"""So many kinds of dropped arguments are named, those with most values first."""


def _add_strip(parser: argparse.ArgumentParser) -> None:
    """Add where the traces go, and what stays in them."""
    add_trace_output(parser, "a .json, .json.gz or .json.zst file; of several ranks a new folder")
    parser.add_argument(
        "--keep",
        type=_parse_kept_names,
        default=(),
        metavar="WHAT[,WHAT]",
        help=f"keep these too: {', '.join(KEEP_OPTIONS)} (names are those of operators and kernels)",
    )
    parser.add_argument("--keep-times", action="store_true", help="keep the date and time of day")
    parser.add_argument("--list", action="store_true", help="list every name that stays, to be looked through")


def _parse_kept_names(text: str) -> tuple[str, ...]:
    """Read what is kept.

    >>> _parse_kept_names("shapes,frames")
    ('shapes', 'frames')
    """
    words = tuple(dict.fromkeys(text.split(",")))
    if unknown := [word for word in words if word not in KEEP_OPTIONS]:
        raise argparse.ArgumentTypeError(f"takes some of {', '.join(KEEP_OPTIONS)}, not {unknown[0]!r}")
    return words


def _run_strip(options: argparse.Namespace) -> None:
    """Write the stripped trace of each rank, and say what stayed and what went."""
    from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
    from hta_graph.trace.rank_files import choose_ranks
    from hta_graph.trace.read import find_ranks

    asked = RankInputs.of(options)
    files = choose_ranks(
        find_ranks(asked.inputs, salvage=asked.salvage, say=say), None if asked.rank is None else [asked.rank]
    )
    found = TraceAnonymizer(options.keep, keep_times=options.keep_times)
    if len(files) == 1:
        _write_single_rank(found, files[0], options.output, asked)
    else:
        _write_folder(found, files, resolve_location(options.output), asked, input_files(options))
    is_piped = options.output == "-"  # what is said must not stand in the trace
    lines = [*_strip_lines(found, options.output, is_listed=options.list), *(_name_list(found) if options.list else ())]
    print_lines(lines, to=sys.stderr if is_piped else None)


def _write_single_rank(found: TraceAnonymizer, file: RankFile, target: str, asked: RankInputs) -> None:
    """Write the only rank to a file.

    Raises:
        UsageError: its name does not say how it is packed.
    """
    if target != "-" and not target.endswith(SUFFIXES):
        raise UsageError(f"{target}: the trace of one rank goes to a file; name one that ends in {', '.join(SUFFIXES)}")
    found.write(_read_with_repairs(file, asked), target)


def _write_folder(
    found: TraceAnonymizer, files: Sequence[RankFile], place: Location, asked: RankInputs, inputs: Sequence[Location]
) -> None:
    """Write several ranks to a new folder, under names that say nothing but the rank; broken ones are left out.

    Raises:
        UsageError: the place is that of a file.
        HtaGraphError: not one of them can be read.
    """
    from hta_graph.storage.atomic_write import new_folder
    from hta_graph.storage.output_paths import check_empty_folder

    def check() -> None:
        check_empty_folder(place, inputs)

    if place.name.endswith(SUFFIXES) or str(place) == "-":
        raise UsageError(f"{place}: {len(files)} ranks go to a folder; name a new one, or one rank with --rank")
    check()
    with new_folder(place, check) as folder:
        for file in files:
            try:
                trace = _read_with_repairs(file, asked)
            except HtaGraphError as error:
                asked.leave_out(error)
                continue
            found.write(trace, folder / f"rank_{file.rank}.json.gz")
        if len(asked.left_out) == len(files):
            raise TraceError(place, "nothing is written: none of the ranks can be read")
    asked.report_further_errors()


def _read_with_repairs(file: RankFile, asked: RankInputs) -> Trace:
    """Read a rank's trace and say what of it was salvaged or dropped."""
    from hta_graph.trace.read import read_rank

    trace = read_rank(file, salvage=asked.salvage)
    for line in trace.repairs:
        say(line)
    return trace


def _strip_lines(found: TraceAnonymizer, target: str, *, is_listed: bool) -> list[Line]:
    """Say how many names stayed and went, which arguments and rows went, and what is left to think of."""
    names = found.names
    categories = sorted({*names.kept, *names.replaced})
    rows = [[word, f"{len(names.kept.get(word, ())):,}", f"{names.replaced[word]:,}"] for word in categories]
    lines: list[Line] = [f"{target}: {found.events:,} events, with the graph of the original", ""]
    lines += [*table(rows, ["names", "kept", "replaced"], left=[0]), ""]
    if found.dropped:
        lines.append(f"arguments dropped: {_most_frequent(found.dropped)}")
    if emptied := sum(found.emptied.values()):
        lines.append(f"rows emptied, which were no events: {emptied:,}")
    if untyped := sum(names.untyped.values()):
        lines.append(f"names whose pseudonym is of another type, so that analyses may differ: {untyped:,}")
    if not found.keep_times:
        lines.append("times: begin at a fixed origin, the same for all ranks; the date is gone")
    lines.append("still there: all durations, sizes of copies and messages, names by which everybody knows a thing")
    return lines if is_listed else [*lines, "look through the names that are kept: --list shows them"]


def _most_frequent(counts: Counter[str]) -> str:
    """Name the keys with most values.

    >>> _most_frequent(Counter({"Input Dims": 12, "grid": 3}))
    'Input Dims (12), grid (3)'
    """
    told = [f"{clipped(key, 40)} ({count:,})" for key, count in counts.most_common(KEYS_LISTED)]
    more = len(counts) - len(told)
    return ", ".join(told) + (f", and {more:,} more" if more > 0 else "")


def _name_list(found: TraceAnonymizer) -> Iterator[Line]:
    """List the distinct names that stayed, by what they name."""
    for category in sorted(found.names.kept):
        yield from ("", f"kept, {category}:")
        yield from (f"  {one_line(name)}" for name in sorted(found.names.kept[category]))


STRIP = Command(
    name="strip",
    help="The trace without names, paths, hosts and shapes that are somebody's own, and with the same graph.",
    more=(
        "Names of your own become pseudonyms; paths, hosts, shapes and the date go. Who gets it can ask all but names."
    ),
    examples=(
        "strip trace.json.gz -o shared.json.gz",
        "strip job -o shared_job --list",
        "strip trace.json.gz -o with_shapes.json.gz --keep shapes",
    ),
    page="sharing.md",
    options=(add_inputs, _add_strip),
    run=_run_strip,
)


def _add_counters(parser: argparse.ArgumentParser) -> None:
    """Add where the trace goes, and which counters it gets."""
    add_trace_output(parser, "a .json or .json.gz file; of several ranks a folder")
    parser.add_argument("--only", choices=COUNTER_SERIES, help="only this counter")


def _run_counters(options: argparse.Namespace) -> None:
    """Write each rank's trace with its counters and say what they hold."""
    from analyses.questions.counter_tracks import counter_tracks
    from analyses.scope import whole
    from hta_graph.export.perfetto.append_events import write_counters
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
