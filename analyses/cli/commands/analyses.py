"""The commands of the analyses, made of their descriptions.

Two do more: ``kernel-sequences`` marks the most frequent sequences in a trace, ``memory-timeline`` also reads the
profiler's raw export.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from functools import partial

from analyses.cli.command import Command
from analyses.cli.options import (
    OUTPUT,
    add_all_rows,
    add_flags,
    add_flight,
    add_inputs,
    add_jobs,
    add_per_step,
    add_summaries,
    add_table_answer,
    add_window,
    heading,
)
from analyses.cli.outputs import Outputs
from analyses.cli.path_args import OutputFile
from analyses.cli.rank_inputs import RankInputs
from analyses.cli.run_analysis import read_ranks, run_analysis, scopes_of, write_answer
from analyses.cli.window_args import WindowArgs
from analyses.declare.arg_types import whole_number
from analyses.declare.description import IndexEntry
from analyses.display.stderr import say
from analyses.questions.catalogue import CATALOGUE
from hta_graph.base.errors import UsageError
from hta_graph.base.storage.location import expand_file_lists


def _add_overlay(parser: argparse.ArgumentParser) -> None:
    """Add the trace with marks, and the number of sequences that it marks."""
    parser.add_argument(
        "--top-k",
        type=whole_number(1, 999_999),
        default=5,
        metavar="N",
        help="number of sequences to mark in the overlay (default: 5)",
    )
    heading(parser, OUTPUT).add_argument(
        "--overlay",
        type=OutputFile,
        metavar="FILE",
        help="write the trace with the top sequences marked, for ui.perfetto.dev",
    )


def _run_sequences(options: argparse.Namespace) -> None:
    """Print or write the sequences, and write the marked trace."""
    from analyses.questions import kernel_sequences

    outputs = Outputs.of(options)
    window_args = WindowArgs.of(options)
    scopes = scopes_of(read_ranks(RankInputs.of(options), window_args), window_args)
    # The number of ranks in a folder is known only now.
    if options.overlay and len(scopes) > 1:
        raise UsageError("--overlay marks one window of one rank; name it with --rank, --step or --annotation")
    operator, min_pattern_len = options.operator, options.min_pattern_len
    found = kernel_sequences.answer(scopes, operator, min_pattern_len)
    write_answer("kernel-sequences", found, scopes, outputs, kernel_sequences.figure)
    if options.overlay:
        marks = kernel_sequences.write_sequence_overlay(
            scopes[0], options.overlay, operator, min_pattern_len, options.top_k
        )
        say(f"{options.overlay}: {marks:,} marks; open it at ui.perfetto.dev")


def run_memory_timeline(entry: IndexEntry, options: argparse.Namespace) -> None:
    """Analyze traces with [memory] events, or one raw memory timeline."""
    from analyses.questions import raw_memory_timeline

    # The profiler's raw export is no trace: its first bytes identify it.
    if not any(raw_memory_timeline.is_raw_timeline(path) for path in expand_file_lists(options.inputs)):
        run_analysis(entry, options)
        return
    if len(expand_file_lists(options.inputs)) > 1:
        raise UsageError("a raw memory timeline must be the only input")
    window_args = WindowArgs.of(options)
    if window_args.per_step or window_args.names_window:
        raise UsageError("a raw memory timeline has no steps or annotations; omit the window")
    outputs = Outputs.of(options)
    found = raw_memory_timeline.answer(raw_memory_timeline.read_raw_timeline(expand_file_lists(options.inputs)[0]))
    write_answer(entry.name, found, [], outputs, raw_memory_timeline.figure)


def analysis_commands() -> dict[str, Command]:
    """Make the commands of all analyses, by name, in the order of the catalogue."""
    made = {entry.name: analysis_command(entry) for entry in CATALOGUE}
    (of_memory,) = (entry for entry in CATALOGUE if entry.name == "memory-timeline")
    made["memory-timeline"] = replace(made["memory-timeline"], run=partial(run_memory_timeline, of_memory))
    sequences = made["kernel-sequences"]
    made["kernel-sequences"] = replace(sequences, options=(*sequences.options, _add_overlay), run=_run_sequences)
    return made


def analysis_command(entry: IndexEntry) -> Command:
    """Make the command of an analysis: shared options and its own flags."""
    between_ranks = (add_flight, add_summaries) if entry.from_summaries else ()
    shared = (add_inputs, add_jobs, *between_ranks, add_all_rows, add_window, add_per_step, add_table_answer)
    return Command(
        name=entry.name,
        help=entry.help,
        more=entry.more,
        examples=entry.examples,
        page=entry.page,
        options=(*shared, partial(add_flags, flags=entry.flags)),
        run=partial(run_analysis, entry),
    )


ANALYSES = analysis_commands()
"""Name → the command of each analysis."""
