"""The script that records traces on a GPU says clearly what it lacks elsewhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "examples" / "record_trace.py"


def record(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script where no GPU is to be seen."""
    hidden = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(SCRIPT), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=hidden, check=False, timeout=60)


def test_help_needs_nothing(tmp_path: Path) -> None:
    done = record(tmp_path, "--help")
    assert done.returncode == 0
    assert all(option in done.stdout for option in ("--output", "--host-trace", "--steps", "--stacks"))


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [([], 1, ("needs PyTorch", "needs a GPU")), (["--steps", "0"], 2, ("takes a number from 1",))],
)
def test_what_is_missing_is_said(tmp_path: Path, arguments: list[str], status: int, message: tuple[str, ...]) -> None:
    done = record(tmp_path, *arguments)
    assert (done.returncode, done.stdout) == (status, "")
    assert any(text in done.stderr.splitlines()[-1] for text in message)
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())
