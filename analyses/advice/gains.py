"""What bounds a window, by gain: what the priced window would save without each cause, by replay and as rows allow.

A class of the path can be long and yet cost nothing, where something else is nearly as long:

host     [op][op][op][op][op][op][op][op]          97% of the path, and without it the GPU's work takes as long:
stream       [ker][ker][ker][ker][ker][ker]        nothing is saved but what the GPU is idle

What the window consists of (GPU compute; without rows of a GPU the host's work) cannot be removed: its gain is that of
twice the speed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analyses.advice import headline
from analyses.advice.facts import NOTABLE_SHARE, PathFacts
from analyses.advice.host_facts import host_may_poll, may_be_polling
from analyses.advice.rule import PathFinding
from analyses.advice.rules import RULES
from analyses.display.phrases import untrusted
from analyses.display.sentence_format import brief_share
from analyses.source.window_facts import short_labels
from analyses.source.window_report import headline_lengths, headline_subject
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import tracked
from hta_graph.base.text.shorten import short_name, shorten_middle
from hta_graph.model import BoundBy, Floats
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.bounds import Bounds
from hta_graph.what_if.modified_window import ModifiedWindow, inferred_share
from hta_graph.what_if.opportunities import (
    Opportunity,
    opportunity_order,
    opportunity_rows,
    savings_of,
    without_duplicates,
)
from hta_graph.what_if.reliability import DOUBTFUL_SHARE, Missing, Reliability, reliability
from hta_graph.what_if.replay import replay_graph
from hta_graph.what_if.replay_graph import ReplayGraph
from hta_graph.what_if.selectors import Selector, selected_parts

HOST_OWN = (BoundBy.CPU_BOUND, BoundBy.CPU_GAP, BoundBy.GPU_KERNEL_LAUNCH_OVERHEAD, BoundBy.SYNC_OVERHEAD)
"""The host works, launches, or returns from a wait: a host that takes no time has none of them."""

HOST_WORK, GLOO = "host_work", "gloo_communication"
CAUSES: Mapping[str, Sequence[BoundBy]] = {
    HOST_WORK: HOST_OWN,
    **{bound.label: (bound,) for bound in BoundBy if bound not in (*HOST_OWN, BoundBy.UNEXPLAINED)},
    GLOO: (BoundBy.CPU_GAP,),
}
"""What can bound a window, by name: the classes of a path, those of the host's own time together; of silence also what
passes while a collective of Gloo runs."""

COMMUNICATION = (BoundBy.GPU_COMMUNICATION_BOUND.label, GLOO)
"""Causes that may include waiting for other ranks."""

SAME_SHARE = 0.01
"""Gains that differ by less than this share of the window are the same."""

NOTHING_SUGGESTED = "nothing_suggested"
"""The name of the finding that says why there is no advice."""

CANDIDATE_KINDS = ("operator", "kernel")
"""What a faster GPU is looked for in."""


def allowed_ns(bounds: Bounds, cause: str) -> int:
    """Return what a cause costs at most by the rows of a window (ns)."""
    limits = {
        # Between launches and in launches is all the time there is, so that what the GPU does alone bounds both.
        HOST_WORK: lambda: bounds.not_computing_ns if bounds.has_gpu_rows else bounds.host_ns,
        BoundBy.DATA_LOADING.label: lambda: bounds.host_ns,
        BoundBy.GPU_COMMUNICATION_BOUND.label: lambda: bounds.no_communication_ns,
        GLOO: lambda: bounds.communication_ns,
        BoundBy.GPU_MEMORY_BOUND.label: lambda: bounds.copies_ns,
        BoundBy.GPU_COMPUTE_BOUND.label: lambda: bounds.length_ns,
    }
    return limits.get(cause, lambda: bounds.not_computing_ns)()


def _bounds_of(one: Opportunity, base: ReplayGraph, bounds: Bounds, *factors: float) -> list[int]:
    """Return what the rows of a window allow that an opportunity saves (ns) where it takes these parts of its time."""
    return bounds.of_scaling(base, selected_parts(base, Selector.of(one.what)), factors)


def within_rows(base: ReplayGraph, rows: Sequence[Opportunity]) -> list[Opportunity]:
    """Return opportunities cut to what the rows of their window allow, in the order of their savings then."""
    bounds = Bounds.of(base.graph, base.window)
    cut = []
    for one in tracked(rows):
        half, free = _bounds_of(one, base, bounds, 0.5, 0.0)
        cut.append(replace(one, saved_half_ns=min(one.saved_half_ns, half), saved_free_ns=min(one.saved_free_ns, free)))
    return [cut[at] for at in opportunity_order(cut)]


@dataclass(frozen=True)
class Gain:
    """What a window would save without a cause, or at twice its speed (ns), and what rows allow of that (ns)."""

    cause: str
    saved_ns: int
    bound_ns: int

    @property
    def ns(self) -> int:
        """What may be claimed."""
        return max(min(self.saved_ns, self.bound_ns), 0)

    @property
    def is_cut(self) -> bool:
        """Whether replay promises more than rows allow."""
        return self.saved_ns > self.bound_ns


@dataclass(frozen=True)
class Gains:
    """The gains of all causes of the window that the savings of a path are of; see :meth:`of`."""

    facts: PathFacts
    base: ReplayGraph

    @classmethod
    def of(cls, facts: PathFacts) -> Gains | None:
        """Make them ready; None of a job, whose verdict names a rank, and where a window cannot be replayed."""
        if has_partial_rows(facts.graph) or facts.graph.is_job or not facts.path.length_ns:
            return None
        try:
            return cls(facts, replay_graph(facts.graph, resolved_window(facts.priced_window)))
        except QueryError:
            return None

    @cached_property
    def without(self) -> Mapping[str, Gain]:
        """What the window would save without each cause that has time in it."""
        return {cause: gain for (cause, factor), gain in self._scaled.items() if not factor}

    @cached_property
    def claims(self) -> Mapping[str, Gain]:
        """What is claimed of each cause: what the window would save without it; at twice its speed, if it cannot go."""
        return {cause: self._scaled.get((cause, 0.5), gain) for cause, gain in self.without.items()}

    @cached_property
    def largest(self) -> Gain | None:
        """The cause with the largest claim; None where none would shorten the window.

        Of causes that save the same it is the one that the path is in for longest.
        """
        return self._largest_of(self.claims.values())

    @cached_property
    def largest_known(self) -> Gain | None:
        """The same but for gaps between kernels: where much is unexplained, these may be what is not recorded, too."""
        gaps = BoundBy.GPU_KERNEL_KERNEL_OVERHEAD.label
        return self._largest_of([gain for gain in self.claims.values() if gain.cause != gaps])

    def _largest_of(self, claims: Collection[Gain]) -> Gain | None:
        most = max((gain.ns for gain in claims), default=0)
        least = max(most - SAME_SHARE * self.facts.priced.length_ns, 1)
        alike = (gain for gain in claims if gain.ns >= least)
        return max(alike, key=lambda gain: self.time_on_path(gain.cause), default=None)

    @cached_property
    def longest(self) -> str:
        """The cause that the path is in for longest, whatever it would save."""
        return max(CAUSES, key=self.time_on_path)

    def consists_of(self, cause: str) -> bool:
        """Return whether a cause is what the window is there for."""
        return cause == (BoundBy.GPU_COMPUTE_BOUND.label if self.facts.has_gpu_rows else HOST_WORK)

    def at_most(self, gain: Gain) -> bool:
        """Return whether a gain is an upper limit: cut to the rows, or more of the host's time than the GPU is idle."""
        by_host = gain.cause in (HOST_WORK, BoundBy.DATA_LOADING.label) and self.facts.has_gpu_rows
        return gain.is_cut or (by_host and gain.ns > self.facts.priced.gpu_idle_ns)

    @cached_property
    def _scaled(self) -> Mapping[tuple[str, float], Gain]:
        """What the window would save if causes took no time, and at twice their speed if the window is for them."""
        drafts = {}
        for cause, classes in CAUSES.items():
            meant = np.isin(self.base.parts.bound, classes) & self.base.may_change
            share = meant * (self._gloo_shares if cause == GLOO else 1.0 - self._gloo_shares * (cause == HOST_WORK))
            for factor in (0.0, 0.5) if self.consists_of(cause) else (0.0,):
                if share.any():
                    drafts[cause, factor] = ModifiedWindow(self.base)
                    drafts[cause, factor].factor -= share * (1.0 - factor)
        saved = savings_of(self.base, tracked(drafts.values())).tolist()
        bounds = self.facts.priced
        return {
            (cause, factor): Gain(
                cause, ns, min(bounds.of_draft(draft), int(allowed_ns(bounds, cause) * (1.0 - factor)))
            )
            for ((cause, factor), draft), ns in zip(drafts.items(), saved, strict=True)
        }

    @cached_property
    def _gloo_shares(self) -> Floats:
        """Of each part the share in which any collective of Gloo runs."""
        parts, events, rows = self.base.parts, self.base.graph.event_table, self.base.graph.event_flags.gloo_collective
        runs = union(events.start[rows], events.end[rows])
        inside = runs.covered_until(parts.start + parts.length) - runs.covered_until(parts.start)
        return inside / np.maximum(parts.length, 1)

    def time_on_path(self, cause: str) -> int:
        """Return how long (ns) the path itself is in a cause, which may be of another window than its gain."""
        facts = self.facts
        if cause == HOST_WORK:
            # Silence while Gloo communicates is the other cause's.
            return facts.class_ns(*CAUSES[cause]) - self.time_on_path(GLOO)
        if cause != GLOO:
            return facts.class_ns(*CAUSES[cause])
        return facts.time_during(facts.segments_in_classes(*CAUSES[cause]), facts.graph.event_flags.gloo_collective)

    def trusted(self, cause: str | None) -> Reliability:
        """Return how far replay can be trusted while a cause changes: communication is fixed where others change."""
        found = reliability(self.base)
        return found.of_communication if cause in COMMUNICATION else found

    @cached_property
    def candidates(self) -> list[tuple[Opportunity, Gain]]:
        """The operators and kernels whose doubled speed saves most, each part of the time once, the largest first."""
        rows = without_duplicates(opportunity_rows(self.base, CANDIDATE_KINDS, names_next=False))
        bounds = self.facts.priced
        found = [(one, Gain(one.what, one.saved_half_ns, *_bounds_of(one, self.base, bounds, 0.5))) for one in rows]
        return sorted((pair for pair in found if pair[1].ns), key=lambda pair: -pair[1].ns)


# -- the headline ------------------------------------------------------------------------------------------------------

LITTLE = 1 / 3
"""The gain is far below a cause's share of the path where it is less than this part of it."""

INFERRED_SHARE = 0.5
"""From this share of the path on that lies on edges which a rule deduced, a prediction is called uncertain."""


def with_gain(facts: PathFacts, finding: PathFinding) -> PathFinding:
    """Return the verdict on a window by what is gained: its cause is the one with the largest claim.

    Of unexplained windows that stays the first word, and the gain is that of the largest cause that is known.
    """
    gains = Gains.of(facts)
    if gains is None:
        return _of_job(facts, finding)
    largest = gains.largest
    trusted = gains.trusted(None if largest is None else largest.cause)
    if trusted.reason:
        return _without_gain(facts, gains, finding, trusted)
    evidence = {**finding.evidence, "saves_without_ns": {cause: gain.ns for cause, gain in gains.without.items()}}
    is_unexplained = evidence["bound_by"] == BoundBy.UNEXPLAINED.label
    if is_unexplained:
        largest = gains.largest_known
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
        most = max(CAUSES[largest.cause], key=facts.class_ns)
        evidence |= {
            "bound_by": most.label,
            "time_ns": facts.class_ns(most),
            "share": facts.share(facts.class_ns(most)),
        }
    time_ns = gains.time_on_path(largest.cause)
    evidence |= {"cause": largest.cause, "cause_ns": time_ns, "at_double_speed": halved}
    return replace(finding, text=text, detail=detail, evidence=evidence, saves_ns=largest.ns, bound_ns=largest.bound_ns)


def _saves_less(facts: PathFacts, gains: Gains, largest: Gain) -> str:
    """Say what the longest class would save, where the path is in it for longer than in what would save most."""
    other = gains.claims.get(gains.longest)
    longer_ns = gains.time_on_path(gains.longest) - gains.time_on_path(largest.cause)
    if other is None or facts.share(longer_ns) <= SAME_SHARE:
        return ""
    halved = gains.consists_of(other.cause)
    return headline.saves_less(cause_words(facts, other.cause), facts.saving_of(other.ns), halved=halved)


def led_by(facts: PathFacts, finding: PathFinding, advice_found: Sequence[PathFinding]) -> PathFinding:
    """Return the verdict on a window by the advice that saves most, where that is more than any cause costs.

    Waits of the host are such: without them its work and the GPU's overlap, and none of either goes.
    """
    known = "saves_without_ns" in finding.evidence
    predicted = [one for one in advice_found if one.saves_ns is not None and RULES[one.rule].lead]
    best = max(predicted, key=lambda one: one.saving[0], default=None)
    least = (finding.saves_ns or 0) + SAME_SHARE * facts.priced.length_ns
    if not known or best is None or best.saves_ns is None or best.saves_ns <= least:
        return finding
    rule = RULES[best.rule]
    what, condition = rule.lead or ("", "")
    waiting = rule.kind == "communication"
    doubt = headline.doubt(0, 0, waiting=waiting, polling=False, is_low=best.confidence == "low")
    shorter = headline.Shorter(facts.saving_of(best.saves_ns), facts.priced_name, best.is_cut, doubt)
    bound, lengths = finding.evidence["bound_by"], headline_lengths(facts.of_window)
    if bound == BoundBy.UNEXPLAINED.label:
        text = _headline(facts, None, bound, headline.gain_of_another(what, shorter, halved=False))
    else:
        window = headline_subject(facts.of_window)
        text = headline.bound_by_advice(window, what, condition, shorter, lengths, has_gpu_rows=facts.has_gpu_rows)
    evidence = {**finding.evidence, "cause": best.rule, "cause_ns": None, "at_double_speed": False}
    return replace(finding, text=text, detail="", evidence=evidence, saves_ns=best.saves_ns, bound_ns=best.bound_ns)


def bound_by_start_up(facts: PathFacts, finding: PathFinding, start_up: PathFinding) -> PathFinding:
    """Return the verdict on a window most of which happens once: a later recording does not hold it."""
    time_ns = min(int(start_up.evidence["time_ns"]), facts.priced.not_computing_ns)
    shorter = headline.Shorter(facts.saving_of(time_ns), facts.priced_name, at_most=False, doubt="")
    window, lengths = headline_subject(facts.of_window), headline_lengths(facts.of_window)
    text = headline.bound_by_advice(
        window, headline.START_UP, headline.RECORDED_LATER, shorter, lengths, has_gpu_rows=facts.has_gpu_rows
    )
    evidence = {**finding.evidence, "cause": start_up.rule, "cause_ns": time_ns, "at_double_speed": False}
    bound_ns = facts.priced.not_computing_ns
    return replace(finding, text=text, detail="", evidence=evidence, saves_ns=time_ns, bound_ns=bound_ns)


def _of_job(facts: PathFacts, finding: PathFinding) -> PathFinding:
    """Return the verdict on a job's window: which rank delays it is said before; else what the rows do not show."""
    if has_partial_rows(facts.graph) or not facts.graph.is_job or not facts.path.length_ns:
        return finding
    try:
        trusted = reliability(replay_graph(facts.graph, resolved_window(facts.priced_window)))
    except QueryError:
        return finding
    return _without_gain(facts, None, finding, trusted) if trusted.missing else finding


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
    flags = facts.graph.event_flags
    if missing == "gpu_not_recorded":
        return headline.only_host_time(window, int(flags.enqueueing_call.sum()))
    if missing == "kernels_not_recorded":
        return headline.no_kernels(window, int(flags.kernel_launch_call.sum()))
    if missing == "nothing_recorded":
        return headline.nothing_recorded(window, time)
    return headline.not_started(window, time, facts.main_rank(np.ones(len(facts.path.segment_table), np.bool_)))


def cause_words(facts: PathFacts, cause: str) -> str:
    """Name a cause: a class, several, or the rule of the advice that leads."""
    if cause in RULES and (lead := RULES[cause].lead):
        return lead.what
    named = {HOST_WORK: headline.HOST_WORK, GLOO: headline.GLOO, "start_up_recorded": headline.START_UP}
    return named.get(cause) or short_labels(facts.graph)[cause]


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
        return []
    other = max((one for one in CAUSES if one != cause), key=gains.time_on_path)
    found = []
    if gains.time_on_path(other) >= NEARLY_AS_LONG * gains.time_on_path(cause):
        found.append((cause_words(facts, other), facts.share(gains.time_on_path(other))))
    if facts.is_largely_unexplained:
        found.append(("unexplained", facts.share(facts.class_ns(BoundBy.UNEXPLAINED))))
    return found


def _doubt(gains: Gains, cause: str) -> str:
    """Say what a prediction rests on where that is too much, and what may be in communication of a single rank."""
    waiting = cause in COMMUNICATION
    fixed, inferred = gains.trusted(cause).fixed_share, inferred_share(gains.base)
    return headline.doubt(
        fixed * (fixed >= DOUBTFUL_SHARE),
        inferred * (inferred >= INFERRED_SHARE),
        waiting=waiting,
        polling=cause == HOST_WORK and may_be_polling(gains.facts),
    )


# -- where nothing is suggested ----------------------------------------------------------------------------------------

CANDIDATES_NAMED = 3
LEAST_NAMED_SHARE = 0.01
"""What saves less than this share at twice its speed is no candidate."""

LONGEST_CANDIDATE = 60


def nothing_suggested(facts: PathFacts) -> PathFinding:
    """Say why no advice is given that saves time, and what would save most if it were faster."""
    gains = Gains.of(facts)
    if gains is None:
        return PathFinding(
            "No rule fires; run hta-graph what-if for estimated savings.", {"candidates": []}, rule=NOTHING_SUGGESTED
        )
    candidates = [] if reliability(gains.base).reason else gains.candidates
    named = [pair for pair in candidates if pair[1].ns >= LEAST_NAMED_SHARE * facts.priced.length_ns]
    # Of one name, the largest stands for all: an operator's instances, an operator and its kernel.
    first = {_candidate_name(one): at for at, (one, _) in reversed([*enumerate(named)])}
    named = [named[at] for at in sorted(first.values())]
    shown = [
        f"{_candidate_name(one)}, {'at most ' * gain.is_cut}{facts.saving_of(gain.ns)}"
        for one, gain in named[:CANDIDATES_NAMED]
    ]
    said = [
        *_why_nothing(facts, gains, named),
        *([f"Largest savings at 2x speed: {'; '.join(shown)}."] if shown else []),
    ]
    listed = [{"what": one.what, "saves_ns": gain.ns, "bound_ns": gain.bound_ns} for one, gain in named]
    return PathFinding(" ".join(said), {"candidates": listed}, rule=NOTHING_SUGGESTED)


def _candidate_name(one: Opportunity) -> str:
    return f"{one.kind} {shorten_middle(short_name(one.name), LONGEST_CANDIDATE)}"


POLLING = "The host may be polling, so nothing about its own work is suggested."


def _why_nothing(facts: PathFacts, gains: Gains, named: Sequence[tuple[Opportunity, Gain]]) -> list[str]:
    largest = gains.largest
    polls = [POLLING] if may_be_polling(facts) else []
    trusted = gains.trusted(None if largest is None else largest.cause)
    if trusted.reason:
        return [*polls, f"What changes would save is unknown, because {untrusted(trusted.reason, trusted.share)}."]
    if largest is None or not facts.is_worth(largest.ns):
        return [*polls, _too_little(facts, named)]
    if polls and largest.cause == HOST_WORK:
        return polls
    if not gains.consists_of(largest.cause):
        return [*polls, _no_remedy(facts, largest)]
    if not facts.has_gpu_rows:
        return [*polls, "No GPU work is recorded; only less work of the host helps."]
    others = [gain for gain in gains.claims.values() if not gains.consists_of(gain.cause)]
    other = max(others, key=lambda gain: gain.ns, default=None)
    if other is not None and facts.is_worth(other.ns):
        return [*polls, _no_remedy(facts, other)]
    computes = brief_share(facts.priced.computing_ns / max(facts.priced.length_ns, 1))
    what = f"{cause_words(facts, largest.cause)} is {computes} of {facts.priced_name}"
    return [*polls, f"{what}; only faster kernels or less work help."]


def _too_little(facts: PathFacts, named: Sequence[tuple[Opportunity, Gain]]) -> str:
    """Say that nothing saves a notable share, or nothing but what is faster on the host and on the GPU.

    Where host and GPU take equally long, neither saves anything alone, but what is shorter on both does.
    """
    least = f"{brief_share(NOTABLE_SHARE)} of {facts.priced_name}"
    if facts.has_gpu_rows and any(facts.is_worth(gain.ns) for _, gain in named):
        return f"No cause alone saves {least}; less work for both the host and the GPU does."
    return f"No change saves {least}; steps of one program differ by as much."


def _no_remedy(facts: PathFacts, gain: Gain) -> str:
    """Say that a cause is known and no rule has a remedy."""
    what, saved = cause_words(facts, gain.cause), facts.saving_of(gain.ns)
    return f"No rule has a remedy for {what}, without which {saved} would be saved."
