"""What ``idle-time`` says: how long the GPU is idle, and the largest cause."""

from __future__ import annotations

from analyses.display.sentence_format import brief_share, quoted

TITLE = "GPU idle time by cause"
NO_IDLE_TIME = "No idle time: no GPU activity was recorded, or there are no gaps."


def idle(share: float, where: str, typical: str, cause: str, cause_share: float, behind: str | None) -> str:
    """Say for how much of the time the GPU is idle, and what most of that is."""
    detail = f", mostly {quoted(behind)}" if behind else ""
    largest = f"{cause} ({brief_share(cause_share)} of it{detail})"
    return f"GPU idle {brief_share(share)} of the time{where}{typical}; largest cause: {largest}"


def never_idle(rank: int, label: str) -> str:
    """Say that there is nothing to explain."""
    return f"Rank {rank}: the GPU is never idle in {label}."


def negative_threshold(launch_gap_us: float) -> str:
    """Refuse a threshold."""
    return f"the threshold of launch gaps is {launch_gap_us:g} µs; give a length of 0 µs or more"
