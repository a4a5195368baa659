"""Running sums of rates that begin and end leave nothing over."""

from __future__ import annotations

import numpy as np
import pytest

from hta_graph.paths.gpu_activity import exact_running_sums


def test_sums_of_many_rates_leave_nothing_over() -> None:
    rates = (0.1 + np.random.default_rng(1).random(1_000)) * 10.0 ** np.arange(-5, 5).repeat(100)
    sums = exact_running_sums(np.concatenate([rates, -rates]))
    assert sums[-1] == 0
    assert sums[0] == rates[0]
    assert sums[999] == pytest.approx(rates.sum())
    assert (exact_running_sums(np.stack([rates, -rates], axis=1).ravel())[::2] == rates).all()
