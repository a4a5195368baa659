"""The verdict of a job in words."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from analyses.advice.job_verdict import (
    doubt,
    job_sentences,
    most_of_the_waiting,
    nobody,
    other_step,
    record,
    saved_on_time,
    sentence,
    waiting_caused,
    with_recording,
)
from hta_graph.multi_rank.job_verdict import Cause, JobVerdict, LateRank
from tests.support.job_verdicts import FIRM, nobody_named, verdict_like

CAUSE = ", mostly in aten::mm (CPU work)"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FIRM, "rank 2 delays the others by 1.50 ms in steps 3 and 4 (25% of a step)"),
        (
            # The first step of a recording is not among those that are compared: "every step" says which are.
            verdict_like(steps=(3, 4, 5, 6), compared=4),
            "rank 2 delays the others by 1.50 ms in every step from 3 to 6 (25% of a step)",
        ),
        (
            verdict_like(steps=tuple(range(3, 12)), compared=10),
            "rank 2 delays the others by 1.50 ms in 9 of 10 steps (25% of a step)",
        ),
        (verdict_like(delayed=(3,)), "rank 2 delays rank 3 by 1.50 ms in steps 3 and 4 (25% of a step)"),
        (verdict_like(delayed=(0, 3)), "rank 2 delays ranks 0 and 3 by 1.50 ms in steps 3 and 4 (25% of a step)"),
        (
            verdict_like(delayed=tuple(range(3, 10))),
            "rank 2 delays the 7 ranks that it communicates with by 1.50 ms in steps 3 and 4 (25% of a step)",
        ),
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


def test_a_cause_without_a_record_is_said_to_be_none() -> None:
    unknown = Cause("unexplained", "reduce", "")
    assert sentence(verdict_like(cause=unknown), "", {}).endswith(", mostly before reduce, without a recorded cause")
    assert sentence(verdict_like(cause=unknown, is_one_cause=False), "", {}).endswith(", in many operations")


def test_details_of_another_step_say_so() -> None:
    said = "The details below are of step 7; use --step 3 for a step that rank 2 delays."
    assert other_step(7, FIRM) == said


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"share_of_waiting": 0.6, "reason": "several_ranks"},
            "no rank alone delays the others: several ranks cause the waiting",
        ),
        (
            {"compared": 3},
            ("no rank clearly delays the others: the largest delay (1.50 ms, 25% of a step) may be chance in 3 steps"),
        ),
        (
            {"caused_ns": 10_000_000, "share_of_step": 0.09},
            ("no rank delays the others by much: the largest delay is small (1.50 ms, 9% of a step)"),
        ),
        (
            {"reason": "no_cause_known", "share_of_waiting": 0.0},
            "no rank is named: most of the waiting has no recorded cause",
        ),
        ({"reason": "no_waiting", "ranks": ()}, "no rank delays the others: no rank waits for another"),
        (
            {"reason": "mostly_unmatched", "ranks": ()},
            "no rank is named: most communication has no partner on another rank",
        ),
    ],
)
def test_who_causes_most_is_said_without_a_contradiction(changes: dict[str, Any], said: str) -> None:
    """Who causes nearly all waiting is not "one of several": its delays are small, or few."""
    found = replace(nobody_named(), **changes)
    assert sentence(found, "forward", {}) == ""
    assert nobody(found, "") == said


def test_who_causes_most_is_named_behind_the_verdict_and_a_tie_is_said() -> None:
    found = nobody_named()
    of = "of the waiting with a known cause."
    assert most_of_the_waiting(found, {0: 10, 2: 30}) == [f"Rank 2 causes the most, 75% {of}"]
    assert most_of_the_waiting(found, {2: 30}) == [f"Rank 2 causes the most, all {of}"]
    assert most_of_the_waiting(found, {0: 48, 2: 50, 3: 2}) == [f"Ranks 0 and 2 each cause about the same, 50% {of}"]
    assert most_of_the_waiting(found, dict.fromkeys(range(4), 1)) == [f"4 ranks each cause about the same, 25% {of}"]
    last = replace(found, reason="no_cause_known", share_of_waiting=0.0)
    assert most_of_the_waiting(last, {}) == ["Rank 2 mostly arrives last."]
    assert most_of_the_waiting(replace(last, ranks=()), {}) == []


def test_a_late_recording_comes_first_unless_a_rank_is_named() -> None:
    late = "rank 7's recording starts 3.00 ms later than the first one; what the rank did before is unknown"
    missing = "Ranks 3 and 4 have no trace; whether they delay the others is unknown."
    assert with_recording(["said"], nobody_named(), {7: 3_000_000}, [3, 4]) == [late, "said", missing]
    assert with_recording(["said"], FIRM, {7: 3_000_000}, []) == ["said", late]
    assert with_recording(["said"], FIRM, {}, ()) == ["said"]


def test_how_much_of_the_waiting_it_causes() -> None:
    assert waiting_caused(FIRM) == "It causes 90% of the waiting with a known cause."
    assert waiting_caused(verdict_like(rank=None, ranks=(2, 3))).startswith("They cause 90%")
    assert waiting_caused(verdict_like(caused_ns=10_000_000)).startswith("It causes all of the waiting")


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
        "since_step": None, "steps": [3, 4], "reason": None, "late_ranks": [], "late_ranks_save_ns": 0,
    }  # fmt: skip


def late_together(*saves_ms: float, total_ms: float) -> JobVerdict:
    """Return that ranks 2 and 0 are late by 1.5 and 1 ms, given what each of them on time would save."""
    cause = Cause("cpu_bound", "aten::add", "")
    ranks = [
        LateRank(2, 1_500_000, round(saves_ms[0] * 1e6), (3, 4), FIRM.cause),
        LateRank(0, 1_000_000, round(saves_ms[1] * 1e6), (3, 4), cause),
    ]
    return verdict_like(ranks=(2, 0), late_ranks=tuple(ranks), late_ranks_save_ns=round(total_ms * 1e6))


def test_all_late_ranks_are_named_with_their_hosts_steps_and_causes() -> None:
    found = late_together(1.5, 1, total_ms=2.5)
    first = f"rank 2 delays the others by 1.50 ms in steps 3 and 4 (25% of a step){CAUSE}"
    assert sentence(found, "", {}) == f"{first}; so does rank 0, by 1.00 ms, mostly in aten::add (CPU work)"
    other = replace(found, late_ranks=(found.late_ranks[0], found.late_ranks[1]._replace(steps=(4,), cause=None)))
    assert sentence(other, "", {0: "node7"}) == f"{first}; so does rank 0 on host node7, by 1.00 ms in step 4"
    assert waiting_caused(found).startswith("They cause 90%")
    assert record(found)["late_ranks"][1] == {  # type: ignore[index]
        "rank": 0, "median_caused_ns": 1_000_000, "saves_ns": 1_000_000, "steps": [3, 4],
        "cause": {"bound_by": "cpu_bound", "name": "aten::add", "call_path": ""},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("saves", "total", "said"),
    [
        ((1.5, 1), 2.5, "2.50 ms of a step; rank 2 alone 1.50 ms, rank 0 alone 1.00 ms."),
        ((0.5, 0), 1.5, "1.50 ms of a step; rank 2 alone 500.0 µs, rank 0 alone nothing."),
        ((0, 0), 1.5, "1.50 ms of a step; one of them alone would save nothing."),
    ],
)  # fmt: skip
def test_what_each_late_rank_and_all_of_them_save_is_said(saves: tuple[float, float], total: float, said: str) -> None:
    found = late_together(*saves, total_ms=total)
    assert saved_on_time(found) == job_sentences(found, "", {}, {})[1:2] == [f"Ranks 2 and 0 on time would save {said}"]
    assert saved_on_time(FIRM) == []
