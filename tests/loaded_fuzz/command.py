"""A command run in this process, and what every run of one obeys."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from analyses.command_line.cli import main as command_line
from tests.support.properties import require


def ask_command(folder: Path, *arguments: str) -> str:
    """Run a command; return ``answered`` or ``refused``.

    Raises:
        BrokenRuleError: its exit status, or what it prints, is not what it must be.
    """
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = command_line(arguments)
    text = err.getvalue()
    errors = [line for line in text.splitlines() if line.startswith("hta-graph: ")]
    require(status in (0, 1), f"exit status {status}: {text[:200]}")
    require(len(errors) == int(status != 0), f"status {status} with {len(errors)} lines of error: {text[:300]}")
    require("Traceback" not in text, "a traceback on stderr")
    require("this is a defect" not in text, "a result that contradicts itself")
    for error in errors:
        require(len(error) <= 520, f"not one short line: {error[:80]!r}")
        require(folder.name in error, f"the line does not say where: {error[:160]!r}")
    return "refused" if status else "answered"
