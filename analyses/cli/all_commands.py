"""All commands, and the groups in which the help lists them.

A command is declared in its own file in ``commands``, its group here names it; the commands of analyses are made of how
:mod:`analyses.questions.catalogue` describes each.
"""

from __future__ import annotations

from collections.abc import Mapping

from analyses.cli.command import Command, CommandGroup
from analyses.cli.commands.analyses import analysis_commands
from analyses.cli.commands.cache import CACHE
from analyses.cli.commands.chakra import CHAKRA
from analyses.cli.commands.critical_path import CRITICAL_PATH
from analyses.cli.commands.demo import DEMO
from analyses.cli.commands.diff import DIFF
from analyses.cli.commands.gate import GATE
from analyses.cli.commands.graph import GRAPH, INFO, SYNC_DEPS
from analyses.cli.commands.mcp import MCP
from analyses.cli.commands.pictures import RENDER, TIMELINE
from analyses.cli.commands.report import REPORT
from analyses.cli.commands.schema_and_completion import COMPLETION, SCHEMA
from analyses.cli.commands.strip_and_counters import COUNTERS, STRIP
from analyses.cli.commands.what_if import WHAT_IF
from analyses.questions.catalogue import CATALOGUE

ANALYSES = analysis_commands()
COMMAND_GROUPS: Mapping[str, tuple[Command | CommandGroup, ...]] = {
    "getting started": (DEMO, CRITICAL_PATH, INFO, COMPLETION),
    "each rank": (
        WHAT_IF,
        *(ANALYSES[one.name] for one in CATALOGUE if one.from_summaries == "no"),
    ),
    "multiple ranks": tuple(ANALYSES[one.name] for one in CATALOGUE if one.from_summaries != "no"),
    "comparing runs": (DIFF, GATE),
    "pages and pictures": (REPORT, TIMELINE, RENDER, COUNTERS),
    "simulators": (CHAKRA, SYNC_DEPS),
    "agents": (MCP,),
    "files": (GRAPH, STRIP, SCHEMA, CACHE),
}
"""Task → the commands for it, in the order of the help."""
COMMANDS: tuple[Command | CommandGroup, ...] = tuple(one for group in COMMAND_GROUPS.values() for one in group)
