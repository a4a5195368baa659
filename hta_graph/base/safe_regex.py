"""Regular expressions from users: some do not compile, and some would never end."""

from __future__ import annotations

import re
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

import numpy as np

from hta_graph.base.errors import PatternError
from hta_graph.model import Bools

LIMIT_S = 5.0
PER_NAME_S = 20e-6
"""How long the names of a trace may be matched: ordinary patterns take less than a microsecond a name."""

Match = Callable[[re.Pattern[str], str], object]


def compile_pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression.

    Raises:
        PatternError: it is not valid, or cannot be compiled.
    """
    try:
        with warnings.catch_warnings():
            # What Python may read otherwise one day is read as today: no line about it helps who asks.
            warnings.simplefilter("ignore", FutureWarning)
            return re.compile(text)
    except (re.error, OverflowError) as error:
        raise PatternError(f"{shortened_repr(text)} is not a regular expression: {error}") from None
    except RecursionError:
        raise PatternError(f"{shortened_repr(text)} is not a regular expression: it nests too deeply") from None


def names_matching(expressions: Sequence[str], names: Sequence[str], *, by: Match = re.Pattern[str].search) -> Bools:
    """Mark the names that any of some regular expressions finds, or matches as ``by`` does; one entry at least.

    Expressions that backtrack without end are given up after some seconds in the main thread, which alone can be
    interrupted (nowhere on Windows).

    >>> names_matching(["^b", "c$"], ["abc", "bcd", "cde"]).tolist()
    [True, True, False]

    Raises:
        PatternError: one of them is not a regular expression, or takes too long.
    """
    found = np.zeros(max(len(names), 1), np.bool_)
    for pattern in map(compile_pattern, expressions):
        with _limited(pattern.pattern, LIMIT_S + PER_NAME_S * len(names)):
            found[: len(names)] |= np.fromiter((by(pattern, name) is not None for name in names), np.bool_, len(names))
    return found


@contextmanager
def _limited(text: str, seconds: float) -> Iterator[None]:
    """Interrupt what the processor works on for too long; ``re`` looks for signals while it backtracks."""

    def give_up(*_: object) -> NoReturn:
        raise PatternError(
            f"the pattern {shortened_repr(text)} takes too long: stopped after {seconds:.0f} s",
            "avoid nested repetition, such as (a+)+ or (.*a){9}",
        )

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    # Time of the processor: on a busy machine a sound pattern takes no longer.
    before, waiting = signal.signal(signal.SIGVTALRM, give_up), signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, *waiting)
        signal.signal(signal.SIGVTALRM, before)


def shortened_repr(text: str) -> str:
    """Quote a pattern or a name; of a long one its beginning."""
    return repr(text) if len(text) <= 80 else f"{text[:80]!r}…"
