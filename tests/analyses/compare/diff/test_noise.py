"""The band of noise: how often equal programs leave it, whatever the noise looks like; and what it believes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from analyses.compare.diff.noise import (
    LEAST_OF_STEPS,
    Repetitions,
    band_of_spreads,
    noise_of_repetitions,
    spread_of_rows,
)
from analyses.compare.diff.step_change import StepLengths, change_of_steps
from hta_graph.model import Floats, Ints

RECORDINGS = 4_000


def band_of_medians(control: Floats, test: Floats) -> Floats:
    """Return how far the medians of rows are apart by chance at most; the columns are repetitions."""
    return band_of_spreads(*((spread_of_rows(side), side.shape[1]) for side in (control, test)))


Draw = Callable[[np.random.Generator, tuple[int, int]], Floats]


def normal(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return rng.standard_normal(size)


def skewed(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return np.exp(rng.standard_normal(size) / 2)


def with_hiccups(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    return rng.standard_normal(size) + 10 * (rng.random(size) < 0.1)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("draw", [normal, skewed, with_hiccups])
@pytest.mark.parametrize("steps", [(3, 3), (4, 4), (5, 8), (3, 12), (12, 12), (30, 30)])
def test_equal_programs_leave_the_band_in_two_percent_of_cases_at_most(draw: Draw, steps: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    control, test = (draw(rng, (RECORDINGS, count)) for count in steps)
    apart = np.abs(np.median(control, axis=1) - np.median(test, axis=1))
    assert np.mean(apart > band_of_medians(control, test)) < 0.022


def test_more_steps_believe_smaller_differences() -> None:
    rng = np.random.default_rng(1)
    bands = [band_of_medians(*(normal(rng, (500, count)) for _ in range(2))).mean() for count in (3, 12, 48)]
    assert bands[0] > 1.5 * bands[1] > 2 * bands[2]


def band_of_steps(control: Ints, test: Ints) -> float:
    sides = (StepLengths(ns.astype(float), np.arange(len(ns)), np.zeros(len(ns), np.int64)) for ns in (control, test))
    found = change_of_steps(*sides)
    return found.noise_ns / found.control_ns


def test_one_step_that_hangs_does_not_widen_the_band() -> None:
    steps = np.array([100, 101, 99, 100, 102, 98, 100]) * 1_000
    hanging, other = steps.copy(), steps[::-1] + 1
    hanging[3] = 900_000
    # Equal steps in equal order would be compared pair by pair.
    assert band_of_steps(hanging, other) < 1.5 * band_of_steps(steps, other)


def test_the_band_is_a_share_of_the_control_and_never_less_than_recordings_differ() -> None:
    assert band_of_steps(np.array([100, 100, 100]), np.array([200, 200, 200])) == LEAST_OF_STEPS
    wide = np.array([90, 100, 110])
    assert band_of_steps(wide, wide) == pytest.approx(band_of_steps(10 * wide, 10 * wide))


def repeats(unit: list[int], control: list[int], test: list[int]) -> Repetitions:
    return Repetitions(np.array(unit), np.array(control), np.array(test))


def test_units_of_several_sizes_and_kernels_that_became_slower_are_no_noise() -> None:
    control = [10, 1_000, 10, 1_000, 50, 50, 50]
    slower = [20, 2_000, 20, 2_000, 50, 50, 50]
    assert noise_of_repetitions(repeats([0, 0, 0, 0, 1, 1, 1], control, slower), 0) == (0.0, 7)


def test_what_is_not_repeated_tells_nothing() -> None:
    assert noise_of_repetitions(repeats([0, 1, 2, 2], [10, 10, 5, 5], [90, 1, 7, 3]), 0) == (0.0, 0)
    assert noise_of_repetitions(repeats([], [], []), 100) == (0.0, 0)


def test_the_noise_of_a_sum_shrinks_with_its_repetitions() -> None:
    rng = np.random.default_rng(2)

    def noise(count: int) -> float:
        times = (rng.lognormal(10, 0.1, count).astype(np.int64) for _ in range(2))
        return noise_of_repetitions(Repetitions(np.zeros(count, np.int64), *times), 0)[0]

    assert noise(25) == pytest.approx(0.1 * np.sqrt(2 / 25), rel=0.5)
    assert noise(2_500) == pytest.approx(0.1 * np.sqrt(2 / 2_500), rel=0.2)


def test_noise_is_a_share_of_the_window_where_that_is_longer() -> None:
    found = repeats([0] * 4, [100] * 4, [110, 90, 110, 90])
    assert noise_of_repetitions(found, 4_000)[0] == pytest.approx(noise_of_repetitions(found, 0)[0] / 10)
