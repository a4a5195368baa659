"""What a user is told of a conversion: what waits for nobody, what is unknown, what ran at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hta_graph.chakra.matched_communications import RecordedRank
from hta_graph.chakra.met_communications import MatchedCommunications
from hta_graph.chakra.rank_workload import RankWorkload, ScheduledRank
from hta_graph.text.formatting import join_first, milliseconds

__all__ = ["broadcast_notes", "early_notes", "matching_notes", "overlap_notes", "unknown_line"]


def early_notes(works: Sequence[RankWorkload]) -> list[str]:
    """Tell of communication that was launched before the recording."""
    early = {
        work.rank: len(work.communications.before_recording) for work in works if work.communications.before_recording
    }
    if not early:
        return []
    listed = join_first([f"{count} on rank {rank}" for rank, count in early.items()])
    return [f"communication launched before the recording waits for nobody and takes as long as it did: {listed}"]


def unknown_line(work: RankWorkload) -> str:
    """Name a rank's first kernel whose communication is not known, and what is missing."""
    (kernel, why), count = work.unknown_kernels[0], len(work.unknown_kernels)
    index, name = work.graph.event_table.index[kernel], work.graph.name_of(kernel)[:120]
    more = f" (and {count - 1:,} more such kernels)" if count > 1 else ""
    return f"{work.graph.path}: event {index}, kernel {name!r}: {why}{more}"


def matching_notes(work: RankWorkload, matched: MatchedCommunications, *, as_recorded: bool) -> Iterator[str]:
    """Tell what is as recorded, and what has no partner."""
    rank, unmatched = work.rank, matched.unmatched[work.rank]
    on_cpu = {row for row in unmatched if work.on_cpu[row]}
    unknown = len(on_cpu & {row for row, _ in work.communications.unknown})
    if recorded := matched.recorded[rank]:
        yield f"rank {rank}: {recorded:,} communications are as recorded: ranks meet, and their time passes"
    if as_recorded and len(unmatched) > len(on_cpu):
        kernels = len(unmatched) - len(on_cpu)
        yield f"rank {rank}: {kernels:,} communication kernels have no partner; they take as long as they did"
    whose = "stay time of the thread that waited for them"
    if unknown and not as_recorded:
        why = "of unknown size or group, or of a kind that ASTRA-sim does not run"
        yield f"rank {rank}: {unknown:,} communications on the CPU, {why}, {whose}; as-recorded keeps their meeting"
    if without := len(on_cpu) - (0 if as_recorded else unknown):
        yield f"rank {rank}: {without:,} communications on the CPU have no partner and {whose}"


def broadcast_notes(ranks: Sequence[RecordedRank]) -> list[str]:
    """Tell of broadcasts that a simulated rank does by itself."""
    count = sum(item.kind == "BROADCAST" and not item.is_recorded for own in ranks for item in own.known)
    if not count:
        return []
    how = "take as long as they did and wait for nobody, for so ASTRA-sim runs them"
    return [f"{count:,} broadcasts {how}; unknown collectives as-recorded lets ranks wait for the root"]


def overlap_notes(ranks: Sequence[ScheduledRank], overlap: str) -> list[str]:
    """Tell of work that ran beside other work of its slot, where a simulated rank does one thing at a time."""
    found = {
        rank.work.rank: ", ".join(f"{milliseconds(ns)} ms on the {slot}" for slot, ns in rank.overlaps.items() if ns)
        for rank in ranks
    }
    listed = join_first([f"rank {rank}: {said}" for rank, said in found.items() if said], "; ")
    if not listed:
        return []
    done = "was taken out of durations" if overlap == "share" else "runs after it in the simulator"
    return [f"what ran beside other work of its slot {done}: {listed}"]
