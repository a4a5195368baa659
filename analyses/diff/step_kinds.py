"""Kinds of steps: those of two runs that do the same, by what they call and enqueue, never by their lengths.

A step with a checkpoint, one that only accumulates gradients and one that updates the weights differ in their rows: the
annotations and outermost operators of the step's thread, and the GPU work that the step enqueues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from analyses.diff.comparable_names import STEPS, comparable_name
from analyses.diff.noise import ENOUGH_STEPS
from analyses.scope import Scope
from hta_graph.arrays import distinct
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized
from hta_graph.model import EventKind, Ids, Ints, kind_mask

Content = Mapping[str, tuple[int, int, bool]]
"""What a step contains: how often each name occurs, its time (ns), and whether it is GPU work."""
LEAST_COMMON_STEPS = 0.5
"""The share of each side's steps that must be of common kinds, for kinds to be compared."""


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


def kinds_of_steps(control: Sequence[Scope], test: Sequence[Scope]) -> StepKinds:
    """Find which steps of two runs do the same.

    Steps are alike if they contain the same names equally often. If numbers vary from step to step (with the length of
    the input), equal names are enough; if these vary too, all steps are of one kind.
    """
    counts = (len(control), len(test))
    if min(counts) < ENOUGH_STEPS:
        return StepKinds.one(counts)
    contents = [[_content_of(scope) for scope in scopes] for scopes in (control, test)]
    for signature in (_names_and_counts, frozenset):
        found = _matched_kinds(contents, signature)
        if found is not None:
            return found
    return StepKinds.one(counts)


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


def _names_and_counts(content: Content) -> Hashable:
    return frozenset((name, count) for name, (count, _, _) in content.items())


def _content_of(scope: Scope) -> Content:
    """Return what a step calls on its thread and enqueues, by name."""
    graph, events = scope.graph, scope.graph.event_table
    rows = _rows_of_step_threads(graph)
    first, past = np.searchsorted(events.start[rows], (scope.cpu_start_ns, scope.cpu_end_ns))
    rows = np.concatenate([rows[first : max(first, past)], scope.work.row])
    codes, place = np.unique(events.name[rows], return_inverse=True)
    place = place.reshape(-1)
    count = np.bincount(place, minlength=len(codes))
    ns = np.bincount(place, weights=events.end[rows] - events.start[rows], minlength=len(codes))
    on_gpu = np.isin(codes, events.name[scope.work.row])
    found: dict[str, tuple[int, int, bool]] = {}
    for code, *own in zip(codes.tolist(), count.tolist(), ns.round().astype(np.int64).tolist(), on_gpu, strict=True):
        name = comparable_name(graph.names[code])
        known = found.get(name, (0, 0, False))
        found[name] = (known[0] + own[0], known[1] + own[1], bool(own[2]))
    return found


@memoized
def _rows_of_step_threads(graph: DependencyGraph) -> Ids | Ints:
    """Return the annotations and outermost operators on the threads of the steps, by start.

    What other threads do crosses the borders of steps.
    """
    events = graph.event_table
    steps = np.array([comparable_name(name) == STEPS for name in graph.names] or [False])[events.name]
    is_annotation = events.kind == EventKind.ANNOTATION
    threads = distinct(events.lane[[item.event for item in graph.steps()]])
    is_outermost = kind_mask(events.kind, (EventKind.CPU_OP,)) & (graph.operator_around < 0)
    own = np.flatnonzero(((is_annotation & ~steps) | is_outermost) & np.isin(events.lane, threads))
    rows: Ids | Ints = own[np.argsort(events.start[own], kind="stable")]
    return rows


def _matched_kinds(contents: Sequence[Sequence[Content]], signature: Callable[[Content], Hashable]) -> StepKinds | None:
    """Number the kinds of both sides alike; None if they do not repeat, or if too few are common."""
    numbers, examples = zip(*(_numbered(side, signature) for side in contents), strict=True)
    if any(len(of) > (len(side) + 1) // 2 for of, side in zip(examples, contents, strict=True)):
        return None
    partner = _most_alike(*examples)
    order = sorted(partner, key=lambda one: (-np.count_nonzero(numbers[0] == one), one))
    common = [np.full(len(own), -1, np.int64) for own in examples]
    for place, one in enumerate(order):
        common[0][one], common[1][partner[one]] = place, place
    kinds = [known[number] for known, number in zip(common, numbers, strict=True)]
    if any(np.count_nonzero(side >= 0) < LEAST_COMMON_STEPS * len(side) for side in kinds):
        return None
    names = _told_apart([examples[0][one] for one in order])
    # What a step of one side alone does is told beside the most frequent kind of that side.
    alone = [
        Counter(_told_from(own[one], own[usual]) for one in number[known[number] < 0].tolist())
        for own, known, number, usual in zip(examples, common, numbers, (order[0], partner[order[0]]), strict=True)
    ]
    return StepKinds(kinds[0], kinds[1], tuple(names), (alone[0], alone[1]))


def _numbered(side: Sequence[Content], signature: Callable[[Content], Hashable]) -> tuple[Ints, list[Content]]:
    """Number the signatures of steps by first appearance, with the content of the first step of each."""
    known: dict[Hashable, int] = {}
    number = np.array([known.setdefault(signature(content), len(known)) for content in side], np.int64)
    return number, [side[int(np.flatnonzero(number == one)[0])] for one in range(len(known))]


def _most_alike(left: Sequence[Content], right: Sequence[Content]) -> dict[int, int]:
    """Match the kinds of two programs that have most in common, the most alike first."""
    alike = sorted(
        (-_likeness(one, other), at, place) for at, one in enumerate(left) for place, other in enumerate(right)
    )
    found: dict[int, int] = {}
    for _, at, place in alike:
        if at not in found and place not in found.values():
            found[at] = place
    return found


def _likeness(one: Content, other: Content) -> float:
    """Return which share of the occurrences in either are in both."""
    both = sum(min(count, other[name][0]) for name, (count, *_) in one.items() if name in other)
    every = sum(count for side in (one, other) for count, *_ in side.values()) - both
    return both / every if every else 1.0


def _told_apart(kinds: Sequence[Content]) -> list[str]:
    """Describe each kind by what the most frequent one does not have, and that one by what it has more of."""
    if len(kinds) < 2:
        return [""]
    return [_told_from(kinds[0], kinds[1]), *(_told_from(own, kinds[0]) for own in kinds[1:])]


def _told_from(own: Content, other: Content) -> str:
    """Name what a kind has and another one lacks, the longest first; else what it lacks, has more or fewer of.

    What the host calls says more than the kernels that this enqueues.

    >>> usual, rare = {"aten::mm": (2, 80, False)}, {"aten::mm": (3, 90, False), "save": (1, 40, False)}
    >>> _told_from(rare, usual), _told_from(usual, rare), _told_from({"aten::mm": (3, 90, False)}, usual)
    ('with save', 'without save', 'with more aten::mm')
    """
    words = (
        ("with", own, other, True),
        ("without", other, own, True),
        ("with more", own, other, False),
        ("with fewer", other, own, False),
    )
    for on_gpu in (False, True):
        for word, has, lacks, entirely in words:
            named = {
                name: (ns, name)
                for name, (count, ns, where) in has.items()
                if where == on_gpu and count > lacks.get(name, (0,))[0] and not (entirely and name in lacks)
            }
            if named:
                return f"{word} {max(named, key=lambda name: named[name])}"
    return ""
