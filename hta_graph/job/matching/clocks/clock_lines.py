"""Times of one clock in those of another: so much ahead at one moment, and drifting from there."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.model import Ints

__all__ = ["EQUAL", "ClockLine"]


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


EQUAL = ClockLine()
"""One clock, or two that agree."""
