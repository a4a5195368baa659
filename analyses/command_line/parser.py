"""The parser of the command line: of all commands by name, of those that are named with their options."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NoReturn

from analyses.command_line.all_commands import COMMANDS, Command, CommandGroup
from hta_graph import __version__
from hta_graph.errors import UsageError
from hta_graph.printable import printable_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

__all__ = ["EXIT_USAGE", "command_parser"]

DESCRIPTION = "Turn PyTorch-profiler (Kineto) traces into dependency graphs and ask questions of them."
EXIT_USAGE = 2


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line; where an argument is missing, the usage before it."""
        # Who forgot an argument needs to see which ones there are; who mistyped one needs its name only.
        if "required" in message:
            self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {UsageError(message)}; see {self.prog} --help\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # All that a parser prints comes by here; an error repeats words that may be anybody's.
        super()._print_message(printable_lines(message), file)


def command_parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the options of those that a command line names."""
    parser = OneLineParser(prog="hta-graph", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=f"hta-graph {__version__}")
    _add_commands(parser, COMMANDS, words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser, commands: Iterable[Command | CommandGroup], words: Sequence[str]
) -> None:
    """Add the command or group that the words begin with; all where they begin with none, for the help and errors."""
    under = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in [command for command in commands if command.name in words[:1]] or commands:
        own = under.add_parser(command.name, help=command.summary, description=command.summary, allow_abbrev=False)
        if isinstance(command, CommandGroup):
            _add_commands(own, command.commands, words[1:])
            continue
        # The options of thirty commands take longer to make than the help takes to print: the others stay without.
        for add in command.options if command.name in words else ():
            add(own)
        # Each run has its own list of ranks that could not be read: it decides the exit status.
        own.set_defaults(run=command.run, left_out=[])
