"""The command line asked in this process by a fuzzer, and what every answer obeys."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass

from analyses.cli.main import main
from tests.support.invariants import require


@dataclass(frozen=True)
class CommandResult:
    """What a command printed, and its exit status."""

    status: int
    out: bytes
    err: str

    @property
    def errors(self) -> list[str]:
        """Its lines of error."""
        return [line for line in self.err.splitlines() if line.startswith("hta-graph: ")]

    def check(self) -> None:
        """Check what every answer obeys.

        Raises:
            BrokenRuleError: it does not.
        """
        require(self.status in (0, 1, 2, 3), f"exit status {self.status}: {self.err[:200]}")
        require("Traceback" not in self.err, "a traceback on stderr")
        require("this is a defect" not in self.err, f"a result that contradicts itself: {self.err[:500]}")

    def check_one_error(self) -> None:
        """Check also that there is one line of error if it failed, and none if not.

        Raises:
            BrokenRuleError: there are more, or fewer.
        """
        self.check()
        count = len(self.errors)
        require(count == int(self.status != 0), f"status {self.status} with {count} lines of error: {self.err[:300]}")


def run_fuzzed(words: Sequence[str]) -> CommandResult:
    """Run a command."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(words)
        except SystemExit as stop:
            status = int(stop.code or 0)
    out.flush()
    return CommandResult(status, out.buffer.getvalue(), err.getvalue())  # type: ignore[attr-defined]
