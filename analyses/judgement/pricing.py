"""What is gained, by replay and as far as rows allow it: without each cause of a window, and by following advice.

A class of the path can be long and yet cost nothing, where something else is nearly as long:

host     [op][op][op][op][op][op][op][op]          97% of the path, and without it the GPU's work takes as long:
stream       [ker][ker][ker][ker][ker][ker]        nothing is saved but what the GPU is idle

What the window consists of (GPU compute; without rows of a GPU the host's work) cannot be removed: its gain is that of
twice the speed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analyses.advice.facts import PathFacts
from analyses.advice.host_rules import loading_of_window, waits_of_window
from analyses.advice.rule import Fired, PathFinding
from analyses.advice.rules import RULES, advice_of, within_bounds
from analyses.display.phrases import untrusted
from hta_graph.base.errors import QueryError
from hta_graph.base.progress import tracked
from hta_graph.graph.memo import memoized
from hta_graph.model import BoundBy, Floats
from hta_graph.paths.critical_path import has_partial_rows
from hta_graph.paths.intervals import union
from hta_graph.paths.windows import resolved_window
from hta_graph.what_if.bounds import Bounds
from hta_graph.what_if.modified_window import ModifiedWindow, PathTotals, recorded_path_totals
from hta_graph.what_if.opportunities import (
    Opportunity,
    opportunity_order,
    opportunity_rows,
    savings_of,
    without_duplicates,
)
from hta_graph.what_if.reliability import Reliability, path_waits_on_launched_work, reliability, reliability_after
from hta_graph.what_if.replay import Replayed, replay, replay_graph
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

ADVICE = "advice"
"""The scenario of what a rule of advice advises, with the rule as its argument."""

SAME_SHARE = 0.01
"""Gains that differ by less than this share of the window are the same."""

ITEM_KINDS = ("operator", "kernel", "collective")
"""What can be faster by itself: a module or a frame is more than one thing."""


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


SAME_PATH = 0.05
"""The path is the same one where a window saves, give or take this part, what the path is shorter by."""

OTHER_PATH = "other work decides then"


def path_changes(saved_ns: int, path_ns: int) -> bool:
    """Return whether a change leads the path through other work.

    What was hidden until then, such as the lag of a launch long before its kernel, replay can only assume.
    """
    return abs(saved_ns - path_ns) > SAME_PATH * path_ns


def shorter_on_path(draft: ModifiedWindow) -> int:
    """Return by how much (ns) the recorded path of a window is shorter if its parts take what a draft says."""
    path = recorded_path_totals(draft.base)[0]
    return int((path.length * (1.0 - draft.factor[path.rows])).sum())


def priced_base(facts: PathFacts) -> ReplayGraph:
    """Return what is replayed of the window that savings are of.

    Raises:
        QueryError: the window cannot be replayed.
    """
    return replay_graph(facts.graph, resolved_window(facts.priced_window))


def gloo_ns(facts: PathFacts) -> int:
    """Return how long (ns) a path's rank is silent while a collective of Gloo runs: most likely it waits."""
    return facts.time_during(facts.segments_in_classes(*CAUSES[GLOO]), facts.graph.event_flags.gloo_collective)


@dataclass(frozen=True)
class Gain:
    """What a window would save without a cause, or at twice its speed (ns), and what rows allow of that (ns).

    ``path_ns`` is by how much the recorded path alone becomes shorter.
    """

    cause: str
    saved_ns: int
    bound_ns: int
    path_ns: int

    @property
    def ns(self) -> int:
        """What may be claimed."""
        return max(min(self.saved_ns, self.bound_ns), 0)

    @property
    def is_cut(self) -> bool:
        """Whether replay promises more than rows allow."""
        return self.saved_ns > self.bound_ns

    @property
    def changes_path(self) -> bool:
        """Whether other work decides then."""
        return path_changes(self.saved_ns, self.path_ns)


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
            return cls(facts, priced_base(facts))
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

    def classes_of(self, cause: str) -> list[BoundBy]:
        """Return the classes that can change in the window and make up a cause; none where it is a part of one."""
        if cause in (GLOO, HOST_WORK) and self.gloo_shares.any():
            return []
        parts = self.base.parts.bound[self.base.may_change]
        return [one for one in CAUSES[cause] if (parts == one).any()]

    def at_most(self, gain: Gain) -> bool:
        """Return whether a gain is an upper limit: cut to the rows, or more of the host's time than the GPU is idle."""
        by_host = gain.cause in (HOST_WORK, BoundBy.DATA_LOADING.label) and self.facts.has_gpu_rows
        return gain.is_cut or (by_host and gain.ns > self.facts.priced.gpu_idle_ns)

    @property
    def _scaled(self) -> Mapping[tuple[str, float], Gain]:
        return _scaled_causes(self.facts)

    @cached_property
    def gloo_shares(self) -> Floats:
        """Of each part the share in which any collective of Gloo runs."""
        parts, events, rows = self.base.parts, self.base.graph.event_table, self.base.graph.event_flags.gloo_collective
        runs = union(events.start[rows], events.end[rows])
        inside = runs.covered_until(parts.start + parts.length) - runs.covered_until(parts.start)
        return inside / np.maximum(parts.length, 1)

    def time_on_path(self, cause: str) -> int:
        """Return how long (ns) the path itself is in a cause, which may be of another window than its gain."""
        if cause == GLOO:
            return gloo_ns(self.facts)
        # Silence while Gloo communicates is the other cause's.
        return self.facts.class_ns(*CAUSES[cause]) - (gloo_ns(self.facts) if cause == HOST_WORK else 0)

    def trusted(self, cause: str | None) -> Reliability:
        """Return how far replay can be trusted while a cause changes: communication is fixed where others change."""
        found = reliability(self.base)
        return found.of_communication if cause in COMMUNICATION else found


@memoized
def _scaled_causes(facts: PathFacts) -> Mapping[tuple[str, float], Gain]:
    """Return what the window would save if causes took no time, and at twice their speed if the window is for them."""
    gains, bounds = Gains(facts, priced_base(facts)), facts.priced
    base, drafts = gains.base, {}
    for cause, classes in CAUSES.items():
        meant = np.isin(base.parts.bound, classes) & base.may_change
        share = meant * (gains.gloo_shares if cause == GLOO else 1.0 - gains.gloo_shares * (cause == HOST_WORK))
        for factor in (0.0, 0.5) if gains.consists_of(cause) else (0.0,):
            if share.any():
                drafts[cause, factor] = ModifiedWindow(base)
                drafts[cause, factor].factor -= share * (1.0 - factor)
    saved = savings_of(base, tracked(drafts.values())).tolist()
    return {
        (cause, factor): Gain(
            cause,
            ns,
            min(bounds.of_draft(draft), int(allowed_ns(bounds, cause) * (1.0 - factor))),
            shorter_on_path(draft),
        )
        for ((cause, factor), draft), ns in zip(drafts.items(), saved, strict=True)
    }


@memoized
def priced_items(facts: PathFacts) -> list[tuple[Opportunity, Gain]]:
    """Return the operators, kernels and collectives whose doubled speed saves most, each part of the time once."""
    if has_partial_rows(facts.graph) or not facts.path.length_ns:
        return []
    try:
        base = priced_base(facts)
    except QueryError:
        return []
    rows = without_duplicates(opportunity_rows(base, ITEM_KINDS, names_next=False))
    found = [
        (one, Gain(one.what, one.saved_half_ns, _bounds_of(one, base, facts.priced, 0.5)[0], one.on_path_ns // 2))
        for one in rows
    ]
    return sorted((pair for pair in found if pair[1].ns), key=lambda pair: -pair[1].ns)


def items_at_most(facts: PathFacts) -> int:
    """Return what no item at twice its speed saves more than (ns), by rows, and as its path is a path at any speed.

    Where iterations before are replayed, too, they may end less early than this one: then the path says nothing.
    """
    try:
        base = priced_base(facts)
    except QueryError:
        return 0
    by_rows = facts.priced.of_anything_halved
    if base.previous is not None:
        return by_rows
    # Half of each part is rounded to whole nanoseconds.
    return min(by_rows, (base.length_ns + len(recorded_path_totals(base)[0].rows) + 1) // 2)


# -- advice, replayed --------------------------------------------------------------------------------------------------


def with_savings(facts: PathFacts, findings: Iterable[PathFinding]) -> list[PathFinding]:
    """Replay the priced window with each finding's remedy; findings without one stay as they are.

    So do all where the graph holds few rows of its ranks: what a change would gain takes all of them.
    """
    if has_partial_rows(facts.graph):
        return list(findings)
    return [_with_saving(facts, finding) for finding in tracked(within_bounds(facts, findings, of_job=True))]


@memoized
def priced_advice(facts: PathFacts) -> list[PathFinding]:
    """Return the advice with what each piece would save by replay, and none that saves little.

    Steps of one program differ by as much.
    """
    every = with_what_windows_show(facts, with_savings(facts, advice_of(facts)))
    found = [one for one in every if one.saves_ns is None or facts.is_worth(one.saves_ns)]
    # Summaries of ranks, which answer as whole ones do without replay, do not show which launched work starts late.
    may_start_late = not has_partial_rows(facts.graph) and facts.has_gpu_rows
    if may_start_late and any(one.rule == "launch_bound" for one in found) and path_waits_on_launched_work(facts.path):
        return [one for one in found if one.rule != "launch_bound"]
    return found


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
            if may_be_longer and found.saved_ns <= 0:
                return replace(finding, saves_ns=0)
            return replace(finding, doubt=untrusted(trusted.reason, trusted.share))
        is_rank = facts.has_gpu_rows and not facts.graph.is_job
        idle_ns = facts.priced.gpu_idle_ns if is_rank else found.saved_ns
        saving = _with_doubt(_with_replayed_saving(finding, found.saved_ns, idle_ns), trusted)
        if finding.rule != "held_up_by_rank":
            return _with_other_path(saving, found)
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
    evidence = {**finding.evidence, f"{trusted.reason}_share": trusted.share}
    return replace(finding, confidence="low", evidence=evidence, doubt=untrusted(trusted.reason, trusted.share))


def _with_other_path(finding: PathFinding, found: Replayed) -> PathFinding:
    """Trust a saving less that leads the path through other work; waits that are left out always do."""
    if finding.confidence != "high" or found.draft.is_reshaped or found.draft.is_reweighed:
        return finding
    is_other = path_changes(found.saved_ns, shorter_on_path(found.draft))
    return replace(finding, confidence="medium", doubt=OTHER_PATH) if is_other else finding


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
