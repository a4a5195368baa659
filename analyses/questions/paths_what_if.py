"""what-if: how long a window would be after changes, or which changes would be worth while."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analyses.changes import NamedChange, scenario_change
from analyses.slack_report import slack_record
from analyses.step_records import step_records, window_record
from analyses.window_report import time_by_host
from hta_graph.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import require_all_rows
from hta_graph.paths.step_table import StepRow, step_rows
from hta_graph.paths.windows import WindowQuery
from hta_graph.text.sanitize import encodable_path
from hta_graph.what_if.modified_window import PathTotals
from hta_graph.what_if.opportunities import Opportunity, opportunity_rows
from hta_graph.what_if.predict import JobPrediction, RankPathTotals, WindowReplay, summary_replay
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.scenarios import COMPARES_RANKS, SCENARIOS
from hta_graph.what_if.sensitivity import TOLERANCE_NS, Curve, next_on_path, sensitivity
from hta_graph.what_if.slack import NearCritical, near_critical

VISIBLE_BEND = 0.001
"""Corners that bend a curve by less than this share of the window are told only to who asks for the curve."""

__all__ = ["WhatIf", "what_if", "what_if_document"]


@dataclass(frozen=True)
class WhatIf:
    """A window after the changes that were asked for; without any, what changes would gain.

    ``next`` is what most time would be spent with after the changes that is not on the path today; None if nothing is.
    ``scenarios`` are named changes with what each would save (ns).
    """

    replayed: Replayed | JobPrediction
    asked: Sequence[NamedChange]
    next: str | None
    opportunities: Sequence[Opportunity]
    scenarios: Sequence[tuple[NamedChange, int]]
    curve: Curve | None = None
    near: NearCritical | None = None

    @property
    def graph(self) -> DependencyGraph:
        """The graph that was asked."""
        return self.replayed.graph

    @cached_property
    def steps(self) -> list[StepRow]:
        """The table of steps beside a window that nobody named."""
        return step_rows(self.graph) if self.replayed.window.is_default else []


def what_if(
    graph: DependencyGraph,
    window: WindowQuery,
    asked: Sequence[NamedChange] = (),
    *,
    curve: str | None = None,
    near: float | None = None,
) -> WhatIf:
    """Replay a window after changes; without any, list its opportunities.

    Args:
        graph: one rank's or a job's.
        window: as for :func:`critical_path`.
        asked: the changes, in their order.
        curve: also the curve of this thing, exactly; without it that of the only change, if that is a scaling, without
            corners that bend it by less than a thousandth of the window.
        near: also what is within this share of the window of being critical.

    Raises:
        QueryError: the window or what a change names is not in the trace; or a job of few rows is asked what takes all
            rows of all ranks: a curve, what is near, changes that compare ranks.
        UsageError: a pattern is neither a name nor a regular expression.
    """
    elsewhere = summary_replay(graph)
    if elsewhere is not None:
        for option, value in (("a curve", curve), ("what is nearly critical", near)):
            if value is not None:
                require_all_rows(graph, option)
        return _what_if_of_ranks(elsewhere(window(graph), window.asked), asked)
    replayed = replay(graph, [one.change for one in asked], window)
    base = replayed.draft.base
    within_ns = TOLERANCE_NS
    if curve is None and len(asked) == 1 and asked[0].record["change"] == "scale":
        # Some curves have hundreds of corners: who did not ask for all gets those that bend it visibly.
        curve, within_ns = asked[0].record["what"], round(VISIBLE_BEND * base.length_ns)
    listed = [] if asked else opportunity_rows(base)
    return WhatIf(
        replayed,
        asked,
        next_on_path(replayed.path_before, replayed.path_after, replayed.draft.factor != 1.0) if asked else None,
        listed,
        [] if asked else _named_changes(graph, window, listed),
        None if curve is None else sensitivity(graph, curve, window, within_ns=within_ns),
        None if near is None else near_critical(graph, window, share=near),
    )


def _what_if_of_ranks(elsewhere: WindowReplay, asked: Sequence[NamedChange]) -> WhatIf:
    """Answer for a job of few rows, whose ranks are asked one by one."""
    if asked:
        predicted = elsewhere.predict([one.change for one in asked])
        return WhatIf(predicted, asked, predicted.next, [], [])
    named = {one.asked: one for one in _scenarios_without_choice() if one.asked not in COMPARES_RANKS}
    outlook = elsewhere.opportunities({name: one.change for name, one in named.items()})
    saved = sorted(((named[name], saved) for name, saved in outlook.saved.items()), key=lambda item: -item[1])
    return WhatIf(outlook.recorded, asked, None, outlook.opportunities, saved)


def _scenarios_without_choice() -> list[NamedChange]:
    return [scenario_change(name) for name, known in SCENARIOS.items() if known.argument is None]


def _named_changes(
    graph: DependencyGraph, window: WindowQuery, listed: Sequence[Opportunity]
) -> list[tuple[NamedChange, int]]:
    """Replay the named scenarios that apply and need no choice, of a job also the rank to gain most like the others."""
    asked = _scenarios_without_choice()
    asked += [scenario_change("rank_like_others", one.name) for one in listed if one.kind == "rank"][:1]
    found = []
    for one in asked:
        # A trace without loading, waits or other ranks has nothing to say of some.
        with suppress(QueryError):
            found.append((one, replay(graph, one.change, window).saved_ns))
    return sorted(found, key=lambda item: -item[1])


def what_if_document(found: WhatIf) -> dict[str, Any]:
    """Return the answer as ``hta-graph/what-if/1`` (times in ns, names whole)."""
    replayed, graph = found.replayed, found.graph
    ranks = [part.rank for part in graph.parts]
    return {
        "schema": "hta-graph/what-if/1",
        "file": encodable_path(graph.path),
        "rank": graph.rank,
        **({"ranks": ranks} if len(ranks) > 1 else {}),
        "window": window_record(replayed.window, graph),
        **({"steps": step_records(found.steps)} if replayed.window.is_default else {}),
        "measured_ns": replayed.measured_ns,
        "identity_ns": replayed.identity_ns,
        "predicted_ns": replayed.predicted_ns,
        "saved_ns": replayed.saved_ns,
        "frozen_share": replayed.frozen_share,
        "inferred_share": replayed.inferred_share,
        "changes": [one.as_record() for one in found.asked],
        "next": found.next,
        "opportunities": [vars(one) for one in found.opportunities],
        "scenarios": [{**one.as_record(), "saved_ns": saved} for one, saved in found.scenarios],
        "path_before": _path_record(replayed.path_before, graph),
        "path_after": _path_record(replayed.path_after, graph),
        **({"curve": _curve_record(found.curve)} if found.curve else {}),
        **({"near": slack_record(found.near)} if found.near else {}),
        "diagnostics": graph.diagnostics,
    }


def _path_record(path: PathTotals | RankPathTotals, graph: DependencyGraph) -> dict[str, Any]:
    events = {key: column.tolist() for key, column in path.by_name().items()}
    return {
        "by_bound_ns": path.by_bound_ns,
        **({"by_rank_ns": {str(rank): ns for rank, ns in path.by_rank_ns.items()}} if len(path.by_rank_ns) > 1 else {}),
        **({"by_host_ns": by_host} if (by_host := time_by_host(graph, path.by_rank_ns)) else {}),
        "events": [dict(zip(events, row, strict=True)) for row in zip(*events.values(), strict=True)],
    }


def _curve_record(curve: Curve) -> dict[str, Any]:
    return {
        "what": curve.what,
        "corners": [
            {
                "factor": factor,
                "predicted_ns": ns,
                "saved_ns": curve.measured_ns - ns,
                "on_path_ns": slope,
                "next": then,
            }
            for factor, ns, slope, then in curve.corners
        ],
    }
