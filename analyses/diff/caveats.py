"""What differs between two runs besides a change to the program, so that their lengths say less than they seem to."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from analyses.diff.outermost_operators import outermost_operators
from analyses.scope import Scope
from hta_graph.arrays import distinct
from hta_graph.attribution.call_paths import STANDALONE_NUMBER

__all__ = ["caveats", "share_in_common"]

LEAST_COMMON = 0.5
"""Versions of one program have 63 to 100 % of their operators' time in common, other programs 7 to 49 % (rarely 65)."""
OF_ENVIRONMENT: Mapping[str, str] = {"GPU": "on another GPU", "rank": "as another rank"}
OTHER_WORK = "with mostly other operators"


def caveats(control: Scope, test: Scope, around: pd.DataFrame) -> list[str]:
    """Say why a difference is more than the effect of a change: another GPU, another rank, another program.

    Args:
        control: the stretch that stands for the control.
        test: that of the test.
        around: what differs in the environment.
    """
    said = [words for what, words in OF_ENVIRONMENT.items() if what in set(around["what"])]
    return [*said, OTHER_WORK] if share_in_common(control, test) < LEAST_COMMON else said


def share_in_common(control: Scope, test: Scope) -> float:
    """Return how much of a side's outermost operators, by time, have names that the other side has, too.

    The smaller one of both sides; numbers in names do not count. 1 where a side has no operators: nothing is known.
    """
    times = [_operator_times(scope) for scope in (control, test)]
    totals = [sum(own.values()) for own in times]
    if not all(totals):
        return 1.0
    common = times[0].keys() & times[1].keys()
    return min(sum(own[name] for name in common) / total for own, total in zip(times, totals, strict=True))


def _operator_times(scope: Scope) -> dict[str, int]:
    """Add up the outermost operators of a scope by name."""
    events, names = scope.graph.event_table, scope.graph.names
    rows = outermost_operators(scope)
    found: dict[str, int] = {}
    for code in distinct(events.name[rows]).tolist():
        own = rows[events.name[rows] == code]
        name = STANDALONE_NUMBER.sub("#", names[code])
        found[name] = found.get(name, 0) + int((events.end[own] - events.start[own]).sum())
    return found
