"""What a command is: its name, help, examples, options and the function that runs it, in one declaration."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

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
