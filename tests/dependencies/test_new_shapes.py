"""Programs in shapes that no other test has: the path, the edges and what changes save, with records and without."""

from __future__ import annotations

import pytest

from tests.new_shapes_accuracy import RECORDERS, RIGHT, SHAPES, scored
from tests.support.deep_tests import deep

QUICK = ("fork of a fork", "polled event", "join of joins", "legacy default stream")
BARRIERS = "legacy default stream"
"""No row says which streams it waits for: its path is not found, and predictions are doubted."""


def check(shapes: tuple[str, ...], seeds: range) -> None:
    """Check that paths are right, no edge is false, and predictions are close or doubted."""
    for shape in shapes:
        for seed in seeds:
            for records in RECORDERS:
                found = scored(shape, seed, records)
                assert found.passes == (shape != BARRIERS, True, True), (shape, seed, records, found)


@pytest.mark.parametrize("shapes", [QUICK, deep(tuple(SHAPES))])
def test_programs_in_new_shapes_are_understood_with_records_and_without(shapes: tuple[str, ...]) -> None:
    check(shapes, range(1))


@pytest.mark.slow
def test_two_of_forty_programs_at_most_have_another_path() -> None:
    every = [scored(shape, 0, records) for shape in SHAPES for records in RECORDERS]
    assert len(every) == 40
    assert sum(one.right > RIGHT for one in every) >= 38
