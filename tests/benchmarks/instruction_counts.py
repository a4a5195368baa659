"""Instructions that commands take on a small trace: ``python -m tests.benchmarks.instruction_counts [--check]``.

Callgrind counts them, which depends neither on the load nor on the clock of the machine. ``--write`` stores the counts
for this build of Python and these packages, whose imports are counted as well; ``--check`` fails where a command takes
over 3% more. Two runs differ by about 0.001%.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shutil import which

from tests.benchmarks.paired_commands import SAMPLE, has_graph_cache, own_command, rank_files

STORED = Path(__file__).with_name("instruction_counts.json")
TOLERANCE = 0.03
COMMANDS = ("critical-path", "report", "attribution", "diff")
COLLECTED = re.compile(r"^==\d+== Collected : (\d+)", re.MULTILINE)
PACKAGES = ("numpy", "pandas", "pyarrow", "msgspec", "orjson", "jinja2", "isal")
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
SETTINGS = {"PYTHONHASHSEED": "0", "HTA_GRAPH_CACHE": "off", "COLUMNS": "80", **dict.fromkeys(THREADS, "1")}


def here() -> str:
    """Name what the counts depend on besides our code: two builds of one version of Python differ by a tenth."""
    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return f"Python {' '.join(sys.version.split())}, {packages}, {' '.join(platform.libc_ver())}, {platform.machine()}"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"


def count(name: str, scratch: Path) -> int:
    """Return how many instructions a command takes, with its modules compiled and nothing cached.

    Raises:
        RuntimeError: it failed.
    """
    command = [*own_command(name, rank_files(SAMPLE)[0], scratch), *(["--no-cache"] if has_graph_cache() else [])]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | SETTINGS
    subprocess.run(command, env=environment, capture_output=True, check=True)  # compiles the modules
    counted = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", *command]
    done = subprocess.run(counted, env=environment, capture_output=True, text=True, check=False)
    found = COLLECTED.search(done.stderr)
    if done.returncode or not found:
        raise RuntimeError(f"{' '.join(counted)} failed: {done.stderr[-2000:]}")
    return int(found[1])


def differences(counts: Mapping[str, int], stored: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """Return a line for each command, and the commands that take more than the tolerance allows."""
    lines, failed = [], []
    for name, now in counts.items():
        line = f"{name}: {now / 1e6:,.0f} million instructions"
        if name not in stored:
            lines.append(f"{line}; no stored count")
            continue
        change = now / stored[name] - 1
        failed += [name] if change > TOLERANCE else []
        lines.append(f"{line}, {change:+.1%} of the stored count{'; MORE THAN ALLOWED' if change > TOLERANCE else ''}")
    return lines, failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Count, print, and return 1 if a command takes more than before."""
    parser = argparse.ArgumentParser(description="Count the instructions of commands on a small trace.")
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)}; all by default")
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--check", action="store_true", help=f"fail if a command takes over {TOLERANCE:.0%} more")
    action.add_argument("--write", action="store_true", help="store the counts for this Python and these packages")
    options = parser.parse_args(arguments)
    if unknown := set(options.commands) - set(COMMANDS):
        parser.error(f"no such command: {', '.join(sorted(unknown))}")
    if which("valgrind") is None:
        print("skipped: valgrind is not installed; no instructions are counted")  # noqa: T201
        return 0
    every = json.loads(STORED.read_text(encoding="utf-8")) if STORED.is_file() else {}
    if options.check and here() not in every:
        print(f"skipped: no counts are stored for {here()}; stored: {'; '.join(every) or 'none'}")  # noqa: T201
        return 0
    with tempfile.TemporaryDirectory() as folder:
        counts = {name: count(name, Path(folder)) for name in options.commands or COMMANDS}
    lines, failed = differences(counts, every.get(here(), {}))
    print("\n".join([here(), *lines]))  # noqa: T201
    if options.write:
        STORED.write_text(
            json.dumps(every | {here(): every.get(here(), {}) | counts}, indent=1) + "\n", encoding="utf-8"
        )
    return int(options.check and failed != [])


if __name__ == "__main__":
    sys.exit(main())
