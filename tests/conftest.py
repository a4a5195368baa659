"""Which tests run here: those that need the shared traces, a program or much time are deselected with a line."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("HTA_GRAPH_SHARED", Path(__file__).parents[2] / "shared"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what cannot run here."""
    out: list[pytest.Item] = []
    if not (SHARED / "traces").is_dir():
        out += [item for item in items if item.get_closest_marker("shared")]
        if out:
            config.stash[_MISSING] = (
                f"{len(out)} tests that read the shared traces deselected: {SHARED}/traces is absent"
            )
    if "slow" not in (config.option.markexpr or ""):
        out += [item for item in items if item.get_closest_marker("slow") and item not in out]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if item not in out]


_MISSING = pytest.StashKey[str]()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was left out and why."""
    if line := config.stash.get(_MISSING, ""):
        terminalreporter.write_line(line)
    reasons = Counter(report.longrepr[2] for report in terminalreporter.stats.get("skipped", []) if report.longrepr)
    for reason, count in reasons.items():
        terminalreporter.write_line(f"{count} tests left out: {reason.removeprefix('Skipped: ')}")


def shared_traces() -> list[Path]:
    """Return the shared real traces; empty where the folder is absent."""
    files = sorted((SHARED / "traces").rglob("*.json.gz")) if SHARED.is_dir() else []
    return [path for path in files if not path.name.startswith("host_et")]
