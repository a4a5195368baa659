"""How fast a collective is: algorithm and bus bandwidth as nccl-tests define them.

The algorithm's is the size of the operation by its time; the bus's is what each link carries, by which collectives of
different kinds and numbers of ranks can be compared with what the hardware does: times 2(n−1)/n for an all-reduce,
(n−1)/n where each rank's part goes to all others, 1 where one rank's goes to one or all.
Source: the page PERFORMANCE.md of NVIDIA's nccl-tests.
"""

from __future__ import annotations

from typing import Any

from hta_graph.multi_rank.matching.communications import listed_ranks

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


def exchanged_elements(splits: tuple[Any, Any], elements: tuple[Any, Any], place: int | None) -> int | None:
    """Return how many elements of an uneven all-to-all cross a rank's links, in the direction of more; None: unknown.

    Parts count rows of a tensor, of which each has as many elements; what a rank sends itself is on no link. Source:
    ``all_to_all_single`` of torch.distributed, whose split sizes are recorded (pytorch#151438).

    >>> exchanged_elements(("[11, 12, 13, 14]", "[11, 5, 1, 40]"), (5_000, 5_700), 0)
    4600
    >>> exchanged_elements(("[4, 4, ...]", "[4, 4]"), (8, 8), 0), exchanged_elements(("[4, 4]", "[4, 4]"), (8, 8), None)
    (None, None)

    Args:
        splits: the recorded parts, to and from each rank.
        elements: how many are sent and received in all.
        place: which part is the rank's own; None if it is not known.
    """
    found = []
    for printed, count in zip(splits, elements, strict=True):
        parts = listed_ranks(printed)
        if place is None or not 0 <= place < len(parts) or not isinstance(count, int) or count < 0:
            return None
        rows = sum(parts)
        found.append(count * (rows - parts[place]) // rows if rows else 0)
    return max(found)
