"""A command run in this process, and what every run of one obeys."""

from __future__ import annotations

from pathlib import Path

from tests.support.fuzzed_command import run_fuzzed
from tests.support.invariants import require


def ask_command(folder: Path, *arguments: str) -> str:
    """Run a command; return ``answered`` or ``refused``.

    Raises:
        BrokenRuleError: its exit status, or what it prints, is not what it must be.
    """
    answer = run_fuzzed(arguments)
    answer.check_one_error()
    require(answer.status != 2, "a wrong command line")
    for error in answer.errors:
        require(len(error) <= 520, f"not one short line: {error[:80]!r}")
        require(folder.name in error, f"the line does not say where: {error[:160]!r}")
    return "refused" if answer.status else "answered"
