"""Quick by default, deep on demand: the same check on few cases, and, marked ``slow``, on many."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.strategies import SearchStrategy, none

SHARE = float(os.environ.get("HTA_GRAPH_DEPTH", "0.1"))
"""The share of its cases that a deep test looks at: all of them in ``.ci/deep``, which may take longer than CI."""
Kind = TypeVar("Kind")
LEAST_EXAMPLES, MOST_EXAMPLES = 3, 6
"""How many examples of a property the quick run looks at, however few or many the deep one has."""


def for_all(*strategies: SearchStrategy[Any], examples: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Check a property: a few of the examples in the quick run; ``cases`` of them, marked ``slow``, in a deep one.

    Strategies are for the rightmost parameters, as with hypothesis' ``given``; parameters before them are fixtures. The
    examples are the same at every run, and ``@example`` belongs below.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        counts = {"quick": min(max(LEAST_EXAMPLES, examples // 80), MOST_EXAMPLES), "deep": cases(examples)}
        runs = {depth: with_examples(count)(given(*strategies)(test)) for depth, count in counts.items()}

        def check(depth: str, **fixtures: Any) -> None:
            runs[depth](**fixtures)

        fixtures = inspect.signature(runs["quick"]).parameters.values()
        by_depth = inspect.Parameter("depth", inspect.Parameter.KEYWORD_ONLY)
        check.__signature__ = inspect.Signature([*fixtures, by_depth])  # type: ignore[attr-defined]
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(check, name, getattr(test, name))
        return pytest.mark.parametrize("depth", ["quick", deep("deep")])(check)

    return decorate


def with_examples(count: int) -> settings:
    """Return hypothesis' settings for so many examples, the same at every run and however long they take."""
    return settings(
        deadline=None, max_examples=count, derandomize=True, suppress_health_check=list(HealthCheck), database=None
    )


def draw_no_literals() -> None:
    """Draw no number or text only because an imported module has it: quick examples would depend on what was imported.

    Hypothesis parses every module for them, which takes seconds in each process.
    """
    providers: Any = sys.modules.get("hypothesis.internal.conjecture.providers")
    if hasattr(providers, "_get_local_constants"):  # older versions look for none
        providers._get_local_constants = providers.Constants


def make_source_of_examples() -> None:
    """Let Hypothesis make its source of random numbers: earlier versions refuse one of a frozen owner."""
    with_examples(1)(given(none())(lambda _: None))()


def cases(count: int) -> int:
    """Return how many of a deep test's cases this run looks at."""
    return max(1, round(count * SHARE))


def deep(*values: Any) -> Any:
    """Mark a parameter's value as one for the deep run, or a row of values if there are several parameters."""
    return pytest.param(*values, marks=pytest.mark.slow)


def exhaustive(*values: Any) -> Any:
    """Mark a parameter's value as one that only all of the deep run looks at, and no slice of it."""
    return pytest.param(*values, marks=[pytest.mark.slow, pytest.mark.exhaustive])


def some_of(kinds: Sequence[Kind]) -> list[Kind]:
    """Return those of a deep test's kinds of cases, evenly spread, that this run looks at."""
    return list(kinds[:: round(1 / min(SHARE, 1.0))])


def wanted_slice(text: str) -> tuple[int, int]:
    """Read which slice of the tests is asked for: the K-th of N, from 1 on.

    >>> wanted_slice("2/5")
    (2, 5)
    >>> wanted_slice("6/5")
    Traceback (most recent call last):
    ValueError: 6/5
    """
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise ValueError(text)
    return int(found[1]), int(found[2])


def slice_of(nodeid: str, count: int) -> int:
    """Return in which of so many slices a test is, from 1 on: its name alone decides.

    >>> [slice_of(f"tests/test_a.py::test_one[{case}]", 3) for case in "abcdefgh"]
    [2, 3, 3, 1, 2, 1, 3, 1]
    """
    return int.from_bytes(hashlib.sha256(nodeid.encode()).digest()[:8], "big") % count + 1
