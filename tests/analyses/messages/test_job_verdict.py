"""The verdict of a job in words."""

from __future__ import annotations

import pytest

from analyses.messages.job_verdict import doubt, nobody, record, sentence, waiting_caused
from hta_graph.multi_rank.job_verdict import JobVerdict
from tests.support.job_verdicts import FIRM, nobody_named, verdict_like

CAUSE = ", mostly in aten::mm (CPU work)"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FIRM, "rank 2 delays the others by 1.50 ms in every step (25% of a step)"),
        (
            verdict_like(pattern="since", since_step=3),
            "rank 2 delays the others by 1.50 ms in every step since step 3 (25% of a step)",
        ),
        (
            verdict_like(scope="step", pattern="once", steps=(4,)),
            "rank 2 delays the others by 1.50 ms in step 4 alone (25% of a step)",
        ),
        (verdict_like(pattern=None), "rank 2 delays the others by 1.50 ms in steps 3 and 4 (25% of a step)"),
        (
            verdict_like(pattern=None, steps=tuple(range(7)), compared=20),
            "rank 2 delays the others by 1.50 ms in 7 of 20 steps (25% of a step)",
        ),
        (
            verdict_like(scope="step", pattern=None, steps=(3,), firmness="hedged"),
            "rank 2 probably delays the others by 1.50 ms in step 3 (25% of a step)",
        ),
        (
            verdict_like(scope="window", pattern=None, steps=()),
            "rank 2 delays the others by 1.50 ms in forward (25% of forward)",
        ),
        (
            verdict_like(rank=None, ranks=(2, 0, 1), steps=(3, 4, 5), pattern="rotating"),
            (
                "a different rank delays the others in each step, by 1.50 ms (25% of a step): rank 2 in step 3, rank 0 "
                "in step 4, rank 1 in step 5"
            ),
        ),
    ],
)
def test_one_sentence_says_who_when_and_by_how_much(found: JobVerdict, said: str) -> None:
    assert sentence(found, "forward", {}) == said + CAUSE


def test_nobody_is_named_without_a_verdict() -> None:
    assert sentence(nobody_named(), "forward", {}) == ""
    said = "no rank alone delays the others: rank 2 causes the most, 90% of 10.0 ms of waiting with a known cause"
    assert nobody(nobody_named(), "") == said
    assert nobody(nobody_named(ranks=()), "").startswith("no rank alone delays the others: the delays may be chance")
    unknown = nobody_named(share_of_waiting=0.0)
    assert nobody(unknown, "").endswith(
        "the delays may be chance: too few steps, and no single cause; rank 2 mostly arrives last"
    )


def test_how_much_of_the_waiting_it_causes() -> None:
    assert waiting_caused(FIRM) == "It causes 9.00 ms of 10.0 ms of waiting with a known cause."
    assert waiting_caused(verdict_like(rank=None)).startswith("They cause 9.00 ms")
    assert waiting_caused(verdict_like(caused_ns=10_000_000)).startswith("It causes all 10.0 ms of waiting")


def test_what_keeps_it_from_being_firm_is_said() -> None:
    assert doubt(FIRM) == ""
    assert doubt(verdict_like(firmness="hedged", reason="several_ranks")) == (
        "Uncertain: other ranks cause much of the waiting, too."
    )


def test_the_record_has_the_documented_keys() -> None:
    assert record(None) is None
    assert record(FIRM) == {
        "scope": "all_steps", "rank": 2, "ranks": [2], "firmness": "firm", "caused_ns": 9_000_000,
        "median_caused_ns": 1_500_000, "share_of_waiting": 0.9, "share_of_step": 0.25,
        "cause": {"bound_by": "cpu_bound", "name": "aten::mm", "call_path": "forward"}, "pattern": "every_step",
        "since_step": None, "steps": [3, 4], "reason": None,
    }  # fmt: skip
