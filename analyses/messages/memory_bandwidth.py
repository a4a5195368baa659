"""Sentences of memory-bandwidth."""

from __future__ import annotations

from analyses.display.headline import Outlier
from analyses.display.sentence_format import brief_duration, brief_share, quoted
from analyses.messages.scope import window_named

TITLE = "Memory copy and memset bandwidth"
WITHOUT_SIZE = "some copies have no recorded size; their time is counted, but they are left out of the bandwidth"


def headline(found: Outlier, share: float) -> str:
    """Name the kind of copy with the most time, and its mean bandwidth."""
    times = f"{brief_duration(found['duration_ns'])}{found.typical}, {brief_share(share)} of all copies and memsets"
    rate = f"; {found['mean_gbps']:,.1f} GB/s on average" if found["mean_gbps"] > 0 else ""
    return f"{quoted(found['kind'])} takes the most copy time{found.where}: {times}{rate}"


def negligible(every_ns: int, where: str) -> str:
    """Say that copies take next to no time."""
    return f"copies and memsets take {brief_duration(every_ns)}, less than 1% of the time{where}"


def no_copies(rank: int, label: str) -> str:
    """Report a window without copies."""
    return f"rank {rank}: no copies or memsets in {window_named(label)}"
