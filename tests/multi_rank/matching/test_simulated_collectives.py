"""Matching in simulated jobs, where every rendezvous is known: nothing is wrong that does not say so itself."""

from __future__ import annotations

import pytest

from tests.matching_accuracy import DAMAGES, SCENARIOS, Score, prove
from tests.support.deep_tests import cases, deep

SEEDS = range(cases(10))
AGREEING = ("none", "rank missing")
"""What leaves nothing to guess: every rendezvous of the ranks that are given is whole."""


def scores_of(names: list[str], damages: list[str], seeds: range, *, ids: bool = False, backend: str = "nccl") -> Score:
    total = Score()
    for name in names:
        for damage in damages:
            total.add(prove(name, backend, damage, seeds, ids=ids))
    return total


@pytest.mark.parametrize("name", ["ddp", "fsdp", "pipeline", "tensor", "experts", "wide"])
@pytest.mark.slow
def test_all_is_found_where_nothing_is_lost(name: str) -> None:
    score = scores_of([name], ["none"], range(1))
    assert (score.right, score.wrong) == (score.complete, 0)
    assert score.complete > 3
    assert not score.wait_errors


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["nccl", deep("gloo")])
def test_rows_that_are_lost_make_no_other_match_wrong(backend: str) -> None:
    score = scores_of(["ddp", "fsdp", "buffered"], ["rows lost"], range(1), backend=backend)
    assert score.wrong == 0
    assert score.right >= 0.95 * score.complete > 3


@pytest.mark.slow
def test_recorded_ids_say_all_whatever_else_is_wrong() -> None:
    score = scores_of(["ddp", "fsdp"], ["windows", "all of these"], range(2), ids=True)
    assert (score.right, score.wrong) == (score.complete, 0)
    assert score.complete > 3


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["nccl", "gloo"])
@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "wide"])
def test_without_ids_many_jobs_are_matched_and_what_is_guessed_says_so(name: str, backend: str) -> None:
    agreeing = scores_of([name], list(AGREEING), SEEDS, backend=backend)
    damaged = scores_of([name], [damage for damage in DAMAGES if damage not in AGREEING], SEEDS, backend=backend)
    # On CPUs groups of equal ranks and sizes may take each other's rows where clocks, windows and losses come together.
    unreported = 0.01 if (name, backend) == ("tensor", "gloo") else 0.001
    assert agreeing.wrong == 0
    assert damaged.wrong <= unreported * (agreeing.right + damaged.right)
    assert agreeing.right == agreeing.complete
    assert not agreeing.wait_errors


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ddp", "fsdp", "tensor", "experts", "wide"])
def test_with_ids_many_jobs_are_matched_exactly(name: str) -> None:
    score = scores_of([name], [damage for damage in DAMAGES if damage != "all of these"], SEEDS, ids=True)
    assert (score.right, score.wrong) == (score.complete, 0)
