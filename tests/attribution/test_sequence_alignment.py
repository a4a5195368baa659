"""Alignment of two recordings of one sequence: valid always, the longest where it is searched for, and fast."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import strategies as st

from hta_graph.attribution.sequence_alignment import align, longest_common_subsequence
from hta_graph.model import Ints
from tests.support.deep_tests import deep, for_all

CODES = st.lists(st.integers(0, 3), max_size=40).map(lambda codes: np.array(codes, np.int64))


def longest_common(left: Ints, right: Ints) -> int:
    """Count the longest common subsequence by its table."""
    row = [0] * (len(right) + 1)
    for code in left.tolist():
        before = row[:]
        for at, other in enumerate(right.tolist()):
            row[at + 1] = before[at] + 1 if code == other else max(row[at], before[at + 1])
    return row[-1]


def assert_valid(left: Ints, right: Ints, found: tuple[Ints, Ints]) -> None:
    assert (left[found[0]] == right[found[1]]).all()
    assert (np.diff(found[0]) > 0).all()
    assert (np.diff(found[1]) > 0).all()


@for_all(CODES, CODES, examples=400)
def test_the_fewest_edits_leave_a_longest_common_subsequence(left: Ints, right: Ints) -> None:
    found = longest_common_subsequence(left, right, len(left) + len(right))
    assert found is not None
    assert_valid(left, right, found)
    assert len(found[0]) == longest_common(left, right)


@for_all(CODES, CODES, examples=400)
def test_the_limit_is_the_number_of_edits(left: Ints, right: Ints) -> None:
    edits = len(left) + len(right) - 2 * longest_common(left, right)
    assert longest_common_subsequence(left, right, edits) is not None
    if edits:
        assert longest_common_subsequence(left, right, edits - 1) is None


@for_all(CODES, CODES, examples=400)
def test_alignments_are_valid(left: Ints, right: Ints) -> None:
    assert_valid(left, right, align(left, right))


@for_all(CODES, st.data(), examples=400)
def test_one_edit_is_undone(left: Ints, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(left)))
    right = np.insert(left, at, data.draw(st.integers(0, 3)))
    assert len(align(left, right)[0]) == len(left)
    assert len(align(right, left)[0]) == len(left)


@pytest.mark.parametrize("share", [0.001, 0.02])
def test_a_loop_that_lost_rows_stays_in_step(share: float) -> None:
    rng = np.random.default_rng(5)
    loop = np.tile(rng.integers(0, 40, 500), 30)
    kept = np.flatnonzero(rng.random(len(loop)) > share)
    left, right = align(loop[kept], loop)
    assert len(left) == len(kept)
    assert np.mean(kept[left] == right) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("codes", [2, deep(1_000_000)])
def test_sequences_without_likeness_take_no_longer_than_linear(codes: int) -> None:
    rng = np.random.default_rng(3)
    left, right = (rng.integers(0, codes, 25_000) for _ in range(2))
    begin = time.perf_counter()
    assert_valid(left, right, align(left, right))
    assert time.perf_counter() - begin < 10
