"""The text of what-if: its first sentence, the window, what the answer rests on, its tables."""

from __future__ import annotations

from collections.abc import Sequence

from analyses.display.phrases import NOT_RECORDED, more_ranks, whose
from analyses.display.sentence_format import as_sentence, brief_duration
from analyses.display.text_layout import Line, clipped, duration_text, percent, table
from analyses.judgement.pricing import ADVICE
from analyses.questions.what_if.answer import WhatIf
from analyses.questions.what_if.headline import IS_A_BOUND, LONGEST_NAME, split_rank, what_if_headline
from analyses.source.graph_names import naming_notes_of_rows
from analyses.source.window_facts import (
    DefaultWindow,
    WindowFacts,
    class_meanings,
    short_labels,
    slack_record,
    time_by_host,
)
from analyses.source.window_report import default_lines, missing_lines, slack_lines, window_lines
from hta_graph.base.text.formatting import milliseconds
from hta_graph.model import BoundBy
from hta_graph.what_if.opportunities import MIN_SHARE, Opportunity, without_duplicates
from hta_graph.what_if.replay import Replayed
from hta_graph.what_if.scenarios import SCENARIOS
from hta_graph.what_if.sensitivity import Curve
from hta_graph.what_if.slack import NearCritical

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
ROWS_LISTED = 10
NOT_LISTED = "Savings are not listed: what the recording lacks may change each one (--json FILE: what its rows give)."
NEW_SILENCE = 0.1
"""The share of a window that new time without an operator is worth a warning."""


def scenario_lines() -> list[Line]:
    """List the named scenarios: what each changes, and what that assumes."""
    rows = [
        [f"{name}={known.argument.split()[-1].upper()}" if known.argument else name, known.says, known.assumes]
        for name, known in SCENARIOS.items()
    ]
    rows.append([f"{ADVICE}=RULE", "what a rule of advice advises there", "as the finding says that names it"])
    return ["scenarios", *table(rows, ("--scenario", "what changes", "assumption"), left=[0, 1, 2], words=[1, 2])]


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
        *(["", *_slack_lines(found.near, found)] if found.near else []),
    ]


def _slack_lines(near: NearCritical, found: WhatIf) -> list[Line]:
    return slack_lines(slack_record(near), short_labels(found.graph), is_job=found.graph.is_job)


# -- the window, and what the answer rests on -------------------------------------------------------------------------


def _window_lines(found: WhatIf) -> list[Line]:
    graph, window = found.graph, found.replayed.window
    of = whose(graph.rank, len(graph.rank_graphs))
    chosen = default_lines(DefaultWindow.of(window, graph))[:1]
    if found.of_steps and window.is_default and (most := found.of_steps.typical_step) != window.step:
        saved = dict(zip(found.of_steps.steps, found.of_steps.saved_ns, strict=True))
        if saved[most] > 2 * max(found.replayed.saved_ns, 0):
            chosen = [*chosen, f"The change concerns step {most} more: use --step {most}."]
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
    if found.reliability.missing:
        return ["", NOT_LISTED]
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
    measured, (rank, following) = max(found.replayed.measured_ns, 1), split_rank(one.next)
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
    several, measured = any(split_rank(corner[3])[0] for corner in curve.corners), max(curve.measured_ns, 1)
    rows = [
        [
            f"{factor:.3f}", duration_text(predicted), percent((curve.measured_ns - predicted) / measured),
            *([split_rank(following)[0]] if several else []), split_rank(following)[1],
        ]
        for factor, predicted, _, following in curve.corners
    ]  # fmt: skip
    header = [name for name in CURVE_COLUMNS if several or name != "next rank"]
    return [
        f"length by the factor of {clipped(curve.what, LONGEST_NAME)}; linear between rows",
        *table(rows, header, left=[len(header) - 1], names=[len(header) - 1]),
    ]
