"""What the command line knows of an analysis before its module is imported: its name, help, examples and flags.

An analysis declares this in its own file; :mod:`analyses.help_index` repeats it: ``--help`` imports nothing heavy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from analyses.arg_types import one_of, real_number, whole_number

OWNER_KINDS = ("operator", "frame", "module", "annotation")
"""On whose behalf something happens; the algorithms' ``OWNERS``, here without NumPy."""

ATTRIBUTED_TO = (*OWNER_KINDS, "module-class", "activity")
"""What GPU time can be attributed to; ``activity`` lists every activity with all its owners."""

COUNTER_SERIES = ("queue-length", "memory-bandwidth")
"""What counter tracks show: the series of these two questions."""

Reader = Literal["count", "file", "microseconds", "share", "switch", "text"]
"""How the text of a flag is read; a switch has none."""

READERS: Mapping[Reader, Callable[[str], Any]] = {
    "count": whole_number(1, 10**9),
    "file": str,
    "microseconds": real_number(0, 10**12),
    "share": real_number(0, 1),
    "switch": bool,
    "text": str,
}

FromSummaries = Literal["no", "yes", "with causes"]
"""Whether rank summaries answer a question, and whether they must contain the causes of waits."""


# Nobody compares or prints these, and the methods for that would take a millisecond to make at each start.
@dataclass(frozen=True, eq=False, repr=False)
class Flag:
    """One option as the command line offers it: ``--launch-delay-us`` is the argument ``launch_delay_us``.

    Without a default it must be given. ``choices`` are the words that it takes, if not any; one that takes ``many``
    values does not show its default; ``value`` is what stands for its value in the help.
    """

    argument: str
    reader: Reader
    meaning: str
    default: Any = ...
    choices: tuple[str, ...] = ()
    many: bool = False
    value: str = ""

    @property
    def option(self) -> str:
        """The name on the command line.

        >>> Flag("launch_delay_us", "microseconds", "a usual delay").option
        '--launch-delay-us'
        """
        return f"--{self.argument.replace('_', '-')}"

    @property
    def read(self) -> Callable[[str], Any]:
        """What reads its text."""
        return one_of(*self.choices) if self.choices else READERS[self.reader]

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is ...

    @property
    def help(self) -> str:
        """What it means, with its default.

        >>> Flag("num_kernels", "count", "name at most this many kernels of a type", 10).help
        'name at most this many kernels of a type (default: 10)'
        """
        if self.reader == "switch" or self.many or self.is_required or self.default in ("", None):
            return self.meaning
        shown = f"{self.default:g}" if isinstance(self.default, float) else self.default
        return f"{self.meaning} (default: {shown})"


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Description:
    """What the command line offers of an analysis.

    Args:
        name: its command.
        help: what it answers, a sentence.
        more: a second sentence, which the command's own help has behind the first.
        examples: command lines on the traces of ``hta-graph demo --traces DIR``, the last one of the command itself.
        page: where the manual has more, in ``docs/``.
        flags: its own options: the arguments of ``answer``.
        from_summaries: whether graphs of few rows answer it; such an analysis compares ranks.
    """

    name: str
    help: str
    more: str
    examples: tuple[str, ...]
    page: str = "tables.md"
    flags: tuple[Flag, ...] = ()
    from_summaries: FromSummaries = "no"

    def flags_in(self, options: argparse.Namespace) -> dict[str, Any]:
        """Return the arguments of ``answer`` as a command line gives them."""
        return {flag.argument: getattr(options, flag.argument) for flag in self.flags}


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class IndexEntry(Description):
    """The description of an analysis, and the module that declares it."""

    module: str
