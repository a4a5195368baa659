"""Make each defect in a copy of the repository, and print the test that notices it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.defects import ROOT, Defect
from tests.mutations.table import DEFECTS
from tests.support.shared_traces import SHARED

TIME_LIMIT_S = 400
NO_TESTS = 5
"""How pytest exits when none is selected."""
COPIED = ("hta_graph", "analyses", "tests")


@dataclass(frozen=True)
class Verdict:
    """Which test noticed a defect, if any, and after how long."""

    defect: str
    killer: str | None
    seconds: float
    told: str = ""

    def __str__(self) -> str:
        return f"{self.defect:<60} {self.killer or 'SURVIVED':<100} {self.seconds:>5.0f} s"


def copy_of_the_tree(folder: Path, origin: Path = ROOT) -> Path:
    """Copy what the tests need, so that the copy's own package is the one that they import."""
    for name in COPIED:
        shutil.copytree(origin / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(origin / name, folder)
    return folder


def judge(defect: Defect | None, origin: Path, tests: Sequence[str]) -> Verdict:
    """Run the tests against a mutated copy, deep ones if no quick one notices; without a defect they must pass."""
    begin = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        root = copy_of_the_tree(Path(folder), origin)
        if defect is not None:
            defect.apply(root)
        killer, told = first_failure(root, tests, "not slow")
        if killer is None and defect is not None:
            killer, told = first_failure(root, tests, "slow")
    return Verdict(str(defect or "(no defect)"), killer, time.perf_counter() - begin, told)


def first_failure(root: Path, tests: Sequence[str], marked: str) -> tuple[str | None, str]:
    """Return the first test that fails of those with a mark, and pytest's output."""
    plugins = ["-p", "no:cacheprovider", "-p", "tests.mutations.first_failure"]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-m", marked, *plugins, *tests]
    environment = os.environ | {"HTA_GRAPH_SHARED": str(SHARED), "PYTHONPATH": str(root)}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"no end after {TIME_LIMIT_S} s", ""
    if done.returncode in (0, NO_TESTS):
        return None, done.stdout
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return (found[1] if found else f"pytest status {done.returncode}"), done.stdout + done.stderr


def main() -> int:
    """Judge all defects, or those whose name holds a word; print the table."""
    parser = argparse.ArgumentParser(description="Break the package on purpose and see which test notices.")
    parser.add_argument("--only", default="", metavar="WORD", help="only the defects whose name or file holds this")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--tests", nargs="+", help="let these notice instead of each defect's own")
    options = parser.parse_args()
    chosen = [defect for defect in DEFECTS if options.only in f"{defect} {defect.path}"]
    with tempfile.TemporaryDirectory() as folder:
        origin = copy_of_the_tree(Path(folder) / "origin")
        return report(chosen, origin, options.tests, options.jobs)


def report(chosen: Sequence[Defect], origin: Path, tests: Sequence[str] | None, jobs: int) -> int:
    """Judge the defects and print a line for each; return the exit status."""
    every = tests or sorted({path for defect in chosen for path in defect.test_paths})
    whole = judge(None, origin, every)
    if whole.killer:
        sys.stdout.write(f"{whole}\n{whole.told}\n")
        return 2
    survivors = 0
    with ThreadPoolExecutor(jobs) as pool:
        for verdict in pool.map(lambda defect: judge(defect, origin, tests or defect.test_paths), chosen):
            survivors += verdict.killer is None
            sys.stdout.write(f"{verdict}\n")
            sys.stdout.flush()
    sys.stdout.write(f"{len(chosen) - survivors} of {len(chosen)} defects noticed; without one, the tests pass\n")
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
