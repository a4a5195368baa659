"""Levels of steps: from where on a run is slower, what only looks like it, and how often equal programs have one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from analyses.compare.diff.step_change import StepLengths, change_of_steps
from analyses.compare.diff.step_levels import StepLevels, find_levels
from hta_graph.model import Floats, Ints
from tests.support.deep_tests import deep
from tests.support.step_noise import normal, skewed, with_hiccups

MS = 1_000_000
Draw = Callable[[np.random.Generator, int], Floats]


def steps(lengths_ms: Floats, kinds: Ints | None = None, first: int = 2) -> StepLengths:
    count = len(lengths_ms)
    kind = np.zeros(count, np.int64) if kinds is None else np.resize(kinds, count)
    return StepLengths(np.asarray(lengths_ms, float) * MS, np.arange(first, first + count), kind)


def around(rng: np.random.Generator, usual_ms: float, count: int, spread: float = 0.03) -> Floats:
    return usual_ms * (1 + spread * rng.normal(0, 1, count))


def with_fault(lengths_ms: Floats, since: int, longer_ms: float) -> Floats:
    return lengths_ms + longer_ms * (np.arange(len(lengths_ms)) >= since)


def test_a_run_is_slower_since_a_step() -> None:
    rng = np.random.default_rng(0)
    control, test = steps(around(rng, 50, 5)), steps(with_fault(around(rng, 50, 5), 2, 30))
    found = find_levels(control, test)
    assert (found.first, found.since) == ((0, 2), (None, 4))
    (earlier,) = found.earlier
    assert (earlier.side, earlier.steps.tolist(), earlier.beyond_noise) == ("test", [2, 3], False)
    assert change_of_steps(control, test.take(np.arange(2, 5))).is_usual
    assert not change_of_steps(control, test).is_usual, "a median of two levels is that of neither"


def test_the_control_can_have_levels_too() -> None:
    rng = np.random.default_rng(1)
    found = find_levels(steps(with_fault(around(rng, 50, 8), 4, 20)), steps(around(rng, 50, 8)))
    assert (found.first, found.since) == ((4, 0), (6, None))
    assert [(level.side, level.beyond_noise) for level in found.earlier] == [("control", False)]


def test_each_of_two_faults_begins_a_level() -> None:
    rng = np.random.default_rng(2)
    test = with_fault(with_fault(around(rng, 50, 20), 6, 60), 13, 20)
    found = find_levels(steps(around(rng, 50, 20)), steps(test))
    assert found.since == (None, 15)
    assert [(level.steps[0], level.steps[-1], level.beyond_noise) for level in found.earlier] == [
        (2, 7, False),
        (8, 14, True),
    ]


def test_a_fault_that_ends_is_a_level_between_two() -> None:
    rng = np.random.default_rng(2)
    test = around(rng, 50, 20)
    test[6:13] += 15
    found = find_levels(steps(around(rng, 50, 20)), steps(test))
    assert found.since == (None, 15)
    assert [(level.steps[0], level.steps[-1], level.beyond_noise) for level in found.earlier] == [
        (2, 7, False),
        (8, 14, True),
    ]


def test_a_level_is_found_below_kinds_in_turn() -> None:
    rng = np.random.default_rng(3)
    turns = np.array([0, 1])
    base = [np.resize([40.0, 80.0], 12) * (1 + 0.02 * rng.normal(0, 1, 12)) for _ in range(2)]
    assert find_levels(*(steps(own, turns) for own in base)) == StepLevels()
    found = find_levels(steps(base[0], turns), steps(with_fault(base[1], 5, 8), turns))
    assert found.since == (None, 7)


def test_the_same_batches_have_a_level_of_their_differences() -> None:
    """Lengths follow the batches by up to 50%: only pairs show 2 ms more from the ninth one on."""
    rng = np.random.default_rng(4)
    batches = rng.uniform(40, 60, 16)
    control, test = (steps(own + rng.normal(0, 0.2, 16)) for own in (batches, with_fault(batches, 8, 2)))
    found = find_levels(control, test)
    assert found.since == (10, 10)
    assert [(level.side, level.beyond_noise) for level in found.earlier] == [("test", False)]


@pytest.mark.parametrize("count", [6, 12, deep(30)])
def test_a_trend_is_no_level(count: int) -> None:
    """Steps grow from 50 to 80 ms; without the rule a third of the runs of twelve would be divided."""
    rng = np.random.default_rng(5)
    for _ in range(20):
        rising = steps(np.linspace(50, 80, count) + rng.normal(0, 3, count))
        assert find_levels(steps(around(rng, 50, count, 0.02)), rising) == StepLevels()


@pytest.mark.parametrize("slow", [[5], [5, 6], [0], [0, 1], [10, 11]])
def test_one_or_two_stalled_steps_are_no_level(slow: list[int]) -> None:
    rng = np.random.default_rng(6)
    lengths = around(rng, 50, 12)
    lengths[slow] += 60
    assert find_levels(steps(around(rng, 50, 12)), steps(lengths)) == StepLevels()


def test_two_steps_at_the_start_are_a_level_only_if_the_other_run_has_it() -> None:
    rng = np.random.default_rng(7)
    test = steps(with_fault(around(rng, 50, 8), 2, 30))
    assert find_levels(steps(around(rng, 50, 8)), test).since == (None, 4)
    assert find_levels(steps(around(rng, 80, 8)), test) == StepLevels()


def test_steps_of_equal_length_have_one_level() -> None:
    assert find_levels(steps(np.full(8, 50.0)), steps(np.full(8, 50.0))) == StepLevels()


def heavy_tailed(rng: np.random.Generator, count: int) -> Floats:
    return rng.standard_t(2, count)


def resembling(rng: np.random.Generator, count: int) -> Floats:
    """Each value resembles the one before (AR(1), 0.3)."""
    found = rng.normal(0, 1, count)
    for at in range(1, count):
        found[at] = 0.3 * found[at - 1] + 0.95 * found[at]
    return found


def divided(draw: Draw, counts: tuple[int, int], kinds: Ints, runs: int) -> float:
    rng = np.random.default_rng(8)
    found = 0
    for _ in range(runs):
        usual = [50 * (1 + np.resize(kinds, count)) for count in counts]
        sides = [own * (1 + 0.04 * draw(rng, len(own))) for own in usual]
        found += find_levels(*(steps(own, kinds) for own in sides)) != StepLevels()
    return found / runs


@pytest.mark.slow
@pytest.mark.parametrize("draw", [normal, skewed, with_hiccups, heavy_tailed, resembling])
@pytest.mark.parametrize("counts", [(5, 5), (6, 6), deep((5, 8)), (12, 12), deep((11, 20))])
@pytest.mark.parametrize("kinds", [np.array([0]), deep(np.array([0, 1]))], ids=["one kind", "two kinds"])
def test_equal_programs_are_hardly_ever_divided(draw: Draw, counts: tuple[int, int], kinds: Ints) -> None:
    """With normal noise in 0.1% of pairs; steps that resemble those before show less of their noise.

    With hiccups it is 0.5% of pairs of 5 and 8 steps of two kinds (4,800 drawn ones): of 400 more than 1% would be by
    chance, in one of twenty cases.
    """
    runs = 1_000 if draw is with_hiccups else 400
    assert divided(draw, counts, kinds, runs) <= (0.005 if draw is normal else 0.02 if draw is resembling else 0.01)
