"""What a command is: its name, help, examples, options and what runs it, in one declaration beside its functions."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

AddOption = Callable[[argparse.ArgumentParser], None]
"""What adds an option, or a group of them, to a parser."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command as the command line offers it.

    Args:
        name: the word that calls it; of a :class:`CommandGroup` behind the group's.
        help: what it answers, a sentence.
        more: a second sentence, which the command's own help has behind the first.
        examples: command lines on the traces of ``hta-graph demo --traces DIR``, run one after the other; the last one
            is of the command itself.
        page: where the manual has more, in ``docs/``.
        options: what adds its arguments, in the order of the help.
        run: does it; whatever is heavy is imported then.
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
        """What its own help begins with."""
        return f"{self.help} {self.more}"


@dataclass(frozen=True, kw_only=True)
class CommandGroup:
    """Commands under a common first word."""

    name: str
    help: str
    commands: tuple[Command, ...]

    @property
    def description(self) -> str:
        """What its own help begins with."""
        return self.help
