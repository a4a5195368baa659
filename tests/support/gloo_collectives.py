"""Ranks on CPUs that meet, and whose waits are passed on."""

from __future__ import annotations

from tests.support.gloo_builder import MAIN, WORKER, GlooRank

__all__ = ["ranks_with_a_propagated_wait", "take_part"]


def take_part(trace: GlooRank, arrival: float, end: float, *, tid: int = WORKER, waits: bool = True) -> None:
    """Let a rank take part in an all-reduce; the thread goes on 5 µs after its end, or at once."""
    trace.called("all_reduce", arrival, arrival + 1)
    trace.worked("all_reduce", arrival + 2, end, tid=tid)
    if waits:
        trace.op("aten::view", end + 5, end + 6, tid=MAIN)


def ranks_with_a_propagated_wait() -> list[GlooRank]:
    """Rank 0 is slow, rank 1 waits for it, and rank 2 for rank 1.

    µs       0          20     30                 90  100
    rank 0   [meet all ]       [mm ][bmm        ][meet 0, 1]
    rank 1   [meet all ]       [mm ][meet 0, 1 ~~~~~~~~~~~~][meet 1, 2]
    rank 2   [meet all ]       [mm ][meet 1, 2 ~~~~~~~~~~~~~~~~~~~~~~~]
    """
    every, left, right = [0, 1, 2], [0, 1], [1, 2]
    ranks = [
        GlooRank(0, every, left, names="01"),
        GlooRank(1, every, left, right, names="012"),
        GlooRank(2, every, right, names="02"),
    ]
    for rank, trace in enumerate(ranks):
        take_part(trace, 10, 20)
        trace.op("aten::mm", 30, 40, tid=MAIN)
        if rank == 0:
            trace.op("aten::bmm", 42, 92, tid=MAIN)
        if rank < 2:
            take_part(trace, 94 if rank == 0 else 44, 100, tid=WORKER + 2)
        if rank > 0:
            take_part(trace, 110 if rank == 1 else 44, 120, tid=WORKER + (4 if rank == 1 else 2))
    return ranks
