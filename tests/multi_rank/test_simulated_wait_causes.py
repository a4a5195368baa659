"""Simulated jobs with a delay: whoever waited, what was injected is named first."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.matching_accuracy import SCENARIOS
from tests.support.deep_tests import cases
from tests.wait_cause_accuracy import BACKENDS, Score, prove, said_of

QUICK = (
    ("ddp", "gloo", 0),
    ("ddp", "nccl", 100),
    ("fsdp", "gloo", 2),
    ("rooted", "nccl", 1),
    ("rooted", "gloo", 1),
    ("tensor", "gloo", 3),
    ("pipeline", "nccl", 1),
)


HIDDEN = (4, 6, 10)
"""Seeds whose delay is over when the others have come."""


@pytest.mark.slow
def test_a_delay_is_named_first() -> None:
    scores = [prove(*case) for case in QUICK]
    assert all(score.asked for score in scores)
    assert [case for score in scores for case in score.others + score.unbalanced] == []


@pytest.mark.slow
def test_nearly_every_delay_is_named_first() -> None:
    total = Score()
    for scenario in SCENARIOS:
        for backend in BACKENDS:
            for seed in range(cases(8)):
                total.add(prove(scenario, backend, seed))
    assert total.unbalanced == []
    assert total.named_first >= 0.98 * total.asked
    assert total.asked > cases(40)


@pytest.mark.slow
def test_a_rank_is_said_to_be_late_by_what_was_injected() -> None:
    """Short delays of the host: when the others have come, the rank computes as long as they did."""
    found = sum((said_of("ddp", "nccl", seed) for seed in HIDDEN), Counter())
    assert found["meanwhile right"] == len(HIDDEN)
    assert (found["longer wrong"], found["jobs"]) == (0, len(HIDDEN))
