"""What ``idle-time`` says: how long the GPU is idle, and the largest cause."""

from __future__ import annotations

from analyses.display.sentence_format import brief_share, counted, quoted, time_and_share

TITLE = "GPU idle time by cause"
NO_IDLE_TIME = "No idle time: no GPU activity was recorded, or there are no gaps."


def idle(share: float, where: str, typical: str, largest: str) -> str:
    """Say for how much of the time the GPU is idle, and what most of that is."""
    return f"GPU idle {brief_share(share)} of the time{where}{typical}; largest cause: {largest}"


def hardly_idle(share: float, where: str, typical: str) -> str:
    """Say that the GPU is hardly ever idle: no cause of that matters."""
    return f"GPU idle {brief_share(share)} of the time{where}{typical}"


def largest_cause(cause: str, share: float, behind: str) -> str:
    """Name a cause with its share of the idle time and what is behind it."""
    return f"{cause} ({brief_share(share)} of it{behind})"


def behind(name: str, *, is_all: bool) -> str:
    """Name what is behind a cause, or behind most of it."""
    return f", {'' if is_all else 'mostly '}{quoted(name)}"


def in_pauses(rank: int, time_ns: int, whole_ns: int, count: int) -> str:
    """Say how much of the idle time is in pauses of the host."""
    return (
        f"Rank {rank}: {time_and_share(time_ns, whole_ns)} of the idle time is in {counted(count, 'pause')} of the "
        "host, longer than 1 ms between launches. CUDA graphs do not remove pauses."
    )


def never_idle(rank: int, label: str) -> str:
    """Say that there is nothing to explain."""
    return f"Rank {rank}: the GPU is never idle in {label}."


def negative_threshold(launch_gap_us: float) -> str:
    """Refuse a threshold."""
    return f"the launch-gap threshold is {launch_gap_us:g} µs; use 0 µs or more"
