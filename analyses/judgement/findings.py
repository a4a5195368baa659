"""The judgement on a window: one list of findings, in one order, which every command, page and document renders.

    scenario    a change that can be made: the remedy of a rule of advice, by replay
    rank        a rank of a job like the others
    cause       what the window is bound by: without it, or at twice its speed if it cannot go
    item        an operator, kernel or collective at twice its speed
    recording   what to record next

A saving counts by what such claims were found to be worth (:data:`WORTH`): one that is doubtful does not outrank a
sure one that is nearly as large, and what no one can remove as a whole stands behind what can be done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from analyses.advice import headline
from analyses.advice.facts import NOTABLE_SHARE, PathFacts
from analyses.advice.host_facts import host_may_poll, may_be_polling
from analyses.advice.job_verdict import REASONS
from analyses.advice.recording_rules import mostly_start_up_ns
from analyses.advice.rule import PathFinding
from analyses.advice.rules import RULES, verdict_of
from analyses.advice.verdict_rules import class_headline, meanwhile
from analyses.declare.missing_work import lost_launches_named, rows_of_a_gpu_program
from analyses.display.phrases import untrusted
from analyses.display.sentence_format import brief_duration, brief_share
from analyses.judgement.pricing import (
    ADVICE,
    CAUSES,
    COMMUNICATION,
    GLOO,
    HOST_WORK,
    ITEM_KINDS,
    OTHER_PATH,
    SAME_SHARE,
    Gain,
    Gains,
    gloo_ns,
    items_at_most,
    priced_advice,
    priced_base,
    priced_items,
    with_savings,
)
from analyses.source.window_facts import short_labels, verdict_of_job
from analyses.source.window_report import headline_lengths, headline_subject
from hta_graph.base.errors import QueryError
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.graph.memo import memoized
from hta_graph.model import BoundBy
from hta_graph.paths.critical_path import CriticalPath, has_partial_rows
from hta_graph.paths.unrecorded_work import unrecorded_times
from hta_graph.what_if.bounds import priced_query
from hta_graph.what_if.modified_window import inferred_share
from hta_graph.what_if.opportunities import Opportunity
from hta_graph.what_if.reliability import DOUBTFUL_SHARE, Missing, Reliability, reliability, with_unrecorded_work
from hta_graph.what_if.scenarios import NamedScenario, scenario

Kind = Literal["scenario", "rank", "cause", "item", "recording"]
Confidence = Literal["high", "medium", "low", "unknown"]
Trust = tuple[Confidence, str | None]
"""How sure a saving is, and why not more so."""

WORTH: Mapping[tuple[Kind, Confidence], float] = {
    ("rank", "high"): 1.0,
    ("rank", "medium"): 0.9,
    ("rank", "low"): 0.8,
    ("scenario", "high"): 1.0,
    ("scenario", "medium"): 0.95,
    ("scenario", "low"): 0.5,
    **{(kind, "high"): 0.5 for kind in ("cause", "item")},
    **{(kind, "medium"): 0.475 for kind in ("cause", "item")},
    **{(kind, "low"): 0.25 for kind in ("cause", "item")},
}
"""Which part of a claimed saving following it was found to save: ``python -m tests.confidence_accuracy``.

Of a whole cause, or of an operator, no one takes all: half of it counts.
"""

HIGH_WITHIN, MEDIUM_WITHIN = 0.1, 0.25
"""Of a saving: what is called high, or medium, comes true within this part of it."""

LEAST_SHARE = 0.01
"""What saves less than this share at twice its speed is no item."""
ITEMS_LISTED = 5
LONGEST_NAME = 60
NOTABLE_WAITING = 0.1
"""From this share of a path on that is most likely waiting for other ranks, no saving is sure."""
INFERRED_SHARE = 0.5
"""From this share of the path on that lies on edges which a rule deduced, a prediction is called uncertain."""
MAY_BE_WAITING = "it may include waiting for other ranks"
POLLING = "the host may be polling"
NO_BOUND = "rank summaries hold no rows that bound it"
CUT = "rows allow no more"
GPU_WORKS = "the GPU works meanwhile"
INFERRED = "it rests on inference"
UNSEEN_GAPS = "how short gaps can be is not recorded"
NO_REPLAY = "replay cannot make that change"
OTHER_RANKS = "other ranks may decide then"
OTHER_STEPS = "it delays other steps"
NO_OTHER_STEP = "there is no other step to compare"


@dataclass(frozen=True, kw_only=True)
class WindowFinding:
    """One thing that a window shows, what it would save (ns), and how sure that is.

    ``change`` are the arguments of what-if that reproduce the saving, where there are some; ``saves_ns`` is by replay,
    no more than ``saves_at_most_ns``, what rows allow (``is_at_most``: less may be saved, too). None: unknown.
    ``said`` names it with its saving; ``word`` is its kind in a sentence; ``advice`` is the rule's finding behind it.
    """

    id: str
    kind: Kind
    name: str
    word: str
    said: str
    change: Sequence[str] = ()
    saves_ns: int | None = None
    saves_at_most_ns: int | None = None
    confidence: Confidence = "high"
    reason: str | None = None
    is_at_most: bool = False
    advice: PathFinding | None = field(default=None, repr=False)

    @property
    def expected_ns(self) -> int | None:
        """What such a claim is worth; None if what it saves is unknown."""
        return None if self.saves_ns is None else round(self.saves_ns * WORTH.get((self.kind, self.confidence), 0.0))

    @property
    def lead(self) -> str:
        """The finding as the first of its kind, in a headline."""
        return f"largest {self.word}: {self.said}"

    def as_record(self, window: Mapping[str, Any]) -> dict[str, Any]:
        """Return the finding as JSON lists it."""
        return {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "change": list(self.change),
            "saves_ns": self.saves_ns,
            "saves_at_most_ns": self.saves_at_most_ns,
            "expected_ns": self.expected_ns,
            "confidence": self.confidence,
            "reason": self.reason,
            "window": dict(window),
            "text": f"{self.word}: {self.said}",
        }


def judgement_record(path: CriticalPath) -> list[dict[str, Any]]:
    """Return the judgement on a path's window as JSON lists it, the finding to act on first."""
    facts = PathFacts.of(path)
    return finding_records(facts, judgement(facts))


def finding_records(facts: PathFacts, every: Iterable[WindowFinding]) -> list[dict[str, Any]]:
    """Return findings on the window of a path as JSON lists them."""
    of = facts.priced_window
    window = {"label": facts.path.window.label, "start_ns": of.start_ns, "end_ns": of.end_ns}
    return [one.as_record(window) for one in every]


@memoized
def judgement(facts: PathFacts) -> list[WindowFinding]:
    """Return the findings on the window of a path, in the order in which a reader can count on them.

    What to record comes first where most of the window is start-up, or much of it is unexplained.
    """
    # Ranks last: other steps are replayed for them, and one window is kept ready.
    found = [*judged_advice(facts), *_causes(facts), *_items(facts)]
    return _in_order(facts, [*(_of_rank(facts, one) for one in _delaying(facts)), *found])


@memoized
def judged_advice(facts: PathFacts) -> list[WindowFinding]:
    """Return the advice among the findings on the window of a path, in their order."""
    return _in_order(facts, [_of_advice(facts, one) for one in priced_advice(facts)])


def _in_order(facts: PathFacts, found: Iterable[WindowFinding]) -> list[WindowFinding]:
    unclear = facts.is_largely_unexplained

    def order(one: WindowFinding) -> tuple[bool, bool, int, int]:
        start_up = one.advice is not None and is_mostly_start_up(facts, one.advice)
        to_record = unclear and one.kind == "recording"
        return not start_up, not to_record, -(one.expected_ns or 0), -(one.saves_at_most_ns or 0)

    return sorted(found, key=order)


def judgement_elsewhere(
    facts: PathFacts, items: Iterable[Opportunity], saved: Mapping[str, int]
) -> list[WindowFinding]:
    """Return the judgement on a window of a job of rank summaries, with savings (ns) by scenario."""
    found = [
        _of_rank(facts, replace(one, saves_ns=saved.get(like_others(one.evidence["rank"])))) for one in _delaying(facts)
    ]
    ranks = {one.change[1] for one in found}
    found += [_of_scenario(facts, of, ns) for of, ns in saved.items() if of not in ranks and facts.is_worth(ns)]
    found += _largest_items(facts, ((one, Gain(one.what, *[one.saved_half_ns] * 3)) for one in items))
    return sorted(found, key=lambda one: -(one.expected_ns or 0))


def like_others(rank: int) -> str:
    """Return the scenario of a rank at the others' speed, as an argument of what-if."""
    return f"rank_like_others={rank}"


def leading(facts: PathFacts) -> WindowFinding | None:
    """Return the first finding that saves something; None where none does.

    Of a rank items are priced only where one may come first: often something else is worth more than any can be.
    """
    if not facts.graph.is_job:
        others = _in_order(facts, [*judged_advice(facts), *_causes(facts)])
        first = next((one for one in others if one.saves_ns), None)
        if first is not None and (first.expected_ns or 0) > WORTH["item", "high"] * items_at_most(facts):
            return first
    return next((one for one in judgement(facts) if one.saves_ns), None)


def firsts(every: Iterable[WindowFinding]) -> list[WindowFinding]:
    """Return the first finding that saves something of each kind of change, in their order."""
    found: dict[str, WindowFinding] = {}
    for one in every:
        if one.saves_ns:
            found.setdefault("change" if one.kind in ("scenario", "rank") else one.kind, one)
    return list(found.values())


# -- advice ------------------------------------------------------------------------------------------------------------


@memoized
def priced_verdict(facts: PathFacts) -> list[PathFinding]:
    """Return the verdict with what the rank that it names would save."""
    return with_savings(facts, verdict_of(facts))


def is_mostly_start_up(facts: PathFacts, finding: PathFinding) -> bool:
    """Return whether a finding says that most of the window happens once."""
    return finding.rule == "start_up_recorded" and mostly_start_up_ns(finding.evidence, facts.length_ns) > 0


def _of_advice(facts: PathFacts, advice: PathFinding) -> WindowFinding:
    rule, saved, most = RULES[advice.rule], advice.saves_ns, advice.saves_at_most_ns
    confidence, doubt = _trust_of_advice(facts, advice)
    name, word = advice.change or advice.action, "change"
    kind: Kind = "rank" if rule.kind == "rank" else "scenario" if rule.remedy else "cause"
    if rule.kind == "recording":
        kind = word = "recording"
    return WindowFinding(
        id=f"{kind}:{rule.name}",
        kind=kind,
        name=name,
        word=word,
        said=name
        if kind == "recording"
        else _said(facts, name, saved, most, (confidence, doubt), is_cut=advice.is_cut),
        change=_arguments(facts, advice),
        saves_ns=saved,
        saves_at_most_ns=saved if advice.is_cut else most,
        confidence=confidence,
        reason=doubt,
        is_at_most=advice.is_cut,
        advice=advice,
    )


def _trust_of_advice(facts: PathFacts, advice: PathFinding) -> Trust:
    """Say how sure it is what following advice saves, and why not more so."""
    kind = RULES[advice.rule].kind
    if kind == "recording":
        return advice.confidence, None
    if advice.saves_ns is None:
        return "unknown", advice.doubt or NO_REPLAY
    if kind == "communication" and not facts.graph.is_job:
        return "low", MAY_BE_WAITING
    if advice.confidence == "high":
        return ("medium", CUT) if advice.is_cut else ("high", None)
    if advice.confidence == "low" and kind in ("host", "wait"):
        return "low", advice.doubt or GPU_WORKS
    return advice.confidence, advice.doubt or INFERRED


def _said(
    facts: PathFacts, of: str, saved: int | None, most: int | None, sure: Trust, *, is_cut: bool = False, when: str = ""
) -> str:
    """Name something with its saving, and how sure that is; why, where it may be no saving at all.

    ``when`` is when it is made, behind a blank.
    """
    if saved:
        why = f": {sure[1]}" if sure[1] in (MAY_BE_WAITING, POLLING) else ""
        return f"{of}, {'at most ' * is_cut}{facts.saving(saved)}{when}, {sure[0]} confidence{why}"
    if saved == 0:
        return f"{of}, saves nothing"
    return f"{of}, {f'at most {facts.saving(most)}, ' if most else ''}savings unknown"


def _arguments(facts: PathFacts, advice: PathFinding) -> list[str]:
    """Return the arguments of what-if that stand for the remedy of a rule; none where nothing is replayed."""
    remedy = RULES[advice.rule].remedy
    if remedy is None or advice.saves_ns is None:
        return []
    change = remedy(facts, advice.evidence)
    return ["--scenario", str(change) if isinstance(change, NamedScenario) else f"{ADVICE}={advice.rule}"]


def _delaying(facts: PathFacts) -> list[PathFinding]:
    """Return the verdict on the rank of a job that delays the others, if it names one."""
    found = priced_verdict(facts)
    return [one for one in found if one.rule == "held_up_by_rank" and one.evidence["rank"] is not None]


def _of_scenario(facts: PathFacts, change: str, saved: int) -> WindowFinding:
    """Return a named scenario that was replayed by ranks, whose rows bound nothing."""
    return WindowFinding(
        id=f"scenario:{change}",
        kind="scenario",
        name=change,
        word="scenario",
        said=_said(facts, f"--scenario {change}", saved, None, ("medium", None)),
        change=["--scenario", change],
        saves_ns=saved,
        confidence="medium",
        reason=NO_BOUND,
    )


def _of_rank(facts: PathFacts, found: PathFinding) -> WindowFinding:
    rank, saved = found.evidence["rank"], found.saves_ns
    name, (confidence, reason) = f"rank {rank} at the others' speed", _trust_of_rank(facts, found)
    return WindowFinding(
        id=f"rank:{rank}",
        kind="rank",
        name=name,
        word="change",
        said=_said(facts, name, saved, found.saves_at_most_ns, (confidence, reason), is_cut=found.is_cut),
        change=["--scenario", like_others(rank)],
        saves_ns=saved,
        saves_at_most_ns=found.bound_ns,
        confidence=confidence,
        reason=reason,
        is_at_most=found.is_cut,
        advice=found,
    )


def _trust_of_rank(facts: PathFacts, found: PathFinding) -> Trust:
    """Say how sure it is what a rank like the others saves: steps of the job differ, and so will another run."""
    saved, rank = found.saves_ns, found.evidence["rank"]
    if saved is None:
        return "unknown", found.doubt or (NO_REPLAY if found.evidence["in_window"] else OTHER_STEPS)
    if found.confidence == "low":
        return "low", found.doubt
    if has_partial_rows(facts.graph):
        return "medium", NO_BOUND
    steps = None
    if facts.path.window.step is not None:
        from hta_graph.what_if.step_predictions import step_predictions  # late: jobs alone have ranks

        steps = step_predictions(facts.graph, [scenario("rank_like_others", rank)], priced_query)
    if steps is None:
        return "low", NO_OTHER_STEP
    after_ns = max(facts.priced.length_ns - saved, 1)
    off_ns = round(steps.off_by(after_ns) * after_ns)
    differs = f"another run may differ by {brief_duration(off_ns)}"
    if off_ns > MEDIUM_WITHIN * saved:
        return "low", differs
    if off_ns > HIGH_WITHIN * saved:
        return "medium", differs
    if found.confidence == "medium":
        return "medium", _why_hedged(facts)
    return ("medium", CUT) if found.is_cut else ("high", None)


def _why_hedged(facts: PathFacts) -> str:
    delays = verdict_of_job(facts.path)
    return REASONS[delays.reason] if delays and delays.reason else INFERRED


# -- causes ------------------------------------------------------------------------------------------------------------


def _causes(facts: PathFacts) -> list[WindowFinding]:
    """Return what bounds the window; of causes that save the same, the one that the path is in for longest is first."""
    gains = Gains.of(facts)
    if gains is None:
        return []
    leads = gains.largest_known if facts.is_largely_unexplained else gains.largest
    every = [(gain, *_trust(gains, gain)) for gain in gains.claims.values() if gain.ns]
    found = [_of_cause(facts, gains, gain, confidence, reason) for gain, confidence, reason in every]
    first = next((one for one in found if leads is not None and one.id == f"cause:{leads.cause}"), None)
    if first is None or first.expected_ns is None:
        return found
    alike = first.expected_ns + round(SAME_SHARE * facts.priced.length_ns)
    rest = [one for one in found if one is not first]
    return [first, *rest] if all((one.expected_ns or 0) <= alike for one in rest) else found


def _trust(gains: Gains, gain: Gain) -> Trust:
    """Say how sure it is what a window saves without a cause, and why not more so."""
    trusted = gains.trusted(gain.cause)
    if trusted.reason:
        return "unknown", untrusted(trusted.reason, trusted.share)
    if gain.cause in COMMUNICATION:
        return "low", MAY_BE_WAITING
    if gain.cause == HOST_WORK and may_be_polling(gains.facts):
        return "low", POLLING
    if (found := _trust_of_path(gains.facts, trusted))[0] != "high":
        return found
    if (inferred := inferred_share(gains.base)) >= INFERRED_SHARE:
        return "medium", f"{brief_share(inferred)} of the path is on inferred edges"
    if gains.at_most(gain):
        return "medium", CUT
    if gain.cause == BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label:
        return "medium", UNSEEN_GAPS
    return ("medium", OTHER_PATH) if gain.changes_path else ("high", None)


def _trust_of_path(facts: PathFacts, trusted: Reliability) -> Trust:
    """Say how sure it can be at most what anything on a path saves: of a rank alone, others may make it wait."""
    if trusted.fixed_share >= DOUBTFUL_SHARE:
        return "low", untrusted("fixed", trusted.fixed_share)
    waiting = 0.0 if facts.graph.is_job else facts.share(gloo_ns(facts))
    if waiting < NOTABLE_WAITING:
        return "high", None
    return "low" if waiting >= DOUBTFUL_SHARE else "medium", untrusted("waiting", waiting)


def _of_cause(facts: PathFacts, gains: Gains, gain: Gain, confidence: Confidence, reason: str | None) -> WindowFinding:
    halved, words = gains.consists_of(gain.cause), cause_words(facts, gain.cause)
    when = " at 2x speed" if halved else " without it"
    saved, is_cut = None if confidence == "unknown" else gain.ns, gains.at_most(gain)
    factor = "0.5" if halved else "0"
    classes = [f"class:{one.label}={factor}" for one in gains.classes_of(gain.cause)]
    return WindowFinding(
        id=f"cause:{gain.cause}",
        kind="cause",
        name=words,
        word="cause",
        said=_said(facts, words, saved, None, (confidence, reason), is_cut=is_cut, when=when),
        change=list(chain.from_iterable(("--scale", one) for one in classes)),
        saves_ns=saved,
        saves_at_most_ns=gain.bound_ns,
        confidence=confidence,
        reason=reason,
        is_at_most=is_cut,
    )


def cause_words(facts: PathFacts, cause: str) -> str:
    """Name a cause: a class, several, or start-up."""
    named = {HOST_WORK: headline.HOST_WORK, GLOO: headline.GLOO, "start_up_recorded": headline.START_UP}
    return named.get(cause) or short_labels(facts.graph)[cause]


# -- items -------------------------------------------------------------------------------------------------------------


def _items(facts: PathFacts) -> list[WindowFinding]:
    """Return the operators, kernels and collectives whose doubled speed saves most; of one name, the largest."""
    return _largest_items(facts, priced_items(facts))


def _largest_items(facts: PathFacts, items: Iterable[tuple[Opportunity, Gain]]) -> list[WindowFinding]:
    found: dict[str, WindowFinding] = {}
    least, listed = LEAST_SHARE * facts.priced.length_ns, set[int]()
    for one, gain in items:
        # An operator and the kernel or collective that it is there for save the same, to the nanosecond.
        if gain.ns in listed:
            continue
        if one.kind in ITEM_KINDS and gain.ns >= least and len(found) < ITEMS_LISTED:
            listed.add(gain.ns)
            found.setdefault(short_name(one.name), _of_item(facts, one, gain))
    return list(found.values())


def _of_item(facts: PathFacts, one: Opportunity, gain: Gain) -> WindowFinding:
    name, confidence, reason = shorten_middle(short_name(one.name), LONGEST_NAME), *_trust_of_item(facts, one, gain)
    saved = None if confidence == "unknown" else gain.ns
    return WindowFinding(
        id=f"item:{one.what}",
        kind="item",
        name=one.what,
        word=f"single {one.kind} at 2x",
        said=_said(facts, name, saved, None, (confidence, reason), is_cut=gain.is_cut),
        change=["--scale", f"{one.what}=0.5"],
        saves_ns=saved,
        saves_at_most_ns=gain.bound_ns,
        confidence=confidence,
        reason=reason,
        is_at_most=gain.is_cut,
    )


def _trust_of_item(facts: PathFacts, one: Opportunity, gain: Gain) -> Trust:
    if has_partial_rows(facts.graph):
        return ("low", MAY_BE_WAITING) if _returns_when_another_came(one) else ("medium", NO_BOUND)
    found = reliability(priced_base(facts))
    trusted = found.of_communication if one.may_be_waiting else found
    if trusted.reason:
        return "unknown", untrusted(trusted.reason, trusted.share)
    if one.may_be_waiting or _returns_when_another_came(one):
        return "low", MAY_BE_WAITING
    if (doubt := _trust_of_path(facts, trusted))[0] != "high":
        return doubt
    if gain.changes_path and facts.graph.is_job:
        return "low", OTHER_RANKS
    if gain.is_cut:
        return "medium", CUT
    return ("medium", OTHER_PATH) if gain.changes_path else ("high", None)


def _returns_when_another_came(one: Opportunity) -> bool:
    """Return whether something is a message, or a call of the host's that communicates: it may wait for its partner."""
    is_message = one.kind == "collective" and one.name.rpartition(":")[2] in ("send", "recv")
    return is_message or one.name.startswith("c10d::")


# -- the first sentence ------------------------------------------------------------------------------------------------


LITTLE = 1 / 3
"""The gain is far below a cause's share of the path where it is less than this part of it."""


def with_gain(facts: PathFacts, finding: PathFinding) -> PathFinding:
    """Return the verdict on a window with what is gained: its cause, and the first finding of its judgement.

    Of unexplained windows that stays the first word, and the cause is the largest that is known.
    """
    gains = Gains.of(facts)
    if gains is None:
        return _of_job(facts, finding)
    largest, first = gains.largest, leading(facts)
    trusted = gains.trusted(None if largest is None else largest.cause)
    if trusted.reason:
        return _without_gain(facts, gains, finding, trusted)
    evidence = {**finding.evidence, "saves_without_ns": {cause: gain.ns for cause, gain in gains.without.items()}}
    is_unexplained = evidence["bound_by"] == BoundBy.UNEXPLAINED.label
    if is_unexplained:
        largest = gains.largest_known
    if first is not None and first.kind == "cause":
        largest = gains.claims[first.id.removeprefix("cause:")]
    elif first is not None:
        return _with_first(facts, gains, finding, first, evidence)
    if largest is None or (is_unexplained and not facts.is_worth(largest.ns)):
        little = headline.known_causes_save_little(NOTABLE_SHARE, facts.priced_name)
        nothing = little if is_unexplained else headline.NO_SINGLE_CAUSE
        return replace(finding, text=_headline(facts, gains, evidence["bound_by"], nothing), evidence=evidence)
    halved = gains.consists_of(largest.cause)
    shorter = headline.Shorter(
        facts.saving_of(largest.ns), facts.priced_name, gains.at_most(largest), _doubt(gains, largest.cause)
    )
    words, detail = cause_words(facts, largest.cause), finding.detail
    if is_unexplained:
        text = _headline(facts, gains, evidence["bound_by"], headline.gain_of_another(words, shorter, halved=halved))
    else:
        on_path = facts.share(gains.time_on_path(largest.cause)) / (2 if halved else 1)
        is_little = largest.ns / max(facts.priced.length_ns, 1) < LITTLE * on_path
        without = headline.HOST_WORK if _gpu_may_be_polled_for(facts, gains, largest.cause) else headline.pronoun(words)
        gain = headline.gain(shorter, halved=halved, is_little=is_little, without=without)
        text = _headline(facts, gains, largest.cause, gain)
        detail = detail or _saves_less(facts, gains, largest)
        evidence |= _class_evidence(facts, largest.cause)
    time_ns = gains.time_on_path(largest.cause)
    evidence |= {"cause": largest.cause, "cause_ns": time_ns, "at_double_speed": halved}
    return replace(finding, text=text, detail=detail, evidence=evidence, saves_ns=largest.ns, bound_ns=largest.bound_ns)


def _with_first(
    facts: PathFacts, gains: Gains, finding: PathFinding, first: WindowFinding, evidence: dict[str, Any]
) -> PathFinding:
    """Return the verdict with a change, or an item, that is worth more than any cause."""
    largest, bound = gains.largest, evidence["bound_by"]
    if bound != BoundBy.UNEXPLAINED.label and largest is not None:
        bound = largest.cause
        cause = {"cause": bound, "cause_ns": gains.time_on_path(bound), "at_double_speed": gains.consists_of(bound)}
        evidence |= {**_class_evidence(facts, bound), **cause}
    return replace(
        finding,
        text=_headline(facts, gains, bound, f"; {first.lead}"),
        detail="",
        evidence={**evidence, "first": first.id},
        saves_ns=first.saves_ns,
        bound_ns=first.saves_at_most_ns,
    )


def _class_evidence(facts: PathFacts, cause: str) -> dict[str, Any]:
    """Return of a cause the class that the path is in for longest, as evidence has it."""
    most = max(CAUSES[cause], key=facts.class_ns)
    return {"bound_by": most.label, "time_ns": facts.class_ns(most), "share": facts.share(facts.class_ns(most))}


def _saves_less(facts: PathFacts, gains: Gains, largest: Gain) -> str:
    """Say what the longest class would save, where the path is in it for longer than in what would save most."""
    other = gains.claims.get(gains.longest)
    longer_ns = gains.time_on_path(gains.longest) - gains.time_on_path(largest.cause)
    if other is None or facts.share(longer_ns) <= SAME_SHARE:
        return ""
    halved = gains.consists_of(other.cause)
    return headline.saves_less(cause_words(facts, other.cause), facts.saving_of(other.ns), halved=halved)


def bound_by_start_up(facts: PathFacts, finding: PathFinding, start_up: PathFinding) -> PathFinding:
    """Return the verdict on a window most of which happens once: a later recording does not hold it."""
    time_ns = min(int(start_up.evidence["time_ns"]), facts.priced.not_computing_ns)
    shorter = headline.Shorter(facts.saving_of(time_ns), facts.priced_name, at_most=False, doubt="")
    window, lengths = headline_subject(facts.of_window), headline_lengths(facts.of_window)
    text = headline.bound_by_start_up(window, shorter, lengths, has_gpu_rows=facts.has_gpu_rows)
    evidence = {**finding.evidence, "cause": start_up.rule, "cause_ns": time_ns, "at_double_speed": False}
    bound_ns = facts.priced.not_computing_ns
    return replace(finding, text=text, detail="", evidence=evidence, saves_ns=time_ns, bound_ns=bound_ns)


def _of_job(facts: PathFacts, finding: PathFinding) -> PathFinding:
    """Return the verdict on a job's window: what rows do not show; else its first finding but a rank."""
    if not facts.graph.is_job or not facts.path.length_ns:
        return finding
    is_summary = has_partial_rows(facts.graph)
    try:
        trusted = _trust_of_summaries(facts) if is_summary else reliability(priced_base(facts))
    except QueryError:
        return finding
    if trusted.missing:
        return _without_gain(facts, None, finding, trusted)
    if is_summary:
        return finding
    first = leading(facts)
    if first is None or first.kind == "rank":
        return finding
    text = class_headline(facts, finding.evidence["bound_by"], f"; {first.lead}")
    return replace(finding, text=text, evidence={**finding.evidence, "first": first.id})


def _trust_of_summaries(facts: PathFacts) -> Reliability:
    """Return what rank summaries know of how far predictions can be trusted: whether work was not recorded."""
    return with_unrecorded_work(Reliability(0.0), facts.graph, facts.priced_window)


def _without_gain(facts: PathFacts, gains: Gains | None, finding: PathFinding, trusted: Reliability) -> PathFinding:
    """Return the verdict where replay cannot be trusted: first what the rows do not show, if that is why."""
    evidence = {**finding.evidence, **vars(trusted)}
    if trusted.missing is None:
        unknown = headline.no_prediction(trusted.reason or "", trusted.share)
        return replace(finding, text=_headline(facts, gains, evidence["bound_by"], unknown), evidence=evidence)
    what = what_is_not_shown(facts, trusted.missing, trusted.missing_share)
    text = headline.savings_unknown(what, headline_lengths(facts.of_window))
    detail = headline.WHAT_IT_WAITS_FOR if trusted.missing == "not_started" else finding.detail
    return replace(finding, text=text, detail=detail, evidence=evidence, confidence="low")


def what_is_not_shown(facts: PathFacts, missing: Missing, share: float) -> str:
    """Say what the rows of a window do not show, for which share of it."""
    window, time = headline_subject(facts.of_window), facts.saving(round(share * facts.priced.length_ns))
    if missing == "gpu_not_recorded":
        return headline.only_host_time(window, rows_of_a_gpu_program(facts.graph))
    if missing == "kernels_not_recorded":
        return headline.work_not_recorded(window, _lost_launches(facts), time)
    if missing == "nothing_recorded":
        return headline.nothing_recorded(window, time)
    return headline.not_started(window, time, facts.main_rank(np.ones(len(facts.path.segment_table), np.bool_)))


def _lost_launches(facts: PathFacts) -> str:
    """Count the launches without a row in the priced window, of a job on the rank where most time is unknown."""
    start_ns, end_ns = facts.priced.start_ns, facts.priced.end_ns
    parts = facts.graph.rank_graphs
    most = max(parts, key=lambda part: unrecorded_times(part.graph).clip(start_ns, end_ns).total)
    on_rank = f"on rank {most.rank}, " if facts.graph.is_job else ""
    return on_rank + lost_launches_named(most.graph, start_ns, end_ns)


def _headline(facts: PathFacts, gains: Gains | None, cause: str, gain: str) -> str:
    path = facts.path
    share = facts.share(gains.time_on_path(cause) if gains and cause in CAUSES else path.by_bound_ns[cause])
    window, lengths = headline_subject(facts.of_window), headline_lengths(facts.of_window)
    if gains and _gpu_may_be_polled_for(facts, gains, cause):
        return headline.polled_for(window, facts.share(facts.busy.total), share, gain, lengths)
    polls = cause == HOST_WORK and may_be_polling(facts)
    what = headline.HOST_OR_POLLED if polls else cause_words(facts, cause)
    longest = gains.time_on_path(gains.longest) if gains and cause in CAUSES else 0
    return headline.bound_by(
        window, what, share, None, lengths, gain,
        has_gpu_rows=facts.has_gpu_rows, others=_others(facts, gains, cause) if gains else (),
        is_longest=facts.share(longest) <= share + SAME_SHARE,
    )  # fmt: skip


def _gpu_may_be_polled_for(facts: PathFacts, gains: Gains, cause: str) -> bool:
    """Return whether the host may poll for a GPU that works for longer than the path is on the host.

    Or for longer than it would be if the silences that the GPU covers were the GPU's time.
    """
    polls = host_may_poll(facts) if cause == HOST_WORK else None
    if polls is None:
        return False
    host_ns, covered_ns = gains.time_on_path(HOST_WORK), polls.evidence["covered_silence_ns"]
    return facts.busy.total > host_ns or covered_ns > host_ns - covered_ns


NEARLY_AS_LONG = 0.8
"""What the path is in for this part of its time in what is named is named, too."""


def _others(facts: PathFacts, gains: Gains, cause: str) -> list[tuple[str, float]]:
    """Name what else the path is in for nearly as long, or longer, and what has no cause where that is much."""
    if cause not in CAUSES:
        return meanwhile(facts) if cause == BoundBy.UNEXPLAINED.label else []
    other = max((one for one in CAUSES if one != cause), key=gains.time_on_path)
    found = []
    if gains.time_on_path(other) >= NEARLY_AS_LONG * gains.time_on_path(cause):
        found.append((cause_words(facts, other), facts.share(gains.time_on_path(other))))
    if facts.is_largely_unexplained:
        found += [("unexplained", facts.share(facts.class_ns(BoundBy.UNEXPLAINED))), *meanwhile(facts)]
    return found


def _doubt(gains: Gains, cause: str) -> str:
    """Say what a prediction rests on where that is too much, and what may be in communication of a single rank."""
    fixed, inferred = gains.trusted(cause).fixed_share, inferred_share(gains.base)
    return headline.doubt(
        fixed * (fixed >= DOUBTFUL_SHARE),
        inferred * (inferred >= INFERRED_SHARE),
        waiting=cause in COMMUNICATION,
        polling=cause == HOST_WORK and may_be_polling(gains.facts),
    )
