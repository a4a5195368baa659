"""Replay predicts real steps as well as its page says (docs/evidence.md)."""

from __future__ import annotations

import statistics

import numpy as np
import pytest

import hta_graph as hg
from tests.replay_fidelity.__main__ import Fidelity, main, measured
from tests.replay_fidelity.ab_pairs import compared
from tests.replay_fidelity.held_out import held_out
from tests.support.shared_traces import SHARED

pytestmark = pytest.mark.shared


@pytest.fixture(scope="module")
def fidelity() -> Fidelity:
    return measured([SHARED / name for name in ("traces", "traces_more", "gloo")])


def sizes(errors: list[float]) -> tuple[float, float, float]:
    found = np.abs(errors)
    return float(np.median(found)), float(np.percentile(found, 90)), float(found.max())


def test_a_small_trace_is_predicted_from_its_own_steps() -> None:
    graph = hg.build_graph(hg.read_trace(SHARED / "traces" / "cpu_only_gloo" / "rank34.json.gz"))
    found = list(held_out("small", graph, "iteration"))
    assert [(one.structure, one.step, one.is_like) for one in found] == [
        (552, 553, True), (553, 554, True), (554, 555, True)
    ]  # fmt: skip
    assert max(abs(one.error) for one in found) < 0.001
    assert max(abs(one.trivial_error) for one in found) > 1


@pytest.mark.slow
def test_a_change_said_beforehand_is_predicted() -> None:
    """Small files of the pairs: the host that no longer waits."""
    (found,) = [one for one in compared(SHARED / "traces") if one.step == 2]
    assert abs(found.error) < 0.02 < 0.15 < abs(found.trivial_error)


@pytest.mark.slow
def test_held_out_steps_of_gpus(fidelity: Fidelity) -> None:
    found = [
        one for one in fidelity.held_out
        if one.is_like and one.length == "iteration" and one.where.startswith("GPU")
    ]  # fmt: skip
    assert len(found) >= 20
    median, often, largest = sizes([one.error for one in found])
    assert median < 0.001
    assert often < 0.003
    assert largest < 0.01
    assert median < sizes([one.trivial_error for one in found])[0] / 10


@pytest.mark.slow
def test_held_out_steps_of_jobs_on_busy_cpus(fidelity: Fidelity) -> None:
    found = [one for one in fidelity.held_out if one.is_like and one.where == "CPU, job"]
    assert len(found) >= 35
    median, often, _ = sizes([one.all_error for one in found])
    assert median < 0.04
    assert often < 0.10
    assert sizes([one.error for one in found])[0] < 0.07


@pytest.mark.slow
def test_pairs(fidelity: Fidelity) -> None:
    assert len(fidelity.pairs) == 4
    assert max(abs(one.error) for one in fidelity.pairs) < 0.04


@pytest.mark.slow
def test_without_what_was_injected_steps_are_as_others(fidelity: Fidelity) -> None:
    found = fidelity.injected
    assert len(found) >= 40
    before, after = (
        statistics.median(abs(length / one.reference_ns - 1) for one, length in pairs)
        for pairs in ([(one, one.measured_ns) for one in found], [(one, one.removed_ns) for one in found])
    )
    assert after < 0.25
    assert after < before / 2
    assert all(one.removed_ns <= one.measured_ns for one in found)


@pytest.mark.slow
def test_a_folder_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(SHARED / "traces" / "cpu_only_gloo")]) == 0
    assert "| cpu_only_gloo | 3 |" in capsys.readouterr().out
    assert main([str(SHARED / "traces" / "cpu_only_gloo"), "--json"]) == 0
    assert '"trace": "cpu_only_gloo"' in capsys.readouterr().out
