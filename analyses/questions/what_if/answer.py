"""A window after changes, or what changes would save: the answer as data and as a document."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from analyses.advice.facts import PathFacts
from analyses.judgement.findings import WindowFinding, finding_records, judgement, judgement_elsewhere
from analyses.judgement.follow import FollowAdvice, follow_advice
from analyses.judgement.pricing import ADVICE, within_rows
from analyses.source.window_facts import StepFacts, WindowFacts, slack_record, time_by_host, window_record
from hta_graph.base.errors import QueryError
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.paths.critical_path import critical_path, has_partial_rows, require_all_rows
from hta_graph.paths.step_table import StepRow, step_rows
from hta_graph.paths.windows import WindowQuery
from hta_graph.what_if.bounds import Bounds, priced_query
from hta_graph.what_if.changes import Change, remove, scale
from hta_graph.what_if.modified_window import ModifiedWindow, PathTotals
from hta_graph.what_if.opportunities import Opportunity, operator_evidence, opportunity_rows
from hta_graph.what_if.predict import JobPrediction, RankPathTotals, WindowReplay, summary_replay
from hta_graph.what_if.reliability import (
    Reliability,
    reliability,
    reliability_after,
    with_missing_rows,
    with_unrecorded_work,
)
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.scenarios import COMPARES_RANKS, SCENARIOS, NamedScenario, scenario
from hta_graph.what_if.selectors import Selector, selected_parts
from hta_graph.what_if.sensitivity import TOLERANCE_NS, Curve, next_on_path, sensitivity
from hta_graph.what_if.slack import NearCritical, near_critical
from hta_graph.what_if.step_predictions import StepPredictions, step_predictions


@dataclass(frozen=True)
class NamedChange:
    """A change, what it means, and what it assumes where that is not plain."""

    change: Change
    says: str
    record: dict[str, Any]
    assumes: str | None = None

    @property
    def asked(self) -> str:
        """The change as it is written on the command line, without its option."""
        return str(self.change)

    def as_record(self) -> dict[str, Any]:
        """Return the change as JSON lists it."""
        return {**self.record, "says": self.says, "assumes": self.assumes}


def scale_change(what: str, factor: float) -> NamedChange:
    """Let something take another time.

    Raises:
        UsageError: see :func:`scale`.
    """
    record = {"change": "scale", "what": what, "factor": factor}
    return NamedChange(
        scale(what, factor), f"{what} takes {f'{factor:g} times as long' if factor else 'no time'}", record
    )


def removal_change(what: str) -> NamedChange:
    """Remove something.

    Raises:
        UsageError: see :func:`remove`.
    """
    return NamedChange(remove(what), f"{what} is removed, with its launches", {"change": "remove", "what": what})


def scenario_change(name: str, argument: str | None = None) -> NamedChange:
    """Apply a named scenario.

    Raises:
        UsageError: see :func:`scenario`.
    """
    record = {"change": "scenario", "name": name, "argument": argument}
    if name == ADVICE:
        return NamedChange(follow_advice(argument), f"what the rule {argument} advises", record)
    change, given = scenario(name, argument), f": {argument}" if argument else ""
    return NamedChange(change, SCENARIOS[name].says + given, record, SCENARIOS[name].assumes)


VISIBLE_BEND = 0.001
"""Corners that bend a curve by less than this share of the window are listed only with ``--curve``."""


@dataclass(frozen=True)
class Saving:
    """What is saved (ns); ``is_cut``: replay promises more, and this is what rows allow at most."""

    ns: int
    is_cut: bool = False


@dataclass(frozen=True)
class WhatIf:
    """A window after changes; without any, what changes would save.

    ``next`` takes most time on the path after the changes of all that is not on the path today; None if nothing does.
    ``scenarios`` are named changes with what each would save (ns). ``latency`` is the same of a step's latency, where
    that is another window than the iteration. ``compared`` is, without changes, the rank of a job that most of the path
    is on, like the others. ``judged`` are, without changes, the facts that the ``judgement`` on the window is made of.
    """

    replayed: Replayed | JobPrediction
    asked: Sequence[NamedChange]
    next: str | None
    opportunities: Sequence[Opportunity]
    scenarios: Sequence[tuple[NamedChange, int]]
    curve: Curve | None = None
    near: NearCritical | None = None
    latency: Replayed | None = None
    compared: Replayed | None = None
    of_steps: StepPredictions | None = None
    judged: PathFacts | None = None
    judgement: Sequence[WindowFinding] = ()

    @property
    def graph(self) -> DependencyGraph:
        """The graph."""
        return self.replayed.graph

    @cached_property
    def steps(self) -> list[StepRow]:
        """The table of steps with a default window."""
        return step_rows(self.graph) if self.replayed.window.is_default else []

    @cached_property
    def opportunities_within_rows(self) -> list[Opportunity]:
        """The opportunities, cut to what rows allow, in the order of their largest savings then."""
        if not isinstance(self.replayed, Replayed):
            return list(self.opportunities)
        return within_rows(self.replayed.draft.base, self.opportunities)

    @cached_property
    def scenarios_within_rows(self) -> list[tuple[NamedChange, Saving]]:
        """The named changes with what each would save as far as rows allow it, the largest saving first."""
        cut = [(one, self.within_rows(one.change, saved)) for one, saved in self.scenarios]
        return sorted(cut, key=lambda pair: -pair[1].ns)

    @cached_property
    def reliability(self) -> Reliability:
        """How far replay of the window can be trusted."""
        # Summaries of a job's ranks show no more than this, and its whole graphs answer as they do.
        if not isinstance(self.replayed, Replayed) or self.graph.is_job:
            predicted = self.compared or self.replayed
            differs = self.of_steps.off_by(predicted.predicted_ns) if self.of_steps else 0.0
            found = Reliability(predicted.frozen_share, waiting_share=predicted.waiting_share, differs_share=differs)
            if not isinstance(self.replayed, Replayed):
                return with_unrecorded_work(found, self.graph, self.replayed.window)
            return with_missing_rows(found, self.replayed.draft.base)
        return reliability_after(self.replayed) if self.asked else reliability(self.replayed.draft.base)

    def within_rows(self, change: Change | None, saved_ns: int) -> Saving:
        """Return a saving by a change (None: the changes that were asked for), cut to what the window's rows allow."""
        if not isinstance(self.replayed, Replayed):
            return Saving(saved_ns)
        draft, every = self.replayed.draft, [one.change for one in self.asked]
        if change is not None:
            draft, every = ModifiedWindow(draft.base), [change]
            change(draft)
        bounds = Bounds.of(self.graph, self.replayed.window)
        bound = bounds.of_draft(draft)
        if len(every) == 1 and isinstance(every[0], NamedScenario) and every[0].name == "rank_like_others":
            bound = min(bound, bounds.of_rank(self.graph.index_of_rank(int(every[0].argument))))
        if len(every) == 1 and isinstance(every[0], FollowAdvice):
            bound = min(bound, every[0].most(draft.base) or bound)
        return Saving(min(saved_ns, bound), is_cut=saved_ns > bound)


def what_if(
    graph: DependencyGraph,
    window: WindowQuery,
    asked: Sequence[NamedChange] = (),
    *,
    curve: str | None = None,
    near: float | None = None,
) -> WhatIf:
    """Replay a window after changes; without any, list its opportunities. Of a step that is its iteration.

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
    of_steps = _of_steps(graph, window, asked)
    judged = None if asked else PathFacts.of(critical_path(graph, window))
    if elsewhere is not None:
        return replace(_what_if_of_ranks(elsewhere(window(graph), window.asked), asked, judged), of_steps=of_steps)
    latency = _latency(graph, window, asked)
    window = priced_query(window)
    replayed = replay(graph, [one.change for one in asked], window)
    base = replayed.draft.base
    within_ns = TOLERANCE_NS
    if curve is None and len(asked) == 1 and asked[0].record["change"] == "scale":
        # Some curves have hundreds of corners: without --curve, only those that bend it visibly are listed.
        curve, within_ns = asked[0].record["what"], round(VISIBLE_BEND * base.length_ns)
    listed = [] if asked else opportunity_rows(base)
    compared = _compared_rank(graph, window, listed)
    return WhatIf(
        replayed,
        asked,
        next_on_path(replayed.path_before, replayed.path_after, replayed.draft.factor != 1.0) if asked else None,
        listed,
        [] if asked else _named_changes(graph, window, compared),
        None if curve is None else sensitivity(graph, curve, window, within_ns=within_ns),
        None if near is None else near_critical(graph, window, share=near),
        latency,
        compared[1] if compared else None,
        of_steps,
        judged,
        judgement(judged) if judged else (),
    )


MOST_SUMMARIES_PER_STEP = 32
"""Files of more ranks are not read once more for each step."""


def _of_steps(graph: DependencyGraph, window: WindowQuery, asked: Sequence[NamedChange]) -> StepPredictions | None:
    """Predict all steps where a rank is to be like the others: that is a question about a run, not one step.

    Not of jobs of very many rank summaries, whose files would be read once more for each step.
    """
    meant = window(graph)
    if not any(one.asked.startswith("rank_like_others") for one in asked) or meant.step is None or meant.form == "cpu":
        return None
    if has_partial_rows(graph) and len(graph.rank_graphs) > MOST_SUMMARIES_PER_STEP:
        return None
    return step_predictions(graph, [one.change for one in asked], priced_query)


def _latency(graph: DependencyGraph, window: WindowQuery, asked: Sequence[NamedChange]) -> Replayed | None:
    """Replay the latency of a step after changes, where the iteration is of another length."""
    if not asked or not WindowFacts.of(window(graph), graph).has_iteration:
        return None
    # A change may name what only the iteration holds.
    with suppress(QueryError):
        return replay(graph, [one.change for one in asked], window)
    return None


def _what_if_of_ranks(elsewhere: WindowReplay, asked: Sequence[NamedChange], judged: PathFacts | None) -> WhatIf:
    """Answer for a job of rank summaries, whose ranks are replayed one by one."""
    if judged is None:
        predicted = elsewhere.predict([one.change for one in asked])
        return WhatIf(predicted, asked, predicted.next, [], [])
    named = {one.asked: one for one in _scenarios_without_choice() if one.asked not in COMPARES_RANKS}
    ranks = [one.change[1] for one in judgement(judged) if one.id.startswith("rank:")]
    late = [scenario_change(*one.split("=")) for one in ranks]
    outlook = elsewhere.opportunities({name: one.change for name, one in named.items()})
    saved = [(named[name], saved) for name, saved in outlook.saved.items()]
    saved += [(one, elsewhere.predict([one.change]).saved_ns) for one in late]
    found = judgement_elsewhere(judged, outlook.opportunities, {one.asked: ns for one, ns in saved})
    in_order = sorted(saved, key=lambda item: -item[1])
    return WhatIf(outlook.recorded, asked, None, outlook.opportunities, in_order, judged=judged, judgement=found)


def _scenarios_without_choice() -> list[NamedChange]:
    return [scenario_change(name) for name, known in SCENARIOS.items() if known.argument is None]


def _compared_rank(
    graph: DependencyGraph, window: WindowQuery, listed: Sequence[Opportunity]
) -> tuple[NamedChange, Replayed] | None:
    """Replay the rank that most of the path is on like the others, where there are any.

    What it would save is no measure of it: where waiting is not known as such, others take as long without its delay.
    """
    ranks = sorted((one for one in listed if one.kind == "rank"), key=lambda one: -one.on_path_ns)
    for one in ranks[:1]:
        change = scenario_change("rank_like_others", one.name)
        with suppress(QueryError):
            return change, replay(graph, change.change, window)
    return None


def _named_changes(
    graph: DependencyGraph, window: WindowQuery, compared: tuple[NamedChange, Replayed] | None
) -> list[tuple[NamedChange, int]]:
    """Replay the named scenarios that apply and need no choice, and add that of the rank that was compared."""
    found = [(compared[0], compared[1].saved_ns)] if compared else []
    for one in _scenarios_without_choice():
        # Without loading, waits or other ranks some scenarios do not apply.
        with suppress(QueryError):
            found.append((one, replay(graph, one.change, window).saved_ns))
    return sorted(found, key=lambda item: -item[1])


def what_if_document(found: WhatIf) -> dict[str, Any]:
    """Return the answer as ``hta-graph/what-if/1`` (times in ns, names whole)."""
    replayed, graph = found.replayed, found.graph
    ranks = [part.rank for part in graph.rank_graphs]
    return {
        "schema": "hta-graph/what-if/1",
        "file": encodable_path(graph.path),
        "rank": graph.rank,
        **({"judgement": finding_records(found.judged, found.judgement)} if found.judged else {}),
        **({"ranks": ranks} if len(ranks) > 1 else {}),
        "window": window_record(replayed.window, graph),
        **({"steps": [one.record for one in StepFacts.of(found.steps)]} if replayed.window.is_default else {}),
        "measured_ns": replayed.measured_ns,
        "identity_ns": replayed.identity_ns,
        "predicted_ns": replayed.predicted_ns,
        "saved_ns": replayed.saved_ns,
        **({"latency": _latency_record(found.latency)} if found.latency else {}),
        **({"of_steps": _of_steps_record(found.of_steps)} if found.of_steps else {}),
        "frozen_share": replayed.frozen_share,
        "inferred_share": replayed.inferred_share,
        "reliable": found.reliability.reason is None,
        "reason": found.reliability.reason,
        "changes": [{**one.as_record(), **_evidence_record(found, one)} for one in found.asked],
        "next": found.next,
        "opportunities": [_opportunity_record(one) for one in found.opportunities_within_rows],
        "scenarios": [{**one.as_record(), "saved_ns": saved.ns} for one, saved in found.scenarios_within_rows],
        "path_before": _path_record(replayed.path_before, graph),
        "path_after": _path_record(replayed.path_after, graph),
        **({"curve": _curve_record(found.curve)} if found.curve else {}),
        **({"near": slack_record(found.near)} if found.near else {}),
        "diagnostics": graph.diagnostics_record,
    }


def _opportunity_record(one: Opportunity) -> dict[str, Any]:
    """Return an opportunity as JSON lists it; only of kernels of graph replays it says how its name is known."""
    return {key: value for key, value in vars(one).items() if key != "operator_evidence" or value is not None}


def _evidence_record(found: WhatIf, one: NamedChange) -> dict[str, str]:
    """Say how it is known which kernels of graph replays a change is about; nothing where it is about none."""
    what = one.record.get("what")
    if what is None or not isinstance(found.replayed, Replayed):
        return {}
    base, selector = found.replayed.draft.base, Selector.of(what)
    evidence = operator_evidence(base, selector.kind, selected_parts(base, selector))
    return {"operator_evidence": evidence} if evidence else {}


def _latency_record(latency: Replayed) -> dict[str, int]:
    lengths = {"measured_ns": latency.measured_ns, "predicted_ns": latency.predicted_ns}
    return {**lengths, "saved_ns": latency.saved_ns}


def _of_steps_record(predicted: StepPredictions) -> dict[str, Any]:
    low, high = predicted.interval_ns
    rows = zip(predicted.steps, predicted.measured_ns, predicted.predicted_ns, strict=True)
    return {
        "usual_ns": predicted.usual_ns,
        "low_ns": low,
        "high_ns": high,
        "steps": [{"step": number, "measured_ns": was, "predicted_ns": now} for number, was, now in rows],
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
