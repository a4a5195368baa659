"""The parser of the command line: of all commands by name, of those that are named with their options.

Beside the options a help has examples, exit statuses and, of the program, what to try first.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, NoReturn

from analyses.cli.all_commands import COMMANDS, GROUPS
from analyses.cli.command import Command, CommandGroup
from hta_graph import __version__
from hta_graph.errors import UsageError
from hta_graph.text.sanitize import sanitize_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


EXIT_STATUSES = {
    0: "done; an analysis that finds nothing says what is missing",
    1: "the trace cannot answer, or one of several could not be read; a line on standard error says why",
    2: "wrong usage",
    130: "interrupted",
}
"""Exit status → what it means, of every command."""

FIRST_COMMANDS = {
    "hta-graph demo --traces DIR": "traces to try all of this on",
    "hta-graph critical-path TRACE": "what decides how long a step takes",
    "hta-graph report TRACE -o report.html": "all answers on one page",
}
"""What to try first → what it gives."""


def further_help(command: Command) -> str:
    """Return what stands behind a command's options."""
    examples = [f"  hta-graph {line}" for line in command.examples]
    return "\n".join(
        [
            *("examples (on the traces of hta-graph demo --traces DIR):", *examples, ""),
            *exit_status_lines(),
            *("", f"more: docs/{command.page}"),
        ]
    )


def exit_status_lines() -> list[str]:
    """Return what the exit statuses mean, a line each."""
    return ["exit status:", *(f"  {status:<4} {meaning}" for status, meaning in EXIT_STATUSES.items())]


DESCRIPTION = "Turn PyTorch-profiler (Kineto) traces into dependency graphs and ask questions of them."
EXIT_USAGE = 2
LISTED = " " * 7
"""How far the meaning of an exit status stands from the left."""


class LineFormatter(argparse.HelpFormatter):
    """A formatter that keeps the lines of a text, and breaks those that are too long, but for what can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [[line] if line.startswith("  hta-graph ") else _broken(line, width) for line in text.split("\n")]
        return "\n".join(indent + part for line in lines for part in line)


def _broken(line: str, width: int) -> list[str]:
    """Break a line; one of a list goes on behind its first word."""
    return wrap(line, width, subsequent_indent=LISTED if line.startswith("  ") else "") or [""]


class OneLineParser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    example = ""
    """A command line to copy."""

    def error(self, message: str) -> NoReturn:
        """Print one line; where an argument is missing, with an example of the command that has it."""
        # Who forgot an argument needs to see where it stands; who mistyped one needs its name only.
        if "required" in message and self.example:
            self.exit(EXIT_USAGE, f"{self.prog}: {UsageError(message)}, as in: {self.example}\n")
        if "required" in message:
            self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {UsageError(message)}; see {self.prog} --help\n")

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # All that a parser prints comes by here; an error repeats words that may be anybody's.
        super()._print_message(sanitize_lines(message), file)


class ProgramParser(OneLineParser):
    """The parser of the program, whose help lists commands by what people want."""

    def format_help(self) -> str:
        """Return the help: commands by their groups, what to try first, exit statuses."""
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        for group, commands in _commands_by_group().items():
            formatter.start_section(group)
            formatter.add_arguments(
                [argparse.Action([], one.name, metavar=one.name, help=one.help) for one in commands]
            )
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _commands_by_group() -> dict[str, list[Command | CommandGroup]]:
    """Return the groups of the help, each with its commands."""
    by_name = {command.name: command for command in COMMANDS}
    groups = {group: [by_name.pop(name) for name in names] for group, names in GROUPS.items()}
    groups[list(GROUPS)[-1]] += by_name.values()
    return groups


def _program_epilog() -> str:
    first = [f"  {command:38} {gives}" for command, gives in FIRST_COMMANDS.items()]
    more = "hta-graph COMMAND --help (or hta-graph help COMMAND) has the options of a command, and examples."
    return "\n".join(["try first:", *first, "", more, "", *exit_status_lines()])


def command_parser(words: Sequence[str] | None) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the options of those that a command line names, or without one of all."""
    parser = ProgramParser(
        prog="hta-graph",
        description=DESCRIPTION,
        epilog=_program_epilog(),
        formatter_class=LineFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"hta-graph {__version__}")
    parser.set_defaults(parser_of_all=lambda: command_parser(None))
    _add_commands(parser, COMMANDS, words)
    return parser


def _add_commands(
    parser: argparse.ArgumentParser,
    commands: Iterable[Command | CommandGroup],
    words: Sequence[str] | None,
) -> None:
    """Add the command or group that the words begin with; all where they begin with none, for the help and errors."""
    under = parser.add_subparsers(title="commands", metavar="COMMAND", required=True, parser_class=OneLineParser)
    named = [command for command in commands if command.name in (words or ())[:1]]
    for command in named or commands:
        own = under.add_parser(
            command.name,
            help=command.help,
            description=command.description,
            formatter_class=LineFormatter,
            allow_abbrev=False,
        )
        if isinstance(command, CommandGroup):
            _add_commands(own, command.commands, words and words[1:])
            continue
        # The options of thirty commands take longer to make than the help takes to print: the others stay without.
        if words is None or command.name in words:
            _add_options(own, command)
        # Each run has its own list of ranks that could not be read: it decides the exit status.
        own.set_defaults(run=command.run, left_out=[])


def _add_options(parser: OneLineParser, command: Command) -> None:
    """Add a command's options, and behind what these say of themselves its examples."""
    for add in command.options:
        add(parser)
    parser.epilog = "\n\n".join(text for text in (parser.epilog, further_help(command)) if text)
    parser.example = f"hta-graph {command.examples[0]}"
