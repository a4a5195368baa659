"""Which keys a query attends to: those in a band along the diagonal of all pairs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["BandMask"]


@dataclass(frozen=True)
class BandMask:
    """A band of so many keys before the diagonal and after it, ``None``: all.

    The diagonal goes through the first query and the first key, or, ``lower_right``, through the last of both.
    """

    before: int | None = None
    after: int | None = None
    lower_right: bool = False

    def pairs(self, queries: int, keys: int) -> int:
        """Return how many pairs of a query and a key lie in it.

        >>> BandMask(after=0).pairs(4, 4)
        10
        """
        shift = self._shift(queries, keys)
        until = queries * keys if self.after is None else _up_to(shift + self.after, queries, keys)
        return until - (0 if self.before is None else _up_to(shift - self.before - 1, queries, keys))

    def attended_keys(self, queries: int, keys: int) -> int:
        """Return how many keys any query attends to."""
        shift = self._shift(queries, keys)
        first = 0 if self.before is None else max(0, shift - self.before)
        end = keys if self.after is None else min(keys, queries + shift + self.after)
        return max(0, end - first) if queries else 0

    def attending_queries(self, queries: int, keys: int) -> int:
        """Return how many queries attend to any key."""
        return BandMask(self.after, self.before, self.lower_right).attended_keys(keys, queries)

    def _shift(self, queries: int, keys: int) -> int:
        return keys - queries if self.lower_right else 0


def _up_to(last: int, queries: int, keys: int) -> int:
    """Count the pairs of a query and a key that is at most ``last`` places after it."""
    return _ramp(last, queries) - _ramp(last - keys, queries)


def _ramp(last: int, queries: int) -> int:
    """Add up, over the queries, how many of unboundedly many keys are at most ``last`` places after one."""
    return _triangle(last + queries) - _triangle(last)


def _triangle(side: int) -> int:
    return side * (side + 1) // 2 if side > 0 else 0
