"""Levels: from which step on a run takes longer or shorter than before, as where a fault begins on the way.

What one more change of level, or an interruption, explains is tested against the noise of the steps of both runs
(Student's t; every step where a level may begin, or range that may interrupt it, counts, as Bonferroni has it; half of
the chance each). Kinds of steps keep their own lengths, so that two kinds in turn are no levels. Three more conditions
keep levels apart from what looks like them:

- trend: a level must be clearly likelier than steps that become longer and longer;
- stalls: nearly all steps before and after are on their own side of the middle between both levels; those that
  interrupt a level must be more in a row than the order of steps shows by chance;
- a start: a run of two steps is a level only if it is that of the other run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import atan, comb, log, pi, sqrt

import numpy as np

from analyses.compare.diff.noise import ENOUGH_STEPS
from analyses.compare.diff.step_change import (
    StepLengths,
    change_of_steps,
    dependence,
    judged_kinds,
    pairs_that_go_together,
)
from hta_graph.model import Bools, Floats, Ints

CHANCE = 0.001
"""Which share of the runs with one level and normal noise is divided."""
FEWEST_AT_START = 2
"""How many steps a run may begin with at the level of the other one."""
LEAST_ON_ITS_SIDE = 0.8
"""Which share of the steps of a level must be nearer to it than to the other one."""
HALF = 0.5
LIKELIER_THAN_TREND = 4.0
"""Twice the logarithm of how many times likelier a change of level must be than a steady trend: 7 times."""
MOST_INTERRUPTED = 400
"""Of how many steps it is looked at whether others interrupt them: there are half as many ranges as their square."""
MOST_FREEDOM = 1_000
"""Student's t is normal from there on."""
QUADRATURE_POINTS = 2_000


@dataclass(frozen=True)
class EarlierLevel:
    """Steps of a side before its last change of level, compared with the other side (ns)."""

    side: str
    steps: Ints
    control_ns: float
    test_ns: float
    noise_ns: float

    @property
    def difference_ns(self) -> float:
        """By how much the test is longer."""
        return self.test_ns - self.control_ns

    @property
    def beyond_noise(self) -> bool:
        """Whether the sides differ by more than noise explains."""
        return abs(self.difference_ns) > self.noise_ns


@dataclass(frozen=True)
class StepLevels:
    """The place in each side where its last level begins (0: it has one), that step's number, and the levels before.

    ``starts`` are the places in each side where its levels begin.
    """

    first: tuple[int, int] = (0, 0)
    since: tuple[int | None, int | None] = (None, None)
    earlier: tuple[EarlierLevel, ...] = ()
    starts: tuple[Ints, Ints] = field(default=(np.zeros(1, np.int64), np.zeros(1, np.int64)), compare=False)


def find_levels(control: StepLengths, test: StepLengths) -> StepLevels:
    """Divide the steps of both runs into levels; where lengths go up and down together, the differences of pairs."""
    judged = judged_kinds(control, test)
    places = [np.flatnonzero(np.isin(side.kind, judged)) for side in (control, test)]
    sides = [side.take(kept).with_kinds(judged) for side, kept in zip((control, test), places, strict=True)]
    every = StepLengths(*(np.concatenate([getattr(side, name) for side in sides]) for name in ("ns", "number", "kind")))
    usual_ns = np.array([np.median(every.ns[every.kind == kind]) for kind in range(len(judged))])
    pairs = pairs_that_go_together(*sides)
    if pairs is None:
        starts = _starts_of_levels(sides, usual_ns)
        found = [kept[own] for kept, own in zip(places, starts, strict=True)]
    else:
        left, right = pairs
        differ = StepLengths(sides[1].ns[right] - sides[0].ns[left], right, sides[1].kind[right])
        (common,) = _starts_of_levels([differ], usual_ns)
        found = [kept[own[common]] for kept, own in zip(places, pairs, strict=True)]
    levels = [_levels_from(own, side) for own, side in zip(found, (control, test), strict=True)]
    if not _have_common_kinds(levels[0][-1], levels[1][-1]):
        return StepLevels()
    earlier = _earlier_of_pairs(levels) if pairs is not None else _earlier_of_sides(levels)
    first = [int(own[-1]) if len(own) > 1 else 0 for own in found]
    since = [int(side.number[at]) if at else None for side, at in zip((control, test), first, strict=True)]
    starts = [np.append(0, own[1:]) for own in found]
    return StepLevels((first[0], first[1]), (since[0], since[1]), tuple(earlier), (starts[0], starts[1]))


def _levels_from(starts: Ints, side: StepLengths) -> list[StepLengths]:
    return [side.take(np.arange(*ends)) for ends in pairwise([0, *starts[1:].tolist(), len(side.ns)])]


def _have_common_kinds(control: StepLengths, test: StepLengths) -> bool:
    return bool(np.isin(control.kind[control.kind >= 0], test.kind).any())


def _earlier_of_pairs(levels: Sequence[Sequence[StepLengths]]) -> Iterator[EarlierLevel]:
    """Compare each level but the last one with its partner."""
    for control, test in zip(levels[0][:-1], levels[1][:-1], strict=True):
        yield _earlier_level("test", control, test)


def _earlier_of_sides(levels: Sequence[Sequence[StepLengths]]) -> Iterator[EarlierLevel]:
    """Compare each level but the last one with the last one of the other side."""
    of_control = [("control", control, levels[1][-1]) for control in levels[0][:-1]]
    of_test = [("test", levels[0][-1], test) for test in levels[1][:-1]]
    for side, control, test in (*of_control, *of_test):
        if _have_common_kinds(control, test):
            yield _earlier_level(side, control, test)


def _earlier_level(side: str, control: StepLengths, test: StepLengths) -> EarlierLevel:
    found = change_of_steps(control, test)
    numbers = control.number if side == "control" else test.number
    return EarlierLevel(side, numbers, found.control_ns, found.test_ns, found.noise_ns)


def _starts_of_levels(sides: Sequence[StepLengths], usual_ns: Floats) -> list[Ints]:
    """Return the places where the levels of each side begin; the most certain change of level is found first."""
    levels = [[_Level(side.ns, side.kind, usual_ns)] for side in sides]
    while True:
        places = [(at, place) for at, own in enumerate(levels) for place in range(len(own))]
        tested = [(_best_cut(levels, *where), *where) for where in places]
        cut, at, place = max(tested, key=lambda one: (one[0].is_level, one[0].explained))
        if not cut.is_level:
            return [np.cumsum([0, *(len(level.ns) for level in own[:-1])]) for own in levels]
        levels[at][place : place + 1] = levels[at][place].cut(cut.places)


@dataclass(frozen=True)
class _Cut:
    """Places where a level may be divided: what that explains of the squares, and whether it certainly is."""

    places: tuple[int, ...]
    explained: float
    is_level: bool


NO_CUT = _Cut((), 0.0, is_level=False)


@dataclass(frozen=True)
class _Level:
    """Consecutive steps at one level: lengths, kinds, and the usual length of each kind."""

    ns: Floats
    kind: Ints
    usual_ns: Floats

    def cut(self, places: Sequence[int]) -> list[_Level]:
        """Divide the steps at places."""
        ends = pairwise([0, *places, len(self.ns)])
        return [replace(self, ns=self.ns[first:past], kind=self.kind[first:past]) for first, past in ends]

    @property
    def counts(self) -> Ints:
        """How many steps each kind has."""
        return np.bincount(self.kind, minlength=len(self.usual_ns))

    @property
    def freedom(self) -> int:
        """How many deviations from the means of kinds are independent."""
        return len(self.ns) - int(np.count_nonzero(self.counts))

    @property
    def away(self) -> Floats:
        """By how much each step differs from the mean of its kind, as a share of its usual length."""
        return self.centered(self.ns)

    def centered(self, values: Floats) -> Floats:
        """Return values away from the mean of their kind, divided by its usual length."""
        mean = np.bincount(self.kind, values, len(self.usual_ns)) / np.maximum(self.counts, 1)
        found: Floats = (values - mean[self.kind]) / self.usual_ns[self.kind]
        return found

    def explained_by(self, first: Ints, past: Ints) -> tuple[Floats, Floats]:
        """Return for each range by how much (ns) its steps are longer than the others, and the squares it explains."""
        own = self.kind == np.arange(len(self.usual_ns))[:, None]
        counts, sums = (
            np.cumsum(np.pad(values, ((0, 0), (1, 0))), axis=1) for values in (own.astype(float), own * self.away)
        )
        inside = counts[:, past] - counts[:, first]
        weight = 1 / self.usual_ns
        varied = weight**2 @ (inside * (1 - inside / np.maximum(self.counts, 1)[:, None]))
        together = weight @ (sums[:, past] - sums[:, first])
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.nan_to_num(together / varied, posinf=0, neginf=0), np.nan_to_num(together**2 / varied, posinf=0)

    def explained_by_trend(self) -> float:
        """Return which squares it explains that steps become longer and longer."""
        place = self.centered(np.arange(len(self.ns), dtype=float))
        power = float((place**2).sum())
        return float((place * self.away).sum()) ** 2 / power if power else 0.0


def _best_cut(sides: Sequence[Sequence[_Level]], at: int, place: int) -> _Cut:
    """Find where a level of a side most probably consists of two, else what interrupts it, and test that."""
    level = sides[at][place]
    count = len(level.ns)
    least = FEWEST_AT_START if place == 0 and len(sides) > 1 else ENOUGH_STEPS
    last = count - ENOUGH_STEPS
    ends = np.arange(least, last + 1)
    found = [NO_CUT]
    for first, past in ((ends, np.full(len(ends), count)), _ranges(least, last if count <= MOST_INTERRUPTED else 0)):
        if len(first):
            found.append(_tested_cut(sides, at, level, first, past))
    return max(found, key=lambda cut: (cut.is_level, -len(cut.places), cut.explained))


def _ranges(least: int, last: int) -> tuple[Ints, Ints]:
    """Return where ranges of enough steps begin and end."""
    ends: Ints = np.arange(least, max(last, least) + 1)
    first, past = np.repeat(ends, len(ends)), np.tile(ends, len(ends))
    kept = past - first >= ENOUGH_STEPS
    return first[kept], past[kept]


def _tested_cut(sides: Sequence[Sequence[_Level]], at: int, level: _Level, first: Ints, past: Ints) -> _Cut:
    """Test the most probable of some ranges of steps against the noise of all levels."""
    shift, explained = level.explained_by(first, past)
    best = int(np.argmax(explained))
    places = [int(first[best]), *([int(past[best])] if past[best] < len(level.ns) else [])]
    step = np.arange(len(level.ns))
    is_shifted = (step >= first[best]) & (step < past[best])
    rest = level.away - shift[best] * level.centered(is_shifted.astype(float))
    others = [one for side in sides for one in side if one is not level]
    freedom = sum(one.freedom for one in (level, *others)) - 1
    if freedom < 1 or not explained[best] or not _holds(level, float(shift[best]), is_shifted):
        return NO_CUT
    deviations = [*np.split(rest, places), *(other.away for other in others)]
    noise = sqrt(sum(float((own**2).sum()) for own in deviations) / freedom) * dependence(deviations)
    chance = len(first) * _chance_of_t(sqrt(explained[best]) / noise, freedom) if noise else 0.0
    is_level = 2 * chance <= CHANCE and _is_no_trend(level, float((rest**2).sum()))
    if is_level and len(places) > 1:
        is_level = _is_unlikely_in_a_row(level, float(shift[best]), is_shifted, others)
    if is_level and places[0] < ENOUGH_STEPS:
        is_level = _is_level_of(sides[1 - at][-1], *level.cut(places)[:2])
    return _Cut(tuple(places), float(explained[best]), is_level)


def _holds(level: _Level, shift_ns: float, is_shifted: Bools) -> bool:
    """Return whether nearly all steps are nearer to their own level than to the other one."""
    is_beyond = _beyond_half(level, shift_ns, is_shifted)
    return min(float(np.mean(~is_beyond[~is_shifted])), float(np.mean(is_beyond[is_shifted]))) >= LEAST_ON_ITS_SIDE


def _beyond_half(level: _Level, shift_ns: float, is_shifted: Bools) -> Bools:
    """Mark the steps that are nearer to a shifted level than to that of the others."""
    leveled = level.ns - shift_ns * is_shifted
    usual = leveled - level.centered(leveled) * level.usual_ns[level.kind]
    found: Bools = (level.ns - usual) / shift_ns > HALF
    return found


def _is_unlikely_in_a_row(level: _Level, shift_ns: float, is_shifted: Bools, others: Sequence[_Level]) -> bool:
    """Return whether as many of such steps as both runs have would hardly follow each other by chance.

    A run in which single steps hang has some of them in a row now and then.
    """
    beyond = _beyond_half(level, shift_ns, is_shifted)
    elsewhere = [_beyond_half(other, shift_ns, np.zeros(len(other.ns), np.bool_)) for other in others]
    count = len(beyond) + sum(map(len, elsewhere))
    such = int(np.count_nonzero(beyond)) + sum(int(np.count_nonzero(own)) for own in elsewhere)
    drawn, least = int(np.count_nonzero(is_shifted)), int(np.count_nonzero(beyond & is_shifted))
    ways = sum(comb(such, inside) * comb(count - such, drawn - inside) for inside in range(least, drawn + 1))
    return (len(beyond) - drawn + 1) * ways / comb(count, drawn) <= CHANCE


def _is_no_trend(level: _Level, of_cut: float) -> bool:
    of_trend = float((level.away**2).sum()) - level.explained_by_trend()
    return not of_cut or len(level.ns) * log(max(of_trend / of_cut, 1.0)) >= LIKELIER_THAN_TREND


def _is_level_of(other: _Level, before: _Level, after: _Level) -> bool:
    """Return whether the first steps are nearer to the other run than to the steps after them."""
    return 2 * abs(_apart(before, other)) < abs(_apart(before, after))


def _apart(one: _Level, other: _Level) -> float:
    """Return by how much the steps of the kinds that both have are longer in one, as a share."""
    common = np.flatnonzero((one.counts > 0) & (other.counts > 0))
    ratios = [
        (np.median(one.ns[one.kind == kind]) - np.median(other.ns[other.kind == kind])) / one.usual_ns[kind]
        for kind in common.tolist()
    ]
    return float(np.mean(ratios)) if ratios else 0.0


def _chance_of_t(t: float, freedom: int) -> float:
    """Return how probable a larger t is, of either sign.

    >>> round(_chance_of_t(4.604, 4), 4), round(_chance_of_t(1.96, 10_000), 3)
    (0.01, 0.05)
    """
    power = min(freedom, MOST_FREEDOM)
    middles = (np.arange(QUADRATURE_POINTS) + 0.5) / QUADRATURE_POINTS
    beyond, every = (
        (pi / 2 - first) * float(np.mean(np.cos(first + (pi / 2 - first) * middles) ** (power - 1)))
        for first in (atan(t / sqrt(power)), 0.0)
    )
    return beyond / every
