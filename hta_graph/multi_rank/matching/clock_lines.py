"""Times of one clock in those of another: so much ahead at one moment, and drifting from there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.model import Ints

__all__ = ["SAME_CLOCK", "ClockLine", "convert_times"]


@dataclass(frozen=True)
class ClockLine:
    """How far a clock is ahead of another one: by ``ahead`` (ns) at ``middle`` (its own time), drifting by a share."""

    ahead: int = 0
    drift: float = 0.0
    middle: int = 0

    def to_other(self, times: Ints) -> Ints:
        """Return the clock's own times (ns) in the other one's time."""
        if not self.drift:
            return times - self.ahead
        # Times since an epoch do not fit a float; times since the middle do.
        drifted: Ints = np.rint(self.drift * (times - self.middle)).astype(np.int64)
        return times - self.ahead - drifted

    def ahead_at(self, time: int) -> int:
        """Return how far it is ahead (ns) at one of its own times."""
        return self.ahead + round(self.drift * (time - self.middle))

    def reversed(self) -> ClockLine:
        """Return how far the other clock is ahead of this one."""
        return ClockLine(-self.ahead, 1 - 1 / (1 - self.drift), self.middle - self.ahead)

    def then(self, further: ClockLine) -> ClockLine:
        """Return how far it is ahead of what the other clock itself is compared with.

        >>> ClockLine(5).then(ClockLine(-7)), ClockLine(5).reversed()
        (ClockLine(ahead=-2, drift=0.0, middle=0), ClockLine(ahead=-5, drift=0.0, middle=-5))
        """
        there = self.middle - self.ahead
        drift = self.drift + further.drift - self.drift * further.drift
        return ClockLine(self.ahead + further.ahead_at(there), drift, self.middle)


SAME_CLOCK = ClockLine()
"""One clock, or two that agree."""


def convert_times(lines: Sequence[ClockLine], at: Ints, times: Ints) -> Ints:
    """Return times (ns), each of the clock at its place among several, as :meth:`ClockLine.to_other` does."""
    ahead, middle = (
        np.array(own, np.int64)[at] for own in ([line.ahead for line in lines], [line.middle for line in lines])
    )
    drift = np.array([line.drift for line in lines], np.float64)[at]
    moved: Ints = times - ahead - np.rint(drift * (times - middle)).astype(np.int64)
    return moved
