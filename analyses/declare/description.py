"""The description of an analysis that needs no import of its module: name, help, examples and flags.

An analysis declares this in its own file; :mod:`analyses.questions.help_index` repeats it, so that ``--help`` imports
nothing heavy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analyses.declare.arg_types import one_of, real_number, whole_number

OWNER_KINDS = ("operator", "frame", "module", "annotation")
"""The kinds of owners; the algorithms' ``OWNERS``, here without NumPy."""

ATTRIBUTED_TO = (*OWNER_KINDS, "module-class", "activity")
"""What GPU time can be attributed to; ``activity`` lists every activity with all its owners."""

COUNTER_SERIES = ("queue-length", "memory-bandwidth")
"""The series of counter tracks, named after their commands."""

FlagReader = Literal["count", "file", "microseconds", "share", "switch", "text"]
"""The type of a flag's value; a switch has none."""

READERS: Mapping[FlagReader, Callable[[str], Any]] = {
    "count": whole_number(1, 10**9),
    "file": str,
    "microseconds": real_number(0, 10**12),
    "share": real_number(0, 1),
    "switch": bool,
    "text": str,
}


# Nobody compares or prints these, and the methods for that would take a millisecond to make at each start.
@dataclass(frozen=True, eq=False, repr=False)
class Flag:
    """One option as the command line offers it: ``--launch-delay-us`` is the argument ``launch_delay_us``.

    Without a default it is required. ``choices`` are its allowed values, if they are limited; a flag of ``many`` values
    does not show its default; ``value`` is the placeholder in the help.
    """

    argument: str
    reader: FlagReader
    meaning: str
    default: Any = ...
    choices: tuple[str, ...] = ()
    many: bool = False
    value: str = ""

    @property
    def option(self) -> str:
        """The option's name on the command line.

        >>> Flag("launch_delay_us", "microseconds", "a usual delay").option
        '--launch-delay-us'
        """
        return f"--{self.argument.replace('_', '-')}"

    @property
    def read(self) -> Callable[[str], Any]:
        """The function that reads its value."""
        return one_of(*self.choices) if self.choices else READERS[self.reader]

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is ...

    @property
    def help(self) -> str:
        """The help text, with the default.

        >>> Flag("num_kernels", "count", "list at most this many kernels of a type", 10).help
        'list at most this many kernels of a type (default: 10)'
        """
        if self.reader == "switch" or self.many or self.is_required or self.default in ("", None):
            return self.meaning
        shown = f"{self.default:g}" if isinstance(self.default, float) else self.default
        return f"{self.meaning} (default: {shown})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Description:
    """The description of an analysis on the command line.

    Args:
        name: its command.
        help: what it shows, as a noun phrase.
        more: a second sentence, shown in the command's own help only.
        examples: command lines on the traces of ``hta-graph demo --traces DIR``, the last one of the command itself.
        page: its page of the manual, in ``docs/``.
        flags: its own options: the arguments of ``answer``.
        from_summaries: whether rank summaries, with causes of waits, answer it; such an analysis compares ranks.
    """

    name: str
    help: str
    more: str
    examples: tuple[str, ...]
    page: str = "tables.md"
    flags: tuple[Flag, ...] = ()
    from_summaries: bool = False

    def flags_in(self, options: argparse.Namespace) -> dict[str, Any]:
        """Return the arguments of ``answer`` from parsed options."""
        return {flag.argument: getattr(options, flag.argument) for flag in self.flags}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IndexEntry(Description):
    """The description of an analysis, and the module that declares it."""

    module: str
