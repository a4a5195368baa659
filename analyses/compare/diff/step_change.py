"""By how much the steps of a run changed, kind by kind, and how large a change noise explains.

Steps that do different work have different lengths: only steps of one kind are compared. Three bounds keep equal
programs apart from different ones, and the largest holds:

- a multiple of the standard error, from the spread of each kind;
- ranks: a shift that would leave the steps of both sides mixed is none, whatever their noise looks like;
- drift: runs whose steps become longer and longer differ by where they were recorded.

Where the lengths of both runs go up and down together (the same batches), the differences of pairs are judged instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from analyses.compare.diff.noise import ENOUGH_STEPS, LEAST_OF_STEPS, NORMAL, STANDARD_ERRORS, t_quantile
from hta_graph.model import Bools, Floats, Ints

FEW_STEPS = 3.0
"""Divided by the degrees of freedom: how much wider the band of few steps is, whose spread may be small by chance."""
FEW_PAIRS = 12.0
"""The same for pairs, which have half as many values."""
RANK_ERRORS = 2.0
"""How far ranks must be apart, in standard deviations: of 5% of equal programs they are, whatever their noise is like.

More would let a single step that hangs hide a difference of seven steps a side.
"""
BOUND_ERRORS = 2.576
"""How far the lower bound of a shift is below it, in standard deviations of ranks: 99.5% of normal noise is above."""
HANGING, MOST_HANGING = 5.0, 0.2
"""By how many spreads a step that hangs is longer than others of its kind, and which share of steps does so at most."""
POOLED_WEIGHT = 4
"""How many deviations of a kind's own count as much as the spread of all kinds."""
ENOUGH_IN_ORDER = 8
"""The number of steps from which on it shows whether each resembles the one before."""
MOST_SEEN, MOST_CORRELATED = 0.8, 0.93
LIKENESS_ERRORS = 1.25
"""How many of its errors the likeness of steps is taken above its estimate."""
BLOCKS, DRAWN, CHANCE_OF_BLOCKS = 4, 600, 0.005
"""Into how many blocks steps are cut, how often these are drawn, and in which share the difference may be smaller."""
CERTAIN_PAIRS = 3.7
"""The same for lengths that go up and down together: 0.1% of unrelated steps do."""
MOST_RANKED = 1_000
"""How many steps of a side are ranked; of more some, evenly spread."""
NO_SUM = float("inf")
UNKNOWN = -2
"""The kind of the step before the first one."""


@dataclass(frozen=True)
class StepLengths:
    """Steps in order of time: length (ns), number, kind (from 0; -1: the other side has no such step)."""

    ns: Floats
    number: Ints
    kind: Ints

    def take(self, kept: Bools | Ints) -> StepLengths:
        """Select some steps."""
        return StepLengths(self.ns[kept], self.number[kept], self.kind[kept])

    def with_kinds(self, known: Ints) -> StepLengths:
        """Number the kinds from 0, in this order."""
        return replace(self, kind=np.searchsorted(known, self.kind))


@dataclass(frozen=True)
class KindChange:
    """One kind of steps: how many of each side, their median lengths, the change and its noise (ns).

    ``is_judged``: the change is part of that of the run.
    """

    kind: int
    counts: tuple[int, int]
    control_ns: float
    test_ns: float
    difference_ns: float
    noise_ns: float
    is_judged: bool


@dataclass(frozen=True)
class StepChange:
    """The change of a usual step (ns) and the largest that noise explains; of several kinds, of their mixture.

    ``control_ns`` and ``test_ns`` are median lengths, ``means_ns`` the mean lengths of both sides, ``pairs`` the places
    of steps that are the same on both. ``is_paired``: the differences of pairs are what is judged.
    """

    control_ns: float
    test_ns: float
    difference_ns: float
    noise_ns: float
    means_ns: tuple[float, float] = (0.0, 0.0)
    summed_noise_ns: float = NO_SUM
    pairs: tuple[Ints, Ints] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
    is_paired: bool = False
    kinds: tuple[KindChange, ...] = ()
    shift_ns: float = 0.0
    shift_noise_ns: float = NO_SUM
    """By how much steps are longer by ranks (Hodges and Lehmann), and how far its bound of 99.5% is below that."""

    @property
    def summed_ns(self) -> float:
        """The change of the mean length."""
        return self.means_ns[1] - self.means_ns[0]

    def with_noise(self, share: float) -> StepChange:
        """Return the change with a noise of at least a share of the control."""
        return replace(self, noise_ns=max(self.noise_ns, share * self.control_ns))

    def with_run_noise(self, share: float) -> StepChange:
        """Return the change where whole runs are apart by a share of the control by chance, by each figure."""
        least_ns = share * self.control_ns
        means, shift = max(self.summed_noise_ns, least_ns), max(self.shift_noise_ns, least_ns)
        return replace(self.with_noise(share), summed_noise_ns=means, shift_noise_ns=shift)

    @property
    def is_usual(self) -> bool:
        """Whether the usual step changed by more than noise explains."""
        return abs(self.difference_ns) > self.noise_ns

    @property
    def is_summed(self) -> bool:
        """Whether the mean length changed by more than noise explains."""
        return abs(self.summed_ns) > self.summed_noise_ns


def change_of_steps(control: StepLengths, test: StepLengths) -> StepChange:
    """Compare the steps of two runs kind by kind, and pair by pair where their lengths go together."""
    judged = judged_kinds(control, test)
    apart = _by_step_before((control, test))
    kept = [own.take(np.isin(side.kind, judged)) for own, side in zip(apart, (control, test), strict=True)]
    known = np.unique(np.concatenate([side.kind for side in kept]))
    of_judged = _change_of_kinds(*(side.with_kinds(known) for side in kept))
    pairs = paired_steps(control, test)
    common = np.intersect1d(control.kind[control.kind >= 0], test.kind)
    kinds = [_change_of_kind(kind, control, test, is_judged=kind in judged) for kind in common.tolist()]
    return replace(of_judged, pairs=pairs, kinds=tuple(kinds))


def noise_of_medians(steps: StepLengths) -> float:
    """Return the largest change of the usual step that noise explains (ns) between two runs with such steps."""
    sides = _Sides(steps, steps)
    return max(sides.change_of_medians()[1], LEAST_OF_STEPS * float((sides.medians[0] * sides.weight).sum()))


def _by_step_before(sides: tuple[StepLengths, StepLengths]) -> list[StepLengths]:
    """Number steps of a kind apart by the kind of the step before, where both sides have some of each.

    What a step enqueues last is done in the next iteration: that after an update is not as long as others of its kind.
    What came before the first step is not known: it counts as the most frequent case.
    """
    before = [np.append(UNKNOWN, side.kind[:-1]) for side in sides]
    found, parts = [np.full(len(side.kind), -1) for side in sides], 0
    for kind in np.unique(np.concatenate([side.kind[side.kind >= 0] for side in sides])).tolist():
        own = [side.kind == kind for side in sides]
        counts = [Counter(of[mine & (of != UNKNOWN)].tolist()) for of, mine in zip(before, own, strict=True)]
        fewest = min((counts[0] & counts[1]).values(), default=0)
        is_apart = counts[0].keys() == counts[1].keys() and fewest >= ENOUGH_STEPS
        cases = [case for case, _ in counts[0].most_common()] if is_apart else [UNKNOWN]
        for numbers, mine, of in zip(found, own, before, strict=True):
            numbers[mine] = parts
            for place, case in enumerate(cases):
                numbers[mine & (of == case)] = parts + place
        parts += len(cases)
    return [replace(side, kind=numbers) for side, numbers in zip(sides, found, strict=True)]


def judged_kinds(control: StepLengths, test: StepLengths) -> Ints:
    """Return the kinds whose noise is known: the repeated ones, and rare ones that are no longer than these.

    What only a rare step does (a checkpoint) was seen once: how much it varies shows nowhere.
    """
    known = np.intersect1d(control.kind[control.kind >= 0], test.kind)
    counts = np.array([[np.count_nonzero(side.kind == kind) for kind in known] for side in (control, test)])
    repeated = (counts >= 2).all(axis=0)
    if not repeated.any():
        return known
    longest = np.array([max(np.median(side.ns[side.kind == kind]) for side in (control, test)) for kind in known])
    kept: Ints = known[repeated | (longest <= longest[repeated].max())]
    return kept


def paired_steps(control: StepLengths, test: StepLengths) -> tuple[Ints, Ints]:
    """Return the places of the same steps: of one number and kind, else the n-th ones of each kind.

    >>> steps = StepLengths(np.array([5.0, 6, 7]), np.arange(3), np.zeros(3, np.int64))
    >>> [places.tolist() for places in paired_steps(steps, replace(steps, number=np.array([1, 2, 3])))]
    [[1, 2], [0, 1]]
    """
    _, left, right = np.intersect1d(control.number, test.number, return_indices=True)
    same = (control.kind[left] == test.kind[right]) & (control.kind[left] >= 0)
    if 2 * np.count_nonzero(same) >= min(len(control.ns), len(test.ns)):
        return left[same], right[same]
    found = []
    for kind in np.intersect1d(control.kind[control.kind >= 0], test.kind).tolist():
        own = [np.flatnonzero(side.kind == kind) for side in (control, test)]
        count = min(map(len, own))
        found.append(np.array([own[0][:count], own[1][:count]]))
    places = np.concatenate(found, axis=1) if found else np.zeros((2, 0), np.int64)
    places = places[:, np.argsort(places[0])]
    return places[0], places[1]


def _change_of_kind(kind: int, control: StepLengths, test: StepLengths, *, is_judged: bool) -> KindChange:
    sides = [side.take(side.kind == kind).with_kinds(np.array([kind])) for side in (control, test)]
    own = _change_of_kinds(*sides)
    counts = (len(sides[0].ns), len(sides[1].ns))
    # One step shows no spread; what those of other kinds show need not hold for it.
    noise = own.noise_ns if min(counts) >= 2 else NO_SUM
    return KindChange(kind, counts, own.control_ns, own.test_ns, own.difference_ns, noise, is_judged)


def pairs_that_go_together(control: StepLengths, test: StepLengths) -> tuple[Ints, Ints] | None:
    """Return the places of the same steps where their lengths go up and down together, else ``None``."""
    pairs = paired_steps(control, test)
    return pairs if _Sides(control, test).go_together(pairs) else None


def _change_of_kinds(control: StepLengths, test: StepLengths) -> StepChange:
    """Compare steps of kinds that both sides have, weighted by how often they occur."""
    sides = _Sides(control, test)
    control_ns, test_ns = (sides.medians * sides.weight).sum(axis=1).tolist()
    least = LEAST_OF_STEPS * control_ns
    pairs = paired_steps(control, test)
    is_paired = sides.go_together(pairs)
    usual = sides.change_of_pairs(pairs) if is_paired else sides.change_of_medians()
    means, summed_noise_ns = sides.means_and_noise()
    shift = sides.shift_of_pairs(pairs) if is_paired else _Sides(*sides.without_hanging()).shift_of_ranks()
    return StepChange(
        control_ns,
        test_ns,
        usual[0],
        max(usual[1], least),
        means,
        max(summed_noise_ns, least),
        pairs,
        is_paired,
        shift_ns=shift[0],
        shift_noise_ns=max(shift[1], least),
    )


class _Sides:
    """The steps of both runs with what all estimates need: kinds, their counts, weights and medians, by side."""

    def __init__(self, control: StepLengths, test: StepLengths) -> None:
        self.both = (control, test)
        self.kinds = int(max(control.kind.max(initial=-1), test.kind.max(initial=-1))) + 1
        self.counts = np.array([np.bincount(side.kind, minlength=self.kinds) for side in self.both])
        self.weight = self.counts.sum(axis=0) / max(self.counts.sum(), 1)
        self.medians = np.array([_by_kind(np.median, side.ns, side.kind, self.kinds) for side in self.both])
        self.freedom = max(int(self.counts.sum()) - 2 * self.kinds, 1)

    def change_of_medians(self) -> tuple[float, float]:
        """Return the change of the usual step and its noise, from the spread of each side."""
        control_ns, test_ns = (self.medians * self.weight).sum(axis=1).tolist()
        spreads = [
            _spreads(_away_from(medians, side), side.kind, self.kinds)
            for side, medians in zip(self.both, self.medians, strict=True)
        ]
        wide = (STANDARD_ERRORS + FEW_STEPS / self.freedom) * self._dependence()
        ranked = self._least_shift_of_ranks(slower=test_ns >= control_ns)
        noise_ns = max(wide * self._error(spreads), ranked, self._drift() * control_ns)
        if test_ns - control_ns > noise_ns:
            noise_ns = max(noise_ns, self._noise_of_blocks())
        return test_ns - control_ns, noise_ns + self._excess_of_rare(self.medians[1] - self.medians[0], self.weight)

    def means_and_noise(self) -> tuple[tuple[float, float], float]:
        """Return both mean lengths and the noise of their difference, for which steps that hang count."""
        means = np.array([_by_kind(np.mean, side.ns, side.kind, self.kinds) for side in self.both])
        control_ns, test_ns = (means * self.weight).sum(axis=1).tolist()
        if self.counts.sum(axis=1).min() < ENOUGH_STEPS:
            return (control_ns, test_ns), NO_SUM
        freedom = np.maximum(self.counts.sum(axis=1) - self.kinds, 1)
        power = [(own**2).sum() / n for own, n in zip(self._away(), freedom, strict=True)]
        spreads = [np.full(self.kinds, np.sqrt(own)) for own in power]
        wide = t_quantile(self.freedom) * self._dependence()
        noise_ns = max(wide * self._error(spreads), self._drift() * control_ns)
        return (control_ns, test_ns), noise_ns + self._excess_of_rare(means[1] - means[0], self.weight)

    def _error(self, spreads: list[Floats]) -> float:
        """Return the standard error of the change (ns); a side without any spread is as noisy as the other one."""
        either = [np.where(np.isnan(own), other, own) for own, other in (spreads, spreads[::-1])]
        variance = [
            (np.nan_to_num(own) * ns) ** 2 / n for own, ns, n in zip(either, self.medians, self.counts, strict=True)
        ]
        return float(np.sqrt((self.weight**2 * sum(variance)).sum()))

    def _least_shift_of_ranks(self, *, slower: bool) -> float:
        """Return the shift (ns) beyond which the steps of one side would rank above those of the other.

        It is the shift at which the rank-sum test of Wilcoxon, stratified by kind, rejects that both sides are equal;
        of few steps that from which on all steps of one side are longer than all of the other.
        """
        shifts, variance = self._shifts(self.medians, slower=slower)
        crowded = len(shifts) / 2 + RANK_ERRORS * np.sqrt(variance)
        return float(shifts[min(len(shifts), int(np.ceil(crowded))) - 1])

    def _shifts(self, centers: Floats, *, slower: bool) -> tuple[Floats, float]:
        """Return by how much each step of a side is longer than each of the other, sorted, and the ranks' variance."""
        apart, variance = [], 0.0
        for kind in range(self.kinds):
            own = [_evenly(side.ns[side.kind == kind] - ns[kind]) for side, ns in zip(self.both, centers, strict=True)]
            apart.append(np.subtract.outer(*(own if slower else own[::-1])).ravel())
            n, m = map(len, own)
            variance += n * m * (n + m + 1) / 12
        return np.sort(np.concatenate(apart)), variance

    def without_hanging(self) -> list[StepLengths]:
        """Leave out the few steps that hang: they are part of the means, and say nothing about the others."""
        away = [_away_from(medians, side) for side, medians in zip(self.both, self.medians, strict=True)]
        hang = np.split(_hangs(np.concatenate(away)), [len(away[0])])
        kept = [side.take(~own) for side, own in zip(self.both, hang, strict=True)]
        few = all(own.mean() <= MOST_HANGING for own in hang)
        is_whole = all((np.bincount(side.kind, minlength=self.kinds) > 0).all() for side in kept)
        return kept if few and is_whole else list(self.both)

    def shift_of_ranks(self) -> tuple[float, float]:
        """Return by how much the test is longer by ranks, which need no shape of noise, and the noise of that.

        It is the median of all differences between a step of one side and one of the other; the bound is the shift
        that the rank-sum test rejects.
        """
        shift_ns, noise_ns = _shift_and_noise(*self._shifts(np.zeros_like(self.medians), slower=False))
        control_ns = float((self.medians[0] * self.weight).sum())
        noise_ns = max(noise_ns * most_dependence(self._away()), self._drift() * control_ns)
        if shift_ns > noise_ns:
            noise_ns = max(noise_ns, self._noise_of_blocks())
        return shift_ns, noise_ns + self._excess_of_rare(self.medians[1] - self.medians[0], self.weight)

    def shift_of_pairs(self, pairs: tuple[Ints, Ints]) -> tuple[float, float]:
        """Return the same of pairs: from the means of each two differences, and the test of signed ranks."""
        kind = self.both[0].kind[pairs[0]]
        differ = self.both[1].ns[pairs[1]] - self.both[0].ns[pairs[0]]
        medians = np.nan_to_num(_by_kind(np.median, differ, kind, self.kinds))
        shift_ns, noise_ns = _shift_and_noise(*_means_of_two(differ, kind))
        noise_ns *= most_dependence([differ - medians[kind]])
        if not self._have_equal_numbers(pairs):
            noise_ns = max(noise_ns, self._drift() * float((self.medians[0] * self.weight).sum()))
        weight = np.bincount(kind, minlength=self.kinds) / len(kind)
        return shift_ns, noise_ns + self._excess_of_rare(medians, weight)

    def _away(self) -> list[Floats]:
        """Return by how much each step differs from the mean of its kind, as a share."""
        means = [_by_kind(np.mean, side.ns, side.kind, self.kinds) for side in self.both]
        return [_away_from(mean, side) for side, mean in zip(self.both, means, strict=True)]

    def _dependence(self) -> float:
        """Return by how much the noise of a mean is larger because each step resembles the one before."""
        return most_dependence(self._away())

    def _noise_of_blocks(self) -> float:
        """Return how far the median of the test may be too long where its steps come in blocks of equal length (ns).

        Of steps that are slow in bursts the median is a slow one as soon as half of them are: blocks of steps, drawn at
        random with replacement, show how often (circular block bootstrap: Politis and Romano, 1992).
        """
        drawn = [
            _medians_of_blocks(_away_from(medians, side)) * float((medians * self.weight).sum())
            for side, medians in zip(self.both, self.medians, strict=True)
        ]
        least_ns = LEAST_OF_STEPS * float((self.medians[0] * self.weight).sum())
        return least_ns - float(np.quantile(drawn[1] - drawn[0], CHANCE_OF_BLOCKS))

    def _drift(self) -> float:
        """Return by how much steps become longer or shorter during a recording, as a share, where that is certain."""
        return max(map(_drift, self._away()))

    def go_together(self, pairs: tuple[Ints, Ints]) -> bool:
        """Return whether the lengths of the same steps go up and down together on both sides.

        Steps of other numbers that only stand at the same place both become longer where runs drift: that is no sign.
        """
        kind = self.both[0].kind[pairs[0]]
        freedom = len(kind) - int(np.count_nonzero(np.bincount(kind, minlength=1))) - 1
        if freedom < ENOUGH_STEPS:
            return False
        ns = [side.ns[at] for side, at in zip(self.both, pairs, strict=True)]
        left, right = (own - _by_kind(np.mean, own, kind, self.kinds)[kind] for own in ns)
        if not self._have_equal_numbers(pairs):
            left, right = (own - _slope(own) * _places(len(own)) for own in (left, right))
        spread = np.sqrt((left**2).sum() * (right**2).sum())
        together = min(float((left * right).sum() / spread), 1 - 1e-12) if spread else 0.0
        return bool(together * np.sqrt(freedom / (1 - together**2)) > CERTAIN_PAIRS)

    def _have_equal_numbers(self, pairs: tuple[Ints, Ints]) -> bool:
        return np.array_equal(self.both[0].number[pairs[0]], self.both[1].number[pairs[1]])

    def change_of_pairs(self, pairs: tuple[Ints, Ints]) -> tuple[float, float]:
        """Return the change of the usual step and its noise, from the differences of pairs."""
        kind = self.both[0].kind[pairs[0]]
        differ = self.both[1].ns[pairs[1]] - self.both[0].ns[pairs[0]]
        counts = np.bincount(kind, minlength=self.kinds)
        medians = np.nan_to_num(_by_kind(np.median, differ, kind, self.kinds))
        weight = counts / counts.sum()
        spreads = np.nan_to_num(_spreads(differ - medians[kind], kind, self.kinds))
        error = float(np.sqrt((weight**2 * spreads**2 / np.maximum(counts, 1)).sum()))
        freedom = max(len(kind) - int(np.count_nonzero(counts)), 1)
        wide = (STANDARD_ERRORS + FEW_PAIRS / freedom) * most_dependence([differ - medians[kind]])
        change = float((medians * weight).sum())
        noise_ns = max(wide * error, _least_shift_of_signs(differ - medians[kind], kind, slower=change >= 0))
        if not self._have_equal_numbers(pairs):
            noise_ns = max(noise_ns, self._drift() * float((self.medians[0] * self.weight).sum()))
        return change, noise_ns + self._excess_of_rare(medians, weight)

    def _excess_of_rare(self, changes: Floats, weight: Floats) -> float:
        """Return what rare kinds changed more or less than the others: two steps may both be delayed by chance.

        Where all kinds are rare they show each other's noise.
        """
        known = self.counts.min(axis=0) >= ENOUGH_STEPS
        if not (weight * self.medians[0])[known].sum():
            return 0.0
        usual = (weight * changes)[known].sum() / (weight * self.medians[0])[known].sum()
        return float(abs((weight * (changes - usual * self.medians[0]))[~known].sum()))


def _away_from(centers: Floats, side: StepLengths) -> Floats:
    """Return by how much each step differs from the center of its kind, as a share; from one without length, by 0."""
    center = centers[side.kind]
    return np.divide(side.ns, center, out=np.ones_like(center), where=center > 0) - 1


def _by_kind(figure: Callable[[Floats], np.floating[Any]], values: Floats, kind: Ints, kinds: int) -> Floats:
    """Return a figure of the values of each kind; not a number where there are none."""
    own = [values[kind == one] for one in range(kinds)]
    return np.array([figure(of) if len(of) else np.nan for of in own])


def _spreads(away: Floats, kind: Ints, kinds: int) -> Floats:
    """Estimate the standard deviation of each kind from deviations, its own and those of all kinds together.

    Without the smallest deviation of each kind, which is that of its median itself.
    """
    own = [np.sort(np.abs(away[kind == one]))[1:] for one in range(kinds)]
    every = np.concatenate(own)
    if not len(every):
        return np.full(kinds, np.nan)
    count = np.array(list(map(len, own)))
    spread = np.array([np.median(of) if len(of) else 0.0 for of in own])
    found: Floats = (
        np.sqrt((count * spread**2 + POOLED_WEIGHT * np.median(every) ** 2) / (count + POOLED_WEIGHT)) / NORMAL
    )
    return found


def _least_shift_of_signs(away: Floats, kind: Ints, *, slower: bool) -> float:
    """Return the shift beyond which differences of pairs would be on one side of zero (signed ranks of Wilcoxon)."""
    shifts, variance = _means_of_two(away * (-1 if slower else 1), kind)
    crowded = len(shifts) / 2 + RANK_ERRORS * np.sqrt(variance)
    return float(shifts[min(len(shifts), int(np.ceil(crowded))) - 1])


def _means_of_two(differ: Floats, kind: Ints) -> tuple[Floats, float]:
    """Return the means of each two differences of a kind, sorted, and the variance of signed ranks."""
    means, variance = [], 0.0
    for one in np.unique(kind).tolist():
        own = _evenly(differ[kind == one])
        n = len(own)
        means.append((np.add.outer(own, own) / 2)[np.triu_indices(n)])
        variance += n * (n + 1) * (2 * n + 1) / 24
    return np.sort(np.concatenate(means)), variance


def _shift_and_noise(shifts: Floats, variance: float) -> tuple[float, float]:
    """Return the median of sorted shifts, and how far the bound is below it; infinitely far where too few are known."""
    shift = float(np.median(shifts))
    place = int(np.floor(len(shifts) / 2 - BOUND_ERRORS * np.sqrt(variance))) - 1
    return shift, NO_SUM if place < 0 else shift - float(shifts[place])


def _hangs(away: Floats) -> Bools:
    """Mark the steps that are much longer than others of their kind, given by how much each is longer, as a share."""
    found: Bools = away > HANGING * float(np.median(np.abs(away))) / NORMAL
    return found


def _evenly(values: Floats) -> Floats:
    """Select some of very many values, evenly spread from small to large."""
    if len(values) <= MOST_RANKED:
        return values
    return np.sort(values)[np.linspace(0, len(values) - 1, MOST_RANKED).astype(np.int64)]


def dependence(sides: Sequence[Floats]) -> float:
    """Return by how much the noise of a mean is larger because each value resembles the one before (AR(1))."""
    likeness = min(_likeness(sides), MOST_SEEN)
    return float(np.sqrt((1 + likeness) / (1 - likeness)))


def most_dependence(sides: Sequence[Floats]) -> float:
    """Return how much larger it may be: few values show badly how they depend on each other.

    Load that comes in bursts would make equal runs differ. Likeness is underestimated by 1 + 3 times itself, divided by
    the number of values (Marriott and Pope, 1954).
    """
    total = sum(map(len, sides))
    if total < ENOUGH_IN_ORDER:
        return 1.0
    likeness = min(_likeness(sides) * (1 + 3 * len(sides) / total), MOST_CORRELATED)
    likeness = min(likeness + LIKENESS_ERRORS * float(np.sqrt((1 - likeness**2) / total)), MOST_CORRELATED)
    return float(np.sqrt((1 + likeness) / (1 - likeness)))


def _medians_of_blocks(away: Floats) -> Floats:
    """Return the medians of values whose blocks are drawn at random."""
    count = len(away)
    size = max(count // BLOCKS, min(ENOUGH_STEPS, count))
    first = np.random.default_rng(0).integers(count, size=(DRAWN, -(-count // size)))
    places = (first[:, :, None] + np.arange(size)) % count
    found: Floats = np.median(away[places.reshape(DRAWN, -1)[:, :count]], axis=1)
    return found


def _likeness(sides: Sequence[Floats]) -> float:
    """Return how much each value resembles the one before; around their own mean they look less alike than they are."""
    total = sum(map(len, sides))
    power = sum(float((own**2).sum()) for own in sides)
    if total < ENOUGH_IN_ORDER or not power:
        return 0.0
    return max(sum(float((own[1:] * own[:-1]).sum()) for own in sides) / power + len(sides) / total, 0.0)


def _places(count: int) -> Floats:
    """Number values around the middle one."""
    places: Floats = np.arange(count, dtype=np.float64) - (count - 1) / 2
    return places


def _slope(values: Floats) -> float:
    """Return by how much values grow from each to the next (least squares)."""
    place = _places(len(values))
    return float((place * values).sum() / max(float((place**2).sum()), 1.0))


def _drift(away: Floats) -> float:
    """Return by how much values change from the first to the last, if they certainly do."""
    count, slope = len(away), _slope(away)
    if count < ENOUGH_IN_ORDER // 2 or not slope:
        return 0.0
    rest = away - slope * _places(count)
    error = float(np.sqrt((rest**2).sum() / max(count - 2, 1) / (_places(count) ** 2).sum()))
    return abs(slope) * count if abs(slope) > t_quantile(count - 2) * error else 0.0
