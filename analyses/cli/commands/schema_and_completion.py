"""schema and completion: the JSON Schemas of what other commands write, and a script that completes commands."""

from __future__ import annotations

import argparse
from typing import Any

from analyses.cli.command import Command
from analyses.cli.path_args import CacheFolder, InputFolder, InputTraces, OutputFile, OutputFolder
from analyses.cli.rank_inputs import print_lines
from hta_graph.errors import MissingExtraError


def _add_name(parser: argparse.ArgumentParser) -> None:
    """Add which schema is wanted."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="print this one; without it the names of all are listed"
    )


def _run_schema(options: argparse.Namespace) -> None:
    """Print a schema as it is shipped, or list the names of all."""
    from analyses.schemas import schema_names, schema_text

    print_lines(schema_names() if options.name is None else schema_text(options.name).splitlines(), wide=True)


SCHEMA = Command(
    name="schema",
    help="The JSON Schemas of what the other commands write.",
    more="Without a name it lists them; with one it prints the file, for a validator of yours.",
    examples=("schema", "schema critical-path"),
    page="reference/machine_output.md",
    options=(_add_name,),
    run=_run_schema,
)


SHELLS = ("bash", "zsh", "tcsh")


def _add_shell(parser: argparse.ArgumentParser) -> None:
    """Add whose script is wanted."""
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=f"one of {', '.join(SHELLS)}")


def _run_completion(options: argparse.Namespace) -> None:
    """Print the script.

    Raises:
        MissingExtraError: what makes it is not installed.
    """
    try:
        import shtab
    except ImportError:
        raise MissingExtraError("shell completion", "completion") from None
    parser = options.parser_of_all()
    _mark_paths(parser, {**dict.fromkeys(_FILES, shtab.FILE), **dict.fromkeys(_FOLDERS, shtab.DIRECTORY)})
    print_lines(shtab.complete(parser, options.shell).splitlines(), wide=True)


_FILES = (InputTraces, OutputFile)
"""Inputs are files or folders: what completes files goes through folders, too."""
_FOLDERS = (InputFolder, OutputFolder, CacheFolder)


def _mark_paths(parser: argparse.ArgumentParser, completed: dict[Any, Any]) -> None:
    """Say which arguments of a parser, and of those under it, are files and which are folders."""
    for action in parser._actions:  # noqa: SLF001 - argparse has no other list of them
        if action.type in completed:
            action.complete = completed[action.type]  # type: ignore[attr-defined]  # where shtab looks for it
        under = action.choices
        for one in under.values() if isinstance(under, dict) else ():
            _mark_paths(one, completed)


COMPLETION = Command(
    name="completion",
    help="The script with which a shell completes commands, options and files.",
    more=(
        "Write the script into a file that your shell reads, or evaluate it: the commands, options, choices and "
        "files of hta-graph are completed then."
    ),
    examples=("completion bash > hta-graph.bash", "completion zsh > _hta-graph"),
    page="commands.md",
    options=(_add_shell,),
    run=_run_completion,
)
