"""The change of steps: kind by kind, pair by pair, and how often equal programs are called different."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from analyses.compare.diff.step_change import StepChange, StepLengths, change_of_steps, judged_kinds, paired_steps
from hta_graph.model import Floats, Ints
from tests.support.deep_tests import deep
from tests.support.step_noise import normal, skewed, with_hiccups

MS = 1_000_000
Draw = Callable[[np.random.Generator, int], Floats]


def steps(lengths_ms: list[float], kinds: list[int] | None = None, first: int = 2) -> StepLengths:
    numbers = np.arange(first, first + len(lengths_ms))
    return StepLengths(np.array(lengths_ms) * MS, numbers, np.array(kinds or [0] * len(lengths_ms)))


def alternating(rng: np.random.Generator, count: int, longer_ms: float = 0.0, first: int = 2) -> StepLengths:
    kinds = (np.arange(first, first + count) % 2).tolist()
    noise = rng.normal(0, 0.5, count)
    return steps([40 + 40 * kind + longer_ms + away for kind, away in zip(kinds, noise, strict=True)], kinds, first)


def test_steps_that_alternate_show_a_change_of_each() -> None:
    rng = np.random.default_rng(0)
    found = change_of_steps(alternating(rng, 12), alternating(rng, 12, 8))
    assert found.is_usual
    assert found.difference_ns == pytest.approx(8 * MS, rel=0.1)
    assert found.noise_ns < 2.5 * MS
    assert [kind.counts for kind in found.kinds] == [(6, 6), (6, 6)]
    assert all(kind.difference_ns == pytest.approx(8 * MS, rel=0.2) for kind in found.kinds)


def test_steps_without_length_do_not_differ() -> None:
    found = change_of_steps(steps([0.0] * 4), steps([0.0] * 4))
    assert (found.difference_ns, found.noise_ns) == (0, 0)


def test_other_shares_of_the_kinds_are_no_change() -> None:
    """Of 5 and 7 steps the median is one of the long ones, of 7 and 5 one of the short ones."""
    rng = np.random.default_rng(1)
    control, test = alternating(rng, 11, first=2), alternating(rng, 11, first=3)
    assert abs(np.median(control.ns) - np.median(test.ns)) > 30 * MS
    found = change_of_steps(control, test)
    assert not found.is_usual
    assert not found.is_summed


def test_a_change_of_one_kind_counts_by_its_share() -> None:
    rng = np.random.default_rng(2)
    control, test = alternating(rng, 12), alternating(rng, 12)
    found = change_of_steps(control, replace(test, ns=test.ns + 6 * MS * (test.kind == 1)))
    assert found.difference_ns == pytest.approx(3 * MS, rel=0.2)
    assert found.is_usual
    assert [kind.difference_ns > kind.noise_ns for kind in found.kinds] == [False, True]


def test_steps_after_another_kind_do_not_widen_the_noise_of_their_own() -> None:
    """Each fourth step updates the weights; the GPU does that of the update after the step, which shortens the next."""
    rng = np.random.default_rng(3)
    kinds = [0, 0, 1, 0] * 4
    usual = np.array([74, 74, 90, 63] * 4)
    control, test = (steps((usual * rng.normal(factor, 0.01, 16)).tolist(), kinds) for factor in (1.0, 1.04))
    found = change_of_steps(control, test)
    assert found.is_usual
    assert max(found.noise_ns, found.summed_noise_ns) < 0.03 * found.control_ns
    assert [kind.counts for kind in found.kinds] == [(12, 12), (4, 4)]
    assert not change_of_steps(control, replace(test, ns=test.ns / 1.04)).is_usual


def test_the_same_batches_are_compared_pair_by_pair() -> None:
    """Lengths follow the batches by up to 50%; each of them takes 1 ms longer."""
    rng = np.random.default_rng(3)
    batches = rng.uniform(40, 60, 12)
    control, test = (steps((batches + shift + rng.normal(0, 0.1, 12)).tolist()) for shift in (0, 1))
    found = change_of_steps(control, test)
    assert found.is_paired
    assert found.is_usual
    assert found.difference_ns == pytest.approx(1 * MS, rel=0.2)
    assert not change_of_steps(control, replace(test, ns=rng.permutation(test.ns))).is_usual


def test_steps_are_paired_by_number_and_else_in_order_of_their_kind() -> None:
    control = steps([40, 80, 40, 80, 40], [0, 1, 0, 1, 0])
    later = steps([80, 40, 80, 40], [1, 0, 1, 0], first=3)
    assert [places.tolist() for places in paired_steps(control, later)] == [[1, 2, 3, 4], [0, 1, 2, 3]]
    elsewhere = steps([80, 40, 80, 40], [1, 0, 1, 0], first=102)
    assert [places.tolist() for places in paired_steps(control, elsewhere)] == [[0, 1, 2, 3], [1, 0, 3, 2]]


def test_one_more_warm_up_step_changes_nothing() -> None:
    rng = np.random.default_rng(4)
    control, test = (steps((50 + rng.normal(0, 0.5, 10)).tolist()) for _ in range(2))
    test.ns[0] = 200 * MS
    found = change_of_steps(control, test)
    assert not found.is_usual
    assert not found.is_summed
    slower = change_of_steps(control, replace(test, ns=test.ns + 5 * MS))
    assert slower.is_usual


def test_halves_of_a_run_that_drifts_do_not_differ() -> None:
    rng = np.random.default_rng(5)
    lengths = 50 + np.arange(20) * 0.5 + rng.normal(0, 0.2, 20)
    halves = steps(lengths[:10].tolist()), steps(lengths[10:].tolist(), first=12)
    assert halves[1].ns.min() > halves[0].ns.max()
    assert not change_of_steps(*halves).is_usual


def test_halves_of_a_long_run_that_drifts_a_little_do_not_differ() -> None:
    rng = np.random.default_rng(13)
    lengths = 50 + np.arange(48) * 0.06 + rng.normal(0, 0.4, 48)
    assert not change_of_steps(steps(lengths[:24].tolist()), steps(lengths[24:].tolist(), first=26)).is_usual


def test_a_rare_step_that_is_no_longer_than_others_is_judged() -> None:
    control, test = (steps([50, 51, 50, last], [0, 0, 0, 1]) for last in (20, 60))
    assert judged_kinds(control, control).tolist() == [0, 1]
    assert judged_kinds(control, test).tolist() == [0]


def test_what_only_a_rare_longer_step_does_is_not_judged() -> None:
    """A checkpoint that takes 300 ms longer: nothing shows how much checkpoints vary."""
    control = steps([50, 51, 50, 49, 50, 500], [0, 0, 0, 0, 0, 1])
    test = steps([50, 50, 51, 50, 49, 800], [0, 0, 0, 0, 0, 1])
    found = change_of_steps(control, test)
    assert [(kind.counts, kind.is_judged) for kind in found.kinds] == [((5, 5), True), ((1, 1), False)]
    assert np.isinf(found.kinds[1].noise_ns)
    assert not found.is_usual
    assert not found.is_summed


def test_two_steps_of_a_kind_that_are_both_held_up_are_no_change() -> None:
    control = steps([50, 51, 50, 49, 50, 80, 80], [0, 0, 0, 0, 0, 1, 1])
    test = steps([50, 50, 51, 50, 49, 120, 121], [0, 0, 0, 0, 0, 1, 1])
    assert not change_of_steps(control, test).is_usual


def test_some_longer_steps_change_the_mean_alone() -> None:
    rng = np.random.default_rng(6)
    control, test = (steps((50 + rng.normal(0, 0.5, 40)).tolist()) for _ in range(2))
    test.ns[::4] += 20 * MS
    found = change_of_steps(control, test)
    assert (found.is_usual, found.is_summed) == (False, True)
    assert found.summed_ns == pytest.approx(5 * MS, rel=0.1)


def in_two_states(rng: np.random.Generator, count: int) -> Floats:
    return rng.normal(0, 0.3, count) + 3 * (rng.random(count) < 0.3)


def called_different(draw: Draw, counts: tuple[int, int], kinds: Ints, runs: int) -> float:
    rng = np.random.default_rng(7)
    different = 0
    for _ in range(runs):
        own = []
        for count in counts:
            kind = np.resize(kinds, count)
            own.append(steps((50 * (1 + kind) * (1 + 0.04 * draw(rng, count))).tolist(), kind.tolist()))
        found: StepChange = change_of_steps(*own)
        different += found.is_usual or found.is_summed
    return different / runs


@pytest.mark.slow
@pytest.mark.parametrize("draw", [normal, skewed, with_hiccups, in_two_states])
@pytest.mark.parametrize("counts", [(6, 6), deep((5, 8)), (12, 12), deep((11, 20))])
@pytest.mark.parametrize("kinds", [np.array([0]), np.array([0, 1])], ids=["one kind", "two kinds"])
def test_one_percent_of_equal_programs_are_called_different_at_most(
    draw: Draw, counts: tuple[int, int], kinds: Ints
) -> None:
    assert called_different(draw, counts, kinds, 300) <= (0.03 if draw is in_two_states else 0.01)
