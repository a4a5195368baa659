"""The axis of a picture of lanes: round times since the window's start."""

from __future__ import annotations

__all__ = ["time_ticks"]

TIME_UNITS = (("s", 1_000_000_000), ("ms", 1_000_000), ("µs", 1_000), ("ns", 1))
ROUND_DIGITS = (1, 2, 5)


def time_ticks(length_ns: int, most: int) -> list[tuple[int, str]]:
    """Return at most so many round times (ns), and how each is printed, all in one unit.

    >>> time_ticks(90_000, 5)
    [(0, '0'), (20000, '20 µs'), (40000, '40 µs'), (60000, '60 µs'), (80000, '80 µs')]
    >>> time_ticks(3_000_000, 4)
    [(0, '0'), (1000000, '1 ms'), (2000000, '2 ms'), (3000000, '3 ms')]
    """
    steps = (digit * 10**power for power in range(19) for digit in ROUND_DIGITS)
    step = next(step for step in steps if length_ns // step < most)
    unit, size = next((unit, size) for unit, size in TIME_UNITS if size <= max(length_ns, 1))
    times = range(0, length_ns + 1, step)
    return [(time, f"{time / size:.12g} {unit}" if time else "0") for time in times]
