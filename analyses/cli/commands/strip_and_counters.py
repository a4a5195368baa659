"""strip and counters: write traces again, anonymized or with counter tracks."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from analyses.cli.command import Command
from analyses.cli.options import add_inputs, add_trace_output
from analyses.cli.outputs import print_lines
from analyses.cli.path_args import input_files
from analyses.cli.rank_inputs import RankInputs, leave_out, say_further_errors
from analyses.declare.arg_types import expected
from analyses.declare.description import COUNTER_SERIES
from analyses.display.stderr import say
from analyses.display.text_layout import Line, clipped, table
from hta_graph.base.errors import HtaGraphError, TraceError, UsageError
from hta_graph.base.progress import begin_stage
from hta_graph.base.storage.location import Location, resolve_location
from hta_graph.base.text.sanitize import one_line
from hta_graph.export.anonymize.keep_options import KEEP_OPTIONS

if TYPE_CHECKING:
    from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer
    from hta_graph.trace.table import Trace


SUFFIXES = (".json", ".json.gz", ".json.zst")
KEYS_LISTED = 8
"""The number of dropped arguments that are named, the most frequent first."""


def _add_strip(parser: argparse.ArgumentParser) -> None:
    """Add the output, and what stays in it."""
    add_trace_output(parser, ".json, .json.gz or .json.zst file; for multiple ranks a new folder")
    parser.add_argument(
        "--keep",
        type=_parse_kept_names,
        default=(),
        metavar="WHAT[,WHAT]",
        help=f"also keep {', '.join(KEEP_OPTIONS)} (names are those of operators and kernels)",
    )
    parser.add_argument("--keep-times", action="store_true", help="keep date and time of day")
    parser.add_argument("--list", action="store_true", help="list all names that are kept, for review")


def _parse_kept_names(text: str) -> tuple[str, ...]:
    """Read the list of what is kept.

    >>> _parse_kept_names("shapes,frames")
    ('shapes', 'frames')
    """
    words = tuple(dict.fromkeys(text.split(",")))
    if unknown := [word for word in words if word not in KEEP_OPTIONS]:
        raise expected(f"some of {', '.join(KEEP_OPTIONS)}", unknown[0])
    return words


def _run_strip(options: argparse.Namespace) -> None:
    """Write the anonymized trace of each rank, and print what was kept and removed."""
    from hta_graph.export.anonymize.anonymize_trace import TraceAnonymizer

    asked = RankInputs.of(options)
    ranks = _rank_readers(asked)
    begin_stage("anonymizing")
    found = TraceAnonymizer(options.keep, keep_times=options.keep_times)
    if len(ranks) == 1:
        _write_single_rank(found, next(iter(ranks.values())), options.output)
    else:
        _write_folder(found, ranks, resolve_location(options.output), asked, input_files(options))
    _say_captures_name_nothing(options)
    is_piped = options.output == "-"  # messages must not be mixed with the trace
    listed = _name_list(found) if options.list else [_review_hint(options, len(ranks))]
    print_lines([*_strip_lines(found, options.output), *listed], to=sys.stderr if is_piped else None)


def _say_captures_name_nothing(options: argparse.Namespace) -> None:
    """Say that --capture changed nothing, once the rows of the recording itself are written."""
    if options.capture:
        say("hta-graph: --capture has no effect: rows are written as they were recorded")


def _rank_readers(asked: RankInputs) -> dict[int, Callable[[], Trace]]:
    """Return what reads the trace of each rank, lowest first; ranks that were merged into one file are read at once."""
    from hta_graph.trace.rank_files import choose_ranks
    from hta_graph.trace.read import find_ranks, read_rank, read_single_file

    if len(asked.files) == 1:
        traces = read_single_file(asked.files[0], asked.ranks, salvage=asked.salvage, say=say)
        return {trace.rank or 0: partial(_take, trace) for trace in traces}
    files = find_ranks(asked.listed, salvage=asked.salvage, say=say)
    if len(files) == 1 and not files[0].error:
        return _rank_readers(replace(asked, inputs=[files[0].path]))
    files = choose_ranks(files, asked.ranks)
    return {file.rank: partial(read_rank, file, salvage=asked.salvage) for file in files}


def _take(trace: Trace) -> Trace:
    return trace


def _write_single_rank(found: TraceAnonymizer, read: Callable[[], Trace], target: str) -> None:
    """Write the only rank to a file.

    Raises:
        UsageError: its suffix is none of those known.
    """
    if target != "-" and not target.endswith(SUFFIXES):
        raise UsageError(f"{target}: unknown suffix; name a file that ends in {', '.join(SUFFIXES)}")
    found.write(_read_with_repairs(read), target)


def _write_folder(
    found: TraceAnonymizer,
    ranks: Mapping[int, Callable[[], Trace]],
    place: Location,
    asked: RankInputs,
    inputs: Sequence[Location],
) -> None:
    """Write several ranks to a new folder, in files named by rank; leave out damaged ones.

    Raises:
        UsageError: the output is named like a file.
        HtaGraphError: none of them can be read.
    """
    from hta_graph.base.storage.atomic_write import new_folder
    from hta_graph.base.storage.output_paths import check_empty_folder

    def check() -> None:
        check_empty_folder(place, inputs)

    if place.name.endswith(SUFFIXES) or str(place) == "-":
        raise UsageError(f"{place}: cannot hold {len(ranks)} ranks; name a new folder, or one rank with --rank")
    check()
    with new_folder(place, check) as folder:
        for rank, read in ranks.items():
            try:
                trace = _read_with_repairs(read)
            except HtaGraphError as error:
                leave_out(asked.left_out, error.to_keep())
                continue
            found.write(trace, folder / f"rank_{rank}.json.gz")
        if len(asked.left_out) == len(ranks):
            raise TraceError(place, "nothing was written: none of the ranks can be read")
    say_further_errors(asked.left_out)


def _read_with_repairs(read: Callable[[], Trace]) -> Trace:
    """Read a rank's trace and print what was recovered or dropped."""
    trace = read()
    for line in trace.repairs:
        say(line)
    return trace


def _review_hint(options: argparse.Namespace, ranks: int) -> str:
    """Return the command that lists the names that are kept; several ranks need another new folder."""
    words = ["hta-graph", "strip", *map(str, options.inputs)]
    words += [] if options.rank is None else ["--rank", str(options.rank)]
    words += ["--salvage"] if options.salvage else []
    words += ["--keep", ",".join(options.keep)] if options.keep else []
    words += ["--keep-times"] if options.keep_times else []
    words += ["-o", options.output if ranks == 1 else f"{options.output.rstrip('/')}_review", "--list"]
    return f"review kept names: {shlex.join(words)} {'>/dev/null' if options.output == '-' else '| less'}"


def _strip_lines(found: TraceAnonymizer, target: str) -> list[Line]:
    """Describe the names that were kept and replaced, what was removed, and what remains."""
    names = found.names
    categories = sorted({*names.kept, *names.replaced})
    rows = [[word, f"{len(names.kept.get(word, ())):,}", f"{names.replaced[word]:,}"] for word in categories]
    lines: list[Line] = [f"{target}: {found.events:,} events, same dependency graph", ""]
    lines += [*table(rows, ["names", "kept", "replaced"], left=[0]), ""]
    if found.dropped:
        lines.append(f"removed arguments: {_most_frequent(found.dropped)}")
    if emptied := sum(found.emptied.values()):
        lines.append(f"cleared entries that are not events: {emptied:,}")
    if untyped := sum(names.untyped.values()):
        lines.append(f"names whose pseudonym has another type, so analyses can differ: {untyped:,}")
    if not found.keep_times:
        lines.append("times: shifted to a fixed origin, the same for all ranks; the date is removed")
    lines.append("kept: all durations, sizes of copies and messages, public names")
    return lines


def _most_frequent(counts: Counter[str]) -> str:
    """Return the most frequent keys.

    >>> _most_frequent(Counter({"Input Dims": 12, "grid": 3}))
    'Input Dims (12), grid (3)'
    """
    listed = [f"{clipped(key, 40)} ({count:,})" for key, count in counts.most_common(KEYS_LISTED)]
    more = len(counts) - len(listed)
    return ", ".join(listed) + (f", and {more:,} more" if more > 0 else "")


def _name_list(found: TraceAnonymizer) -> Iterator[Line]:
    """List the distinct names that are kept, by kind."""
    for category in sorted(found.names.kept):
        yield from ("", f"kept, {category}:")
        yield from (f"  {one_line(name)}" for name in sorted(found.names.kept[category]))


STRIP = Command(
    name="strip",
    help="Anonymize a trace; its dependency graph stays the same",
    more=("Your own names become pseudonyms; paths, hosts, shapes and the date are removed. Times are kept."),
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
    """Add the output and the counters."""
    add_trace_output(parser, ".json or .json.gz file; for multiple ranks a folder")
    parser.add_argument("--only", choices=COUNTER_SERIES, help="write only this counter")


def _run_counters(options: argparse.Namespace) -> None:
    """Write each rank's trace with its counters and print their number."""
    from analyses.declare.scope import whole
    from analyses.questions.counter_tracks import counter_tracks
    from hta_graph.base.storage.output_paths import check_outputs
    from hta_graph.export.perfetto.append_events import write_counters

    scopes = [whole(graph.rank or 0, graph) for graph in RankInputs.of(options).graphs()]
    targets = _output_files(resolve_location(options.output), [(scope.rank, scope.graph.path) for scope in scopes])
    # A folder gets files named after the inputs; one of them can be another input.
    check_outputs(targets, input_files(options))
    for scope, target in zip(scopes, targets, strict=True):
        tracks = counter_tracks(scope, [options.only] if options.only else COUNTER_SERIES)
        points = write_counters(scope.graph.trace, tracks, target)
        counted = f"{points:,} points on {len(tracks)} counter tracks"
        print_lines([f"{target}: {counted}; open it at ui.perfetto.dev" if points else f"{target}: {scope.missing()}"])
    _say_captures_name_nothing(options)


def _output_files(place: Location, ranks: list[tuple[int, Location]]) -> list[Location]:
    """Return the file for each rank: the output, or one in that folder, with the rank where files have one name.

    Raises:
        UsageError: several ranks would be written to one file.
    """
    from analyses.questions.counter_tracks import output_name

    if place.is_dir():
        names = [output_name(path, "_with_counters") for _, path in ranks]
        if len(set(names)) < len(names):
            names = [output_name(path, f"_rank{rank}_with_counters") for rank, path in ranks]
        return [place / name for name in names]
    if len(ranks) > 1:
        raise UsageError(f"{place}: cannot hold several ranks; name an existing folder, or one rank with --rank")
    return [place] * len(ranks)


COUNTERS = Command(
    name="counters",
    help="Add queue lengths and copy rates to a trace",
    more="Open the written trace at ui.perfetto.dev, where they are counter tracks.",
    examples=("counters trace.json.gz -o counters.json",),
    page="overlay.md",
    options=(add_inputs, _add_counters),
    run=_run_counters,
)
