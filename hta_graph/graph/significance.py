"""Is it chance that work continued so soon after another stream's work had ended?

stream 7    work] .............. hole ............... [held back     enqueued before the hole
stream 20      [nccl ~~~]  [nccl ~~~~~~~~~~~~~~~~~~~~]<lag>          n = 2 ends in the hole, the last one lag before
"""

from __future__ import annotations

from hta_graph.model import Bools, Ints

RELEASED_WITHIN_NS = 20_000
"""A stream that waits for another one continues within this time of that one's work (real traces: 1 to 19 µs)."""

LEAST_LAG_NS = 1_000
"""A shorter lag proves no more: old traces print whole µs."""


def is_improbable(count: Ints, lag_ns: Ints, hole_ns: Ints, one_in: int, within_ns: int = RELEASED_WITHIN_NS) -> Bools:
    """Mark holes whose end chance would bring so near to another end in at most one of ``one_in`` cases.

    Of ``count`` ends that fall anywhere into a hole, one lies within ``lag_ns`` of its end with a probability of about
    ``count × lag / hole``. Whatever the hole is, a lag above ``within_ns`` is too long.

    >>> import numpy as np
    >>> is_improbable(np.array([1, 3, 0]), np.array([2_000] * 3), np.array([200_000] * 3), 100).tolist()
    [True, False, False]
    """
    soon: Bools = (count > 0) & (lag_ns >= 0) & (lag_ns <= within_ns)
    rare: Bools = one_in * count * lag_ns.clip(LEAST_LAG_NS, within_ns) <= hole_ns
    return soon & rare
