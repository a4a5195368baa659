"""Processes that a program has started: which they are, whether they run, and waiting for either."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path


def child_processes(pid: int) -> set[int]:
    """Return the processes that a process has started."""
    found = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found |= set(map(int, task.read_text().split()))
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait for something."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
