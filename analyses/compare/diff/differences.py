"""The differences between the steps of two runs, each with its noise: one list, by which ``diff`` and ``gate`` judge.

A run is slower if its usual step is, if its steps are longer by ranks or on average, if more of them hang, or if they
become longer and longer. Where one of these is suspicious and noise can still explain it, the answer is unknown, which
is not the same as no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from analyses.compare.diff.noise import ENOUGH_STEPS, LEAST_OF_STEPS
from analyses.compare.diff.step_change import KindChange, StepChange, StepLengths
from analyses.compare.diff.step_levels import EarlierLevel, StepLevels, find_levels
from analyses.compare.diff.step_tail import BY_SIZE, Tail, Trend, is_long, tail_of, trend_of, usual_lengths
from analyses.display.sentence_format import steps_named
from analyses.display.text_layout import duration_text
from hta_graph.model import Ints

Basis = Literal["medians", "pairs", "ranks", "means", "hangs", "trend"]
USUAL_FIRST: Sequence[Basis] = ("medians", "pairs", "ranks", "hangs", "trend", "means")
"""The more usual or specific difference before the other."""
OF_ALL_STEPS = 3
"""How many differences are of all compared steps: by medians or pairs, by ranks, and of the mean."""
OF_THE_COURSE = ("hangs", "trend")
"""Differences of all steps, whatever levels they have."""
LEAST_TREND = 0.02
"""By how much steps grow from the first to the last at least: clocks that warm up make those of every program grow."""
DOUBTED, SUSPICIOUS = 0.03, 0.6
"""From which share of the control, and of the noise, on a difference is suspicious."""
NEVER_EQUAL = 0.2
"""Usual steps that differ by more are not called equal, however wide the noise is."""
LEAST_PART = 0.5
"""The more usual difference is reported where it is at least this part of the largest one."""


@dataclass(frozen=True)
class Difference:
    """A compared length (ns, or what a metric counts in): of the usual step, the mean, a level or a kind of steps."""

    control: float
    difference: float
    noise: float
    basis: Basis
    steps: tuple[int, int | None] | None = None
    """The first and the last step where not all are compared; without a last one, all since the first."""
    kind: str = ""

    @property
    def share(self) -> float:
        """The difference as a share of the control."""
        return self.difference / self.control if self.control else 0.0

    @property
    def noise_share(self) -> float:
        """The noise as a share of the control."""
        return self.noise / self.control if self.control else 0.0

    def exceeds(self, limit: float) -> bool:
        """Return whether the lower bound is above zero and the difference above a share of the control."""
        return self.difference > max(self.noise, limit * self.control)


@dataclass(frozen=True)
class Course:
    """What all steps of both runs show: levels, hanging steps, a trend, and the mean of all (ns), compared or not."""

    levels: StepLevels = field(default_factory=StepLevels)
    tail: Tail | None = None
    trend: Trend | None = None
    means_ns: tuple[float, float] = (0.0, 0.0)
    counts: tuple[int, int] = (0, 0)
    """Of all steps of both."""


def course_of(control: StepLengths, test: StepLengths) -> Course:
    """Look for levels inside each run, then for what the usual step of a level does not show."""
    if min(len(control.ns), len(test.ns)) < ENOUGH_STEPS:
        return Course()
    found = find_levels(control, test)
    levels = found if all(map(_lasts, found.first, found.starts, (control, test))) else StepLevels()
    usual = [
        usual_lengths(side, starts.tolist(), None if levels is found else _longest_before(starts, len(side.ns)))
        for side, starts in zip((control, test), found.starts, strict=True)
    ]
    trend = None if len(levels.starts[1]) > 1 else trend_of(control, test)
    means = float(control.ns.mean()), float(test.ns.mean())
    return Course(
        levels,
        tail_of(control, test, (usual[0], usual[1])),
        trend,
        means,
        (len(control.ns), len(test.ns)),
    )


def _lasts(first: int, starts: Ints, side: StepLengths) -> bool:
    """Return whether the last level of a side is no event: the last steps of a run may be in a burst of load.

    It is none if it is long or the shorter one, or if half of the steps cost as much as no event does.
    """
    count = len(side.ns)
    last = count - first
    if not first or is_long(last, count):
        return True
    away = side.ns - usual_lengths(side, starts.tolist(), _longest_before(starts, count))
    longer = float(away[first:].sum())
    return longer <= 0 or (2 * last >= count and longer >= BY_SIZE * float(side.ns.sum()))


def _longest_before(starts: Ints, count: int) -> int:
    """Return the longest level but the last one."""
    return int(np.argmax(np.diff([*starts.tolist(), count])[:-1])) if len(starts) > 1 else 0


def all_differences(change: StepChange, course: Course, *, run_noise: float = 0.0) -> Iterator[Difference]:
    """Yield the differences of all steps: the usual one first, then by ranks, means, hangs, trend, and the first level.

    Args:
        change: of the steps of the last level.
        course: of all steps.
        run_noise: by how much whole runs differ by chance at least, as a share.
    """
    first = course.levels.since[1]
    since = None if first is None else (first, None)
    usual: Basis = "pairs" if change.is_paired else "medians"
    yield Difference(change.control_ns, change.difference_ns, change.noise_ns, usual, since)
    yield Difference(change.control_ns, change.shift_ns, change.shift_noise_ns, "ranks", since)
    yield Difference(change.means_ns[0], change.summed_ns, change.summed_noise_ns, "means", since)
    if (tail := course.tail) is not None:
        yield Difference(tail.control_ns, tail.difference_ns, tail.noise_ns, "hangs")
    trend = course.trend
    if trend is not None and trend.difference_ns > LEAST_TREND * trend.ends_ns[0] > 0:
        noise = max(trend.noise_ns, run_noise * trend.ends_ns[0])
        yield Difference(trend.ends_ns[0], trend.difference_ns, noise, "trend")
    if (level := _first_level(course.levels, course.counts[1])) is not None:
        noise = max(level.noise_ns, run_noise * level.control_ns)
        steps = (int(level.steps[0]), int(level.steps[-1]))
        yield Difference(level.control_ns, level.difference_ns, noise, "medians", steps)


def _first_level(levels: StepLevels, count: int) -> EarlierLevel | None:
    """Return the level that the test begins with, if it is long; shorter and later ones are events."""
    starts, own = levels.starts[1], [level for level in levels.earlier if level.side == "test"]
    if len(starts) < 2 or not own or len(own[0].steps) != starts[1]:
        return None
    return own[0] if is_long(len(own[0].steps), count) else None


def difference_of_kind(
    kind: KindChange, name: str, least_noise: float, steps: tuple[int, int | None] | None = None
) -> Difference:
    """Return the difference of a kind of steps, with a noise of at least a share."""
    noise = max(kind.noise_ns, least_noise * kind.control_ns)
    return Difference(kind.control_ns, kind.difference_ns, noise, "medians", steps, name)


def counts_for_the_run(kind: KindChange, kinds: Sequence[KindChange]) -> bool:
    """Return whether what a kind of steps changed is a percent of all steps: then it counts without being asked for."""
    every_ns = sum(sum(one.counts) * one.control_ns for one in kinds)
    return sum(kind.counts) * kind.difference_ns >= LEAST_OF_STEPS * every_ns


def main_of(differences: Sequence[Difference], change: StepChange) -> Difference:
    """Return the difference to report.

    Of those that are certainly slower the more usual one, if it is not much smaller than the largest; else one that
    noise may hide; else a certain gain; else that of the usual step.
    """
    slower = [one for one in differences if one.exceeds(0)]
    if slower:
        whole = [one for one in slower if not one.kind] or slower
        least = LEAST_PART * max(one.share for one in whole)
        return min((one for one in whole if one.share >= least), key=lambda one: USUAL_FIRST.index(one.basis))
    if (suspect := suspicious_of(differences, 0.0)) is not None:
        return suspect
    return differences[2] if change.is_summed and not change.is_usual else differences[0]


def suspicious_of(differences: Sequence[Difference], limit: float) -> Difference | None:
    """Return the first difference above a limit that is within its noise and larger than those of most equal runs."""
    for at, one in enumerate(differences):
        is_large = one.difference > SUSPICIOUS * one.noise or (at == 0 and one.share > NEVER_EQUAL)
        if one.share > max(limit, DOUBTED) and is_large and one.difference <= one.noise < np.inf:
            return one
    return None


def course_lines(course: Course, main: Difference) -> Iterator[str]:
    """Say which steps hang and from which length to which steps grow, where the run is slower by that."""
    if (tail := course.tail) is not None and (main.basis == "hangs" or tail.difference_ns > max(tail.noise_ns, 0)):
        yield hanging_steps(tail.numbers, tail.counts, round(tail.excess_ns))
    if course.trend is not None and main.basis == "trend":
        yield growing_steps(*(duration_text(round(ns)) for ns in course.trend.ends_ns))


def hanging_steps(numbers: Sequence[int], events: tuple[int, int], excess_ns: int) -> str:
    """Name the steps that hang, in how many events on either side, and by how much they are longer.

    >>> hanging_steps([5, 13], (0, 2), 101_000_000)
    'Hangs: 2 after (steps 5 and 13) and 0 before; at the median one takes 101.000 ms.'
    """
    where = f" ({steps_named(numbers)})" if numbers else ""
    size = f"at the median one takes {duration_text(excess_ns)}"
    return f"Hangs: {events[1]:,} after{where} and {events[0]:,} before; {size}."


def growing_steps(first: str, last: str) -> str:
    """Say that steps become longer and longer.

    >>> growing_steps("50.000 ms", "57.000 ms")
    'After: steps take longer and longer, from 50.000 ms to 57.000 ms by their trend.'
    """
    return f"After: steps take longer and longer, from {first} to {last} by their trend."


def manner(basis: Basis, steps: tuple[int, int | None] | None, events: tuple[int, int]) -> str:
    """Name the steps that are slower, where not all are, or what makes them slower.

    Args:
        basis: what the difference is one of.
        steps: its first and its last step, where not all are compared.
        events: how many hangs control and test have.

    >>> manner("medians", (5, None), (0, 0)), manner("medians", (3, 5), (0, 0)), manner("hangs", None, (0, 3))
    (' since step 5', ' in steps 3 to 5', ' on average by steps that hang (3; 0 before)')
    """
    if basis == "hangs":
        return f" on average by steps that hang ({events[1]:,}; {events[0]:,} before)"
    if basis == "trend":
        return " at the end than at the start"
    if steps is None:
        return ""
    return f" since step {steps[0]}" if steps[1] is None else f" in steps {steps[0]} to {steps[1]}"


def manner_of(one: Difference, course: Course) -> str:
    """Return the manner of a difference."""
    return manner(one.basis, one.steps, course.tail.counts if course.tail else (0, 0))
