"""The parser of the command line: all commands, the named one with its options; its help and one-line errors."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from itertools import takewhile
from textwrap import wrap
from typing import TYPE_CHECKING, Any, NoReturn, cast

from analyses.cli.command import Command, CommandGroup, command_groups, command_named, every_command
from analyses.cli.options import OUTPUT, RANKS, READING, SHOWN_BY_HELP_ALL, WINDOW
from analyses.display.stderr import say
from hta_graph import __version__
from hta_graph.base.errors import UsageError
from hta_graph.base.text.sanitize import sanitize_lines

if TYPE_CHECKING:
    from _typeshed import SupportsWrite


EXIT_STATUSES = {
    0: "done; an answer without results states what is missing",
    1: "no answer could be computed, or an input could not be read",
    2: "invalid usage",
    3: "gate, diff --fail-above: the runs cannot be compared; 1 is a regression",
    130: "interrupted",
}
"""Exit status → its meaning, for every command."""

FIRST_COMMANDS = {
    "hta-graph demo --traces DIR": "write sample traces to follow along",
    "hta-graph critical-path TRACE": "show what bounds a step",
    "hta-graph report TRACE -o report.html": "put all answers on one page",
}
"""What to try first → what it does."""

DESCRIPTION = "Analyze PyTorch profiler (Kineto) traces as dependency graphs."
HELP_OF_A_COMMAND = "Run hta-graph COMMAND --help for a command's options and examples."
EXIT_USAGE = 2
HELP = ("help", "help_all", "version")
SHORT_HELP_COLUMN = 27
"""Where the texts of options begin in a command's help, for one line each."""
LISTED = " " * 7
"""The indent of an exit status's meaning."""
PHRASES = (
    (re.compile(r"^argument (?=\S)"), ""),
    (re.compile(r"not allowed with argument "), "cannot be used with "),
    (re.compile(r"^one of the arguments (.*) is required$"), r"one of \1 is required"),
    (re.compile(r"^the following arguments are required: "), "missing "),
)
"""argparse's phrases, and what this program says instead."""


def _further_help(command: Command) -> str:
    """Return what follows a command's options in its full help."""
    return "\n".join([*exit_status_lines(), "", f"more: docs/{command.page}"])


def _examples(command: Command) -> str:
    lines = [f"  hta-graph {line}" for line in command.examples]
    return "\n".join(["examples (with the traces from hta-graph demo --traces DIR):", *lines])


def exit_status_lines() -> list[str]:
    """Return the meanings of the exit statuses, a line each."""
    return ["exit status:", *(f"  {status:<4} {meaning}" for status, meaning in EXIT_STATUSES.items())]


class LineFormatter(argparse.HelpFormatter):
    """A formatter that keeps the lines of a text and wraps long ones, except command lines, which can be copied."""

    def _split_lines(self, text: str, width: int) -> list[str]:
        return wrap(" ".join(text.split()), width, break_on_hyphens=False)

    def _format_action_invocation(self, action: argparse.Action) -> str:
        """Return the names of an option and its value, once."""
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, self._get_default_metavar_for_optional(action))
        return f"{', '.join(action.option_strings)} {value}"

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        if action.nargs != argparse.ONE_OR_MORE:
            return super()._format_args(action, default_metavar)
        return f"{self._metavar_formatter(action, default_metavar)(1)[0]}..."

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = [[line] if line.startswith("  hta-graph ") else _wrapped(line, width) for line in text.split("\n")]
        return "\n".join(indent + part for line in lines for part in line)


def _wrapped(line: str, width: int) -> list[str]:
    """Wrap a line; an entry of a list continues below its second word."""
    indent = LISTED if line.startswith("  ") else ""
    return wrap(line, width, subsequent_indent=indent, break_on_hyphens=False) or [""]


class OneLineParser(argparse.ArgumentParser):
    """A parser with a short usage, whose errors are one line and suggest what was meant."""

    command: Command | None = None
    """What it parses; of a parser that lists commands None."""

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads for namespaces of other types
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parse what belongs to this parser; refuse an unknown option here, where its neighbors are known."""
        words = sys.argv[1:] if args is None else list(args)
        # Before anything else: an unknown option is the better explanation of an argument that is missing.
        if unknown := self._unknown_option(words):
            self.error(f"unknown option {unknown}{self._meant_option(unknown)}")
        found, extra = super().parse_known_args(words, namespace)
        if extra:
            self.error(f"unexpected argument {extra[0]!r}")
        return found, extra

    def _unknown_option(self, words: Sequence[str]) -> str | None:
        for word in takewhile(lambda word: word != "--", self._own_words(words)):
            name = word.partition("=")[0] if word.startswith("--") else word[:2]
            if (
                re.match(r"--?(?!(?:inf|nan)$)[A-Za-z]", word)
                and " " not in word
                and name not in self._option_string_actions
            ):
                return word if f"-{word}" in self._option_string_actions else name
        return None

    def _meant_option(self, unknown: str) -> str:
        # A long option with a single dash is no short one with a value.
        is_long = f"-{unknown}" in self._option_string_actions
        return f"; did you mean -{unknown}?" if is_long else self._did_you_mean(unknown, self._shown_options())

    def _own_words(self, words: Sequence[str]) -> Iterable[str]:
        """Return the words in which this parser's own options are."""
        has_commands = any(isinstance(action, argparse._SubParsersAction) for action in self._actions)  # noqa: SLF001
        return takewhile(lambda word: word.startswith("-"), words) if has_commands else words

    def _shown_options(self) -> list[str]:
        return [name for action in self._actions if action.help != argparse.SUPPRESS for name in action.option_strings]

    @staticmethod
    def _did_you_mean(word: str, known: Iterable[str]) -> str:
        from hta_graph.base.text.shorten import closest_names

        close = closest_names(word, known, 1)
        return f"; did you mean {close[0]}?" if close else ""

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """Refuse a word that is none of an argument's choices, and suggest a close one."""
        choices = action.choices
        if choices is None or value in choices:
            return
        known = list(map(str, choices))
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001 - argparse has no public name for it
            said = f"unknown command {value!r}{self._suggested_command(value, known)}"
            raise argparse.ArgumentError(None, said)
        listed = f"{', '.join(known[:-1])} or {known[-1]}"
        raise argparse.ArgumentError(action, f"expected {listed}, got {value!r}{self._did_you_mean(value, known)}")

    def _suggested_command(self, word: str, known: Sequence[str]) -> str:
        grouped = [
            f"{group.name} {word}"
            for group in every_command()
            if isinstance(group, CommandGroup) and word in [one.name for one in group.commands]
        ]
        return f"; did you mean {grouped[0]}?" if grouped else self._did_you_mean(word, known)

    def error(self, message: str) -> NoReturn:
        """Print one line; where an argument is missing, with an example of the command."""
        for argparse_says, instead in PHRASES:
            message = argparse_says.sub(instead, message)
        if message == "missing COMMAND":
            self.print_help(sys.stderr)
            self.exit(EXIT_USAGE)
        # A person who forgot an argument needs to see where it goes; one who mistyped it needs its name only.
        is_missing = message.startswith("missing ") or message.endswith(" is required")
        if is_missing and self.command:
            hint = f"; for example: hta-graph {self.command.examples[0]}"
        else:
            hint = "" if message.endswith("?") else f"; see {self.prog} --help"
        say(f"{self.prog}: {UsageError(message)}{hint}")
        self.exit(EXIT_USAGE)

    def _usage_line(self) -> str:
        """Return a usage that fits a line: required options and arguments by name, all others as OPTIONS."""
        words = [self.prog, "[OPTIONS]", *self._required_options(), *self._arguments()]
        return " ".join(words).replace("%", "%%")

    def _required_options(self) -> list[str]:
        groups = [group for group in self._mutually_exclusive_groups if group.required]
        names = [[action.option_strings[0] for action in group._group_actions] for group in groups]  # noqa: SLF001
        required = [action for action in self._actions if action.option_strings and action.required]
        return [
            *(f"({' | '.join(alternatives)})" for alternatives in names),
            *(f"{action.option_strings[0]} {action.metavar}" for action in required),
        ]

    def _arguments(self) -> list[str]:
        found = [(str(one.metavar or one.dest), one.nargs) for one in self._actions if not one.option_strings]
        return [f"[{name}]" if nargs == "?" else f"{name}..." if nargs == "+" else name for name, nargs in found]

    def format_help(self) -> str:
        """Return the help of a command on one page: examples, then its own options and the usual ones."""
        if self.command is None:
            return self.full_help()
        formatter = self._get_formatter(SHORT_HELP_COLUMN)
        formatter.add_usage(self._usage_line(), [], [])
        formatter.add_text(self.description)
        formatter.add_text(_examples(self.command))
        formatter.start_section("options")
        formatter.add_arguments([action for group in self._action_groups for action in _usual_of(group)])
        formatter.end_section()
        formatter.add_text(f"more: docs/{self.command.page}; {self.prog} --help-all")
        return formatter.format_help()

    def full_help(self) -> str:
        """Return the help with every option, by headings, and the exit statuses."""
        self.usage = self._usage_line()
        if self.command is None:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, [], [])
        formatter.add_text(self.description)
        formatter.add_text(_examples(self.command))
        for group in self._action_groups:
            formatter.start_section(group.title)
            formatter.add_arguments(group._group_actions)  # noqa: SLF001
            formatter.end_section()
        for text in (self.epilog, _further_help(self.command)):
            formatter.add_text(text)
        return formatter.format_help()

    def _get_formatter(self, column: int = 24) -> argparse.HelpFormatter:
        """Return what lays out a help; ``column`` is where texts begin."""
        return LineFormatter(self.prog, max_help_position=column)

    def _print_message(self, message: str, file: SupportsWrite[str] | None = None) -> None:
        # All that a parser prints passes here; an error repeats words that may hold control characters.
        super()._print_message(sanitize_lines(message), file)


class ListingParser(OneLineParser):
    """A parser whose help lists commands under headings, a line each."""

    listed: Mapping[str, Sequence[Command | CommandGroup]] = {}
    """Heading → the commands below it; none for a command."""

    def format_help(self) -> str:
        """Return the help: usage, commands by their headings, options, and the epilog."""
        if not self.listed:
            return super().format_help()
        formatter = self._get_formatter()
        formatter.add_usage(self._usage_line(), [], [])
        formatter.add_text(self.description)
        for heading, commands in self.listed.items():
            formatter.start_section(heading)
            formatter.add_arguments(
                [argparse.Action([], one.name, metavar=one.name, help=one.help.rstrip(".")) for one in commands]
            )
            formatter.end_section()
        formatter.start_section("options")
        formatter.add_arguments([action for action in self._actions if action.option_strings])
        formatter.end_section()
        formatter.add_text(self.epilog)
        return formatter.format_help()


def _program_epilog() -> str:
    first = [f"  {command:38} {does}" for command, does in FIRST_COMMANDS.items()]
    return "\n".join(["try first:", *first, "", *exit_status_lines(), "", HELP_OF_A_COMMAND])


def command_parser(words: Sequence[str] | None) -> argparse.ArgumentParser:
    """Make the parser of all commands, with the options of those that a command line names, or of all."""
    parser = ListingParser(prog="hta-graph", epilog=_program_epilog(), **_usual(DESCRIPTION))
    named = command_named(words[0]) if words else None
    parser.listed = {"commands": [named]} if named else command_groups()
    _add_help(parser)
    _add_version(parser, "-V", "--version", about="show the version and exit")
    parser.set_defaults(parser_of_all=lambda: command_parser(None))
    _add_commands(parser, [command for listed in parser.listed.values() for command in listed], words)
    return parser


def _usual(description: str) -> dict[str, Any]:
    """Return what all parsers are made with."""
    return {"description": description, "formatter_class": LineFormatter, "allow_abbrev": False, "add_help": False}


class _HelpOfAll(argparse.Action):
    """Print the help with every option and exit, as ``--help`` does with the usual ones."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print it."""
        parser._print_message(cast("OneLineParser", parser).full_help(), sys.stdout)  # noqa: SLF001
        parser.exit()


def _usual_of(group: argparse._ArgumentGroup) -> Iterator[argparse.Action]:
    """Yield the options of a heading that a command's help shows, each with the first clause of its text."""
    for action in group._group_actions:  # noqa: SLF001 - argparse has no other list of them
        if action.dest not in SHOWN_BY_HELP_ALL and action.dest not in HELP:
            shown = copy(action)
            shown.help = action.help and action.help.partition("; ")[0]
            yield shown


def _add_help(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("-h", "--help", action="help", help="show this help and exit")


def _add_version(parser: argparse.ArgumentParser, *names: str, about: str) -> None:
    parser.add_argument(*names, action="version", version=f"hta-graph {__version__}", help=about)


def _add_commands(
    parser: argparse.ArgumentParser,
    commands: Iterable[Command | CommandGroup],
    words: Sequence[str] | None,
) -> None:
    """Add the command or group that the words begin with; all if they begin with none, as help and errors need them."""
    under = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=ListingParser)
    named = [command for command in commands if command.name in (words or ())[:1]]
    for command in named or commands:
        own = under.add_parser(command.name, help=command.help, **_usual(command.description))
        _add_help(own)
        _add_version(own, "--version", about=argparse.SUPPRESS)
        if isinstance(command, CommandGroup):
            own.listed = {"commands": command.commands}
            _add_commands(own, command.commands, words and words[1:])
            continue
        # The options of thirty commands take longer to make than the help takes to print: the others stay without.
        if words is None or command.name in words:
            _add_options(own, command)
        # Each run has its own list of ranks that could not be read: it decides the exit status.
        own.set_defaults(run=command.run, left_out=[])


def _add_options(parser: OneLineParser, command: Command) -> None:
    """Add a command's options; examples follow in the epilog."""
    parser.add_argument("--help-all", action=_HelpOfAll, nargs=0, help="show all options, and the exit statuses")
    for add in command.options:
        add(parser)
    parser._positionals.title = "arguments"  # noqa: SLF001 - argparse has no other way to name them
    parser._action_groups.sort(key=_place_of_heading)  # noqa: SLF001
    parser.command = command


HEADINGS = ("arguments", "options", WINDOW, OUTPUT, RANKS, READING)
"""The order of headings in the help of a command."""


def _place_of_heading(group: argparse._ArgumentGroup) -> int:
    return HEADINGS.index(group.title) if group.title in HEADINGS else len(HEADINGS)
