"""What answers say in words about the window that they are about."""

from __future__ import annotations

from analyses.display.terminal import milliseconds
from hta_graph.algorithms.time.windows import ResolvedWindow

__all__ = ["rows_after_lines"]


def rows_after_lines(window: ResolvedWindow) -> list[str]:
    """Say what was recorded after the end of the work, if anything was."""
    count = window.rows_after
    if not count:
        return []
    rows = "1 row begins" if count == 1 else f"{count:,} rows begin"
    return [f"the window ends where the work ends; {rows} later, up to {milliseconds(window.after_ns)} after it"]
