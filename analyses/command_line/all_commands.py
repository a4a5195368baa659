"""All commands, and the groups in which the help lists them.

A command is declared in its own file, a line here names it; the commands of analyses are made of what
:mod:`analyses.catalogue` says of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from analyses import catalogue
from analyses.catalogue import Analysis
from analyses.command_line.ask import ask
from analyses.command_line.chakra.chakra_commands import CHAKRA
from analyses.command_line.command import AddOption, Command, CommandGroup
from analyses.command_line.command_help import HELP
from analyses.command_line.completion_command import COMPLETION
from analyses.command_line.counters_command import COUNTERS
from analyses.command_line.critical_path_command import CRITICAL_PATH
from analyses.command_line.demo_command import DEMO
from analyses.command_line.diff_command import DIFF
from analyses.command_line.graph_commands import GRAPH, INFO, SYNC_DEPS
from analyses.command_line.kernel_sequences_command import add_overlay, write_sequences
from analyses.command_line.memory_command import memory_timeline
from analyses.command_line.options import (
    add_flags,
    add_flight,
    add_inputs,
    add_jobs,
    add_json,
    add_skeletons,
    add_stretch,
    add_tables,
)
from analyses.command_line.picture_commands import RENDER, TIMELINE
from analyses.command_line.report_command import REPORT
from analyses.command_line.schema_command import SCHEMA
from analyses.command_line.strip_command import STRIP
from analyses.command_line.what_if_command import WHAT_IF

__all__ = ["COMMANDS", "GROUPS", "command_of"]

BETWEEN_RANKS = (catalogue.collectives, catalogue.stragglers)


def command_of(
    analysis: Analysis[Any],
    run: Callable[..., None] | None = None,
    further_options: tuple[AddOption, ...] = (),
) -> Command:
    """Make the command of an analysis: the options that all share, its flags, and perhaps options of the command's own.

    ``run`` is who runs it, if not :func:`ask`.
    """
    # The order is that of the help: what is read, how, what is written, then the analysis' own flags.
    between_ranks = (add_flight, add_skeletons) if analysis in BETWEEN_RANKS else ()
    shared = (add_inputs, add_jobs, *between_ranks, add_json, add_stretch, add_tables)
    about = HELP[analysis.name]
    return Command(
        name=analysis.name,
        help=analysis.asks,
        more=about.tells,
        examples=about.examples,
        page=about.page,
        options=(*shared, partial(add_flags, flags=analysis.flags), *further_options),
        run=run or partial(ask, analysis),
    )


KERNEL_SEQUENCES = command_of(catalogue.kernel_sequences, write_sequences, (add_overlay,))

COMMANDS: tuple[Command | CommandGroup, ...] = (
    DEMO,
    INFO,
    CRITICAL_PATH,
    WHAT_IF,
    GRAPH,
    SYNC_DEPS,
    RENDER,
    TIMELINE,
    KERNEL_SEQUENCES,
    COUNTERS,
    STRIP,
    DIFF,
    REPORT,
    SCHEMA,
    COMPLETION,
    CHAKRA,
    *(
        command_of(one, memory_timeline if one is catalogue.memory_timeline else None)
        for one in catalogue.CATALOGUE
        if one is not catalogue.kernel_sequences
    ),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "start": ("demo", "critical-path", "info", "completion"),
    "one rank, or each of several": (
        "what-if",
        *(name for name in HELP if name not in [one.name for one in BETWEEN_RANKS]),
    ),
    "several ranks": tuple(name for name in HELP if name in [one.name for one in BETWEEN_RANKS]),
    "compare": ("diff",),
    "pages and pictures": ("report", "timeline", "render", "counters"),
    "simulators": ("chakra", "sync-deps"),
    "files": ("graph", "strip", "schema"),
}
"""What people want, in the order of the help → the commands for that; what stands in none is listed in the last."""
