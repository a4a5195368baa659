"""Every command of the command line with its parser, so that a test of all of them leaves no new one out."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from analyses.command_line.all_commands import COMMANDS, CommandGroup
from analyses.command_line.cli import _whole_parser

__all__ = ["every_command", "options_of", "positionals_of"]


def every_command() -> dict[str, argparse.ArgumentParser]:
    """Return the parser of each command, by its words, such as ``chakra convert``."""
    words = [
        [command.name, *more]
        for command in COMMANDS
        for more in ([[one.name] for one in command.commands] if isinstance(command, CommandGroup) else [[]])
    ]
    return {" ".join(one): command_parser(one) for one in words}


def command_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that these words name, with all its options."""
    parser = _whole_parser(words)
    for word in words:
        under = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = under.choices[word]
    return parser


def options_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return a command's options but ``--help``."""
    return [action for action in parser._actions if action.option_strings and "--help" not in action.option_strings]


def positionals_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Return what a command takes without an option's name."""
    return [action for action in parser._actions if not action.option_strings]
