"""What the help says beside commands and their options: what to try first, exit statuses, examples."""

from __future__ import annotations

from analyses.cli.command import Command

__all__ = ["EXIT_STATUSES", "FIRST_COMMANDS", "exit_status_lines", "further_help"]

EXIT_STATUSES = {
    0: "done; an analysis that finds nothing says what is missing",
    1: "the trace cannot answer, or one of several could not be read; a line on standard error says why",
    2: "wrong usage",
    130: "interrupted",
}
"""Exit status → what it means, of every command."""

FIRST_COMMANDS = {
    "hta-graph demo --traces DIR": "traces to try all of this on",
    "hta-graph critical-path TRACE": "what decides how long a step takes",
    "hta-graph report TRACE -o report.html": "all answers on one page",
}
"""What to try first → what it gives."""


def further_help(command: Command) -> str:
    """Return what stands behind a command's options."""
    examples = [f"  hta-graph {line}" for line in command.examples]
    return "\n".join(
        [
            *("examples (on the traces of hta-graph demo --traces DIR):", *examples, ""),
            *exit_status_lines(),
            *("", f"more: docs/{command.page}"),
        ]
    )


def exit_status_lines() -> list[str]:
    """Return what the exit statuses mean, a line each."""
    return ["exit status:", *(f"  {status:<4} {meaning}" for status, meaning in EXIT_STATUSES.items())]
