"""Measure processes from start to exit."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass

__all__ = ["Run", "run_cold"]

KIB = 1024 if sys.platform != "darwin" else 1


@dataclass(frozen=True)
class Run:
    """One process: seconds by the clock and of the processor, peak resident bytes, what it printed."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    printed: str


def run_cold(command: Sequence[str]) -> Run:
    """Run a program as a user would: with its modules compiled, which happens once after installation.

    Raises:
        RuntimeError: it failed.
    """
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=printed, stderr=said, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        said.seek(0)
        if process.returncode:
            raise RuntimeError(f"{' '.join(command)} failed: {said.read()[-2000:]}")
        return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * KIB, printed.read())
