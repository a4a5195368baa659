"""Regular expressions: users' run with a time limit, for some would never end; the project's own are of ``re``."""

from __future__ import annotations

import re
import time
import warnings
from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np

from hta_graph.base.errors import PatternError
from hta_graph.model import Bools

LIMIT_S = 5.0
PER_NAME_S = 20e-6
"""How long the names of a trace may be matched: ordinary patterns take a few microseconds a name."""

LONGEST = 1_000
"""The most characters of an expression: before a search, which its limit does not cover, ``regex`` makes a table of a
literal in time that grows with the cube of its length (0.5 s for these, 50 s for 5,000)."""

Way = Literal["search", "match", "fullmatch"]


class Pattern(Protocol):
    """A compiled regular expression, of ``re`` or of ``regex``."""

    @property
    def pattern(self) -> str:
        """Its text."""

    def fullmatch(self, string: str) -> re.Match[str] | None:
        """Match all of a text."""


def compile_pattern(text: str) -> Pattern:
    """Compile a user's regular expression.

    Raises:
        PatternError: it is not valid, too long, or cannot be compiled.
    """
    import regex

    if len(text) > LONGEST:
        raise PatternError(
            f"{shortened_repr(text)} is not a regular expression: longer than {LONGEST:,} characters",
            "give a part of it",
        )
    try:
        with warnings.catch_warnings():
            # What may be read otherwise one day is read as today: no line about it helps who asks.
            warnings.simplefilter("ignore", FutureWarning)
            compiled: Pattern = regex.compile(text, regex.VERSION0)
            return compiled
    except (regex.error, OverflowError, ValueError) as error:
        raise PatternError(f"{shortened_repr(text)} is not a regular expression: {error}") from None
    except RecursionError:
        raise PatternError(f"{shortened_repr(text)} is not a regular expression: it nests too deeply") from None


def names_matching(expressions: Sequence[str | Pattern], names: Sequence[str], *, by: Way = "search") -> Bools:
    """Mark the names that any of some regular expressions finds, or matches as ``by`` says; one entry at least.

    A user's expression that backtracks without end is given up after some seconds, in every thread; other threads go on
    meanwhile. Patterns of ``re`` are the project's own, and have no limit.

    >>> names_matching(["^b", "c$"], ["abc", "bcd", "cde"]).tolist()
    [True, True, False]

    Raises:
        PatternError: one of them is not a regular expression, or takes too long.
    """
    found = np.zeros(max(len(names), 1), np.bool_)
    for one in expressions:
        pattern = compile_pattern(one) if isinstance(one, str) else one
        matched = _matched if isinstance(pattern, re.Pattern) else _matched_in_time
        found[: len(names)] |= matched(pattern, names, by)
    return found


def _matched(pattern: Pattern, names: Sequence[str], by: Way) -> Bools:
    match = getattr(pattern, by)
    return np.fromiter((match(name) is not None for name in names), np.bool_, len(names))


def _matched_in_time(pattern: Any, names: Sequence[str], by: Way) -> Bools:
    """Match within a time of the processor: on a busy machine a sound pattern takes no longer."""
    match, seconds = getattr(pattern, by), LIMIT_S + PER_NAME_S * len(names)
    until, found = time.process_time() + seconds, np.zeros(len(names), np.bool_)
    try:
        for at, name in enumerate(names):
            left = max(until - time.process_time(), 0.001)
            # Concurrent: the lock of the interpreter is free while it matches.
            found[at] = match(name, timeout=left, concurrent=True) is not None
    except TimeoutError:
        raise PatternError(
            f"the pattern {shortened_repr(pattern.pattern)} takes too long: stopped after {seconds:.0f} s",
            "avoid nested repetition, such as (a+)+ or (.*a){9}",
        ) from None
    return found


def shortened_repr(text: str) -> str:
    """Quote a pattern or a name; of a long one its beginning."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}…"
