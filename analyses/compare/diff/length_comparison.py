"""Whether one run is slower than another: the difference in length, and how much of it noise explains.

Where a side has too few steps, the noise is estimated from the repetitions of its kernels and operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import ceil
from typing import Generic, TypeVar

import numpy as np

from analyses.compare.diff.comparable_names import numbered_alike
from analyses.compare.diff.differences import (
    OF_ALL_STEPS,
    Basis,
    Course,
    Difference,
    all_differences,
    counts_for_the_run,
    course_of,
    difference_of_kind,
    main_of,
)
from analyses.compare.diff.kernels_in_order import EnqueuedWork, common_codes
from analyses.compare.diff.noise import ENOUGH_STEPS, LEAST_OF_STEPS, FewSteps, Repetitions, noise_of_repetitions
from analyses.compare.diff.sides import BEFORE_AFTER, Lengths, Side, median_index
from analyses.compare.diff.step_change import KindChange, StepChange, StepLengths, change_of_steps
from analyses.compare.diff.step_kinds import StepKinds, kinds_of_steps
from analyses.compare.diff.step_levels import StepLevels
from analyses.declare.scope import Scope
from analyses.display.text_layout import duration_text
from hta_graph.attribution.call_paths import CallPaths
from hta_graph.attribution.sequence_alignment import align
from hta_graph.base.arrays import distinct, summed_by
from hta_graph.model import Bools, EventKind, Ids, Ints


def outermost_operators(scope: Scope) -> Ids | Ints:
    """Return the rows of the operators in a scope that no other operator is around."""
    rows = np.flatnonzero((scope.graph.event_table.kind == EventKind.CPU_OP) & (scope.graph.operator_around < 0))
    found: Ids | Ints = rows[scope.holds(rows)]
    return found


GPU_CLASSES = ("gpu_compute_bound", "gpu_communication_bound", "gpu_memory_bound", "gpu_kernel_kernel_overhead")
LEAST_COMMON_TIME = 0.5
"""The share of each side's time that common units must take for the amounts of work to be compared."""


@dataclass(frozen=True)
class RepetitionNoise:
    """The noise of the sum of repeated units of work (a share), the number of units, and the amounts of work.

    ``amount`` is how many times as many units the test has as the control, ``None`` where too little is common;
    ``share_on_gpu`` is how much of both critical paths is on the GPU.
    """

    noise_share: float
    units: int
    amount: float | None
    share_on_gpu: float


def repetition_noise(control: Side, test: Side, *, communication: bool = True) -> RepetitionNoise:
    """Match the work of two windows: kernels by call path and name, outermost operators by name.

    Without ``communication`` its kernels are left out: in a job, their time on a rank depends on other ranks.
    """
    on_gpu = _common_kernels(control.scope, test.scope, communication=communication)
    window_ns = min(control.path.length_ns, test.path.length_ns)
    share = share_on_gpu([side.path.by_bound_ns for side in (control, test)])
    return noise_of_units(on_gpu, _common_operators(control.scope, test.scope), window_ns, share)


def noise_of_units(
    kernels: tuple[Repetitions, Codes], operators: tuple[Repetitions, Codes], window_ns: int, on_gpu: float
) -> RepetitionNoise:
    """Return the noise that matched units show, and the ratio of the amounts of work.

    What a path spends on the GPU spreads as kernels do, the rest as the host does.

    Args:
        kernels: of both sides.
        operators: those of the host.
        window_ns: the length of the shorter window.
        on_gpu: how much of both critical paths is on the GPU.
    """
    noise = [noise_of_repetitions(matched, window_ns) for matched, _ in (kernels, operators)]
    share = on_gpu * noise[0][0] + (1 - on_gpu) * noise[1][0]
    amount = _work_ratio(*(kernels if len(kernels[1][0][0]) else operators)[1])
    return RepetitionNoise(share, noise[0][1] + noise[1][1], amount, on_gpu)


Codes = tuple[tuple[Ints, Ints], tuple[Ints, Ints]]
"""Of each side the unit of every piece of work, numbered alike, and how long it took."""


def _common_kernels(control: Scope, test: Scope, *, communication: bool) -> tuple[Repetitions, Codes]:
    """Match GPU work in the order in which it was enqueued."""
    paths = CallPaths()
    left, right = EnqueuedWork.of(control, paths), EnqueuedWork.of(test, paths)
    codes = common_codes(left, right, control, test)
    tells = np.full(len(left.row), communication) | ~control.graph.event_flags.communicates[left.row]
    return matched_units(codes, (left.length, right.length), tells)


def _common_operators(control: Scope, test: Scope) -> tuple[Repetitions, Codes]:
    """Match the outermost operators in order of time."""
    number: dict[str, int] = {}
    codes, lengths = [], []
    for scope in (control, test):
        events, names = scope.graph.event_table, scope.graph.names
        rows = outermost_operators(scope)
        rows = rows[np.argsort(events.start[rows], kind="stable")]
        code = np.zeros(len(names) + 1, np.int64)
        for name in distinct(events.name[rows]).tolist():
            code[name] = number.setdefault(names[name], len(number))
        codes.append(code[events.name[rows]])
        lengths.append(events.end[rows] - events.start[rows])
    return matched_units((codes[0], codes[1]), (lengths[0], lengths[1]))


def matched_units(
    codes: tuple[Ints, Ints], ns: tuple[Ints, Ints], shows_noise: Bools | None = None
) -> tuple[Repetitions, Codes]:
    """Align the units of two runs, which are numbered alike; ``shows_noise`` marks units of the control."""
    left, right = align(*codes)
    if shows_noise is not None:
        left, right = left[shows_noise[left]], right[shows_noise[left]]
    return Repetitions(codes[0][left], ns[0][left], ns[1][right]), ((codes[0], ns[0]), (codes[1], ns[1]))


def share_on_gpu(totals: Sequence[Mapping[str, int]]) -> float:
    """Return which share of critical paths, given by class, the GPU takes."""
    on_gpu = sum(total.get(name, 0) for total in totals for name in GPU_CLASSES)
    return on_gpu / max(sum(sum(total.values()) for total in totals), 1)


def _work_ratio(control: tuple[Ints, Ints], test: tuple[Ints, Ints]) -> float | None:
    """Return how much more often common units occur in the test, at the median of their time."""
    units = np.union1d(control[0], test[0])
    place = [np.searchsorted(units, codes) for codes, _ in (control, test)]
    counts = [np.bincount(at, minlength=len(units)) for at in place]
    times = [summed_by(at, lengths, len(units)) for at, (_, lengths) in zip(place, (control, test), strict=True)]
    common = (counts[0] > 0) & (counts[1] > 0)
    if any(time[common].sum() < LEAST_COMMON_TIME * time.sum() or not time.sum() for time in times):
        return None
    ratio, weight = counts[1][common] / counts[0][common], (times[0] + times[1])[common]
    order = np.argsort(ratio, kind="stable")
    running = np.cumsum(weight[order])
    return float(ratio[order][np.searchsorted(running, running[-1] / 2)])


SideT = TypeVar("SideT", bound=Lengths)
Side_co = TypeVar("Side_co", bound=Lengths, covariant=True)
"""What is compared: one rank of each run, or one job with another."""

LEAST_OF_WINDOWS = 0.05
"""With fewer than three steps on a side, smaller differences are noise."""
NORMAL_99 = 2.576
"""How many standard deviations contain 99% of normal noise."""
MOSTLY_UNKNOWN = 0.5
"""The unexplained share of the difference from which on first steps are not compared."""
SAME_AMOUNT = 1.25
"""The ratio of the amounts of work above which windows are not compared by their lengths."""
MOSTLY_ON_GPU = 0.5
"""The share of the critical path on the GPU from which on the noise of kernels is that of a step."""
ENOUGH_AROUND = 2
"""How many steps, a named one among them, show how much it varies."""
ENOUGH_FREEDOM = 4
"""How many deviations of steps show their noise by themselves; of fewer the parts of steps must agree."""


@dataclass(frozen=True)
class AllSteps:
    """The steps of both sides before they are divided into levels: their numbers and kinds."""

    numbers: tuple[Ints, Ints]
    kinds: StepKinds


@dataclass(frozen=True)
class Comparison(Generic[Side_co]):
    """Two runs' lengths: their kinds of steps, the change, and the largest change that noise explains.

    ``refused`` is the reason why the lengths must not be compared, else it is empty; ``repeats`` is what the noise is
    estimated from where a side has too few steps, else ``None``.
    """

    control: Side_co
    test: Side_co
    change: StepChange
    repeats: RepetitionNoise | None
    refused: str
    kinds: StepKinds
    unlike: tuple[str, str] | None = None
    """How the named steps of both sides differ, if they are of different kinds."""
    course: Course = field(default_factory=Course)
    """What all steps show; both sides consist of those of the last level alone."""
    run_noise: float = 0.0
    """By how much whole runs differ by chance at least, as a share."""
    all_steps: AllSteps | None = None
    """Of one rank of each run the steps of all levels."""

    @property
    def sides(self) -> dict[str, Side_co]:
        """Both sides by name."""
        return {"control": self.control, "test": self.test}

    @property
    def shared_names(self) -> dict[str, str]:
        """What annotations on the critical paths share that differ by numbers alone."""
        return numbered_alike(self.control.annotations | self.test.annotations)

    @property
    def levels(self) -> StepLevels:
        """The levels of all steps."""
        return self.course.levels

    @cached_property
    def differences(self) -> tuple[Difference, ...]:
        """What is judged: the differences of all steps, and of kinds of steps that count for the run."""
        every = tuple(all_differences(self.change, self.course, run_noise=self.run_noise))
        return every[:1] if self.refused or self.repeats is not None else (*every, *self.of_kinds())

    def of_kinds(self, *, every: bool = False) -> Iterator[Difference]:
        """Yield the differences of the judged kinds of steps, if there are several; all, or those that count."""
        kinds, first = self.change.kinds, self.levels.since[1]
        for kind in kinds if every or len(kinds) > 1 else ():
            if kind.is_judged and (every or counts_for_the_run(kind, kinds)):
                yield self.of_kind(kind, None if first is None else (first, None))

    def of_kind(self, kind: KindChange, steps: tuple[int, int | None] | None = None) -> Difference:
        """Return the difference of a kind of steps; of very few steps with the noise of the parts of steps."""
        least = max(self.row_noise_share or 0.0, self.run_noise)
        return difference_of_kind(kind, self.kinds.names[kind.kind] or "all", least, steps)

    @cached_property
    def main(self) -> Difference:
        """The difference to report."""
        return self.differences[0] if len(self.differences) < OF_ALL_STEPS else main_of(self.differences, self.change)

    @property
    def compared_by(self) -> Basis:
        """What the difference is one of."""
        return self.main.basis

    @property
    def lengths(self) -> tuple[int, int]:
        """The compared lengths of control and test: medians, of several kinds in their mixture, or means."""
        return round(self.main.control), round(self.main.control + self.main.difference)

    @property
    def difference_ns(self) -> int:
        """By how much the test is longer."""
        return round(self.main.difference)

    @property
    def noise_ns(self) -> int:
        """The largest difference that noise explains: what could not have been detected."""
        return ceil(self.main.noise)

    @property
    def change_share(self) -> float:
        """By how much the test is longer, whether or not the lengths are comparable."""
        return self.difference_ns / max(self.lengths[0], 1)

    @property
    def difference_share(self) -> float | None:
        """By how much the test is longer; ``None`` where the lengths are not comparable."""
        return None if self.refused else self.change_share

    @property
    def noise_share(self) -> float:
        """The noise as a share of the control."""
        return self.main.noise / max(self.main.control, 1)

    @property
    def beyond_noise(self) -> bool:
        """Whether one run is longer by more than the noise."""
        return not self.refused and abs(self.main.difference) > self.main.noise

    @property
    def row_noise_share(self) -> float | None:
        """The noise of rows in tables, where there are too few windows for a noise of each row."""
        if self.repeats is None and self.freedom >= ENOUGH_FREEDOM:
            return None
        return self.change.noise_ns / max(self.change.control_ns, 1)

    @property
    def freedom(self) -> int:
        """How many deviations of steps from the median of their kind are independent."""
        return sum(count - 1 for kind in self.change.kinds for count in kind.counts)


def compare(control: Side, test: Side) -> Comparison[Side]:
    """Compare two runs by their steps, with noise from repetitions where the steps are too few."""
    every = AllSteps((control.numbers, test.numbers), kinds_of_steps(control.scopes, test.scopes))
    control, test, kinds, course = last_levels(control, test, every.kinds)
    sides = [_represented(side, kind) for side, kind in ((control, kinds.control), (test, kinds.test))]
    of_neighbors = kinds_of_steps(control.neighbors.scopes, test.neighbors.scopes)
    found = compare_lengths(sides[0], sides[1], lambda: repetition_noise(sides[0], sides[1]), kinds, of_neighbors)
    return replace(found, course=course, all_steps=every)


def _represented(side: Side, kind: Ints) -> Side:
    """Choose the window that represents a run among those of the most frequent kind."""
    own = np.flatnonzero(kind == 0)
    return replace(side, representative=int(own[median_index(side.lengths_ns[own])]))


def last_levels(control: SideT, test: SideT, kinds: StepKinds) -> tuple[SideT, SideT, StepKinds, Course]:
    """Select the steps of both runs since the last change of level inside each, with their kinds."""
    course = course_of(*_step_lengths((control, test), kinds))
    first = course.levels.first
    return control.since(first[0]), test.since(first[1]), kinds.since(first), course


def _step_lengths(sides: tuple[Lengths, Lengths], kinds: StepKinds) -> list[StepLengths]:
    return [
        StepLengths(side.lengths_ns.astype(float), side.numbers, kind)
        for side, kind in zip(sides, kinds.by_side, strict=True)
    ]


def compare_lengths(
    control: SideT,
    test: SideT,
    repeated: Callable[[], RepetitionNoise],
    kinds: StepKinds,
    of_neighbors: StepKinds | None = None,
) -> Comparison[SideT]:
    """Compare lengths kind by kind.

    Args:
        control: the run to compare with.
        test: the run that changed.
        repeated: returns the repetitions of both runs; called where steps are too few.
        kinds: the kinds of steps.
        of_neighbors: the kinds of the steps around a named one; without them these are of one kind.
    """
    sides = (control, test)
    counts = (len(control.lengths_ns), len(test.lengths_ns))
    change = change_of_steps(*_step_lengths(sides, kinds))
    if min(counts) >= ENOUGH_STEPS:
        found = Comparison(control, test, change, None, _refusal_reason(control, test, None), kinds)
        if found.freedom >= ENOUGH_FREEDOM:
            return found
        # Of so few deviations the spread may be small by chance, which that of the steps' parts is not.
        parts = FewSteps(0.0, 0, repeated().noise_share, counts).band_of_parts()
        return replace(found, change=change.with_noise(parts))
    repeats = repeated()
    noise = _noise_of_few(sides, repeats, of_neighbors)
    refused = _refusal_reason(control, test, repeats)
    change = replace(change, noise_ns=noise * change.control_ns)
    return Comparison(control, test, change, repeats, refused, kinds, _unlike_steps(sides, of_neighbors))


def _unlike_steps(sides: tuple[Lengths, Lengths], kinds: StepKinds | None) -> tuple[str, str] | None:
    """Return the kinds of two named steps if they differ."""
    if kinds is None or not kinds.are_several:
        return None
    found = []
    for side, kind in zip(sides, kinds.by_side, strict=True):
        own = kind[side.neighbors.number == side.numbers[0]] if len(kind) else kind
        found.append(int(own[0]) if len(own) else -1)
    return (kinds.names[found[0]], kinds.names[found[1]]) if found[0] != found[1] and min(found) >= 0 else None


def _noise_of_few(sides: tuple[Lengths, Lengths], repeats: RepetitionNoise, kinds: StepKinds | None) -> float:
    """Return the noise of one or two steps a side as a share: of a named step that of the steps around it."""
    parts = NORMAL_99 * repeats.noise_share
    counts = (len(sides[0].lengths_ns), len(sides[1].lengths_ns))
    around = [side.neighbors for side in sides]
    if min(len(own.ns) for own in around) >= ENOUGH_AROUND:
        known = kinds or StepKinds.one((len(around[0].ns), len(around[1].ns)))
        found = [_deviations(own.ns, kind) for own, kind in zip(around, (known.control, known.test), strict=True)]
        least = LEAST_OF_STEPS
    else:
        found = [
            _deviations(side.lengths_ns, np.zeros(count, np.int64)) for side, count in zip(sides, counts, strict=True)
        ]
        least = LEAST_OF_WINDOWS
    few = FewSteps(sum(one for one, _ in found), sum(one for _, one in found), repeats.noise_share, counts)
    return max(least, parts, few.band(on_gpu=repeats.share_on_gpu >= MOSTLY_ON_GPU))


def _deviations(lengths_ns: Ints, kind: Ints) -> tuple[float, int]:
    """Return the squared deviations of steps from the mean of their kind, as shares of it, and how many are free."""
    squares, freedom = 0.0, 0
    for one in np.unique(kind).tolist():
        own = lengths_ns[kind == one] / max(float(lengths_ns[kind == one].mean()), 1.0) - 1
        squares, freedom = squares + float((own**2).sum()), freedom + len(own) - 1
    return squares, freedom


def _refusal_reason(control: Lengths, test: Lengths, repeats: RepetitionNoise | None) -> str:
    """Return why the lengths are not comparable; empty where they are."""
    if "whole trace" in (control.measure, test.measure) and control.has_steps != test.has_steps:
        return f"only the {BEFORE_AFTER['control' if control.has_steps else 'test']} run has profiler steps"
    if control.warms_up != test.warms_up:
        return (
            f"only the {BEFORE_AFTER['control' if control.warms_up else 'test']} step is the first of its trace, a "
            "warm-up"
        )
    if control.measure != test.measure:
        return f"the before length is {_an(control.measure)}, the after length {_an(test.measure)}"
    unknown = test.unexplained_ns - control.unexplained_ns
    change = test.median_ns - control.median_ns
    # The work of a first step can wait for work that was enqueued before recording started.
    large = abs(change) > LEAST_OF_WINDOWS * control.median_ns
    if control.warms_up and large and unknown / change >= MOSTLY_UNKNOWN:
        return (
            f"{duration_text(abs(unknown))} of the difference is unexplained, such as work enqueued before recording "
            "started"
        )
    amount = repeats.amount if repeats is not None and control.measure != "iteration" else None
    if amount is not None and not 1 / SAME_AMOUNT <= amount <= SAME_AMOUNT:
        return f"the after window contains {amount:.2g} times as much of the same work"
    return ""


def _an(measure: str) -> str:
    return f"{'an' if measure[0] in 'aeiou' else 'a'} {measure}"
