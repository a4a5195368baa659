"""Changes of a window that stand for the remedies of several rules."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from analyses.advice.facts import HOST_CLASSES, PathFacts
from analyses.advice.rule import Remedy
from hta_graph.base.arrays import take_or
from hta_graph.model import RETURNS, Bools, Floats, Ids
from hta_graph.paths.intervals import union
from hta_graph.what_if.changes import Change
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.scenarios import scenario


def with_factor(chosen: Callable[[ReplayGraph], Bools], factor: float = 0.0) -> Change:
    """Let some parts of time take another time."""

    def change(draft: ModifiedWindow) -> None:
        draft.factor[chosen(draft.base) & draft.base.may_change] *= factor

    return change


def with_own_factors(factor: Floats) -> Change:
    """Multiply what each event owns by a factor of its own."""

    def change(draft: ModifiedWindow) -> None:
        may_change = draft.base.may_change
        draft.factor[may_change] *= take_or(factor, draft.base.parts.owner[may_change], otherwise=1.0)

    return change


def without_waits(facts: PathFacts, chosen: Callable[[Ids], Bools]) -> Change:
    """Let some calls return without waiting for GPU work."""

    def change(draft: ModifiedWindow) -> None:
        rows = draft.base.edges.row
        at = np.flatnonzero(np.isin(take_or(facts.graph.edge_table.kind, rows), RETURNS))
        calls = facts.graph.edges_at(rows[at]).target
        draft.dropped[at[chosen(calls)]] = True

    return change


def named_scenario(name: str) -> Remedy:
    """Return a change that has a name of its own."""
    return lambda _, __: scenario(name)


def shorter_during(facts: PathFacts, rows: Bools, share: float) -> Change:
    """Let the host's work be shorter by a share of its time in which any of some events is open."""
    events = facts.graph.event_table

    def change(draft: ModifiedWindow) -> None:
        parts, open_ = draft.base.parts, union(events.start[rows], events.end[rows])
        beside = open_.covered_until(parts.start + parts.length) - open_.covered_until(parts.start)
        on_host = draft.base.may_change & np.isin(parts.bound, HOST_CLASSES)
        draft.factor[on_host] *= 1 - share * (beside / np.maximum(parts.length, 1))[on_host]

    return change
