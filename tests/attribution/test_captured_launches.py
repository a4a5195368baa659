"""Captured launches and kernels of a replay: planted losses and moves, other programs, and recordings without names."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from hta_graph.attribution.captured_launches import POSITION, QUEUES, UNCHECKED, align_replay
from tests.support.captured_programs import LOST, PROGRAMS, Kernel, Mutation, mutated, program


def shares(kernels: list[Kernel], found: Mutation) -> tuple[float, float]:
    """Return the shares of the replay's time with a right and with a wrong launch."""
    number: dict[str, int] = {}
    codes = [number.setdefault(kernel.name, len(number)) for kernel in kernels] + [len(kernels)]
    left, right = (np.array([codes[place] for place in places]) for places in (found.captured, found.replayed))
    aligned = align_replay(left, right, np.array(found.streams))
    assert aligned is not None
    length = np.array([kernels[place].length for place in found.replayed])
    named = np.where(aligned.place >= 0, np.array(found.captured)[aligned.place], -2)
    is_right = named == np.array(found.replayed)
    wrong = (named != -2) & ~is_right
    return float(length[is_right].sum() / length.sum()), float(length[wrong].sum() / length.sum())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kind", PROGRAMS)
@pytest.mark.parametrize("what", LOST)
def test_planted_errors_on_one_stream(kind: str, what: str) -> None:
    kernels = program(kind)
    found = [shares(kernels, mutated(kernels, what, seed)) for seed in range(8)]
    assert np.mean([right for right, _ in found]) >= 0.97
    assert np.mean([wrong for _, wrong in found]) <= 0.005


@pytest.mark.slow
@pytest.mark.parametrize("what", ["", "capture_1", "capture", "replay", "both"])
def test_planted_errors_on_two_streams(what: str) -> None:
    kernels = program("experts", layers=24)
    found = [shares(kernels, mutated(kernels, what, seed, two_streams=True)) for seed in range(4)]
    assert np.mean([right for right, _ in found]) >= 0.97
    assert np.mean([wrong for _, wrong in found]) <= 0.01


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("one", "other"), [*permutations(PROGRAMS, 2)])
def test_the_capture_of_another_program_is_refused(one: str, other: str) -> None:
    number: dict[str, int] = {}
    left, right = (
        np.array([number.setdefault(kernel.name, len(number)) for kernel in program(kind)]) for kind in (one, other)
    )
    assert align_replay(left, right, np.zeros(len(right), np.int64)) is None
    assert align_replay(left, right[: len(left)], np.arange(len(right[: len(left)])) % 2) is None


def test_more_edits_than_five_percent_are_refused() -> None:
    codes = np.arange(100)
    assert align_replay(codes, codes[5:], np.zeros(95, np.int64)) is not None
    assert align_replay(codes, codes[6:], np.zeros(94, np.int64)) is None
    assert align_replay(codes, np.where(codes < 6, 200, codes), np.zeros(100, np.int64)) is None


def test_without_names_only_equal_numbers_are_aligned() -> None:
    unnamed, codes = np.full(4, -1), np.array([3, 1, 3, 2])
    found = align_replay(unnamed, codes, np.zeros(4, np.int64))
    assert found is not None
    assert (found.rule, found.place.tolist()) == (UNCHECKED, [0, 1, 2, 3])
    assert align_replay(unnamed, codes[:3], np.zeros(3, np.int64)) is None
    # A copy has a name on either side.
    assert align_replay(np.array([-1, 9, -1, -1]), codes, np.zeros(4, np.int64)) is None


def test_equal_sequences_need_no_streams() -> None:
    codes = np.array([1, 2, 1, 3])
    found = align_replay(codes, codes, np.array([60, 7, 8, 7]))
    assert found is not None
    assert found.rule == POSITION


def test_streams_that_run_at_once_keep_their_own_order() -> None:
    # Launched a b c x y z; x y z run on the second stream while a b c still do.
    captured, replayed, streams = (
        np.array([1, 2, 1, 2, 1, 2]),
        np.array([1, 2, 2, 1, 1, 2]),
        np.array([0, 1, 0, 1, 0, 1]),
    )
    found = align_replay(captured, replayed, streams)
    assert found is not None
    assert found.rule == QUEUES
    assert sorted(found.place.tolist()) == list(range(6))
    assert (captured[found.place] == replayed).all()


def test_nothing_is_aligned_with_nothing() -> None:
    empty = np.zeros(0, np.int64)
    assert align_replay(empty, empty, empty) is None


def test_what_moved_far_away_costs_two_edits_and_too_many_are_refused() -> None:
    captured = np.arange(200)
    lost = np.delete(captured, 100)
    for moved, is_named in ((4, True), (6, False)):
        replayed = np.concatenate([lost[moved:], lost[:moved][::-1]])
        found = align_replay(captured, replayed, np.zeros(len(replayed), np.int64))
        assert (found is not None) == is_named
