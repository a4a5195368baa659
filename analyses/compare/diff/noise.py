"""How much two runs of one program can differ by chance: a noise band, estimated from their repetitions."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.model import Floats, Ids, Ints

ENOUGH_STEPS = 3
"""The number of steps of a side from which on their own spread is used."""
LEAST_OF_STEPS = 0.01
"""The least noise: runs differ by clocks, placement and neighbors, which no step of a single run shows."""
STANDARD_ERRORS = 4.0
"""How wide the band is: of programs with normal noise at most 2% leave it, with 3 steps a side as with 50."""
NORMAL = 0.6745
"""The median deviation of normal noise, in standard deviations."""
FEWEST_REPETITIONS = 3
"""How often a unit must occur for its spread to be estimated."""
PARTS_WEIGHT = 4
"""How many steps count as much as the noise of the parts of a step, which need not show all that varies."""
T_FREEDOM = np.array([np.inf, 60, 30, 20, 15, 12, 10, 8, 7, 6, 5, 4, 3, 2, 1])
T_QUANTILES = np.array([2.97, 3.09, 3.23, 3.38, 3.54, 3.71, 3.89, 4.2, 4.44, 4.8, 5.38, 6.43, 8.89, 18.22, 212.2])
"""Student's t by degrees of freedom: the multiple of the standard error that 0.3% of equal programs exceed."""


def t_quantile(freedom: float) -> float:
    """Return the multiple of the standard error that 0.3% of equal programs exceed.

    >>> t_quantile(10), round(t_quantile(25), 1)
    (3.89, 3.3)
    """
    return float(np.interp(1 / max(freedom, 1), 1 / T_FREEDOM, T_QUANTILES))


@dataclass(frozen=True)
class FewSteps:
    """What shows the noise of few steps.

    ``squares`` is the sum of the squared deviations of steps of the same kind, as shares of their mean, ``freedom`` how
    many of these are independent, ``parts_share`` the noise of the difference of two steps as their repeated parts have
    it, ``counts`` how many steps of each side are compared.
    """

    squares: float
    freedom: int
    parts_share: float
    counts: tuple[int, int]

    def band(self, *, on_gpu: bool) -> float:
        """Return how far the means of both sides are apart by chance at most, as a share.

        A step that waits for the GPU varies as its kernels do: their noise is worth some steps. On the host other
        programs, locks and other ranks hold a step up where nothing repeats, so steps and parts must both agree.
        """
        error = float(np.sqrt(1 / self.counts[0] + 1 / self.counts[1]))
        if on_gpu:
            freedom = self.freedom + PARTS_WEIGHT
            variance = (self.squares + PARTS_WEIGHT * self.parts_share**2 / 2) / freedom
            return t_quantile(freedom) * float(np.sqrt(variance)) * error
        of_steps = float(np.sqrt(self.squares / max(self.freedom, 1))) * t_quantile(max(self.freedom, 2))
        return max(of_steps * error, self.band_of_parts())

    def band_of_parts(self) -> float:
        """Return the band that the parts of steps show alone."""
        error = float(np.sqrt((1 / self.counts[0] + 1 / self.counts[1]) / 2))
        return t_quantile(PARTS_WEIGHT) * self.parts_share * error


def band_of_spreads(control: tuple[Floats, int], test: tuple[Floats, int]) -> Floats:
    """Return how far medians are apart by chance at most, given the spreads of both sides and their repetitions.

    >>> runs = (np.array([[100.0, 101, 99, 100, 300]]), np.array([[100.0, 101, 99]]))
    >>> band_of_spreads(*((spread_of_rows(run), run.shape[1]) for run in runs)).round(1).tolist()
    [4.3]
    """
    variances = [spread**2 / count for spread, count in (control, test)]
    band: Floats = STANDARD_ERRORS * np.sqrt(variances[0] + variances[1])
    return band


def spread_of_rows(values: Floats) -> Floats:
    """Estimate the standard deviation of each row; 0 where nothing is repeated.

    It is the median of the deviations, without the smallest one, which is that of the median itself; so one stalled
    step does not widen it (as in Hill and Holland, 1977: least absolute residuals).
    """
    if values.shape[1] < 2:
        return np.zeros(len(values))
    away = np.sort(np.abs(values - np.median(values, axis=1, keepdims=True)), axis=1)
    spread: Floats = np.median(away[:, 1:], axis=1) / NORMAL
    return spread


@dataclass(frozen=True)
class Repetitions:
    """Units of work of both runs, matched in order: the unit of each, and its time on either side."""

    unit: Ids | Ints
    control_ns: Ints
    test_ns: Ints


def noise_of_repetitions(found: Repetitions, window_ns: int) -> tuple[float, int]:
    """Return the standard deviation of the sum of all repetitions as a share, and how many it is estimated from.

    Each repetition is compared with the same one of the other run, so that units of one name but of several sizes do
    not count as noise; and with the usual change of its unit, so that a kernel that became slower does not either.
    Repetitions are assumed to be independent: what moves all of them together is not visible. The share is one of
    their time, or of the window where that is longer.

    >>> unit, control = np.array([0, 0, 0, 0, 1]), np.array([100, 900, 100, 900, 50])
    >>> noise, count = noise_of_repetitions(Repetitions(unit, control, np.array([121, 1089, 119, 1071, 90])), 2_000)
    >>> round(noise, 3), count
    (0.009, 4)
    """
    timed = (found.control_ns > 0) & (found.test_ns > 0)
    control, test = found.control_ns[timed].astype(float), found.test_ns[timed].astype(float)
    unit = np.unique(found.unit[timed], return_inverse=True)[1]
    count = np.bincount(unit, minlength=1)
    usual = np.exp(_medians_by_group(unit, np.log(test / control), len(count)))
    kept = count[unit] >= FEWEST_REPETITIONS
    if not kept.any():
        return 0.0, 0
    # Of n deviations from their own median one is 0: n - 1 are left to estimate the spread.
    freedom = (count / np.maximum(count - 1, 1))[unit]
    variance = ((test - control * usual[unit]) ** 2 * freedom)[kept].sum()
    return float(np.sqrt(variance) / max(test[kept].sum(), window_ns)), int(np.count_nonzero(kept))


def _medians_by_group(group: Ids | Ints, values: Floats, groups: int) -> Floats:
    """Return the lower median of each group's values; 0 for a group without any."""
    order = np.lexsort((values, group))
    count = np.bincount(group, minlength=groups)
    middle = np.cumsum(count) - count + np.maximum(count - 1, 0) // 2
    found = np.zeros(groups)
    found[count > 0] = values[order][middle[count > 0]]
    return found
