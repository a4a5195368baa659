"""The first screen of a report: the headline, the figures next to it, at most three cards with the next actions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.rule import PathFinding
from analyses.display.sentence_format import brief_duration, brief_share
from analyses.display.text_layout import clipped
from analyses.judgement.findings import WindowFinding, cause_words, firsts, judgement, leading, what_is_not_shown
from analyses.judgement.verdict import NOTHING_SUGGESTED, replayed_advice, replayed_verdict
from analyses.report.gain_curves import gain_name
from analyses.report.page_labels import capitalized, length_name, sentence
from analyses.report.path_lanes import CELLS, LEVELS, LIMITS, PathPicture, path_picture
from analyses.source.window_facts import short_labels, verdict_of_job
from analyses.source.window_report import headline_subject, window_name
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import CriticalPath
from hta_graph.paths.lane_scene import path_overview
from hta_graph.what_if.opportunities import Opportunity

MOST_CARDS = 3
CALLS_OTHERS = ("operator", "module", "frame")
"""Kinds of opportunities that include what they call."""
WHOLE_SHARE = 0.95
"""What calls nearly all that the path passes is the window itself: that it could be faster names nothing to change."""
NOTES = ("ranks_matched", "clocks_unsure", "clock_fault")
"""Rules whose findings are notes."""
LONGEST_ACTION = 90
"""Longer actions would take more than two lines of a card."""


@dataclass(frozen=True)
class KeyFigure:
    """A number of the first screen and what it is."""

    number: str
    text: str


@dataclass(frozen=True)
class Card:
    """A next action: what to do, what it saves, why."""

    action: str
    saving: str
    sure: str
    details: Sequence[str]


@dataclass(frozen=True)
class Summary:
    """The first screen of a page; ``base`` says of what its percentages are, ``why_nothing`` why no advice is given."""

    run: str
    headline: str
    figures: Sequence[KeyFigure]
    cards: Sequence[Card]
    findings: Sequence[str]
    picture: PathPicture | None
    notes: Sequence[str] = ()
    base: str = ""
    why_nothing: str = ""

    @property
    def title(self) -> str:
        """The title of the page."""
        return f"{self.headline} – {self.run}"


def detailed_rank(paths: Mapping[int, CriticalPath], job: CriticalPath | None = None) -> int:
    """Return the rank to show in detail: the one that the verdict of the job names, without a job the slowest.

    The verdict names the rank that delays the others, else the one with most of the largest class.
    """
    rank = None if job is None else _named_rank(job)
    if rank is None or rank not in paths:
        return max(paths, key=lambda one: paths[one].length_ns)
    return rank


def _named_rank(job: CriticalPath) -> int:
    found, parts = verdict_of_job(job), job.graph.rank_graphs
    if found is not None and found.rank is not None:
        return found.rank
    own = job.segment_table.take(job.segment_table.bound == BoundBy[_largest_class(job).upper()])
    return parts[int(np.bincount(own.part, weights=own.length, minlength=len(parts)).argmax())].rank


def _largest_class(path: CriticalPath) -> str:
    # Of equal classes the first in the order of the table, as in the verdict.
    return max(path.by_bound_ns.items(), key=lambda item: item[1])[0]


def summary_of(path: CriticalPath, run: str, opportunities: Sequence[Opportunity] = (), *, link: str = "") -> Summary:
    """Sum up a path of a rank or of a job.

    Args:
        path: the path that the page is about.
        run: the name of the run.
        opportunities: what would save most, which fills cards that advice leaves.
        link: the address of the window in the timeline.
    """
    facts = PathFacts.of(path)
    found = [*replayed_verdict(facts), *replayed_advice(facts)]
    bound = next(finding for finding in found if finding.rule == "bound_by")
    # Where replay cannot be trusted, no speedup is promised.
    cards = _cards(facts, () if "another_path_share" in bound.evidence else opportunities)
    return Summary(
        run,
        _headline(facts, bound, found),
        _figures(facts, bound),
        cards,
        [_finding_text(one, facts) for one in found if not _is_note(one) and one.rule != NOTHING_SUGGESTED],
        _picture(facts, link),
        [_finding_text(one, facts) for one in found if _is_note(one)],
        _base(path),
        " ".join(one.text for one in found if one.rule == NOTHING_SUGGESTED),
    )


def _picture(facts: PathFacts, link: str) -> PathPicture | None:
    """Draw the path; None of an empty window."""
    path = facts.path
    if not path.length_ns:
        return None
    overview = path_overview(path, LIMITS, CELLS, LEVELS)
    return path_picture(facts.of_window, overview, path.by_bound_ns, len(facts.graph.rank_graphs), link)


def _base(path: CriticalPath) -> str:
    if not path.length_ns:
        return ""
    length = f"{length_name(PathFacts.of(path).of_window)} ({brief_duration(path.length_ns)})"
    return f"Percentages are of the {length}, unless a heading says otherwise."


def _is_note(finding: PathFinding) -> bool:
    """Return whether a finding is about the recording and its reading, not about the run."""
    return finding.rule in NOTES or finding.evidence.get("unexplained_ns") == 0


def _headline(facts: PathFacts, bound: PathFinding, found: Sequence[PathFinding]) -> str:
    """Return the first sentence: that of the verdict of a job, as all commands say it, else what bounds the window."""
    path = facts.path
    if not path.length_ns:
        return f"{capitalized(window_name(path.window))}: nothing to analyze, the window is empty"
    if delayed := next((one.text for one in found if one.rule == "held_up_by_rank"), ""):
        return capitalized(delayed)
    if missing := bound.evidence.get("missing"):
        return capitalized(what_is_not_shown(facts, missing, bound.evidence["missing_share"]))
    rank = facts.main_rank(facts.segments_in_classes(BoundBy[_largest_class(path).upper()]))
    first = leading(facts) if bound.saves_ns is not None else None
    change = f"; largest {first.word}: {first.name}" if first is not None and first.word == "change" else ""
    return f"{_headline_of(headline_subject(facts.of_window), _cause(facts, bound), rank)}{change}"


def _headline_of(subject: str, bound: str, rank: int | None) -> str:
    """Name what bounds a window, and which rank."""
    cause = "mostly unexplained" if bound == "unexplained" else f"bound by {bound}"
    cause += "" if rank is None else f" on rank {rank}"
    return f"{capitalized(subject)}: {cause}"


def _cause(facts: PathFacts, bound: PathFinding) -> str:
    """Name what bounds a window as its verdict does: by its gain, else by its time on the path."""
    if bound.evidence["bound_by"] != BoundBy.UNEXPLAINED.label and "cause" in bound.evidence:
        return cause_words(facts, bound.evidence["cause"])
    return short_labels(facts.graph)[bound.evidence["bound_by"]]


def _figures(facts: PathFacts, bound: PathFinding) -> list[KeyFigure]:
    """Return the numbers that belong to the headline: what is gained, then what it is of."""
    path, window = facts.path, facts.path.window
    if not path.length_ns:
        return []
    time_ns = bound.evidence["time_ns"]
    if bound.evidence["bound_by"] != BoundBy.UNEXPLAINED.label:
        time_ns = bound.evidence.get("cause_ns", time_ns)
    gained = firsts(judgement(facts)) if bound.saves_ns is not None else []
    found = [
        *(_gain_figure(facts, one) for one in gained[:1]),
        KeyFigure(brief_share(facts.share(time_ns)), f"of the critical path is {_cause(facts, bound)}"),
        KeyFigure(brief_duration(path.length_ns), _length_text(facts)),
    ]
    delaying = verdict_of_job(path)
    if delaying is not None and delaying.rank is not None:
        share = brief_share(delaying.share_of_step)
        text = (
            f"the other ranks wait for rank {delaying.rank} ({share} of "
            f"{'a step' if bool(delaying.steps) else 'the window'})"
        )
        found.append(KeyFigure(brief_duration(delaying.median_caused_ns), text))
    if facts.of_window.has_iteration:
        found.append(KeyFigure(brief_duration(window.gpu_ns), "iteration"))
    found += [_gain_figure(facts, one) for one in gained[1:] if one.word == "change"]
    return found


def _length_text(facts: PathFacts) -> str:
    name = length_name(facts.of_window)
    return f"median {name}" if facts.of_window.represents_phase else name


def _gain_figure(facts: PathFacts, first: WindowFinding) -> KeyFigure:
    doubt = "" if first.confidence == "high" else f", {_confidence(first.confidence)}"
    return KeyFigure(facts.saving(first.saves_ns or 0), f"largest {first.word}: {first.name}{doubt}")


def _cards(facts: PathFacts, opportunities: Sequence[Opportunity]) -> list[Card]:
    """Choose the next actions, in the order of the judgement; without items of its own, then other opportunities."""
    items = {one.what: one for one in opportunities if not _is_whole(facts, one)}
    judged = [one for one in judgement(facts) if one.advice or (one.kind == "item" and one.saves_ns)]
    cards = [_card(facts, one.advice) if one.advice else _item_card(facts, one, items.get(one.name)) for one in judged]
    named = {one.name for one in judged}
    return [*cards, *(_opportunity_card(facts, one) for what, one in items.items() if what not in named)][:MOST_CARDS]


def _is_whole(facts: PathFacts, one: Opportunity) -> bool:
    return one.kind in CALLS_OTHERS and one.on_path_ns >= WHOLE_SHARE * facts.priced.length_ns


def _item_card(facts: PathFacts, item: WindowFinding, known: Opportunity | None) -> Card:
    """Make a card of an item at twice its speed."""
    sure = _confidence(item.confidence)
    if known is not None:
        return replace(_opportunity_card(facts, known), sure=sure)
    name, saved = item.name.partition(":")[2], item.saves_ns or 0
    return Card(f"If {name} ran twice as fast", f"Would save {facts.saving(saved)}", sure, [])


def _card(facts: PathFacts, finding: PathFinding) -> Card:
    (saved, is_bound), most = finding.saving, finding.saves_at_most_ns
    action, rest = _action(finding)
    details = [sentence(text) for text in (rest, finding.text, finding.detail) if text]
    if most is not None and not is_bound:
        details.append(f"At most {facts.saving(most)} can be saved.")
    saving = (
        _saves(facts.saving(saved), at_most=is_bound) if saved else "No direct saving; the next trace explains more"
    )
    return Card(action, saving, finding.sure, details)


def _action(finding: PathFinding) -> tuple[str, str]:
    """Return what to do, in one line, and what a long one leaves to the details."""
    if finding.rule == "held_up_by_rank":
        return f"Bring rank {finding.evidence['rank']} up to the others' speed", ""
    if len(finding.action) <= LONGEST_ACTION:
        return finding.action, ""
    action, _, rest = finding.action.partition(": ")
    return clipped(action, LONGEST_ACTION), rest or finding.action


def _opportunity_card(facts: PathFacts, one: Opportunity) -> Card:
    """Make a card of something on the path whose speed would help."""
    name = short_labels(facts.graph)[one.name] if one.kind == "class" else gain_name(one)
    launched = "launched in this step" if facts.path.window.step is not None else "launched in this window"
    counted_in = (
        f"counting everything it calls that was {launched}"
        if one.kind in CALLS_OTHERS
        else f"counting what was {launched}"
    )
    said = [
        (
            f"{facts.saving(one.on_path_ns)} of the path, {counted_in}; without it, {facts.saving(one.saved_free_ns)} "
            "would be saved."
        )
    ]
    details = [*said, f"Next bottleneck: {one.next}."] if one.next else said
    saving = f"Would save {facts.saving(one.saved_half_ns)}"
    return Card(f"If {name} ran twice as fast", saving, "", details)


def _finding_text(finding: PathFinding, facts: PathFacts) -> str:
    """Return a finding as a sentence, with what it saves."""
    said = sentence(finding.sentences)
    saved, is_bound = finding.saving
    # The headline says itself what is gained.
    if not saved or finding.rule == "bound_by":
        return said
    saving = _saves(facts.saving(saved), at_most=is_bound)
    return f"{said} {saving}; {finding.sure}."


def _saves(text: str, *, at_most: bool) -> str:
    """Say what an action saves."""
    return f"Saves at most {text}" if at_most else f"Saves {text}"


def _confidence(level: str) -> str:
    """Name how sure a finding is."""
    return f"{level} confidence"
