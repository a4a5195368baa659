"""The completion script for fish, made of the parser as those for other shells are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from analyses.cli.path_args import InputFolder, OutputFolder, PathArgument, ReusedFolder

FOLDERS = (ReusedFolder, InputFolder, OutputFolder)
FUNCTIONS = """\
# Completion of hta-graph for fish.
function __hta_graph_is --description 'Test whether the command line begins with these commands'
    set -l words (commandline -opc)[2..-1]
    set -l size (count $argv)
    test $size -eq 0; and return 0
    test (count $words) -ge $size; and test "$words[1..$size]" = "$argv"
end
function __hta_graph_needs --description 'Test whether a command is missing after these'
    set -l words (commandline -opc)[2..-1]
    test (count $words) -eq (count $argv); and __hta_graph_is $argv
end"""


def fish_script(parser: argparse.ArgumentParser) -> list[str]:
    """Return the lines of a script that completes commands, options, choices and files."""
    return [*FUNCTIONS.split("\n"), *_completions(parser, ())]


def _completions(parser: argparse.ArgumentParser, words: tuple[str, ...]) -> Iterator[str]:
    """Yield a line for each option and argument of a command, and for each command below it."""
    commands = next((one for one in parser._actions if isinstance(one, argparse._SubParsersAction)), None)  # noqa: SLF001
    here = f"complete -c hta-graph -n '{' '.join(('__hta_graph_needs' if commands else '__hta_graph_is', *words))}'"
    arguments = [one for one in parser._actions if not one.option_strings and one is not commands]  # noqa: SLF001
    if not any(_is(one, PathArgument) for one in arguments):
        yield f"{here} -f"
    for action in arguments:
        if action.choices or _is(action, FOLDERS):
            yield f"{here} -f{_values(action)}"
    for action in parser._actions:  # noqa: SLF001
        if action.option_strings and action.help != argparse.SUPPRESS:
            yield f"{here} {_names(action)}{_value(action)}{_meaning(action.help)}"
    if commands:
        yield from _commands(commands, here, words)


def _commands(
    action: argparse._SubParsersAction[argparse.ArgumentParser], here: str, words: tuple[str, ...]
) -> Iterator[str]:
    meanings = {one.dest: one.help for one in action._choices_actions}  # noqa: SLF001 - the only place of their help
    for name in action.choices:
        yield f"{here} -a {name}{_meaning(meanings[name])}"
    for name, below in action.choices.items():
        yield from _completions(below, (*words, name))


def _is(action: argparse.Action, kinds: type | tuple[type, ...]) -> bool:
    return isinstance(action.type, type) and issubclass(action.type, kinds)


def _names(action: argparse.Action) -> str:
    return " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in action.option_strings)


def _value(action: argparse.Action) -> str:
    """Return how the value of an option is completed: as a file, a folder, by choices, or not at all."""
    if action.nargs == 0:
        return ""
    return " -r -F" if _is(action, PathArgument) and not _is(action, FOLDERS) else f" -x{_values(action)}"


def _values(action: argparse.Action) -> str:
    if action.choices:
        return f" -a '{' '.join(map(str, action.choices))}'"
    return " -a '(__fish_complete_directories)'" if _is(action, FOLDERS) else ""


def _meaning(text: str | None) -> str:
    if not text:
        return ""
    plain = text.rstrip(".").replace("%%", "%").replace("\\", "\\\\").replace("'", "\\'")
    return f" -d '{plain}'"
