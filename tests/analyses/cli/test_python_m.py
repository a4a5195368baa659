"""``python -m hta_graph`` is the command line."""

from __future__ import annotations

import subprocess
import sys

import pytest

import hta_graph as hg


def test_the_package_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, "-m", "hta_graph", "--version"], check=True, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == (f"hta-graph {hg.__version__}\n", "")


@pytest.mark.slow
def test_its_exit_status_is_that_of_the_command_line() -> None:
    done = subprocess.run([sys.executable, "-m", "hta_graph", "info", "nowhere.json"], check=False, capture_output=True)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"hta-graph: nowhere.json: no such file")
