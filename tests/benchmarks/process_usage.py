"""Measure a program and the processes that it starts, each apart, while they run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.cold_process import KIB
from tests.support.child_processes import child_processes

__all__ = ["Watched", "kill_one", "run_watched"]

EVERY_S = 0.02
PEAK = re.compile(r"^VmHWM:\s*(\d+) kB", re.MULTILINE)
Meanwhile = Callable[[int], bool]
"""Is called now and then with the program's id until it is done with what it has to do."""


@dataclass
class Watched:
    """A run: seconds by the clock and of all its processes, peak resident bytes of itself and of each child."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    status: int = 0
    said: str = ""
    peak_bytes: int = 0
    child_bytes: dict[int, int] = field(default_factory=dict)
    children_s: list[float] = field(default_factory=list)
    """When it was looked and there were children, since the start."""
    is_hit: bool = False
    """Whether what was to be done meanwhile was done."""

    @property
    def middle_s(self) -> float:
        """Return how long after the first child the middle of the time with children was."""
        return (self.children_s[-1] - self.children_s[0]) / 2 if self.children_s else 0.0

    @property
    def largest_child_bytes(self) -> int:
        """Return the peak of the child that needed most; 0 where there was none."""
        return max(self.child_bytes.values(), default=0)


def run_watched(command: Sequence[str], meanwhile: Meanwhile = lambda _: False) -> Watched:
    """Run a program to its end, however that is; peaks of children are known where there is `/proc`."""
    run = Watched()
    with tempfile.TemporaryFile("w+") as said:
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said)
        is_over = False
        while not is_over:
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            is_over = pid != 0
            if not is_over:
                _note_peaks(run, process.pid, time.perf_counter() - begin)
                run.is_hit = run.is_hit or meanwhile(process.pid)
                time.sleep(EVERY_S)
        run.wall_s, run.cpu_s = time.perf_counter() - begin, usage.ru_utime + usage.ru_stime
        run.status = process.returncode = os.waitstatus_to_exitcode(status)
        # Without children the system's own figure is exact; with them it is that of the largest process.
        if not run.child_bytes:
            run.peak_bytes = usage.ru_maxrss * KIB
        said.seek(0)
        run.said = said.read()
    return run


def kill_one(after_s: float) -> Meanwhile:
    """Return what kills one process that a program has started, so many seconds after the first one was there."""
    seen: list[float] = []

    def kill(pid: int) -> bool:
        workers = [child for child in _processes_below(pid) if not _is_tracker(child)]
        if not workers:
            return False
        seen.append(time.perf_counter())
        if seen[-1] - seen[0] < after_s:
            return False
        os.kill(min(workers), signal.SIGKILL)
        return True

    return kill


def _note_peaks(run: Watched, pid: int, now_s: float) -> None:
    run.peak_bytes = max(run.peak_bytes, _peak(pid))
    children = list(_processes_below(pid))
    run.children_s += [now_s] if children else []
    for child in children:
        run.child_bytes[child] = max(run.child_bytes.get(child, 0), _peak(child))


def _processes_below(pid: int) -> Iterator[int]:
    """Yield all that a process has started, and what those have; some end meanwhile."""
    try:
        children = child_processes(pid)
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in sorted(children):
        yield child
        yield from _processes_below(child)


def _is_tracker(pid: int) -> bool:
    """Tell whether a process is Python's own, which takes away what others leave behind."""
    try:
        return b"resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def _peak(pid: int) -> int:
    try:
        found = PEAK.search(Path(f"/proc/{pid}/status").read_text(encoding="utf-8"))
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return int(found[1]) * 1024 if found else 0
