"""All commands, and the groups in which the help lists them.

A command is declared in its own file in ``commands``, a line here names it; the commands of analyses are made of how
:mod:`analyses.catalogue` describes each.
"""

from __future__ import annotations

from collections.abc import Mapping

from analyses.catalogue import CATALOGUE
from analyses.cli.command import Command, CommandGroup
from analyses.cli.commands.analyses import analysis_commands
from analyses.cli.commands.chakra import CHAKRA
from analyses.cli.commands.critical_path import CRITICAL_PATH
from analyses.cli.commands.demo import DEMO
from analyses.cli.commands.diff import DIFF
from analyses.cli.commands.graph import GRAPH, INFO, SYNC_DEPS
from analyses.cli.commands.pictures import RENDER, TIMELINE
from analyses.cli.commands.report import REPORT
from analyses.cli.commands.schema_and_completion import COMPLETION, SCHEMA
from analyses.cli.commands.strip_and_counters import COUNTERS, STRIP
from analyses.cli.commands.what_if import WHAT_IF

ANALYSES = analysis_commands()
KERNEL_SEQUENCES = ANALYSES.pop("kernel-sequences")
LISTED_FIRST = (
    *("temporal-breakdown", "kernel-breakdown", "overlap", "idle-time", "queue-length", "memory-bandwidth"),
    *("launch-stats", "annotations", "attribution", "collectives", "stragglers", "memory-timeline"),
    *("operator-kernels", "hardware-counters", "roofline"),
)
"""In which order errors and completion scripts list analyses; the help has that of the catalogue."""

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
    *(ANALYSES.pop(name) for name in LISTED_FIRST),
    *ANALYSES.values(),
)

GROUPS: Mapping[str, tuple[str, ...]] = {
    "start": ("demo", "critical-path", "info", "completion"),
    "one rank, or each of several": ("what-if", *(one.name for one in CATALOGUE if one.from_summaries == "no")),
    "several ranks": tuple(one.name for one in CATALOGUE if one.from_summaries != "no"),
    "compare": ("diff",),
    "pages and pictures": ("report", "timeline", "render", "counters"),
    "simulators": ("chakra", "sync-deps"),
    "files": ("graph", "strip", "schema"),
}
"""What people want, in the order of the help → the commands for that; what stands in none is listed in the last."""
