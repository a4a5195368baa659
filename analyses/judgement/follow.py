"""The remedy of a rule of advice as a change that what-if replays, and the events that a change touches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.advice.rules import ADVICE_RULES, RULES, advice_of, within_bounds
from analyses.judgement.pricing import ADVICE, priced_advice, priced_base
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.base.errors import QueryError, UsageError
from hta_graph.base.text.shorten import suggest_known
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import critical_path
from hta_graph.paths.windows import Window, WindowQuery, resolved_window, step
from hta_graph.what_if.changes import Change
from hta_graph.what_if.modified_window import ModifiedWindow, recorded_path_totals
from hta_graph.what_if.replay_graph import ReplayGraph


@dataclass(frozen=True)
class FollowAdvice:
    """What a rule advises, as a change of the window that it speaks of."""

    rule: str

    def __str__(self) -> str:
        return f"{ADVICE}={self.rule}"

    def __call__(self, draft: ModifiedWindow) -> None:
        """Change a draft.

        Raises:
            QueryError: the rule advises nothing there.
        """
        facts, found = self._found(draft.base)
        remedy = RULES[self.rule].remedy
        if remedy is not None:
            remedy(facts, found.evidence)(draft)

    def most(self, base: ReplayGraph) -> int | None:
        """Return what the rows of a window allow that it saves (ns), and no more than it ends; None without a bound."""
        found = self._found(base)[1]
        ends = [found.evidence["time_ns"]] if RULES[self.rule].ends_with_its_time else []
        return min((ns for ns in (found.bound_ns, *ends) if ns is not None), default=None)

    def _found(self, base: ReplayGraph) -> tuple[PathFacts, PathFinding]:
        facts = PathFacts.of(critical_path(base.graph, _query_of(base.window)))
        # What the path shows is found without replay; what only the priced window shows is not.
        found = self._among(within_bounds(facts, advice_of(facts), of_job=True)) or self._among(priced_advice(facts))
        if found is None:
            raise QueryError(f"{base.graph.path}: {base.window.label} gives no advice {self.rule}")
        return facts, found

    def _among(self, every: Iterable[PathFinding]) -> PathFinding | None:
        return next((one for one in every if one.rule == self.rule), None)


def _query_of(window: Window) -> WindowQuery:
    """Return the query of a window, of an iteration that of its step, whose path advice is about."""
    return resolved_window(window) if window.step is None else step(window.step, cpu_window=window.form == "cpu")


def follow_advice(rule: str | None) -> FollowAdvice:
    """Return what a rule advises, as a change.

    Raises:
        UsageError: there is no such rule, or no change stands for what it advises.
    """
    known = [one.name for one in ADVICE_RULES if one.remedy is not None]
    if rule not in known:
        raise UsageError(f"there is no advice {rule!r} that replay can follow; {suggest_known(rule or '', known)}")
    return FollowAdvice(rule)


def evidence_columns(facts: PathFacts, changes: Iterable[Change]) -> dict[str, Any]:
    """Return the events that changes touch, of most time on the path first.

    Columns: time_ns (of the window and of the iteration before it), path_ns (of the path), bound_by, and those of
    events.
    """
    base = priced_base(facts)
    draft = ModifiedWindow(base)
    for change in changes:
        change(draft)
    parts = base.parts
    edges = np.append(_changed_edges(draft), np.zeros(len(base.ends), np.bool_))
    touched = np.flatnonzero((draft.factor != 1.0) | edges[parts.edge])
    touched = touched[(parts.owner[touched] >= 0) & (parts.length[touched] > 0)]
    on_path = np.zeros(len(parts), np.bool_)
    on_path[recorded_path_totals(base)[0].rows] = True
    key = parts.owner[touched].astype(np.int64) * len(BoundBy) + parts.bound[touched]
    every = distinct(key)
    place = np.searchsorted(every, key)
    time_ns = summed_by(place, parts.length[touched], len(every))
    path_ns = summed_by(place, parts.length[touched] * on_path[touched], len(every))
    order = np.lexsort((every, -time_ns, -path_ns))
    labels = np.array([bound.label for bound in BoundBy], object)
    return {
        "time_ns": time_ns[order],
        "path_ns": path_ns[order],
        "bound_by": labels[every[order] % len(BoundBy)],
        **facts.graph.event_columns(every[order] // len(BoundBy)),
    }


def _changed_edges(draft: ModifiedWindow) -> Any:
    """Mark the edges that are left out or weigh something else."""
    changed = draft.dropped.copy()
    for column in ("extra", "weighed", "waits"):
        if draft.has(column):
            changed |= getattr(draft, column) != 0
    return changed
