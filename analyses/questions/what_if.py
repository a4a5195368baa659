"""what-if: how long a window would be after changes, or which changes would gain most."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from analyses.display.dataframe_text import more_ranks
from analyses.display.labels import class_meanings, short_labels
from analyses.display.sentence_format import brief_class, brief_duration
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from analyses.window_report import (
    default_lines,
    missing_lines,
    slack_lines,
    slack_record,
    step_records,
    time_by_host,
    window_lines,
    window_record,
)
from hta_graph.errors import QueryError
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import require_all_rows
from hta_graph.paths.step_table import StepRow, step_rows
from hta_graph.paths.windows import Window, WindowQuery
from hta_graph.text.sanitize import encodable_path
from hta_graph.text.shorten import short_name, shorten_middle
from hta_graph.what_if.changes import Change, remove, scale
from hta_graph.what_if.modified_window import PathTotals
from hta_graph.what_if.opportunities import MIN_SHARE, Opportunity, opportunity_rows
from hta_graph.what_if.predict import JobPrediction, RankPathTotals, WindowReplay, summary_replay
from hta_graph.what_if.replay import Replayed, replay
from hta_graph.what_if.scenarios import COMPARES_RANKS, SCENARIOS, scenario
from hta_graph.what_if.sensitivity import TOLERANCE_NS, Curve, next_on_path, sensitivity
from hta_graph.what_if.slack import NearCritical, near_critical


@dataclass(frozen=True)
class NamedChange:
    """A change, what it means in words, and what it assumes where that is not plain."""

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
    says = f"{what} takes {f'{factor:g} × its time' if factor else 'no time'}"
    return NamedChange(scale(what, factor), says, {"change": "scale", "what": what, "factor": factor})


def removal_change(what: str) -> NamedChange:
    """Let something not be there.

    Raises:
        UsageError: see :func:`remove`.
    """
    return NamedChange(remove(what), f"{what} is not there, nor what launches it", {"change": "remove", "what": what})


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
    return ["named scenarios", *table(rows, ["--scenario", "what changes", "it assumes"], left=[0, 1, 2], words=[1, 2])]


VISIBLE_BEND = 0.001
"""Corners that bend a curve by less than this share of the window are told only to who asks for the curve."""


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


ROWS_LISTED = 10
LONGEST_NAME = 60
FAR_MORE = 2
LEAST_NAMED_SHARE = 0.05
NEW_SILENCE = 0.1
"""The share of a window that new time without an operator is worth a warning."""
IS_A_BOUND = "like_median"
"""A named change that nobody can make: it bounds what noise costs (docs/evidence/replay.md)."""
OF_RANK = re.compile(r"rank (\d+): (.*)", re.DOTALL)

MOST_SPECIFIC = ("collective", "operator", "kernel", "module", "rank", "class")
"""Of rows about the same time the one is shown whose kind comes first here."""


def what_if_lines(found: WhatIf) -> list[Line]:
    """Render the answer: the conclusion, the window, what it assumes, then tables."""
    body = _change_lines(found) if found.asked else _opportunity_lines(found)
    return [
        _headline(found),
        "",
        *_window_lines(found),
        *_assumption_lines(found),
        *body,
        *(["", *_curve_lines(found.curve)] if found.curve else []),
        *(["", *slack_lines(found.near, found.graph)] if found.near else []),
    ]


# -- in a sentence -----------------------------------------------------------------------------------------------------


def _headline(found: WhatIf) -> str:
    name, replayed = _window_name(found.replayed.window), found.replayed
    if not found.asked:
        return _best_opportunity(found)
    if not replayed.saved_ns:
        why = "nothing changes by that" if replayed.is_unchanged else "other work decides how long it is"
        return f"{name} would take {brief_duration(replayed.measured_ns)} as before: {why}."
    change = -replayed.saved_ns / max(replayed.measured_ns, 1)
    after, before = _distinct_durations(replayed.predicted_ns, replayed.measured_ns)
    return f"{name} would take {after} instead of {before} ({_signed_percent(change)}){_then_text(found)}."


def _then_text(found: WhatIf) -> str:
    """Say what comes onto the path instead; if nothing does, what most of it is."""
    if found.replayed.saved_ns <= 0:
        return ""
    if found.next:
        return f"; then {_short_next(found.next)} decides"
    most = [name for name in found.replayed.path_after.by_name()["name"].tolist() if name]
    return f"; most of that is {_short_next(most[0])}" if most else ""


def _best_opportunity(found: WhatIf) -> str:
    """Name what would gain most: a thing, or a class that would gain far more than each of its things."""
    name, measured = _window_name(found.replayed.window), found.replayed.measured_ns
    # Communication of one rank alone may be no work but waiting: it leads only where nothing else is there.
    works = [one for one in found.opportunities if not one.may_be_waiting] or found.opportunities
    told = sorted(_without_duplicates(works), key=lambda one: -one.saved_half_ns)
    things, classes = [one for one in told if one.kind != "class"], [one for one in told if one.kind == "class"]
    takes = f"{name} takes {brief_duration(measured)}; "
    if not told or not told[0].saved_free_ns:
        return f"{takes}nothing on its path would make it shorter."
    if things and things[0].saved_half_ns * FAR_MORE >= told[0].saved_half_ns:
        best = f"{_short_selector(things[0])} in half its time: {_gain_text(things[0].saved_half_ns, measured)}"
        return f"{takes}most would be gained by {best}{_decides_text(things[0])}.{_best_scenario(found)}"
    most = classes[0]
    where = brief_class(most.name, class_meanings(found.graph))
    of_things = f"; of single things by {_short_selector(things[0])}" if things else ""
    gained = f", {_gain_text(things[0].saved_half_ns, measured)}" if things else ""
    return (
        f"{takes}most would be gained where {where}, in half the time: "
        f"{_gain_text(most.saved_half_ns, measured)}{of_things}{gained}.{_best_scenario(found)}"
    )


def _gain_text(saved_ns: int, measured_ns: int) -> str:
    return f"{brief_duration(saved_ns)} ({percent(saved_ns / max(measured_ns, 1))})"


def _decides_text(one: Opportunity) -> str:
    return f"; then {_short_next(one.next)} decides" if one.next else ""


def _best_scenario(found: WhatIf) -> str:
    """Say which named change saves most, if that is worth saying."""
    measured = found.replayed.measured_ns
    is_alone = any(one.may_be_waiting for one in found.opportunities)
    told = [
        one
        for one in found.scenarios
        if one[0].asked != IS_A_BOUND and not (is_alone and one[0].asked.startswith("communication"))
    ]
    if not told or told[0][1] < LEAST_NAMED_SHARE * measured:
        return ""
    change, saved = told[0]
    return f" Of the named changes {change.asked} saves most: {_gain_text(saved, measured)}."


def _window_name(window: Window) -> str:
    if window.is_whole:
        return "The whole trace"
    return clipped(window.label, LONGEST_NAME) if window.is_named else "The window"


def _distinct_durations(after_ns: int, before_ns: int) -> tuple[str, str]:
    """Print two durations in one unit, with as many digits as tell them apart.

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
    """Shorten what comes next, behind its rank.

    >>> _short_next("rank 2: nn.Module: Linear_0"), _short_next("aten::mm")
    ('rank 2: Linear_0', 'aten::mm')
    """
    rank, own = _split_rank(name)
    return (
        f"rank {rank}: {shorten_middle(short_name(own), LONGEST_NAME)}"
        if rank
        else shorten_middle(short_name(own), LONGEST_NAME)
    )


def _split_rank(name: str | None) -> tuple[str, str]:
    """Divide what comes next into its rank and its name; what has no rank is one rank's."""
    match = OF_RANK.fullmatch(name or "")
    return (match[1], match[2]) if match else ("", name or "")


# -- what it is about, and what it rests on ----------------------------------------------------------------------------


def _window_lines(found: WhatIf) -> list[Line]:
    graph, window = found.graph, found.replayed.window
    rank = "" if graph.rank is None else f", rank {graph.rank}"
    whose = f", {len(graph.rank_graphs)} ranks" if len(graph.rank_graphs) > 1 else rank
    chosen = default_lines(window, graph, ())[:1]
    return [f"{graph.path.name}{whose}", *window_lines(window, graph), *missing_lines(window), *chosen]


def _assumption_lines(found: WhatIf) -> list[Line]:
    """Say what was changed, what that assumes, and how much of the path rests on what."""
    changed = [
        f"changed: {one.says}" + (f"; this assumes that {one.assumes}" if one.assumes else "") for one in found.asked
    ]
    frozen, inferred = found.replayed.frozen_share, found.replayed.inferred_share
    rests = (
        f"{percent(frozen)} of the path stays as it is whatever else changes: "
        "unexplained, or communication without a known partner"
        if frozen
        else "all of the path can move"
    )
    deduced = f"; {percent(inferred)} of it rests on edges that a rule deduced" if inferred else ""
    return [*changed, f"{rests}{deduced}", *_new_silence(found)]


def _new_silence(found: WhatIf) -> list[str]:
    """Warn where time without an operator is what remains: what kept it may have been a wait that nobody recorded."""
    silent = BoundBy.CPU_GAP.label
    before, after = (path.by_bound_ns[silent] for path in (found.replayed.path_before, found.replayed.path_after))
    if not found.asked or after - before < NEW_SILENCE * found.replayed.measured_ns:
        return []
    text = (
        f"{brief_duration(after - before)} without an operator are on the path now that were beside it: if the host "
        "waited there and no row shows it, more would be gained; ask about one step (--step N)"
    )
    return [text]


# -- tables ------------------------------------------------------------------------------------------------------------


def _change_lines(found: WhatIf) -> list[Line]:
    return ["", *_class_lines(found), *_rank_lines(found), "", *_event_lines(found)]


def _class_lines(found: WhatIf) -> list[Line]:
    """List the classes of both paths, those of the recorded one that take longest first."""
    before, after = found.replayed.path_before.by_bound_ns, found.replayed.path_after.by_bound_ns
    shown = sorted((bound for bound in before if before[bound] or after[bound]), key=lambda bound: -before[bound])
    meanings = class_meanings(found.graph)
    rows = [[*_three_times(before[bound], after[bound]), bound, meanings[bound]] for bound in shown]
    whole = [*_three_times(found.replayed.measured_ns, found.replayed.predicted_ns), "together", ""]
    header = ["before", "after", "saved", "class", ""]
    return ["time on the critical path", *table([*rows, whole], header, left=[3, 4], words=[4])]


def _three_times(before_ns: int, after_ns: int) -> list[str]:
    return [duration_text(before_ns), duration_text(after_ns), duration_text(before_ns - after_ns)]


def _rank_lines(found: WhatIf) -> list[Line]:
    before, after = found.replayed.path_before.by_rank_ns, found.replayed.path_after.by_rank_ns
    on_paths = (rank for rank in before if before[rank] or after[rank])
    shown = sorted(on_paths, key=lambda rank: -max(before[rank], after[rank]))
    if len(before) < 2 or not shown:
        return []
    rows = [[duration_text(before[rank]), duration_text(after[rank]), str(rank)] for rank in shown[:ROWS_LISTED]]
    listed = ["", "the same by rank", *table(rows, ["before", "after", "rank"]), *more_ranks(len(shown) - len(rows))]
    was, now = (time_by_host(found.graph, times) for times in (before, after))
    most = sorted(now, key=lambda host: -max(was[host], now[host]))
    hosts = [[duration_text(was[host]), duration_text(now[host]), clipped(host, LONGEST_NAME)] for host in most]
    by_host = table(hosts[:ROWS_LISTED], ["before", "after", "host"], left=[2])
    return [*listed, *(["", "the same by host", *by_host] if by_host else [])]


def _event_lines(found: WhatIf) -> list[Line]:
    """List what takes most of the path after the changes."""
    graph, words = found.graph, short_labels(found.graph)
    several, length = len(graph.rank_graphs) > 1, max(found.replayed.predicted_ns, 1)
    columns = found.replayed.path_after.by_name()
    rows = [
        [
            duration_text(int(ns)), percent(ns / length), *([str(rank)] if several else []), words[bound],
            name or "(nothing recorded)",
        ]
        for name, bound, rank, ns in list(zip(*columns.values(), strict=True))[:ROWS_LISTED]
    ]  # fmt: skip
    header = ["time", "share", *(["rank"] if several else []), "class", "what"]
    texts = [len(header) - 2, len(header) - 1]
    return ["most of the path after that", *table(rows, header, left=texts, names=texts[1:])]


def _opportunity_lines(found: WhatIf) -> list[Line]:
    """List what would gain most, what is one thing under several names once."""
    shown = _without_duplicates(found.opportunities)
    rows = [_opportunity_row(one, found) for one in shown[:ROWS_LISTED]]
    several = len(found.graph.rank_graphs) > 1
    header = [
        "on the path", "saved at half", "share", "saved if free", "kind", "what", *(["next rank"] if several else []),
        "next",
    ]  # fmt: skip
    texts = [4, 5, len(header) - 1]
    hidden = len(found.opportunities) - len(rows)
    more = [f"  and {hidden} more, or the same under other names; --json FILE lists all"] if hidden > 0 else []
    named = _scenario_lines(found)
    ask = "--scale KIND:WHAT=FACTOR predicts one of them, --scenario NAME a named change (--scenarios lists these)"
    title = "what would be gained; rows overlap"
    listed = table(rows, header, left=texts, names=[5, texts[-1]])
    return ["", *([title, *listed] if listed else ["nothing on the path can change"]), *more, *named, "", ask]


def _scenario_lines(found: WhatIf) -> list[Line]:
    """List the named changes that would save something, with what they assume."""
    measured = max(found.replayed.measured_ns, 1)
    rows = [
        [duration_text(saved), percent(saved / measured), one.asked, one.assumes or ""]
        for one, saved in found.scenarios
        if saved >= MIN_SHARE * measured
    ]
    listed = table(rows, ["saved", "share", "--scenario", "it assumes"], left=[2, 3], words=[3])
    return ["", "what named changes would save; they overlap", *listed] if listed else []


def _opportunity_row(one: Opportunity, found: WhatIf) -> list[str]:
    measured, (rank, following) = max(found.replayed.measured_ns, 1), _split_rank(one.next)
    return [
        duration_text(one.on_path_ns), duration_text(one.saved_half_ns), percent(one.saved_half_ns / measured),
        percent(one.saved_free_ns / measured), one.kind, one.name,
        *([rank] if len(found.graph.rank_graphs) > 1 else []), following,
    ]  # fmt: skip


def _without_duplicates(every: Sequence[Opportunity]) -> list[Opportunity]:
    """Leave of rows about the same time the most telling one: an operator that only launches one kernel is that."""
    best: dict[tuple[int, int, int], Opportunity] = {}
    for one in sorted(every, key=lambda one: MOST_SPECIFIC.index(one.kind)):
        best.setdefault((one.on_path_ns, one.saved_half_ns, one.saved_free_ns), one)
    kept = {(one.kind, one.name) for one in best.values()}
    return [one for one in every if (one.kind, one.name) in kept]


def _curve_lines(curve: Curve) -> list[Line]:
    """List the corners of a curve: up to where a thing's time decides, and what does then."""
    several, measured = any(OF_RANK.fullmatch(corner[3] or "") for corner in curve.corners), max(curve.measured_ns, 1)
    rows = [
        [
            f"{factor:.3f}", duration_text(predicted), percent((curve.measured_ns - predicted) / measured),
            *([_split_rank(following)[0]] if several else []), _split_rank(following)[1],
        ]
        for factor, predicted, _, following in curve.corners
    ]  # fmt: skip
    header = ["factor", "length", "saved", *(["next rank"] if several else []), "from here on decides"]
    return [
        f"as recorded, with {clipped(curve.what, LONGEST_NAME)} at any factor; between these a straight line",
        *table(rows, header, left=[len(header) - 1], names=[len(header) - 1]),
    ]
