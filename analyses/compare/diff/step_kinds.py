"""Kinds of steps of two runs: those that do the same (:mod:`hta_graph.paths.step_table`), matched between the runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.compare.diff.comparable_names import comparable_name
from analyses.compare.diff.noise import ENOUGH_STEPS
from analyses.declare.scope import Scope
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import Floats, Ints
from hta_graph.paths.step_table import (
    SIGNATURES,
    Content,
    Signature,
    are_recurring,
    content_of_step,
    name_of_kind,
    names_and_counts,
    names_of_kinds,
    numbered_kinds,
)

LEAST_COMMON_STEPS = 0.5
"""The share of each side's steps that must be of common kinds, for kinds to be compared."""
SHIFTED_KINDS = 3
"""How many kinds of each side, the most frequent, show what a change did to every step."""


@dataclass(frozen=True)
class StepKinds:
    """The kind of each step of both sides, common ones numbered from 0; a kind of one side alone is -1.

    ``names`` describe the common kinds; ``alone`` counts the steps of each side's own kinds, by what these contain.
    """

    control: Ints
    test: Ints
    names: tuple[str, ...] = ("",)
    alone: tuple[Mapping[str, int], Mapping[str, int]] = ({}, {})

    @property
    def by_side(self) -> tuple[Ints, Ints]:
        """The kinds of the steps of control and test."""
        return self.control, self.test

    def since(self, first: tuple[int, int]) -> StepKinds:
        """Return the kinds of the steps from a place in each side on."""
        return replace(self, control=self.control[first[0] :], test=self.test[first[1] :])

    @property
    def are_several(self) -> bool:
        """Whether steps differ in what they do."""
        return any(side.any() for side in self.by_side)

    @classmethod
    def one(cls, counts: tuple[int, int]) -> StepKinds:
        """Return steps that are all of one kind."""
        return cls(np.zeros(counts[0], np.int64), np.zeros(counts[1], np.int64))


@dataclass(frozen=True)
class StepContents:
    """What shows the kinds of a run's steps: the phases of an engine's steps, or what each step contains.

    ``contents`` is empty where all steps are of one kind. ``signature`` is the place of the first of ``SIGNATURES``
    that can recur in the run.
    """

    phases: tuple[str | None, ...]
    contents: tuple[Content, ...] = ()
    signature: int = 0

    @classmethod
    def of(cls, scopes: Sequence[Scope]) -> StepContents:
        """Return what the steps of a run contain; of engines' steps and of very few the phases alone."""
        phases = tuple(_phase_of(scope) for scope in scopes)
        if all(phases) or len(scopes) < ENOUGH_STEPS:
            return cls(phases)
        return cls(phases, tuple(_content_of(scope) for scope in scopes))

    def take(self, places: Sequence[int]) -> StepContents:
        """Select some steps."""
        phases = tuple(self.phases[at] for at in places)
        return replace(self, phases=phases, contents=tuple(self.contents[at] for at in places if self.contents))


def kinds_of_steps(control: Sequence[Scope], test: Sequence[Scope]) -> StepKinds:
    """Find which steps of two runs do the same."""
    return kinds_of_contents(StepContents.of(control), StepContents.of(test))


def kinds_of_contents(control: StepContents, test: StepContents) -> StepKinds:
    """Find which steps of two runs do the same, by what they contain.

    Steps are alike if they contain the same names equally often. If numbers vary from step to step (with the length of
    the input), equal names are enough; if these vary too, all steps are of one kind.
    """
    sides = (control, test)
    counts = (len(control.phases), len(test.phases))
    phases = [side.phases for side in sides]
    if all(side and all(side) for side in phases):
        return _by_phase(phases)
    if min(counts) < ENOUGH_STEPS or not all(side.contents for side in sides):
        return StepKinds.one(counts)
    for signature in SIGNATURES[max(side.signature for side in sides) :]:
        found = _matched_kinds([side.contents for side in sides], signature)
        if found is not None:
            return found
    return StepKinds.one(counts)


def _phase_of(scope: Scope) -> str | None:
    """Return the phase of an engine's step; None of other windows."""
    return _phases_by_start(scope.graph).get(scope.cpu_start_ns)


@memoized
def _phases_by_start(graph: DependencyGraph) -> dict[int, str | None]:
    return {item.start_ns: item.phase for item in reversed(graph.steps())}  # of steps that start at once the first


def _by_phase(phases: Sequence[Sequence[str | None]]) -> StepKinds:
    """Return the phases of an engine's steps as kinds: whatever their batches, prefill is compared with prefill."""
    counted = [Counter(phase or "" for phase in side) for side in phases]
    both = [phase for phase, _ in counted[0].most_common() if phase in counted[1]]
    number = {phase: at for at, phase in enumerate(both)}
    control, test = (np.array([number.get(phase or "", -1) for phase in side], np.int64) for side in phases)
    alone = [{phase: count for phase, count in own.items() if phase not in number} for own in counted]
    return StepKinds(control, test, tuple(both) or ("",), (alone[0], alone[1]))


def kinds_by_number(kinds: StepKinds, known: tuple[Ints, Ints], wanted: tuple[Ints, Ints]) -> StepKinds:
    """Return the kinds of other windows of the same steps, such as those of a job of which one rank's are known.

    Args:
        kinds: the known kinds.
        known: the numbers of their steps.
        wanted: the numbers of the steps whose kinds are asked for; if one is not known, all are of one kind.
    """
    found = []
    for own, numbers, asked in zip(kinds.by_side, known, wanted, strict=True):
        of_number = dict(zip(numbers.tolist(), own.tolist(), strict=True))
        if not all(number in of_number for number in asked.tolist()):
            return StepKinds.one((len(wanted[0]), len(wanted[1])))
        found.append(np.array([of_number[number] for number in asked.tolist()], np.int64))
    return replace(kinds, control=found[0], test=found[1])


def _content_of(scope: Scope) -> Content:
    """Return what a step calls on its thread and enqueues, by names that are the same in every run."""
    return content_of_step(scope.graph, scope.cpu_start_ns, scope.cpu_end_ns, scope.work.row, comparable_name)


def _matched_kinds(contents: Sequence[Sequence[Content]], signature: Signature) -> StepKinds | None:
    """Number the kinds of both sides alike; None if they do not repeat, or if too few are common."""
    numbers, examples = zip(*(numbered_kinds(side, signature) for side in contents), strict=True)
    if not all(map(are_recurring, examples, contents)):
        return None
    steps = [np.bincount(own, minlength=len(kinds)) for own, kinds in zip(numbers, examples, strict=True)]
    partner = _most_alike(_occurrences(examples, signature), steps)
    order = sorted(partner, key=lambda one: (-np.count_nonzero(numbers[0] == one), one))
    common = [np.full(len(own), -1, np.int64) for own in examples]
    for place, one in enumerate(order):
        common[0][one], common[1][partner[one]] = place, place
    kinds = [known[number] for known, number in zip(common, numbers, strict=True)]
    if any(np.count_nonzero(side >= 0) < LEAST_COMMON_STEPS * len(side) for side in kinds):
        return None
    names = names_of_kinds([examples[0][one] for one in order])
    # What a step of one side alone does is told beside the most frequent kind of that side.
    alone = [
        Counter(name_of_kind(own[one], own[usual]) for one in number[known[number] < 0].tolist())
        for own, known, number, usual in zip(examples, common, numbers, (order[0], partner[order[0]]), strict=True)
    ]
    return StepKinds(kinds[0], kinds[1], tuple(names), (alone[0], alone[1]))


def _most_alike(occurs: Sequence[Ints], steps: Sequence[Ints]) -> dict[int, int]:
    """Match the kinds of two programs that have most in common, the most alike first.

    What a change adds to every step, or takes from it, moves all kinds alike: kinds that it makes equal are the same
    ones, even if it makes the usual steps of one run resemble the rare ones of the other. Such a shift is looked for
    unless kinds that are equal without one make up most steps: then others occur by chance on one side alone.

    Args:
        occurs: how often each name occurs in a step of each kind (kinds × names), by side.
        steps: how many steps each kind has, by side.
    """
    left, right = occurs
    found, _ = _greedily_matched(_likeness(left, right))
    equal = [(at, place) for at, place in found.items() if (left[at] == right[place]).all()]
    is_equal = [sum(own[pair[side]] for pair in equal) for side, own in enumerate(steps)]
    if len(found) < 2 or all(
        count >= LEAST_COMMON_STEPS * own.sum() for count, own in zip(is_equal, steps, strict=True)
    ):
        return found
    usual = [np.argsort(-own, kind="stable")[:SHIFTED_KINDS].tolist() for own in steps]
    shifts = [np.zeros_like(left[0]), *(right[place] - left[at] for at in usual[0] for place in usual[1])]
    shares = [own / own.sum() for own in steps]
    unshifted, best = _likeness(left, right), (-1.0, -1.0, -1.0)
    for shift in shifts:
        matched, alike = _greedily_matched(_likeness(np.maximum(left + shift, 0), right))
        raw = sum(unshifted[pair] for pair in matched.items())
        often = sum(min(shares[0][at], shares[1][place]) for at, place in matched.items())
        if (score := (round(alike, 9), round(float(raw), 9), float(often))) > best:
            found, best = matched, score
    return found


def _greedily_matched(alike: Floats) -> tuple[dict[int, int], float]:
    """Match rows and columns, the most alike first, with the sum of their likeness."""
    found: dict[int, int] = {}
    taken: set[int] = set()
    total = 0.0
    for flat in np.argsort(-alike, axis=None, kind="stable").tolist():
        at, place = divmod(flat, alike.shape[1])
        if at not in found and place not in taken:
            found[at] = place
            taken.add(place)
            total += float(alike[at, place])
    return found, total


def _likeness(left: Ints, right: Ints) -> Floats:
    """Return which share of the occurrences in either are in both, for each pair of kinds."""
    both = np.array([np.minimum(own, right).sum(axis=1) for own in left])
    every = left.sum(axis=1)[:, None] + right.sum(axis=1) - both
    return np.where(every > 0, both / np.maximum(every, 1), 1.0)


def _occurrences(examples: Sequence[Sequence[Content]], signature: Signature) -> list[Ints]:
    """Return how often each name occurs in each kind, by side; once where numbers make no kinds."""
    names = {name: at for at, name in enumerate(sorted({name for side in examples for own in side for name in own}))}
    found = []
    for side in examples:
        occurs = np.zeros((len(side), len(names)), np.int64)
        for at, own in enumerate(side):
            for name, (count, *_) in own.items():
                occurs[at, names[name]] = count if signature is names_and_counts else 1
        found.append(occurs)
    return found
