"""completion: the script with which a shell completes what is typed behind hta-graph."""

from __future__ import annotations

import argparse
from typing import Any

from analyses.cli.command import Command
from analyses.cli.path_args import CacheFolder, InputFolder, InputTraces, OutputFile, OutputFolder
from analyses.cli.rank_inputs import print_lines
from hta_graph.errors import MissingExtraError

__all__ = ["COMPLETION", "SHELLS"]

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
