"""The path of simulated jobs is the true one; delays that lie on that lie on ours, however well clocks are known."""

from __future__ import annotations

import pytest

from tests.job_path_accuracy import BACKENDS, proven
from tests.matching_accuracy import SCENARIOS

UNSURE = {("buffered", "nccl"), ("buffered", "gloo"), ("fsdp", "gloo")}
"""A buffered send may outlive its receive's start by chance; of two works that end in one gap one was waited for."""

QUICK = {("ddp", "nccl"), ("pipeline", "gloo"), ("tensor", "gloo")}
EVERY = [
    pytest.param(scenario, backend, seeds, marks=() if seeds == 1 else pytest.mark.slow)
    for scenario in SCENARIOS
    for backend in BACKENDS
    for seeds in (1, 8)
    if (seeds > 1 or (scenario, backend) in QUICK) and (scenario, backend) != ("wide", "gloo")
]


@pytest.mark.parametrize(("scenario", "backend", "seeds"), EVERY)
@pytest.mark.slow
def test_the_path_is_the_true_one(scenario: str, backend: str, seeds: int) -> None:
    found = proven(scenario, backend, range(seeds))
    assert min(found.shares) >= (0.9 if (scenario, backend) in UNSURE else 0.9999)
    assert found.found == found.delays
