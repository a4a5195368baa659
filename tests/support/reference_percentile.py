"""Medians and 95% of times by another method than the product's: one value after the other, counted."""

from __future__ import annotations

from collections.abc import Iterable


def percentile(times: Iterable[int], percent: int) -> int:
    """Return the least of some times that so many percent of them do not exceed."""
    known = list(times)
    return min(one for one in known if sum(other <= one for other in known) * 100 >= percent * len(known))
