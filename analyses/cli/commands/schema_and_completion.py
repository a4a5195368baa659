"""schema and completion: the JSON Schemas of machine output, and scripts for shell completion."""

from __future__ import annotations

import argparse
from typing import Any

from analyses.cli.command import Command
from analyses.cli.options import add_text_output
from analyses.cli.outputs import print_lines
from analyses.cli.path_args import (
    AnswerFile,
    InputFile,
    InputFolder,
    InputTraces,
    OutputFile,
    OutputFileOrFolder,
    OutputFolder,
    ReusedFolder,
)
from hta_graph.base.errors import MissingExtraError


def _add_name(parser: argparse.ArgumentParser) -> None:
    """Add the name of a schema."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="schema to print (default: list all names)")


def _run_schema(options: argparse.Namespace) -> None:
    """Print a schema, or list the names of all."""
    from analyses.schemas import schema_names, schema_text

    print_lines(schema_names() if options.name is None else schema_text(options.name).splitlines(), wide=True)


SCHEMA = Command(
    name="schema",
    help="Print the JSON Schema of a command's output",
    more="Without a name it lists all schemas.",
    examples=("schema", "schema critical-path"),
    page="reference/machine_output.md",
    options=(_add_name, add_text_output),
    run=_run_schema,
)


SHELLS = ("bash", "zsh", "fish", "tcsh")


def _add_shell(parser: argparse.ArgumentParser) -> None:
    """Add the shell."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS[:-1]) + f" or {SHELLS[-1]}")


def _run_completion(options: argparse.Namespace) -> None:
    """Print the script.

    Raises:
        MissingExtraError: the shell needs a package that is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shell completion", "completion") from None
    parser = options.parser_of_all()
    _mark_paths(parser, {**dict.fromkeys(_FILES, shtab.FILE), **dict.fromkeys(_FOLDERS, shtab.DIRECTORY)})
    print_lines(shtab.complete(parser, options.shell).splitlines(), wide=True)


_FILES = (InputTraces, InputFile, OutputFile, AnswerFile, OutputFileOrFolder)
"""Inputs are files or folders; completion of files includes folders."""
_FOLDERS = (InputFolder, OutputFolder, ReusedFolder)


def _mark_paths(parser: argparse.ArgumentParser, completed: dict[Any, Any]) -> None:
    """Mark the arguments of a parser, and of those below it, that are files or folders."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if action.type in completed:
            action.complete = completed[action.type]  # type: ignore[attr-defined]  # where shtab looks for it
        under = action.choices
        for one in under.values() if isinstance(under, dict) else ():
            _mark_paths(one, completed)


COMPLETION = Command(
    name="completion",
    help="Print a shell completion script",
    more=(
        "It completes commands, options, choices and files. Write the script to a file that your shell reads, or "
        "evaluate it."
    ),
    examples=("completion bash -o hta-graph.bash", "completion zsh -o _hta-graph", "completion fish -o hta-graph.fish"),
    page="commands.md",
    options=(_add_shell, add_text_output),
    run=_run_completion,
)
