"""Claims of a judgement come true as often as their confidence says, and say why where they are not sure."""

from __future__ import annotations

import pytest

from tests.confidence_accuracy import Asked, one_rank, own_programs
from tests.support.deep_tests import deep

SEEDS = range(9_000, 9_002)
LEAST = {"high": (0.1, 0.95), "medium": (0.25, 0.8)}
"""Within which part of it, and how often, a claim comes true."""


@pytest.mark.parametrize("seeds", [SEEDS[:1], deep(SEEDS)], ids=len)
def test_claims_come_true_as_often_as_they_say(seeds: range) -> None:
    asked = [*one_rank(seeds), *own_programs(seeds[:1])]
    for confidence, (tolerance, share) in LEAST.items():
        claims = [claim for one in asked for claim in one.claims.values() if claim.finding.confidence == confidence]
        assert len(claims) >= 5
        assert sum(claim.comes_true(tolerance) for claim in claims) >= share * len(claims)
    assert not any(claim.is_vain for one in asked for claim in one.claims.values())
    for one in asked:
        doubts_have_reasons(one)


def doubts_have_reasons(asked: Asked) -> None:
    for one in asked.findings:
        if one.kind == "recording":
            continue
        assert (one.confidence == "unknown") == (one.saves_ns is None)
        assert (one.reason is None) == (one.confidence == "high")
        if one.saves_ns is None:
            assert one.said.endswith("savings unknown")
