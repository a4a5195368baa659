"""The rule of gate on drawn lengths of steps: equal runs hardly ever fail, slower ones nearly always do."""

from __future__ import annotations

import numpy as np
import pytest

from analyses.compare.diff.step_change import StepLengths, change_of_steps
from hta_graph.model import Floats

LIMIT = 0.01


def drawn(rng: np.random.Generator, noise: str, count: int, slower: float = 0.0) -> StepLengths:
    """Draw the lengths of steps that vary by 1%: independent, resembling the one before, or with steps that hang."""
    away: Floats = rng.normal(0, 0.01, count)
    if noise == "resembling":
        for at in range(1, count):
            away[at] = 0.3 * away[at - 1] + np.sqrt(1 - 0.3**2) * away[at]
    lengths = 1e6 * (1 + slower) * np.exp(away)
    if noise == "hanging":
        lengths[rng.random(count) < 0.05] *= 1.2
    return StepLengths(lengths, np.arange(count), np.zeros(count, np.int64))


def failed(noise: str, count: int, slower: float, pairs: int) -> float:
    """Return which share of pairs fails by the usual step, by ranks or by the mean."""
    rng = np.random.default_rng(20_261_126)
    found = 0
    for _ in range(pairs):
        change = change_of_steps(drawn(rng, noise, count), drawn(rng, noise, count, slower))
        found += (
            change.difference_ns > max(change.noise_ns, LIMIT * change.control_ns)
            or change.shift_ns > max(change.shift_noise_ns, LIMIT * change.control_ns)
            or change.summed_ns > max(change.summed_noise_ns, LIMIT * change.means_ns[0])
        )
    return found / pairs


def test_a_slower_run_is_found_and_an_equal_one_passes() -> None:
    assert failed("independent", 20, 0.02, 20) >= 0.95
    assert failed("independent", 20, 0.0, 20) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("noise", "slower", "count", "least"),
    [
        ("independent", 0.02, 20, 0.95), ("independent", 0.03, 10, 0.85), ("independent", 0.05, 10, 0.98),
        ("hanging", 0.03, 20, 0.95), ("hanging", 0.03, 10, 0.8), ("hanging", 0.05, 10, 0.98),
    ],
)  # fmt: skip
def test_slower_runs_are_found(noise: str, slower: float, count: int, least: float) -> None:
    assert failed(noise, count, slower, 400) >= least


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["independent", "hanging"])
@pytest.mark.parametrize("count", [4, 6, 10, 20, 40])
def test_equal_runs_hardly_ever_fail(noise: str, count: int) -> None:
    assert failed(noise, count, 0.0, 400) <= 0.005
