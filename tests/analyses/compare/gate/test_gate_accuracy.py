"""diff and gate agree on all pairs of the accuracy tables, of which a few are made here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.gate_accuracy import LIMIT, UNUSUAL, equal_families, unusual

FOUND = {case.name for case in UNUSUAL if "+10% of the mean" not in case.name and "by 5%" not in case.name}


@pytest.mark.slow
def test_diff_and_gate_agree_on_equal_runs(tmp_path: Path) -> None:
    found = equal_families(tmp_path, 6)
    assert sum(own.contradictions for own in found.values()) == 0
    assert sum(own.failed["gate"] for own in found.values()) <= 2


@pytest.mark.slow
def test_diff_and_gate_agree_on_unusual_runs_and_name_the_cause(tmp_path: Path) -> None:
    assert LIMIT == 0.01
    for name, own in unusual(tmp_path, 1).items():
        assert own.contradictions == 0
        assert own.right_cause == own.failed["gate"]
        assert own.failed["gate"] + own.unknown == own.pairs or "by 5%" in name
        assert name not in FOUND or own.failed["gate"] == own.pairs
