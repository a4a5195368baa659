"""What the usual step does not show: steps that hang, and steps that become longer and longer.

A hang is an event of its own: how often equal programs have one shows in how many both runs have, not in the spread of
the other steps. Of two runs that hang equally often, each event is in either by chance (a binomial test, steps in a row
being one event). An event that costs a large part of the whole run, of which the control shows none, is a regression by
its size: no test can say more of one event.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from analyses.compare.diff.noise import NORMAL, t_quantile
from analyses.compare.diff.step_change import (
    ENOUGH_IN_ORDER,
    NO_SUM,
    StepLengths,
    most_dependence,
    pairs_that_go_together,
)
from hta_graph.model import Bools, Floats

HANGING = 6.0
"""How many spreads longer than its kind a hanging step is."""
LEAST_HANG = 0.1
"""The share of a usual step that a hang takes at least."""
CHANCE = 0.005
"""Of how many equal runs as many more events are in the second one."""
BY_SIZE = 0.15
"""The share of all steps' time from which on hangs of which the control shows none are a regression by their size."""
AS_LARGE = 0.5
"""Which part of the usual event another one must be to be one of its sort."""
LONG_LEVEL = 8
"""Bursts of load seldom last that many steps; a level has to, and half of the run."""
CERTAIN_ERRORS = 2.0
"""By how many errors the steps of the control must grow for that to be expected of the test."""
MOST_EVENTS = 1_000
LEAST_SPREAD = 0.005
"""Clocks and neighbors make the steps of every program differ by that much."""


@dataclass(frozen=True)
class Tail:
    """By how much more the hanging steps of the test add to its mean step (ns), and how much chance explains.

    ``control_ns`` is the mean step of the control, ``counts`` how many events both have, ``numbers`` the test's
    hanging steps; ``excess_ns`` is what an event of the test takes longer than a usual step, at the median.
    ``enough_steps`` of each run with such events would show that they are more.
    """

    control_ns: float
    difference_ns: float
    noise_ns: float
    counts: tuple[int, int]
    numbers: tuple[int, ...]
    excess_ns: float
    enough_steps: int = 0


@dataclass(frozen=True)
class Trend:
    """By how much the steps of the test grow from the first to the last, more than the control's do (ns), and noise.

    ``ends_ns`` are the lengths at both ends of the test, by its trend.
    """

    difference_ns: float
    noise_ns: float
    ends_ns: tuple[float, float]


def is_long(steps: int, of: int) -> bool:
    """Return whether a level has enough steps to be no event."""
    return steps >= max(LONG_LEVEL, of / 2)


def usual_lengths(steps: StepLengths, starts: Sequence[int] = (0,), at: int | None = None) -> Floats:
    """Return for each step the median length of its kind in its level; its own where a kind is unknown.

    A short level is compared with the last one, or with that named by ``at``: it is an event, as a step that hangs.
    """
    sizes = np.diff([*starts, len(steps.ns)])
    level = np.repeat(np.arange(len(starts)), sizes)
    reference = len(starts) - 1 if at is None else at
    is_own = np.array([at is None and one == 0 and is_long(size, len(steps.ns)) for one, size in enumerate(sizes)])
    compared = np.where(is_own[level], level, reference)
    found = steps.ns.copy()
    for kind, one in product(np.unique(steps.kind[steps.kind >= 0]).tolist(), np.unique(compared).tolist()):
        known = (steps.kind == kind) & (level == one)
        if known.any():
            found[(steps.kind == kind) & (compared == one)] = np.median(steps.ns[known])
    return found


def tail_of(control: StepLengths, test: StepLengths, usual: tuple[Floats, Floats]) -> Tail:
    """Compare what hanging steps add to the mean step of both runs.

    Args:
        control: all steps of the control.
        test: all steps of the test.
        usual: the usual length of each step of both.
    """
    sides = (control, test)
    away = [
        np.divide(side.ns, of, out=np.ones_like(of), where=of > 0) - 1 for side, of in zip(sides, usual, strict=True)
    ]
    hang = [own > max(HANGING * _spread(away), LEAST_HANG) for own in away]
    counts = np.array([len(side.ns) for side in sides])
    mean_ns = float(control.ns.mean())
    excess = [_events(side.ns - of, own) for side, of, own in zip(sides, usual, hang, strict=True)]
    sums = [float(own.sum()) / max(count, 1) for own, count in zip(excess, counts, strict=True)]
    more = sums[1] - sums[0]
    size = float(np.median(excess[1])) if len(excess[1]) else 0.0
    alike = [int(np.count_nonzero(own >= AS_LARGE * size)) if size else 0 for own in excess]
    noise_ns, enough = NO_SUM, 0
    if size:
        least = _least_certain(alike[0], float(counts[1] / counts.sum()))
        noise_ns = max(sums[1] + (least - 1 - alike[1]) * size / len(test.ns) - sums[0], 0.0)
        enough = -(-len(test.ns) * _least_certain(0, 0.5) // max(alike[1], 1))
        if not alike[0]:
            noise_ns = min(noise_ns, BY_SIZE * mean_ns)
    events, numbers = (len(excess[0]), len(excess[1])), tuple(test.number[hang[1]].tolist())
    return Tail(mean_ns, float(more), float(noise_ns), events, numbers, size, enough)


def _spread(away: Sequence[Floats]) -> float:
    """Return how far steps are from the usual one of their kind, in standard deviations of normal noise."""
    every = np.abs(np.concatenate(away))
    return max(float(np.median(every)) / NORMAL, LEAST_SPREAD) if len(every) else LEAST_SPREAD


def _events(excess: Floats, hang: Bools) -> Floats:
    """Add up the excess of hanging steps that follow each other: they are one event."""
    places = np.flatnonzero(hang)
    if not len(places):
        return np.zeros(0)
    first = np.flatnonzero(np.append(True, np.diff(places) > 1))
    found: Floats = np.add.reduceat(excess[places], first)
    return found


def _least_certain(known: int, share: float) -> int:
    """Return from how many events on a run has certainly more than one that has some, given its share of the steps.

    >>> _least_certain(0, 0.5), _least_certain(2, 0.5)
    (8, 13)
    """
    known = min(known, MOST_EVENTS)
    return bisect_left(range(10 * MOST_EVENTS), -CHANCE, key=lambda count: -_chance_of_more(known, count, share))


def _chance_of_more(known: int, count: int, share: float) -> float:
    """Return how probable it is that of all events at least as many are in a run, given its share of the steps."""
    every, inside = known + count, np.arange(count, known + count + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(np.arange(1, every + 1))))
    ways = logarithms[every] - logarithms[inside] - logarithms[every - inside]
    return float(np.exp(ways + inside * np.log(share) + (every - inside) * np.log1p(-share)).sum())


def trend_of(control: StepLengths, test: StepLengths) -> Trend | None:
    """Compare by how much steps grow on the way; None of too few steps, or of none that certainly grow.

    Steps without a counterpart are left out. Where the lengths of both runs go up and down together, the differences of
    the same steps are looked at.
    """
    control, test = (side.take(side.kind >= 0) for side in (control, test))
    if min(len(control.ns), len(test.ns)) < ENOUGH_IN_ORDER:
        return None
    pairs = pairs_that_go_together(control, test)
    if pairs is not None:
        left, right = pairs
        base = usual_lengths(control)[left]
        sides = [np.zeros(0), (test.ns[right] - control.ns[left]) / base]
    else:
        sides = [side.ns / usual_lengths(side) - 1 for side in (control, test)]
    control_fit, test_fit = map(_fit, sides)
    if test_fit is None or not _grows_throughout(sides[1], test_fit.slope):
        return None
    known = [test_fit] if control_fit is None else [control_fit, test_fit]
    grows = control_fit is not None and control_fit.slope > CERTAIN_ERRORS * control_fit.error
    usual, usual_error = (control_fit.slope, control_fit.error) if control_fit is not None and grows else (0.0, 0.0)
    error = float(np.hypot(test_fit.error, usual_error)) * most_dependence([fit.rest for fit in known])
    steps, usual_ns = len(sides[1]) - 1, float(np.mean(usual_lengths(test)))
    growth_ns, noise_ns = (
        by * steps * usual_ns for by in (test_fit.slope - usual, t_quantile(test_fit.freedom) * error)
    )
    first_ns, last_ns = (usual_ns * (1 + sign * test_fit.slope * steps / 2) for sign in (-1, 1))
    return Trend(growth_ns, noise_ns, (first_ns, last_ns))


class _Fit(NamedTuple):
    """A straight line through values in order: its slope with its standard error, what is left, and its freedom."""

    slope: float
    error: float
    rest: Floats
    freedom: int


def _fit(away: Floats) -> _Fit | None:
    """Fit a line to values without those that hang; None of too few."""
    if len(away) < ENOUGH_IN_ORDER:
        return None
    place = np.arange(len(away), dtype=float)
    center = away - np.median(away)
    rest = center - _slope(place, center) * (place - place.mean())
    off = np.abs(rest - np.median(rest))
    kept = off <= HANGING * max(float(np.median(off)) / NORMAL, 1e-9)
    place, center = place[kept], center[kept]
    if len(place) < ENOUGH_IN_ORDER:
        return None
    slope = _slope(place, center)
    rest = center - center.mean() - slope * (place - place.mean())
    freedom = len(place) - 2
    varied = float(((place - place.mean()) ** 2).sum())
    return _Fit(slope, float(np.sqrt((rest**2).sum() / freedom / varied)), rest, freedom)


def _slope(place: Floats, values: Floats) -> float:
    away = place - place.mean()
    return float((away * values).sum() / max(float((away**2).sum()), 1e-12))


def _grows_throughout(away: Floats, slope: float) -> bool:
    """Return whether each third of a run is longer than the one before: load that comes and goes is no trend."""
    thirds = [float(np.median(part)) for part in np.array_split(away, 3)]
    least = slope * len(away) / 3 / 6
    return slope > 0 and thirds[1] - thirds[0] > least and thirds[2] - thirds[1] > least
