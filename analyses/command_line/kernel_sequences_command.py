"""kernel-sequences on the command line: the table, and a trace with the most frequent ones marked."""

from __future__ import annotations

import argparse

__all__ = ["add_sequences", "kernel_sequences"]


def add_sequences(parser: argparse.ArgumentParser) -> None:
    """Add which rows to look at, and where the marked trace goes."""
    parser.add_argument(
        "--operator", required=True, metavar="NAME", help="part of the name of operators, annotations or Python frames"
    )
    parser.add_argument(
        "--min-pattern-len", type=int, default=3, metavar="N", help="leave out rows that launch less GPU work (3)"
    )
    parser.add_argument("--top-k", type=int, default=5, metavar="N", help="mark so many sequences in the overlay (5)")
    parser.add_argument(
        "--overlay", metavar="OUT", help="write the trace with the top sequences marked, for ui.perfetto.dev"
    )


def kernel_sequences(options: argparse.Namespace) -> None:
    """Print the sequences, or write them and the marked trace."""
    from analyses.command_line.ask import asked_scopes, write_answer
    from analyses.command_line.commands import check_outputs, say
    from analyses.launches import kernel_sequences as analysis
    from hta_graph.errors import UsageError

    check_outputs(options, options.json, options.csv, options.plot, options.overlay)
    scopes = asked_scopes(options)
    if options.overlay and len(scopes) > 1:
        raise UsageError("--overlay marks one stretch of one rank; choose with --rank, --step or --annotation")
    found = analysis.answer(scopes, options.operator, options.min_pattern_len)
    write_answer("kernel-sequences", found, scopes, options, analysis)
    if options.overlay:
        marks = analysis.write_sequence_overlay(
            scopes[0], options.overlay, options.operator, options.min_pattern_len, options.top_k
        )
        say(f"{options.overlay}: {marks:,} marks; open it in ui.perfetto.dev")
