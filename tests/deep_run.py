"""The deep run: fuzz, attacks and costs at size, and its page: ``python -m tests.deep_run [--scale 0.1] [STEP …]``.

Each step has a section of ``tests/deep_run.md`` that says when, at which commit and with how many cases
it last ran; a run of some steps leaves the other sections as they are. What is damaged follows from a new seed in every
run, which its command shows; ``--seed N`` repeats it.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hta_graph.base.text.sanitize import sanitize_lines
from tests.support.fuzzing import new_seed

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests" / "deep_run.md"
HEAD = """# Deep run results

`bash .ci/deep` runs before a release what takes too long for CI. Each section shows the last run of one step.
"""
MOST_LINES = 60
PYTHON = sys.executable
Step = Callable[[float, int], list[str]]


def _fuzz(module: str, cases: int) -> Step:
    def command(scale: float, seed: int) -> list[str]:
        return [PYTHON, "-m", module, "--cases", str(max(1, round(cases * scale))), "--seed", str(seed)]

    return command


def _always(*words: str) -> Step:
    return lambda *_: list(words)


STEPS: dict[str, tuple[str, Step]] = {
    "tests": ("Deep tests, all their cases", _always(PYTHON, "-m", "pytest", "-m", "slow")),
    "traces": ("Damaged traces", _fuzz("tests.trace_fuzz", 20_000)),
    "jobs": ("Damaged jobs", _fuzz("tests.job_fuzz", 5_000)),
    "commands": ("Any question to any command", _fuzz("tests.command_fuzz", 20_000)),
    "workloads": ("Workloads of damaged traces", _fuzz("tests.chakra_fuzz", 3_000)),
    "loaded": ("Damaged saved graphs, workloads, dumps and host traces", _fuzz("tests.saved_file_fuzz", 5_000)),
    "writing": ("Writing under attack", _always(PYTHON, "-m", "tests.write_attacks")),
    "bombs": ("Bombs", _always(PYTHON, "-m", "tests.resource_bombs")),
    "texts": ("Hostile texts, numbers and patterns", _always(PYTHON, "-m", "tests.text_attacks")),
    "counts": ("Instructions of commands", _always(PYTHON, "-m", "tests.benchmarks.instruction_counts", "--check")),
    "costs": ("Ten times as much of one thing", _always(PYTHON, "-m", "tests.benchmarks.scaling_attacks", "--brief")),
    "package": ("The package on every Python", _always("bash", ".ci/package", "all")),
    "mutations": ("Mistakes that tests must notice", _always(PYTHON, "-m", "tests.mutations")),
}
"""What is run, by its short name: the title of its section and, for a share of the cases, its command."""


def _today() -> datetime:
    return datetime.now(UTC)


def run(name: str, scale: float, seed: int) -> tuple[bool, str]:
    """Run a step; return whether nothing failed, and its section."""
    title, step = STEPS[name]
    command = step(scale, seed)
    began = time.monotonic()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "HTA_GRAPH_DEPTH": "1"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        encoding="utf-8", errors="replace", check=False,
    )  # fmt: skip
    ended = "nothing failed" if done.returncode == 0 else f"FAILED with status {done.returncode}"
    shown = " ".join(["python" if word == PYTHON else word for word in command])
    where = f"{_today():%Y-%m-%d}, commit {_commit()}, Python {platform.python_version()}, {os.cpu_count()} cores"
    lines = [line.rstrip() for line in sanitize_lines(done.stdout).splitlines()][-MOST_LINES:]
    text = [f"## {title}", "", f"`{shown}`: {ended} in {time.monotonic() - began:,.0f} s ({where})."]
    return done.returncode == 0, "\n".join([*text, "", "```", *lines, "```", ""])


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip() or "unknown"


def with_section(page: str, section: str) -> str:
    """Put a section into the page, in the order of the steps, instead of an earlier one of its title."""
    sections = dict(_sections(page)) | dict(_sections(section))
    titles = [title for title, _ in STEPS.values() if title in sections]
    return "\n".join([HEAD, *(sections[title] for title in titles)])


def _sections(page: str) -> Iterator[tuple[str, str]]:
    for part in re.split(r"^(?=## )", page, flags=re.MULTILINE)[1:]:
        yield part.partition("\n")[0].removeprefix("## "), part.rstrip() + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run steps, write the page after each, and return 1 if one failed."""
    parser = argparse.ArgumentParser(description="Fuzz, attacks and costs at size.")
    parser.add_argument("steps", nargs="*", metavar="STEP", help=f"of {', '.join(STEPS)}; all by default")
    parser.add_argument("--scale", type=float, default=1.0, help="this share of the cases that are damaged")
    parser.add_argument("--seed", type=int, default=new_seed(), help="of what is damaged; a new one by default")
    options = parser.parse_args(arguments)
    if unknown := set(options.steps) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    failed = 0
    for name in options.steps or STEPS:
        succeeded, section = run(name, options.scale, options.seed)
        failed += not succeeded
        sys.stdout.write(f"{section}\n")
        sys.stdout.flush()
        # Read again each time: another run may have written its own sections meanwhile.
        PAGE.write_text(with_section(PAGE.read_text("utf-8") if PAGE.is_file() else "", section), "utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
