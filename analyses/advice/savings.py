"""What following advice would save by replay: each finding's remedy as a change of its window, where one stands for it.

It is imported where these numbers are shown only: replay takes longer than a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from analyses.advice.facts import PathFacts
from analyses.advice.host_rules import loading_of_window, waits_of_window
from analyses.advice.rule import Fired, PathFinding
from analyses.advice.rules import RULES, within_bounds
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import tracked
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.modified_window import PathTotals
from hta_graph.what_if.reliability import Reliability, reliability_after
from hta_graph.what_if.replay import Replayed, replay


def with_savings(facts: PathFacts, findings: Iterable[PathFinding]) -> list[PathFinding]:
    """Replay the priced window with each finding's remedy; findings without one stay as they are.

    So do all where the graph holds few rows of its ranks: what a change would gain takes all of them.
    """
    if has_partial_rows(facts.graph):
        return list(findings)
    return [_with_saving(facts, finding) for finding in tracked(within_bounds(facts, findings, of_job=True))]


def with_what_windows_show(facts: PathFacts, found: list[PathFinding]) -> list[PathFinding]:
    """Add what the path of the asked window does not show, and replay of the priced one does.

    Loading may delay only the next step's launches, and waits may cost little each by its kind, but much together:
    beyond the waits that are found already, at least what the GPU is idle. Where replay cannot vouch for a saving,
    nothing shows that there is any.
    """
    if has_partial_rows(facts.graph) or facts.graph.is_job or not facts.has_gpu_rows:
        return found
    rules, seen = {one.rule for one in found}, list(found)
    if "data_loading_exposed" not in rules and (loading := loading_of_window(facts)):
        priced = _priced(facts, "data_loading_exposed", loading)
        seen += [one for one in priced if one.saves_ns is not None]
    if not rules & {"synchronous_launches", "waits_of_all_kinds"} and (waits := waits_of_window(facts)):
        known_ns = max((one.saves_ns or 0 for one in found if RULES[one.rule].kind == "wait"), default=0)
        priced = _priced(facts, "waits_of_all_kinds", waits)
        gained = [min(one.saves_ns or 0, facts.priced.gpu_idle_ns) - known_ns for one in priced]
        least = WINDOW_WAITS_SHARE * facts.priced.length_ns
        seen += [one for one, ns in zip(priced, gained, strict=True) if ns >= least]
    return seen


def _priced(facts: PathFacts, rule: str, fired: Fired) -> list[PathFinding]:
    return with_savings(facts, within_bounds(facts, [RULES[rule].finding(facts, fired)]))


WINDOW_WAITS_SHARE = 0.1
"""Waits that the path does not pass are advised from this share on: none of its kinds is notable alone."""


def _with_saving(facts: PathFacts, finding: PathFinding) -> PathFinding:
    remedy = RULES[finding.rule].remedy
    if remedy is None or not finding.evidence.get("in_window", True):
        return finding
    try:
        found = replay(facts.graph, remedy(facts, finding.evidence), resolved_window(facts.priced_window))
        trusted = reliability_after(found)
        is_late_rank = trusted.reason == "fixed" and finding.rule == "held_up_by_rank"
        if trusted.reason is not None and trusted.reason not in DOUBTS and not is_late_rank:
            # Replay cannot vouch for it: only the bound is claimed. How late a rank is, is known where ranks meet. An
            # iteration may become longer, where those before it end earlier: then nothing shows that anything is saved.
            may_be_longer = trusted.missing is None and found.draft.base.previous is not None
            return replace(finding, saves_ns=0) if may_be_longer and found.saved_ns <= 0 else finding
        is_rank = facts.has_gpu_rows and not facts.graph.is_job
        idle_ns = facts.priced.gpu_idle_ns if is_rank else found.saved_ns
        saving = _with_doubt(_with_replayed_saving(finding, found.saved_ns, idle_ns), trusted)
        if finding.rule != "held_up_by_rank":
            return saving
        return replace(saving, takes_longer=_takes_longer(found, facts.graph.index_of_rank(finding.evidence["rank"])))
    except QueryError:
        # A remedy that leaves something without a cause, or finds nothing to change, predicts nothing.
        return finding


def _with_replayed_saving(finding: PathFinding, saved_ns: int, idle_ns: int) -> PathFinding:
    """Return a finding with what replay of the priced window predicts, as far as the rows allow it.

    What holds for the path of a latency need not hold for an iteration: the bound next to it is no less than replay.
    What the host saves beyond the time in which the GPU is idle (``idle_ns``) needs communication, or copies, to
    overlap with computation then: it is an upper limit.
    """
    rule = RULES[finding.rule]
    saved_ns = min(saved_ns, finding.evidence["time_ns"]) if rule.ends_with_its_time else saved_ns
    is_cut = finding.bound_ns is not None and saved_ns > finding.bound_ns
    saved = finding.bound_ns if finding.bound_ns is not None and is_cut else saved_ns
    most = finding.saves_at_most_ns
    return replace(
        finding,
        saves_ns=saved,
        saves_at_most_ns=None if most is None else max(most, saved),
        is_cut=is_cut or (rule.kind in ("host", "wait") and saved > idle_ns),
    )


DOUBTS = ("contended", "unusual")
"""Reasons for which a prediction is doubtful, and yet the best that there is."""


def _with_doubt(finding: PathFinding, trusted: Reliability) -> PathFinding:
    """Trust a saving less where it rests on what may be otherwise: waits for a lock, times of unusual length."""
    if trusted.reason not in DOUBTS:
        return finding
    return replace(finding, confidence="low", evidence={**finding.evidence, f"{trusted.reason}_share": trusted.share})


def _takes_longer(found: Replayed, place: int) -> tuple[str | None, str] | None:
    """Return whose time on the path, and of which class, a rank (its place) has most more of than the others.

    The path afterwards may lead through another rank that does other things: what it has less of says nothing. None
    where nothing alone makes half of what is saved.
    """
    base, rows = found.draft.base, found.path_before.rows
    rows = rows[base.part_rank[rows] == place]
    longer = PathTotals(base, rows, base.parts.length[rows] - found.draft.lengths_of(rows)).by_name()
    if not len(longer["name"]) or 2 * longer["time_ns"][0] < max(found.saved_ns, 1):
        return None
    return longer["name"][0], longer["bound_by"][0]
