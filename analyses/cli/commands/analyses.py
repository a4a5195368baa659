"""kernel-sequences on the command line: the table, and a trace with the most frequent ones marked."""

from __future__ import annotations

import argparse

from analyses.arg_types import whole_number
from analyses.cli.outputs import Outputs
from analyses.cli.path_args import OutputFile
from analyses.cli.rank_inputs import RankInputs, say
from analyses.cli.run_analysis import read_scopes, write_answer
from analyses.cli.window_args import WindowArgs
from hta_graph.errors import UsageError

__all__ = ["_add_overlay", "_run_sequences"]


def _add_overlay(parser: argparse.ArgumentParser) -> None:
    """Add where the marked trace goes, and how much it marks."""
    parser.add_argument(
        "--top-k",
        type=whole_number(1, 999_999),
        default=5,
        metavar="N",
        help="mark so many sequences in the overlay (5)",
    )
    parser.add_argument(
        "--overlay",
        type=OutputFile,
        metavar="OUT",
        help="write the trace with the top sequences marked, for ui.perfetto.dev",
    )


def _run_sequences(options: argparse.Namespace) -> None:
    """Print the sequences, or write them and the marked trace."""
    from analyses.questions import kernel_sequences

    outputs = Outputs.of(options)
    scopes = read_scopes(RankInputs.of(options), WindowArgs.of(options))
    # Known only now: how many ranks an input folder holds.
    if options.overlay and len(scopes) > 1:
        raise UsageError("--overlay marks one stretch of one rank; choose with --rank, --step or --annotation")
    operator, min_pattern_len = options.operator, options.min_pattern_len
    found = kernel_sequences.answer(scopes, operator, min_pattern_len)
    write_answer("kernel-sequences", found, scopes, outputs, kernel_sequences.figure)
    if options.overlay:
        marks = kernel_sequences.write_sequence_overlay(
            scopes[0], options.overlay, operator, min_pattern_len, options.top_k
        )
        say(f"{options.overlay}: {marks:,} marks; open it in ui.perfetto.dev")
