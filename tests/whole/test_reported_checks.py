"""Inputs made after public reports that carry their own checks: what each command must say of them, and must not."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.shared_traces import SHARED


@pytest.mark.shared
@pytest.mark.slow
@pytest.mark.skipif(not (SHARED / "reported_2").is_dir(), reason="needs the reports with checks")
def test_every_check_of_the_reports_passes() -> None:
    folder = SHARED / "reported_2"
    command = [sys.executable, folder / "run_checks.py", folder]
    environment = os.environ | {"HTA_GRAPH_PYTHON": sys.executable, "HTA_GRAPH_CACHE": "off"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("WRONG")] == []
    assert "20 of 20 right" in done.stdout, done.stderr
