"""How fast a collective is: algorithm and bus bandwidth as nccl-tests define them.

The algorithm's is the size of the operation by its time; the bus's is what each link carries, by which collectives of
different kinds and numbers of ranks can be compared with what the hardware does: times 2(n−1)/n for an all-reduce,
(n−1)/n where each rank's part goes to all others, 1 where one rank's goes to one or all.
Source: the page PERFORMANCE.md of NVIDIA's nccl-tests.
"""

from __future__ import annotations

BUS_FACTORS = (
    ("allreduce", lambda ranks: 2 * (ranks - 1) / ranks),
    ("reducescatter", lambda ranks: (ranks - 1) / ranks),
    ("allgather", lambda ranks: (ranks - 1) / ranks),
    ("alltoall", lambda ranks: (ranks - 1) / ranks),
    ("gather", lambda ranks: (ranks - 1) / ranks),
    ("scatter", lambda ranks: (ranks - 1) / ranks),
    ("broadcast", lambda _: 1.0),
    ("reduce", lambda _: 1.0),
    ("send", lambda _: 1.0),
    ("recv", lambda _: 1.0),
)
"""By what is in a name without its underscores; the first one that fits."""


def bus_factor(collective: object, ranks: int) -> float | None:
    """Return by what the algorithm bandwidth is multiplied; None for what moves no data, or is not known.

    >>> bus_factor("_allgather_base", 4), bus_factor("allreduce_coalesced", 2), bus_factor("barrier", 2)
    (0.75, 1.0, None)
    """
    name = str(collective or "").lower().replace("_", "")
    return next((factor(ranks) for part, factor in BUS_FACTORS if part in name), None)
