"""What a user is told of a conversion: what waits for nobody, what is unknown, what ran at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from hta_graph.export.chakra.workload.met_communications import MetCommunications
from hta_graph.export.chakra.workload.rank_work import FinishedRank, RankWork
from hta_graph.shown import milliseconds

__all__ = ["early_notes", "met_notes", "overlap_notes", "unknown_line"]


def early_notes(works: Sequence[RankWork]) -> list[str]:
    """Tell of communication that was launched before the recording."""
    early = {work.rank: len(work.found.early) for work in works if work.found.early}
    if not early:
        return []
    listed = ", ".join(f"{count} on rank {rank}" for rank, count in list(early.items())[:16])
    return [f"communication launched before the recording waits for nobody and takes as long as it did: {listed}"]


def unknown_line(work: RankWork) -> str:
    """Name a rank's first kernel whose communication is not known, and what is missing."""
    (kernel, why), count = work.unknown_kernels[0], len(work.unknown_kernels)
    index, name = work.graph.event_table.index[kernel], work.graph.name_of(kernel)[:120]
    more = f" (and {count - 1:,} more such kernels)" if count > 1 else ""
    return f"{work.graph.path}: event {index}, kernel {name!r}: {why}{more}"


def met_notes(work: RankWork, met: MetCommunications, *, keeps: bool) -> Iterator[str]:
    """Tell what is as recorded, and what has no partner."""
    rank, unmatched = work.rank, np.array(sorted(met.unmatched[work.rank]), np.int64)
    on_cpu = int(np.count_nonzero(work.on_cpu[unmatched]))
    if met.recorded[rank]:
        yield f"rank {rank}: {met.recorded[rank]:,} communications are as recorded: ranks meet, and their time passes"
    if keeps and len(unmatched) > on_cpu:
        kernels = len(unmatched) - on_cpu
        yield f"rank {rank}: {kernels:,} communication kernels have no partner; they take as long as they did"
    if on_cpu:
        yield f"rank {rank}: {on_cpu:,} communications on the CPU are not known or have no partner and show as CPU time"


def overlap_notes(ranks: Sequence[FinishedRank], overlap: str) -> list[str]:
    """Tell of work that ran beside other work of its slot, where a simulated rank does one thing at a time."""
    found = {
        rank.work.rank: ", ".join(f"{milliseconds(ns)} ms on the {slot}" for slot, ns in rank.overlaps.items() if ns)
        for rank in ranks
    }
    listed = "; ".join(f"rank {rank}: {said}" for rank, said in list(found.items())[:16] if said)
    if not listed:
        return []
    done = "was taken out of durations" if overlap == "share" else "runs after it in the simulator"
    return [f"what ran beside other work of its slot {done}: {listed}"]
