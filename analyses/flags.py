"""What each analysis can be told: its flags with their defaults and words, once for Python and the command line.

Each class is the typed form of one analysis' flags; ``KernelBreakdownFlags.num_kernels`` is the default of
``--num-kernels`` and of the argument ``num_kernels`` of ``answer``. ``--help`` reads it: nothing heavy is imported.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from analyses.given_numbers import real_number, whole_number

__all__ = [
    "ATTRIBUTED_TO",
    "COUNTER_SERIES",
    "OWNER_KINDS",
    "AttributionFlags",
    "Flag",
    "IdleTimeFlags",
    "KernelBreakdownFlags",
    "KernelSequencesFlags",
    "LaunchStatsFlags",
    "MemoryTimelineFlags",
    "NoFlags",
    "OperatorKernelsFlags",
    "QueueLengthFlags",
    "RooflineFlags",
    "flags_of",
    "one_of",
]

OWNER_KINDS = ("operator", "frame", "module", "annotation")
"""On whose behalf something happens; the algorithms' ``OWNERS``, here without NumPy."""

ATTRIBUTED_TO = (*OWNER_KINDS, "module-class", "activity")
"""What GPU time can be attributed to; ``activity`` lists every activity with all its owners."""

COUNTER_SERIES = ("queue-length", "memory-bandwidth")
"""What counter tracks show: the series of these two questions."""


@dataclass(frozen=True)
class Flag:
    """One option as the command line offers it: ``--launch-delay-us`` is the argument ``launch_delay_us``.

    A switch (``read`` is ``bool``) takes no value; one that takes ``many`` values does not show its default.
    """

    argument: str
    read: Callable[[str], Any]
    default: Any
    meaning: str
    many: bool
    value: str

    @property
    def option(self) -> str:
        """The name on the command line."""
        return f"--{self.argument.replace('_', '-')}"

    @property
    def is_required(self) -> bool:
        """Whether there is no default."""
        return self.default is MISSING

    @property
    def help(self) -> str:
        """What it means, with its default."""
        if self.read is bool or self.many or self.is_required or self.default in ("", None):
            return self.meaning
        return f"{self.meaning} ({self.default})"


def flags_of(flags: type[Any]) -> Iterator[Flag]:
    """List the flags that a class declares.

    >>> [(flag.option, flag.default) for flag in flags_of(QueueLengthFlags)]
    [('--max-queue-length', 1024)]
    """
    for one in fields(flags):
        yield Flag(one.name, default=one.default, **one.metadata)


def _flag_field(
    meaning: str, read: Callable[[str], Any], default: Any = MISSING, *, many: bool = False, value: str = ""
) -> Any:
    """Declare a flag of a class of flags: what it means, how its text is read, and its default."""
    return field(default=default, metadata={"meaning": meaning, "read": read, "many": many, "value": value})


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return what reads an option that takes one of some words."""

    def read_word(text: str) -> str:
        if text not in allowed:
            raise argparse.ArgumentTypeError(f"takes {', '.join(allowed[:-1])} or {allowed[-1]}, not {text!r}")
        return text

    return read_word


COUNT = whole_number(1, 10**9)
MICROSECONDS = real_number(0, 10**12)


# One class an analysis, in the order of the catalogue. Nobody compares or prints them, and the methods for that would
# take a millisecond to make at each start.
@dataclass(frozen=True, eq=False, repr=False)
class NoFlags:
    """An analysis that needs to be told nothing."""


@dataclass(frozen=True, eq=False, repr=False)
class KernelBreakdownFlags:
    """Which kernels ``kernel-breakdown`` names."""

    duration_ratio: float = _flag_field(
        "name the kernels that make up this share of a type's time", real_number(0, 1), 0.8
    )
    num_kernels: int = _flag_field("name at most this many kernels of a type", COUNT, 10)
    by_quantile: bool = _flag_field("choose the names by HTA's rule instead of by share of time", bool, default=False)
    no_memory_kernels: bool = _flag_field("leave copies and sets out", bool, default=False)


@dataclass(frozen=True, eq=False, repr=False)
class IdleTimeFlags:
    """What ``idle-time`` takes for a usual gap, and for data loading."""

    launch_gap_us: float = _flag_field(
        "a gap shorter than this after a launch in time is usual, in µs", MICROSECONDS, 30.0
    )
    data_load: Sequence[str] = _flag_field("regular expressions of data-loading rows", str, (), many=True)


@dataclass(frozen=True, eq=False, repr=False)
class QueueLengthFlags:
    """When ``queue-length`` calls a queue full: hardware queues of NVIDIA hold 1,024 launches at most."""

    max_queue_length: int = _flag_field("a queue of so many launches is full", COUNT, 1024)


@dataclass(frozen=True, eq=False, repr=False)
class LaunchStatsFlags:
    """What ``launch-stats`` counts as an outlier."""

    runtime_cutoff: float = _flag_field("a call that takes longer, in µs, is an outlier", MICROSECONDS, 50)
    launch_delay_cutoff: float = _flag_field("a longer launch delay, in µs, is an outlier", MICROSECONDS, 100)
    no_memory_events: bool = _flag_field("leave copies and sets out", bool, default=False)


@dataclass(frozen=True, eq=False, repr=False)
class AttributionFlags:
    """Whose time ``attribution`` tells."""

    by: str = _flag_field(f"{', '.join(ATTRIBUTED_TO[:-1])}, or activity (a list)", one_of(*ATTRIBUTED_TO), "operator")


@dataclass(frozen=True, eq=False, repr=False)
class MemoryTimelineFlags:
    """On whose behalf ``memory-timeline`` says that memory was allocated."""

    by: str = _flag_field(f"on whose behalf: {', '.join(OWNER_KINDS)}", one_of(*OWNER_KINDS), "operator")


@dataclass(frozen=True, eq=False, repr=False)
class OperatorKernelsFlags:
    """Which operators ``operator-kernels`` looks at."""

    operators: str = _flag_field("operators whose names start so; '' takes all", str, "aten::")


@dataclass(frozen=True, eq=False, repr=False)
class KernelSequencesFlags:
    """Which rows ``kernel-sequences`` looks at."""

    operator: str = _flag_field("part of the name of operators, annotations or Python frames", str, value="NAME")
    min_pattern_len: int = _flag_field("leave out rows that launch less GPU work", COUNT, 3, value="N")


@dataclass(frozen=True, eq=False, repr=False)
class RooflineFlags:
    """Whose limits ``roofline`` compares with."""

    peaks: str | None = _flag_field(
        "a JSON file with the peaks of your device, or the name of one that is known", str, None, value="FILE"
    )
