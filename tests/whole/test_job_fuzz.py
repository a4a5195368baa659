"""Damaged ranks of jobs give a graph that obeys the invariants, or one clear line."""

from __future__ import annotations

import pytest

from tests.job_fuzz import damaged_jobs
from tests.support.fuzzing import fuzz

QUICK, DEEP = 4, 300
EVERY = [pytest.param(number, marks=() if number < QUICK else pytest.mark.slow) for number in range(DEEP)]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", EVERY)
def test_a_damaged_job_is_analysed_or_refused(number: int) -> None:
    assert fuzz(damaged_jobs(11), [number]).failures == {}
