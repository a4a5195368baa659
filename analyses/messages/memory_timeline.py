"""Sentences of memory-timeline, of traces and of the profiler's raw export."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import quoted
from analyses.messages.scope import window_named

TITLE = "Memory over time"
CATEGORIES_TITLE = "Memory by tensor category"
TIME_AXIS = "ms since the first event"
EMPTY_TIMELINE = "the memory timeline is empty"
RECORD_MEMORY = f"{EMPTY_TIMELINE}; record with profile_memory=True"


UNITS = ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"))


def size(count: int) -> str:
    """Print a number of bytes with three digits or more.

    >>> size(2_707_847_680), size(12 * 2**20), size(920)
    ('2.52 GiB', '12.0 MiB', '920 bytes')
    """
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:,.{1 if count >= 10 * unit else 2}f} {name}"
    return f"{count:,} bytes"


def headline(peak: Outlier) -> str:
    """State the highest peak of a device, and what reached it."""
    by = f", reached in {quoted(str(peak['peak_by']))}" if isinstance(peak["peak_by"], str) else ""
    return f"peak tensor memory on {peak['device']}{peak.where}: {size(peak['peak_bytes'])}{peak.typical}{by}"


def no_memory_events(rank: int) -> str:
    """Report a trace without allocator events."""
    return (
        f"rank {rank}: the trace has no [memory] events; record with profile_memory=True, "
        "or pass the raw memory timeline that export_memory_timeline wrote"
    )


def no_allocation(rank: int, label: str) -> str:
    """Report a window without allocator events."""
    return f"rank {rank}: no allocations in {window_named(label)}; choose another window"


def no_totals(rank: int) -> str:
    """Report a trace whose profiler wrote changes only."""
    return f"rank {rank}: the trace has no memory totals (old profiler); totals start at 0 with its first event"
