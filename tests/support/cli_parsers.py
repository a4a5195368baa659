"""Every command of the command line and what it can be given, so that a test of all of them leaves no new one out."""

from __future__ import annotations

import argparse
from functools import cache

from analyses.cli.command import CommandGroup, every_command

__all__ = ["options_of", "parsers_by_command", "positionals_of"]

Words = tuple[str, ...]
"""What calls a command, such as ``("chakra", "convert")``."""


@cache
def parsers_by_command() -> dict[Words, argparse.ArgumentParser]:
    """Return a parser of each command's arguments, by its words."""
    found = {}
    for command in every_command():
        within = command.commands if isinstance(command, CommandGroup) else (command,)
        for one in within:
            words = (command.name, one.name) if isinstance(command, CommandGroup) else (one.name,)
            found[words] = parser = argparse.ArgumentParser(prog=" ".join(words), add_help=False)
            for add in one.options:
                add(parser)
    return found


def options_of(words: Words) -> list[argparse.Action]:
    """Return a command's options."""
    return [action for action in parsers_by_command()[words]._actions if action.option_strings]


def positionals_of(words: Words) -> list[argparse.Action]:
    """Return what a command takes without an option's name."""
    return [action for action in parsers_by_command()[words]._actions if not action.option_strings]
