"""What a command is: its name, help, examples, options and the function that runs it; and the list of all.

A command is declared in a file in ``commands``, under its name in capitals. The file is imported when the command is
asked. Those of analyses are made of how :mod:`analyses.questions.catalogue` describes each.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module

AddOption = Callable[[argparse.ArgumentParser], None]
"""Adds an option, or a group of them, to a parser."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command as the command line offers it.

    Args:
        name: the word that calls it; of a :class:`CommandGroup` the word after the group's.
        help: one line in the list of commands: a noun phrase or an imperative of at most 56 characters.
        more: further sentences for the command's own help.
        examples: command lines on the traces of ``hta-graph demo --traces DIR``, run one after the other; the last one
            is of the command itself.
        page: the page of the manual, in ``docs/``.
        options: functions that add its arguments, in the order of the help.
        run: runs it; heavy imports happen inside.
    """

    name: str
    help: str
    more: str
    examples: tuple[str, ...]
    page: str
    options: tuple[AddOption, ...]
    run: Callable[[argparse.Namespace], None]

    @property
    def description(self) -> str:
        """The first lines of its own help."""
        return f"{self.help.rstrip('.')}. {self.more}"


@dataclass(frozen=True, kw_only=True)
class CommandGroup:
    """Commands that share their first word."""

    name: str
    help: str
    commands: tuple[Command, ...]

    @property
    def description(self) -> str:
        """The first line of its own help."""
        return f"{self.help.rstrip('.')}."


FILES: Mapping[str, Mapping[str, str]] = {
    "getting started": {
        "demo": "demo",
        "critical-path": "critical_path",
        "info": "graph",
        "completion": "schema_and_completion",
    },
    "each rank": {"what-if": "what_if"},
    "multiple ranks": {},
    "comparing runs": {"diff": "diff", "gate": "gate"},
    "pages and pictures": {
        "report": "report",
        "timeline": "pictures",
        "render": "pictures",
        "counters": "strip_and_counters",
    },
    "simulators": {"chakra": "chakra", "sync-deps": "graph"},
    "agents": {"mcp": "mcp"},
    "files": {
        "graph": "graph",
        "strip": "strip_and_counters",
        "schema": "schema_and_completion",
        "cache": "cache",
    },
}
"""Task → the commands for it, in the order of the help, each with its file in ``commands``; analyses follow."""


def command_named(name: str) -> Command | CommandGroup | None:
    """Return a command, whose file is imported now; None if there is none of this name.

    >>> command_named("critical-path").page
    'windows.md'
    """
    file = {name: file for group in FILES.values() for name, file in group.items()}.get(name)
    found: Command | CommandGroup | None
    if file is None:
        found = import_module("analyses.cli.commands.analyses").ANALYSES.get(name)
    else:
        found = getattr(import_module(f"analyses.cli.commands.{file}"), name.upper().replace("-", "_"))
    return found


def command_groups() -> dict[str, list[Command | CommandGroup]]:
    """Return task → the commands for it, in the order of the help."""
    from analyses.questions.catalogue import CATALOGUE  # late: one command needs no other's name

    names = {group: [*files] for group, files in FILES.items()}
    for entry in CATALOGUE:
        names["multiple ranks" if entry.from_summaries else "each rank"].append(entry.name)
    return {group: list(filter(None, map(command_named, within))) for group, within in names.items()}


def every_command() -> list[Command | CommandGroup]:
    """Return all commands, in the order of the help."""
    return [command for group in command_groups().values() for command in group]
