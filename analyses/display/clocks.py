"""What the diagnostics of a graph tell of its clocks, in words."""

from __future__ import annotations

from collections.abc import Mapping

from analyses.display.terminal import duration_text

__all__ = ["clock_lines", "clock_notes"]


def clock_lines(diagnostics: Mapping[str, int]) -> list[str]:
    """Say it where the GPU's clock is behind the host's."""
    behind = diagnostics["gpu_clock_behind_ns"]
    if not behind:
        return []
    said = f"clocks: the GPU's is at least {duration_text(behind)} behind the host's (work starts before its launch)"
    return [f"{said}; recorded times are left as they are"]


def clock_notes(diagnostics_of: Mapping[int, Mapping[str, int]]) -> list[str]:
    """Say of which ranks the GPU's clock is behind: delays from launch to start are then too short, or negative."""
    found = ((rank, line) for rank, diagnostics in diagnostics_of.items() for line in clock_lines(diagnostics))
    return [f"rank {rank}: {line}, so delays from launch to start are too short" for rank, line in found]
