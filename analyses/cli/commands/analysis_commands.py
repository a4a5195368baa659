"""The commands of the analyses, made of how each describes itself; two of them take or write something else, too."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from analyses.catalogue import CATALOGUE
from analyses.cli.command import Command
from analyses.cli.commands.analyses import _add_overlay, _run_sequences
from analyses.cli.commands.memory_command import run_memory_timeline
from analyses.cli.options import (
    add_flags,
    add_flight,
    add_inputs,
    add_jobs,
    add_json,
    add_skeletons,
    add_stretch,
    add_tables,
)
from analyses.cli.run_analysis import run_analysis
from analyses.description import IndexEntry

__all__ = ["analysis_command", "analysis_commands"]


def analysis_commands() -> dict[str, Command]:
    """Make the commands of all analyses, by name, in the order of the catalogue."""
    made = {entry.name: analysis_command(entry) for entry in CATALOGUE}
    (of_memory,) = (entry for entry in CATALOGUE if entry.name == "memory-timeline")
    made["memory-timeline"] = replace(made["memory-timeline"], run=partial(run_memory_timeline, of_memory))
    sequences = made["kernel-sequences"]
    made["kernel-sequences"] = replace(sequences, options=(*sequences.options, _add_overlay), run=_run_sequences)
    return made


def analysis_command(entry: IndexEntry) -> Command:
    """Make the command of an analysis: what all share, then its own flags."""
    # The order is that of the help: what is read, how, what is written, then the analysis' own flags.
    between_ranks = () if entry.from_summaries == "no" else (add_flight, add_skeletons)
    shared = (add_inputs, add_jobs, *between_ranks, add_json, add_stretch, add_tables)
    return Command(
        name=entry.name,
        help=entry.help,
        more=entry.more,
        examples=entry.examples,
        page=entry.page,
        options=(*shared, partial(add_flags, flags=entry.flags)),
        run=partial(run_analysis, entry),
    )
