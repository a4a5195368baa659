"""what-if: how long a window would be after changes, or which changes would gain most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Any

from analyses.advice.facts import PathFacts
from analyses.advice.gains import within_rows
from analyses.advice.recording_rules import mostly_start_up_ns, start_up_recorded
from analyses.advice.rules import RULES
from analyses.display.labels import class_meanings, short_labels
from analyses.display.phrases import NOT_RECORDED, OTHER_STEP, more_ranks, untrusted, whose
from analyses.display.sentence_format import as_sentence, brief_duration, counted
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from analyses.source.graph_names import naming_notes_of_rows
from analyses.source.window_report import (
    WindowFacts,
    default_lines,
    measured_subject,
    missing_lines,
    slack_lines,
    slack_record,
    step_records,
    time_by_host,
    window_lines,
    window_record,
)
from hta_graph.base.errors import QueryError
from hta_graph.base.text.formatting import milliseconds
from hta_graph.base.text.sanitize import encodable_path
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import critical_path, has_partial_rows, require_all_rows
from hta_graph.paths.step_table import StepRow, step_rows
from hta_graph.paths.windows import Window, WindowQuery, resolved_window, step
from hta_graph.what_if.bounds import Bounds, priced_window
from hta_graph.what_if.changes import Change, remove, scale
from hta_graph.what_if.modified_window import ModifiedWindow, PathTotals
from hta_graph.what_if.opportunities import (
    MIN_SHARE,
    Opportunity,
    operator_evidence,
    opportunity_rows,
    without_duplicates,
)
from hta_graph.what_if.predict import JobPrediction, RankPathTotals, WindowReplay, summary_replay
from hta_graph.what_if.reliability import Reliability, reliability, reliability_after, with_missing_rows
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.scenarios import COMPARES_RANKS, SCENARIOS, scenario
from hta_graph.what_if.selectors import Selector, selected_parts
from hta_graph.what_if.sensitivity import TOLERANCE_NS, Curve, next_on_path, sensitivity
from hta_graph.what_if.slack import NearCritical, near_critical
from hta_graph.what_if.step_predictions import StepPredictions, step_predictions

PATH_BY_CLASS, PATH_BY_RANK, PATH_BY_HOST = (f"critical path by {what}" for what in ("class", "rank", "host"))
OVERLAP = "% of the window; savings overlap, do not add them"
SAVINGS = f"estimated savings by operator, kernel, module, frame, collective and rank ({OVERLAP})"
SAVING_COLUMNS: Sequence[str] = (
    *("on path ms", "2x saves ms", "2x saves %", "removed saves %", "kind", "name"),
    *("next rank", "next bottleneck"),
)
ALL_CAN_CHANGE = "all of the path can change"
HOW_TO_ASK = (
    "Use --scale KIND:NAME=FACTOR to predict one of them, or --scenario NAME for a scenario (--scenarios lists all)."
)
CURVE_COLUMNS: Sequence[str] = ("factor", "length", "saved", "next rank", "next bottleneck")
NEGATIVE_SAVINGS = (
    "A negative saving makes the iterations before shorter by more: this one starts earlier, and then waits for work "
    "that they used to hide."
)
MAY_BE_WAITING = " (may include waiting for other ranks)"


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
    change, given = scenario(name, argument), f": {argument}" if argument else ""
    record = {"change": "scenario", "name": name, "argument": argument}
    return NamedChange(change, SCENARIOS[name].says + given, record, SCENARIOS[name].assumes)


def scenario_lines() -> list[Line]:
    """List the named scenarios: what each changes, and what that assumes."""
    rows = [
        [f"{name}={known.argument.split()[-1].upper()}" if known.argument else name, known.says, known.assumes]
        for name, known in SCENARIOS.items()
    ]
    return ["scenarios", *table(rows, ("--scenario", "what changes", "assumption"), left=[0, 1, 2], words=[1, 2])]


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
    is on, like the others.
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
            return with_missing_rows(found, self.replayed.draft.base) if isinstance(self.replayed, Replayed) else found
        return reliability_after(self.replayed) if self.asked else reliability(self.replayed.draft.base)

    def within_rows(self, change: Change | None, saved_ns: int) -> Saving:
        """Return a saving by a change (None: the changes that were asked for), cut to what the window's rows allow."""
        if not isinstance(self.replayed, Replayed):
            return Saving(saved_ns)
        draft = self.replayed.draft
        if change is not None:
            draft = ModifiedWindow(draft.base)
            change(draft)
        bound = Bounds.of(self.graph, self.replayed.window).of_draft(draft)
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
    if of_steps and window(graph).is_default:
        typical = step(of_steps.typical_step)
        window = WindowQuery(typical.asked, lambda graph: replace(typical(graph), is_default=True), by_rows=False)
    if elsewhere is not None:
        return replace(_what_if_of_ranks(elsewhere(window(graph), window.asked), asked), of_steps=of_steps)
    latency = _latency(graph, window, asked)
    window = _iteration_of(window)
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
    return step_predictions(graph, [one.change for one in asked], _iteration_of)


def _iteration_of(window: WindowQuery) -> WindowQuery:
    """Ask for the iteration of a step, which the run consists of, unless its time on the CPU was asked for."""

    def resolve(graph: DependencyGraph) -> Window:
        found = window(graph)
        return found if found.form == "cpu" else priced_window(graph, found)

    return WindowQuery(window.asked, resolve, by_rows=False)


def _latency(graph: DependencyGraph, window: WindowQuery, asked: Sequence[NamedChange]) -> Replayed | None:
    """Replay the latency of a step after changes, where the iteration is of another length."""
    if not asked or not WindowFacts.of(window(graph), graph).has_iteration:
        return None
    # A change may name what only the iteration holds.
    with suppress(QueryError):
        return replay(graph, [one.change for one in asked], window)
    return None


def _what_if_of_ranks(elsewhere: WindowReplay, asked: Sequence[NamedChange]) -> WhatIf:
    """Answer for a job of rank summaries, whose ranks are replayed one by one."""
    if asked:
        predicted = elsewhere.predict([one.change for one in asked])
        return WhatIf(predicted, asked, predicted.next, [], [])
    named = {one.asked: one for one in _scenarios_without_choice() if one.asked not in COMPARES_RANKS}
    outlook = elsewhere.opportunities({name: one.change for name, one in named.items()})
    saved = sorted(((named[name], saved) for name, saved in outlook.saved.items()), key=lambda item: -item[1])
    return WhatIf(outlook.recorded, asked, None, outlook.opportunities, saved)


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
        **({"ranks": ranks} if len(ranks) > 1 else {}),
        "window": window_record(replayed.window, graph),
        **({"steps": step_records(found.steps)} if replayed.window.is_default else {}),
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


ROWS_LISTED = 10
LONGEST_NAME = 60
LEAST_NAMED_SHARE = 0.05
NEW_SILENCE = 0.1
"""The share of a window that new time without an operator is worth a warning."""
IS_A_BOUND = "like_median"
"""A scenario that no change achieves: it bounds what noise costs (docs/evidence.md)."""
OF_RANK = re.compile(r"rank (\d+): (.*)", re.DOTALL)


def what_if_lines(found: WhatIf) -> list[Line]:
    """Render the answer: the conclusion, the window, what it assumes, then tables."""
    body = _change_lines(found) if found.asked else _opportunity_lines(found)
    return [
        *what_if_headline(found),
        *(f"{remark}." for remark in found.replayed.remarks),
        "",
        *_window_lines(found),
        *_assumption_lines(found),
        *body,
        *(["", *_curve_lines(found.curve)] if found.curve else []),
        *(["", *slack_lines(found.near, found.graph)] if found.near else []),
    ]


# -- headlines --------------------------------------------------------------------------------------------------------


def what_if_headline(found: WhatIf) -> list[str]:
    """Say what changes gain, or which would gain most."""
    replayed = found.replayed
    if not found.asked:
        return _largest_savings(found)
    name = _window_name(found)
    if not replayed.saved_ns:
        less = bool(replayed.remarks)
        said = _no_gain(name, replayed.measured_ns, is_unchanged=replayed.is_unchanged, means_less=less)
        return [said, *_of_steps_lines(found), *_latency_lines(found)]
    saving, has_gpu_rows = found.within_rows(None, replayed.saved_ns), bool(found.graph.is_gpu.any())
    return [
        _predicted(
            name, *_lengths(replayed.measured_ns - saving.ns, replayed.measured_ns), *_next_or_largest(found),
            at_least=saving.is_cut,
        ),
        *([_beyond_rows(replayed.predicted_ns, has_gpu_rows=has_gpu_rows)] if saving.is_cut else []),
        *_of_steps_lines(found),
        *_start_lines(replayed),
        *_latency_lines(found),
    ]  # fmt: skip


def _predicted(
    window: str, after: str, before: str, change_text: str, next_one: str | None, largest: str | None, *,
    at_least: bool = False,
) -> str:  # fmt: skip
    """Say how long the window would be, or at least would be, and what limits it then."""
    least = "at least " if at_least else ""
    behind = f"; next bottleneck: {next_one}" if next_one else f"; largest item: {largest}" if largest else ""
    return f"{window}: {least}{after} instead of {before} ({change_text}){behind}"


def _beyond_rows(predicted_ns: int, *, has_gpu_rows: bool = True) -> str:
    """Say what replay predicts where rows allow less, and why the bound does not follow it."""
    predicted = f"Replay predicts {brief_duration(predicted_ns)}, but "
    if not has_gpu_rows:
        return f"{predicted}no row shows what the host does in part of that time; the bound assumes that it stays."
    return f"{predicted}then GPU work overlaps that does not overlap in the trace; the bound assumes that it cannot."


def _no_gain(window: str, length_ns: int, *, is_unchanged: bool, means_less: bool) -> str:
    """Say that the changes save nothing; ``means_less``: they affect less than they may seem to, as a note says."""
    why = "the changes affect nothing on its path" if is_unchanged else "other work is the bottleneck"
    return f"{window}: {brief_duration(length_ns)} as before{'' if means_less else f'; {why}'}"


def _of_steps_lines(found: WhatIf) -> list[str]:
    """Say how long a usual step would be, where all were replayed."""
    predicted = found.of_steps
    if predicted is None:
        return []
    usual = _distinct_durations(predicted.usual_ns, round(median(predicted.measured_ns)))
    after, before = usual
    low, high = _distinct_durations(*predicted.interval_ns)
    again = "about the same" if low == high else f"{low} to {high}"
    return [
        (
            f"Median of {len(predicted.steps)} steps: {after} instead of {before}; in another run {again} (90% "
            "probability)."
        )
    ]


def _start_lines(replayed: Replayed | JobPrediction) -> list[str]:
    """Say why an iteration becomes longer that ends no later."""
    if not isinstance(replayed, Replayed) or replayed.saved_ns >= 0:
        return []
    ends_earlier_ns = replayed.starts_earlier_ns + replayed.saved_ns
    return [_starts_earlier(replayed.starts_earlier_ns, ends_earlier_ns)] if ends_earlier_ns >= 0 else []


def _starts_earlier(starts_ns: int, ends_ns: int) -> str:
    """Explain why an iteration becomes longer although nothing takes longer."""
    ends = f"{brief_duration(ends_ns)} earlier" if ends_ns else "when it did"
    return (
        f"The iterations before end {brief_duration(starts_ns)} earlier, and this one ends {ends}: it starts earlier, "
        "and then waits for work that they used to hide."
    )


def _latency_lines(found: WhatIf) -> list[str]:
    if found.latency is None:
        return []
    after, before, change_text = _lengths(found.latency.predicted_ns, found.latency.measured_ns)
    return [f"Latency: {after} instead of {before} ({change_text})."]


def _lengths(after_ns: int, before_ns: int) -> tuple[str, str, str]:
    """Print a length after changes, the one before, and the change."""
    change = (after_ns - before_ns) / max(before_ns, 1)
    return (*_distinct_durations(after_ns, before_ns), _signed_percent(change))


def _next_or_largest(found: WhatIf) -> tuple[str | None, str | None]:
    """Name what comes onto the path instead; if nothing does, what most of it is."""
    if found.replayed.saved_ns <= 0:
        return None, None
    if found.next:
        return _short_next(found.next), None
    most = [name for name in found.replayed.path_after.by_name()["name"].tolist() if name]
    return None, _short_next(most[0]) if most else None


SMALL_SHARE = 0.05
"""A saving below this share of a window leads no answer whose replay cannot be trusted."""


@dataclass(frozen=True)
class Leading:
    """What saves most of a group: how much (ns), the group, the sentence, and whether that may be mere waiting."""

    ns: int
    group: str
    said: str
    may_be_waiting: bool


def _largest_savings(found: WhatIf) -> list[str]:
    """Name what saves most of all, an item at twice its speed or a scenario, then what saves most of the other kind.

    Communication of a single rank may be waiting for others: that is said, and what saves most without it comes next.
    """
    trusted = found.reliability
    if trusted.missing is not None:
        return [_unknown_savings(_subject(found), trusted.missing, trusted.share)]
    ranked = sorted((*_best_opportunity(found), *_best_scenario(found)), key=lambda one: -one.ns)
    if not ranked:
        return [
            (
                f"{_window_name(found)}: speeding up any part of its path would not shorten it "
                f"({brief_duration(found.replayed.measured_ns)})"
            )
        ]
    first, *rest = ranked
    if trusted.reason is not None and first.ns < SMALL_SHARE * found.replayed.measured_ns:
        # What replay leaves fixed may hide a larger saving than the small one that is left.
        unknown = _unknown_savings(_subject(found), trusted.reason, trusted.share)
        return [unknown, *(_also(one.group, one.said) for one in ranked)]
    sure = (*_best_opportunity(found, sure=True), *_best_scenario(found, sure=True)) if first.may_be_waiting else ()
    without = sorted((one for one in sure if one.ns), key=lambda one: -one.ns)[:1]
    known = {one.said for one in without}
    facts = _facts_of_rank(found)
    once = start_up_recorded(facts) if facts else None
    polls = RULES["host_may_poll"](facts) if facts else None
    if once and (start_up_ns := mostly_start_up_ns(once.evidence, found.replayed.measured_ns)):
        window, length_ns = _subject(found), found.replayed.measured_ns
        said = _saving_and_share(start_up_ns, length_ns, at_most=False)
        return [
            f"{window}: one-time start-up takes {said}; record later to see what else can be saved",
            *(_also(one.group, one.said) for one in ranked),
        ]
    return [
        f"{_leading_name(found, first)}: largest saving: {first.said}",
        *(_also("except communication", _also_trusted(found, first, one)) for one in without),
        *(
            _also(one.group, _also_trusted(found, first, one))
            for one in rest
            if not (one.may_be_waiting or one.said in known)
        ),
        *([polls.text] if polls else []),
    ]


def _also(group: str, said: str) -> str:
    """Say what saves most of the others."""
    return f"Largest saving {group}: {said}."


def _unknown_savings(window: str, reason: str, share: float) -> str:
    """Say that the rows of a window do not show what changes would save: the headline."""
    return f"{window}: savings are unknown, because {untrusted(reason, share)}"


def _facts_of_rank(found: WhatIf) -> PathFacts | None:
    """Return facts about the critical path of a rank's window; None of jobs."""
    if not isinstance(found.replayed, Replayed) or found.graph.is_job:
        return None
    return PathFacts.of(critical_path(found.graph, resolved_window(found.replayed.window)))


def _best_opportunity(found: WhatIf, *, sure: bool = False) -> list[Leading]:
    """Return what would save most at twice its speed: an item, or a class and its largest item.

    ``sure``: of what is not mostly communication that may be waiting.
    """
    measured = found.replayed.measured_ns
    every = [
        one
        for one in without_duplicates(found.opportunities_within_rows)
        if one.saved_half_ns > 0 and not (sure and one.may_be_waiting) and not _is_the_program(one, measured)
    ]
    if not every:
        return []
    most, things = every[0], [one for one in every if one.kind != "class"]
    if most.kind != "class":
        following = _short_next(most.next) if most.next else None
        said = _at_double_speed(_short_selector(most), _saving_of(found, most), following, waits=most.may_be_waiting)
        return [
            Leading(
                most.saved_half_ns,
                "among operators, kernels, modules, frames, collectives and ranks",
                said,
                most.may_be_waiting,
            )
        ]
    alone = (_short_selector(things[0]), _saving(things[0].saved_half_ns, measured)) if things else None
    what = short_labels(found.graph)[most.name]
    what = f"{what} (mostly Gloo collectives)" if most.may_be_waiting and most.name == BoundBy.CPU_GAP.label else what
    said = _class_at_double_speed(what, _saving_of(found, most), alone, waits=most.may_be_waiting)
    return [Leading(most.saved_half_ns, "among classes", said, most.may_be_waiting)]


def _at_double_speed(what: str, saved: str, next_one: str | None, *, waits: bool) -> str:
    """Say what an item saves; ``waits``: it may be waiting."""
    behind = f"; next bottleneck: {next_one}" if next_one else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{behind}"


def _class_at_double_speed(what: str, saved: str, item: tuple[str, str] | None, *, waits: bool) -> str:
    """Say what a class saves, which none of its items comes near; ``item``: the largest one, and what it saves."""
    single = f"; largest single item: {item[0]}, {item[1]}" if item else ""
    return f"{what} at 2x speed, {saved}{MAY_BE_WAITING * waits}{single}"


def _saving(saved_ns: int, whole_ns: int) -> str:
    """Print a saving with its share of the window."""
    return f"{brief_duration(saved_ns)} ({percent(saved_ns / max(whole_ns, 1))})"


PROGRAM_SHARE = 0.9
"""A frame or module that holds this share of a path is the program: that it can be faster says nothing."""


def _is_the_program(one: Opportunity, measured_ns: int) -> bool:
    return one.kind in ("frame", "module") and one.on_path_ns >= PROGRAM_SHARE * measured_ns


def _saving_of(found: WhatIf, one: Opportunity) -> str:
    """Print what an item saves at twice its speed; as "at most" where rows allow no more."""
    promised = next(other.saved_half_ns for other in found.opportunities if other.what == one.what)
    at_most = promised > one.saved_half_ns
    return _saving_and_share(one.saved_half_ns, found.replayed.measured_ns, at_most=at_most)


def _best_scenario(found: WhatIf, *, sure: bool = False) -> list[Leading]:
    """Return the scenario that saves most, if that is notable."""
    is_alone = any(one.may_be_waiting for one in found.opportunities)
    for change, saved in found.scenarios_within_rows:
        waits = is_alone and change.asked.startswith("communication")
        if change.asked == IS_A_BOUND or (sure and waits):
            continue
        if saved.ns < LEAST_NAMED_SHARE * found.replayed.measured_ns or not saved.ns:
            return []
        of = _saving_and_share(saved.ns, found.replayed.measured_ns, at_most=saved.is_cut)
        return [Leading(saved.ns, "among scenarios", f"--scenario {change.asked}, {of}{MAY_BE_WAITING * waits}", waits)]
    return []


def _saving_and_share(saved_ns: int, whole_ns: int, *, at_most: bool) -> str:
    """Print a saving with its share of the window, and that; ``at_most``: rows allow no more."""
    share = f"({percent(saved_ns / max(whole_ns, 1))} of {brief_duration(whole_ns)})"
    return f"{'at most ' * at_most}{brief_duration(saved_ns)} {share}"


def _leading_name(found: WhatIf, first: Leading) -> str:
    return _window_name(found, moves_communication=first.may_be_waiting)


def _also_trusted(found: WhatIf, first: Leading, one: Leading) -> str:
    """Return what a further saving says, with the reason where it cannot be trusted and the first one can."""
    return _trusted(found, one.said) if first.may_be_waiting and not one.may_be_waiting else one.said


def _window_name(found: WhatIf, *, moves_communication: bool = False) -> str:
    """Name the window, with the reason where its replay cannot be trusted."""
    return _trusted(found, _subject(found), moves_communication=moves_communication)


def _subject(found: WhatIf) -> str:
    """Name the window in front of a colon; of an engine's steps phase, count, batch and median."""
    return measured_subject(WindowFacts.of(found.replayed.window, found.graph))


def _trusted(found: WhatIf, said: str, *, moves_communication: bool = False) -> str:
    trusted = found.reliability.of_communication if moves_communication else found.reliability
    return said if trusted.reason is None else f"{said} (not reliable: {untrusted(trusted.reason, trusted.share)})"


def _distinct_durations(after_ns: int, before_ns: int) -> tuple[str, str]:
    """Print two durations in one unit, with enough digits to differ.

    >>> _distinct_durations(34_215_000, 42_676_000), _distinct_durations(972_700, 1_357_700)
    (('34.2 ms', '42.7 ms'), ('0.973 ms', '1.358 ms'))
    """
    after, before = brief_duration(after_ns), brief_duration(before_ns)
    is_plain = after != before and after.split()[1] == before.split()[1]
    return (after, before) if is_plain else (duration_text(after_ns), duration_text(before_ns))


def _signed_percent(share: float) -> str:
    """Print a change.

    >>> _signed_percent(-0.198), _signed_percent(0.5), _signed_percent(-0.00001)
    ('−19.8%', '+50.0%', '−<0.1%')
    """
    return ("−" if share < 0 else "+") + percent(abs(share))


def _short_selector(one: Opportunity) -> str:
    return f"{one.kind} {shorten_middle(short_name(one.name), LONGEST_NAME)}"


def _short_next(name: str) -> str:
    """Shorten what comes next, and put its rank behind it.

    >>> _short_next("rank 2: nn.Module: Linear_0"), _short_next("aten::mm")
    ('Linear_0 on rank 2', 'aten::mm')
    """
    rank, own = _split_rank(name)
    return _on_rank(shorten_middle(short_name(own), LONGEST_NAME), rank)


def _on_rank(name: str, rank: str) -> str:
    """Name what comes next, with its rank if it has one."""
    return f"{name} on rank {rank}" if rank else name


def _split_rank(name: str | None) -> tuple[str, str]:
    """Divide what comes next into its rank and its name; what has no rank is one rank's."""
    match = OF_RANK.fullmatch(name or "")
    return (match[1], match[2]) if match else ("", name or "")


# -- the window, and what the answer rests on -------------------------------------------------------------------------


def _window_lines(found: WhatIf) -> list[Line]:
    graph, window = found.graph, found.replayed.window
    of = whose(graph.rank, len(graph.rank_graphs))
    chosen = default_lines(window, graph, ())[:1]
    if found.of_steps and window.is_default:
        chosen = [
            (
                f"{window.label} is predicted closest to the median of {counted(len(found.of_steps.steps), 'step')}; "
                f"{OTHER_STEP}."
            )
        ]
    return [f"{graph.path.name}{of}", *window_lines(WindowFacts.of(window, graph)), *missing_lines(window), *chosen]


def _assumption_lines(found: WhatIf) -> list[Line]:
    """Say what was changed, what that assumes, and how much of the path rests on what."""
    changed = [
        (f"Change: {one.says}." + (f" Assumption: {one.assumes}." if one.assumes else "")) for one in found.asked
    ]
    replayed = found.replayed
    rests = _rests(
        replayed.earlier_share, replayed.frozen_share, replayed.inferred_share,
        is_step=replayed.window.step is not None,
    )  # fmt: skip
    return [*changed, rests, *_naming_lines(found), *_new_silence(found)]


def _rests(earlier_share: float, fixed_share: float, inferred_share: float, *, is_step: bool) -> str:
    """Say how much of the path rests on what."""
    earlier = "earlier steps' work" if is_step else "work launched before the window"
    parts = {
        f"is {earlier}, which changes do not affect": earlier_share,
        "is fixed in every scenario (unexplained, or communication without a known partner)": fixed_share,
    }
    said = [(percent(share), what) for what, share in parts.items() if share]
    fixed = (
        "; ".join(f"{share}{' of the path' if not at else ''} {what}" for at, (share, what) in enumerate(said))
        or ALL_CAN_CHANGE
    )
    inferred = f"; {percent(inferred_share)} depends on inferred edges" if inferred_share else ""
    return as_sentence(f"{fixed}{inferred}")


def _naming_lines(found: WhatIf) -> list[str]:
    """Say which kernels of graph replays have operators and modules by capture or annotation."""
    if not isinstance(found.replayed, Replayed):
        return []
    base = found.replayed.draft.base
    return naming_notes_of_rows(found.graph, base.parts.owner, base.window.label)


def _new_silence(found: WhatIf) -> list[str]:
    """Warn where time without an operator comes onto the path: it may be a wait without a record."""
    silent = BoundBy.CPU_GAP.label
    before, after = (path.by_bound_ns[silent] for path in (found.replayed.path_before, found.replayed.path_after))
    if not found.asked or after - before < NEW_SILENCE * found.replayed.measured_ns:
        return []
    return [
        (
            f"{brief_duration(after - before)} without an operator becomes part of the path. If the host waits there "
            "without a record, more would be saved; analyze a single step (--step N)."
        )
    ]


# -- tables ------------------------------------------------------------------------------------------------------------


def _change_lines(found: WhatIf) -> list[Line]:
    return ["", *_class_lines(found), *_rank_lines(found), "", *_event_lines(found)]


def _class_lines(found: WhatIf) -> list[Line]:
    """List the classes of both paths, those of the recorded one that take longest first."""
    before, after = found.replayed.path_before.by_bound_ns, found.replayed.path_after.by_bound_ns
    shown = sorted((bound for bound in before if before[bound] or after[bound]), key=lambda bound: -before[bound])
    meanings, words = class_meanings(found.graph), short_labels(found.graph)
    rows = [[*_three_times(before[bound], after[bound]), words[bound], meanings[bound]] for bound in shown]
    whole = [*_three_times(found.replayed.measured_ns, found.replayed.predicted_ns), "total", ""]
    header = ["before", "after", "saved", "class", ""]
    return [PATH_BY_CLASS, *table([*rows, whole], header, left=[3, 4], words=[4])]


def _three_times(before_ns: int, after_ns: int) -> list[str]:
    return [duration_text(before_ns), duration_text(after_ns), duration_text(before_ns - after_ns)]


def _rank_lines(found: WhatIf) -> list[Line]:
    before, after = found.replayed.path_before.by_rank_ns, found.replayed.path_after.by_rank_ns
    on_paths = (rank for rank in before if before[rank] or after[rank])
    shown = sorted(on_paths, key=lambda rank: -max(before[rank], after[rank]))
    if len(before) < 2 or not shown:
        return []
    rows = [[duration_text(before[rank]), duration_text(after[rank]), str(rank)] for rank in shown[:ROWS_LISTED]]
    listed = ["", PATH_BY_RANK, *table(rows, ["before", "after", "rank"]), *more_ranks(len(shown) - len(rows))]
    was, now = (time_by_host(found.graph, times) for times in (before, after))
    most = sorted(now, key=lambda host: -max(was[host], now[host]))
    hosts = [[duration_text(was[host]), duration_text(now[host]), clipped(host, LONGEST_NAME)] for host in most]
    by_host = table(hosts[:ROWS_LISTED], ["before", "after", "host"], left=[2])
    return [*listed, *(["", PATH_BY_HOST, *by_host] if by_host else [])]


def _event_lines(found: WhatIf) -> list[Line]:
    """List what takes most of the path after the changes."""
    graph, words = found.graph, short_labels(found.graph)
    several, length = graph.is_job, max(found.replayed.predicted_ns, 1)
    columns = found.replayed.path_after.by_name()
    rows = [
        [
            duration_text(int(ns)), percent(ns / length), *([str(rank)] if several else []), words[bound],
            name or NOT_RECORDED,
        ]
        for name, bound, rank, ns in list(zip(*columns.values(), strict=True))[:ROWS_LISTED]
    ]  # fmt: skip
    header = ["time", "share", *(["rank"] if several else []), "class", "name"]
    texts = [len(header) - 2, len(header) - 1]
    return ["largest items on the critical path after the changes", *table(rows, header, left=texts, names=texts[1:])]


def _opportunity_lines(found: WhatIf) -> list[Line]:
    """List what would save most, an item with multiple names once, classes and scenarios apart: the largest first."""
    every = without_duplicates(found.opportunities_within_rows)
    items = [one for one in every if one.kind != "class"][:ROWS_LISTED]
    classes = [one for one in every if one.kind == "class"]
    hidden = len(found.opportunities) - len(items) - len(classes)
    more = (
        [f"  … and {hidden} more, some of them the same items under other names; --json FILE lists all"]
        if hidden > 0
        else []
    )
    scenarios = found.scenarios_within_rows
    most_of_items, most_of_classes = (max((one.saved_half_ns for one in of), default=0) for of in (items, classes))
    tables = [
        (most_of_items, SAVINGS, [*_savings_table(items, found), *more]),
        (most_of_classes, f"estimated savings by class ({OVERLAP})", _savings_table(classes, found)),
        (scenarios[0][1].ns if scenarios else 0, f"estimated savings by scenario ({OVERLAP})", _scenario_lines(found)),
    ]  # fmt: skip
    listed = [["", title, *lines] for _, title, lines in sorted(tables, key=lambda one: -one[0]) if lines]
    nothing = [] if items or classes else ["", "Nothing on the path can change."]
    least = min((min(one.saved_half_ns, one.saved_free_ns) for one in (*items, *classes)), default=0)
    negative = ["", NEGATIVE_SAVINGS] if -least >= MIN_SHARE * found.replayed.measured_ns else []
    return [*nothing, *(line for lines in listed for line in lines), *negative, "", HOW_TO_ASK]


def _savings_table(shown: Sequence[Opportunity], found: WhatIf) -> list[Line]:
    several, is_class = found.graph.is_job, all(one.kind == "class" for one in shown)
    header = [name for name in SAVING_COLUMNS if several or name != "next rank"]
    rows = [_opportunity_row(one, found) for one in shown]
    if is_class:
        header[4:6], rows = ["class"], [[*row[:4], *row[5:]] for row in rows]
    names = [header.index("class" if is_class else "name"), len(header) - 1]
    kind = [] if is_class else [4]
    order = [1, 2, names[0], *kind, 3, names[1]]
    return table(rows, header, left=[*kind, *names], names=names[is_class:], order=order)


def _scenario_lines(found: WhatIf) -> list[Line]:
    """List the scenarios that would save something, with what they assume."""
    measured = max(found.replayed.measured_ns, 1)
    rows = [
        [milliseconds(saved.ns), _bare_percent(saved.ns / measured), one.asked, one.assumes or ""]
        for one, saved in found.scenarios_within_rows
        if saved.ns >= MIN_SHARE * measured
    ]
    listed = table(rows, ("saves ms", "saves %", "--scenario", "assumption"), left=[2, 3], words=[3])
    bound = (
        ["like_median is no action: it bounds what variation between equal steps costs."]
        if any(row[2] == IS_A_BOUND for row in rows)
        else []
    )
    return [*listed, *bound]


def _opportunity_row(one: Opportunity, found: WhatIf) -> list[str]:
    measured, (rank, following) = max(found.replayed.measured_ns, 1), _split_rank(one.next)
    return [
        milliseconds(one.on_path_ns), milliseconds(one.saved_half_ns), _bare_percent(one.saved_half_ns / measured),
        _bare_percent(one.saved_free_ns / measured), one.kind,
        short_labels(found.graph)[one.name] if one.kind == "class" else one.name,
        *([rank] if found.graph.is_job else []), following,
    ]  # fmt: skip


def _bare_percent(share: float) -> str:
    return percent(share).removesuffix("%")


def _curve_lines(curve: Curve) -> list[Line]:
    """List the corners of a curve: from which factor on something else is the bottleneck."""
    several, measured = any(OF_RANK.fullmatch(corner[3] or "") for corner in curve.corners), max(curve.measured_ns, 1)
    rows = [
        [
            f"{factor:.3f}", duration_text(predicted), percent((curve.measured_ns - predicted) / measured),
            *([_split_rank(following)[0]] if several else []), _split_rank(following)[1],
        ]
        for factor, predicted, _, following in curve.corners
    ]  # fmt: skip
    header = [name for name in CURVE_COLUMNS if several or name != "next rank"]
    return [
        f"length by the factor of {clipped(curve.what, LONGEST_NAME)}; linear between rows",
        *table(rows, header, left=[len(header) - 1], names=[len(header) - 1]),
    ]
