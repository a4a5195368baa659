"""Readings of recordings are compared with what is said of them: a class, a rank, or what is wrong."""

from __future__ import annotations

import json

import pytest

from tests.expert_readings.__main__ import READINGS, outcome
from tests.support.shared_traces import SHARED

READING = {"bound_by": "rank 2", "also_right": ["communication"], "wrong_would_be": ["bound by copies", "rank 1"]}


@pytest.mark.parametrize(
    ("about", "became"),
    [(["rank 2"], "right"), (["host", "communication"], "right"), (["copies"], "wrong"), (["rank 1"], "wrong"),
     (["host"], "differs"), ([], "differs")],
)  # fmt: skip
def test_what_is_said_is_compared_with_a_reading(about: list[str], became: str) -> None:
    assert outcome(READING, about) == became


def test_a_balanced_job_is_read_rightly_by_whoever_names_no_rank() -> None:
    balanced = {**READING, "bound_by": "host", "also_right": ["balanced"]}
    assert [outcome(balanced, about) for about in (["copies"], ["rank 1"])] == ["right", "wrong"]


@pytest.mark.shared
def test_sixty_recordings_are_read() -> None:
    readings = json.loads(READINGS.read_text(encoding="utf-8"))
    assert len(readings) == len({reading["input"] for reading in readings}) == 60
    assert all((SHARED / reading["input"]).exists() for reading in readings)
    assert all(reading["bound_by"] and reading["change_first"] and reading["why"] for reading in readings)
