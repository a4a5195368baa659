"""All commands, and the groups in which the help lists them.

A command is declared in its own file in ``commands``, its group here names it; the commands of analyses are made of how
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
COMMAND_GROUPS: Mapping[str, tuple[Command | CommandGroup, ...]] = {
    "start": (DEMO, CRITICAL_PATH, INFO, COMPLETION),
    "one rank, or each of several": (
        WHAT_IF,
        *(ANALYSES[one.name] for one in CATALOGUE if one.from_summaries == "no"),
    ),
    "several ranks": tuple(ANALYSES[one.name] for one in CATALOGUE if one.from_summaries != "no"),
    "compare": (DIFF,),
    "pages and pictures": (REPORT, TIMELINE, RENDER, COUNTERS),
    "simulators": (CHAKRA, SYNC_DEPS),
    "files": (GRAPH, STRIP, SCHEMA),
}
"""What people want, in the order of the help → the commands for that."""
GROUPS: Mapping[str, tuple[str, ...]] = {
    group: tuple(command.name for command in commands) for group, commands in COMMAND_GROUPS.items()
}

LISTED_FIRST = (
    *("demo", "info", "critical-path", "what-if", "graph", "sync-deps", "render", "timeline", "kernel-sequences"),
    *("counters", "strip", "diff", "report", "schema", "completion", "chakra"),
    *("temporal-breakdown", "kernel-breakdown", "overlap", "idle-time", "queue-length", "memory-bandwidth"),
    *("launch-stats", "annotations", "attribution", "collectives", "stragglers", "memory-timeline"),
    *("operator-kernels", "hardware-counters", "roofline"),
)
"""In which order errors and completion scripts list commands, all others behind them."""
_BY_NAME = {command.name: command for commands in COMMAND_GROUPS.values() for command in commands}
COMMANDS: tuple[Command | CommandGroup, ...] = tuple(
    _BY_NAME[name] for name in dict.fromkeys([*LISTED_FIRST, *_BY_NAME])
)
