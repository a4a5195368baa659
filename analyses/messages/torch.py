"""Lines that a profiler handler prints and logs."""

from __future__ import annotations

from pathlib import Path


def of_rank(rank: int, headline: str) -> str:
    """Name the rank of a headline: every rank of a job may print one."""
    return f"rank {rank}, {headline}"


def advice(text: str) -> str:
    """Print the first advice."""
    return f"Try this: {text}"


def more(trace: Path) -> str:
    """Name the command that shows more of a trace."""
    return f"Details: hta-graph critical-path {trace}"


def report(page: Path) -> str:
    """Name the page that was written."""
    return f"{page}: open it in a browser"


def all_ranks(folder: Path, world_size: int) -> str:
    """Name the command that analyzes all ranks."""
    return f"All {world_size:,} ranks: hta-graph stragglers {folder}"


def not_written(folder: Path, error: object) -> str:
    """Report a trace that could not be written."""
    return f"{folder}: trace not written: {error}"


def not_analyzed(trace: Path, error: object) -> str:
    """Report a trace that was written only."""
    return f"{trace}: written, but not analyzed: {str(error).removeprefix(f'{trace}: ')}"
