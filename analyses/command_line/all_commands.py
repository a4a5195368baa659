"""All commands, and the groups in which the help lists them.

A command is declared in its own file, a line here names it; the commands of analyses are made of what
:mod:`analyses.catalogue` says of each.
"""

from __future__ import annotations

from collections.abc import Mapping

from analyses.catalogue import CATALOGUE
from analyses.command_line.analysis_commands import commands_of_analyses
from analyses.command_line.chakra.chakra_commands import CHAKRA
from analyses.command_line.command import Command, CommandGroup
from analyses.command_line.completion_command import COMPLETION
from analyses.command_line.counters_command import COUNTERS
from analyses.command_line.critical_path_command import CRITICAL_PATH
from analyses.command_line.demo_command import DEMO
from analyses.command_line.diff_command import DIFF
from analyses.command_line.graph_commands import GRAPH, INFO, SYNC_DEPS
from analyses.command_line.picture_commands import RENDER, TIMELINE
from analyses.command_line.report_command import REPORT
from analyses.command_line.schema_command import SCHEMA
from analyses.command_line.strip_command import STRIP
from analyses.command_line.what_if_command import WHAT_IF

__all__ = ["COMMANDS", "GROUPS"]

ANALYSES = commands_of_analyses()
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
