"""What the usual step does not show: hangs, growth, and short levels, which are events."""

from __future__ import annotations

import numpy as np
import pytest

from analyses.compare.diff.differences import Course, Difference, all_differences, course_of, main_of, suspicious_of
from analyses.compare.diff.step_change import StepLengths, change_of_steps
from hta_graph.model import Floats
from tests.support.length_families import FAMILIES, independent

MS = 1_000_000


def steps(lengths_ms: Floats) -> StepLengths:
    return StepLengths(lengths_ms * MS, np.arange(len(lengths_ms)), np.zeros(len(lengths_ms), np.int64))


def drawn(seed: int, count: int = 24) -> Floats:
    return 50 * independent(0.01)(np.random.default_rng(seed), count)


def judged(control: Floats, test: Floats) -> tuple[Course, Difference, Difference | None]:
    """Return what all steps show, the difference to report, and one that noise may hide."""
    sides = steps(control), steps(test)
    course = course_of(*sides)
    first = course.levels.first
    last = [side.take(np.arange(at, len(side.ns))) for side, at in zip(sides, first, strict=True)]
    change = change_of_steps(*last)
    found = list(all_differences(change, course))
    return course, main_of(found, change), suspicious_of(found, 0.01)


def with_hangs(lengths: Floats, places: list[int], longer: float) -> Floats:
    found = lengths.copy()
    found[places] += longer
    return found


def test_hangs_of_a_quarter_of_the_mean_are_a_regression() -> None:
    course, main, _ = judged(drawn(0), with_hangs(drawn(1), [5, 13, 21], 101))
    assert course.tail is not None
    assert (main.basis, main.exceeds(0.01), course.tail.counts) == ("hangs", True, (0, 3))
    assert main.share == pytest.approx(3 * 101 / 24 / 50, rel=0.05)
    assert course.tail.numbers == (5, 13, 21)


def test_one_long_step_is_a_regression_by_its_size() -> None:
    _, main, _ = judged(drawn(0), with_hangs(drawn(1), [12], 1_000))
    assert (main.basis, main.exceeds(0.01)) == ("hangs", True)


def test_few_small_hangs_are_suspicious_and_many_are_certain() -> None:
    """Both are 10% of the mean: three of 24 steps may be chance, eight of 40 are not."""
    _, main, suspect = judged(drawn(0), with_hangs(drawn(1), [5, 13, 21], 40))
    assert (main.exceeds(0.01), main) == (False, suspect)
    assert suspect is not None
    assert suspect.basis == "hangs"
    _, main, _ = judged(drawn(0, 40), with_hangs(drawn(1, 40), [4, 8, 13, 17, 22, 27, 31, 36], 25))
    assert (main.basis, main.exceeds(0.01)) == ("hangs", True)


def test_hangs_that_both_runs_have_are_none() -> None:
    _, main, suspect = judged(with_hangs(drawn(0), [3, 9, 20], 50), with_hangs(drawn(1), [5, 13, 21], 50))
    assert (main.exceeds(0.01), suspect) == (False, None)


def test_steps_that_grow_are_a_regression_and_a_control_that_grows_alike_is_none() -> None:
    rising = 1 + 0.005 * np.arange(24)
    course, main, _ = judged(drawn(0), drawn(1) * rising)
    assert course.trend is not None
    assert (main.basis, main.exceeds(0.01)) == ("trend", True)
    assert main.share == pytest.approx(0.115, abs=0.03)
    assert not judged(drawn(0) * rising, drawn(1) * rising)[1].exceeds(0.01)


def test_a_burst_at_the_end_is_an_event_and_a_long_level_is_a_level() -> None:
    test = drawn(1)
    test[18:] *= 1.15
    course, main, suspect = judged(drawn(0), test)
    assert course.levels.first == (0, 0)
    assert main.exceeds(0.01) is False
    assert suspect is None or suspect.basis == "hangs"
    test = drawn(1)
    test[12:] *= 1.15
    course, main, _ = judged(drawn(0), test)
    assert (course.levels.since, main.basis, main.steps, main.exceeds(0.01)) == (
        (None, 12), "medians", (12, None), True,
    )  # fmt: skip


def test_all_steps_of_an_interruption_are_one_event() -> None:
    test = drawn(1, 12)
    test[3:6] *= 3.5
    course, main, _ = judged(drawn(0, 12), test)
    assert course.tail is not None
    assert (course.tail.counts, course.tail.numbers) == ((0, 1), (3, 4, 5))
    assert (main.basis, main.exceeds(0.01)) == ("hangs", True)


@pytest.mark.slow
@pytest.mark.parametrize("name", FAMILIES)
def test_equal_runs_hardly_ever_fail(name: str) -> None:
    rng, family = np.random.default_rng(20_261_201), FAMILIES[name]
    failed, unknown = 0, 0
    for _ in range(300):
        _, main, suspect = judged(*(50 * family(rng, 20) for _ in range(2)))
        failed += main.exceeds(0.01)
        unknown += suspect is not None
    assert failed <= 6
    assert unknown <= 18
