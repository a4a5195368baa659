"""The script that measures what recording costs says clearly what it lacks, and prints a row for each option."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "what_recording_costs.py"
SMALL = ("--rounds", "1", "--steps", "2", "--layers", "2", "--width", "4", "--batch", "2")


def measure(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script in a folder."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TMPDIR": str(folder)}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, check=False, timeout=300
    )


def test_help_needs_nothing(tmp_path: Path) -> None:
    done = measure(tmp_path, "--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--steps", "--rounds", "--layers"))


@pytest.mark.skipif(find_spec("torch") is not None, reason="needs an environment without PyTorch")
def test_that_pytorch_is_missing_is_said(tmp_path: Path) -> None:
    done = measure(tmp_path, *SMALL)
    assert (done.returncode, done.stdout) == (1, "")
    assert "needs PyTorch" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(find_spec("torch") is None, reason="needs PyTorch")
def test_every_option_has_its_row_and_leaves_no_file(tmp_path: Path) -> None:
    done = measure(tmp_path, *SMALL)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert [row[:18].strip() for row in rows[2:]] == [
        "no profiler",
        "activities alone",
        "record_shapes",
        "profile_memory",
        "with_stack",
        "all three",
    ]
    assert rows[2].split()[-1] == "1.00"
    assert not list(tmp_path.rglob("trace.json"))  # PyTorch may leave a cache
