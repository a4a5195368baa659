"""Which keys a query attends to: those in a band along the diagonal of all pairs."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Band"]


@dataclass(frozen=True)
class Band:
    """A band of so many keys before the diagonal and after it, ``None``: all.

    The diagonal goes through the first query and the first key, or, ``from_last``, through the last of both.
    """

    before: int | None = None
    after: int | None = None
    from_last: bool = False

    def pairs(self, queries: int, keys: int) -> int:
        """Return how many pairs of a query and a key lie in it.

        >>> Band(after=0).pairs(4, 4)
        10
        """
        shift = self._shift(queries, keys)
        until = queries * keys if self.after is None else _up_to(shift + self.after, queries, keys)
        return until - (0 if self.before is None else _up_to(shift - self.before - 1, queries, keys))

    def keys_met(self, queries: int, keys: int) -> int:
        """Return how many keys any query attends to."""
        shift = self._shift(queries, keys)
        first = 0 if self.before is None else max(0, shift - self.before)
        end = keys if self.after is None else min(keys, queries + shift + self.after)
        return max(0, end - first) if queries else 0

    def queries_met(self, queries: int, keys: int) -> int:
        """Return how many queries attend to any key."""
        return Band(self.after, self.before, self.from_last).keys_met(keys, queries)

    def _shift(self, queries: int, keys: int) -> int:
        return keys - queries if self.from_last else 0


def _up_to(last: int, queries: int, keys: int) -> int:
    """Count the pairs of a query and a key that is at most ``last`` places after it."""
    return _ramp(last, queries) - _ramp(last - keys, queries)


def _ramp(last: int, queries: int) -> int:
    """Add up, over the queries, how many of unboundedly many keys are at most ``last`` places after one."""
    return _triangle(last + queries) - _triangle(last)


def _triangle(side: int) -> int:
    return side * (side + 1) // 2 if side > 0 else 0
