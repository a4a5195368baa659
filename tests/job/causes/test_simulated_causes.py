"""Simulated jobs with a delay: whoever waited, what was injected is named first."""

from __future__ import annotations

import pytest

from tests.causes_proof import BACKENDS, Score, prove
from tests.ranks_proof import SCENARIOS
from tests.support.depth import cases

QUICK = (
    ("ddp", "gloo", 0),
    ("ddp", "nccl", 100),
    ("fsdp", "gloo", 2),
    ("rooted", "nccl", 1),
    ("tensor", "gloo", 3),
    ("pipeline", "nccl", 1),
)


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
