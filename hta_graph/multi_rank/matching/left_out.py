"""Communications that are left out, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest

import numpy as np

from hta_graph.arrays import rows_by_value
from hta_graph.model import Codes
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_ranks import MatchKey
from hta_graph.multi_rank.matching.matched_ranks import MatchedChannel
from hta_graph.multi_rank.matching.rank_members import RankCommunications
from hta_graph.multi_rank.matching.rank_record import Match

__all__ = [
    "SINGLE_RANK",
    "VIOLATES_CAUSALITY",
    "IS_MATCHED",
    "NOT_RECORDED",
    "NO_PARTNER",
    "OUTSIDE_RECORDING",
    "UNMATCHED_REASONS",
    "UNKNOWN_KERNEL",
    "Unmatched",
    "summarize_unmatched",
    "unmatched_reasons",
    "exclude_names",
]

IS_MATCHED, SINGLE_RANK, NO_PARTNER, OUTSIDE_RECORDING, VIOLATES_CAUSALITY, NOT_RECORDED, UNKNOWN_KERNEL = range(7)

UNMATCHED_REASONS = {
    NO_PARTNER: "no partner: another rank of its group recorded none that fits",
    OUTSIDE_RECORDING: "outside the recording of another rank of its group",
    VIOLATES_CAUSALITY: "physics: a rank would have left before another one came that it waits for",
    NOT_RECORDED: "the trace does not say whom it concerns",
    UNKNOWN_KERNEL: "kernels of its name do not wait for each other as members of a collective do",
}
"""Why a communication is left out; one that concerns a single rank is not."""


_UnmatchedSpan = tuple[int, int, int, int]
"""What only one rank has: rank, place, when the last recording of the others begins, when their first one ends."""


@dataclass(frozen=True)
class Unmatched:
    """How many communications of all ranks are left out for one reason, and their share of all communication time."""

    reason: str
    count: int
    time_ns: int
    share: float


def unmatched_reasons(
    channels: Iterable[MatchedChannel[MatchKey]],
    kept: Collection[Match],
    ranks: Mapping[int, RankCommunications],
    clocks: JobClocks,
) -> dict[int, Codes]:
    """Return for each rank's communications why they are left out (0: they are not)."""
    found = {rank: [NOT_RECORDED] * len(own) for rank, own in ranks.items()}
    recordings = {rank: _recording_span(rank, own, clocks) for rank, own in ranks.items()}
    unmatched: list[_UnmatchedSpan] = []
    for matched in channels:
        lone = len(matched.channel.members) < 2 and matched.channel.size < 2
        _set_reason(found, matched.recorded.items(), SINGLE_RANK if lone else VIOLATES_CAUSALITY)
        _set_reason(found, matched.unmatched.items(), SINGLE_RANK if lone else NO_PARTNER)
        unmatched += _unmatched_spans(matched, recordings)
        for match in matched.matches:
            if len(match) == 1:
                ((rank, place),) = match.items()
                found[rank][place] = SINGLE_RANK if lone else NO_PARTNER
    _set_reason(found, _outside_recordings(unmatched, ranks, clocks), OUTSIDE_RECORDING)
    for match in kept:
        for rank, place in match.items():
            found[rank][place] = IS_MATCHED
    return {rank: np.array(codes, np.int8) for rank, codes in found.items()}


def _set_reason(found: Mapping[int, list[int]], places: Iterable[tuple[int, Sequence[int]]], reason: int) -> None:
    for rank, listed in places:
        own = found[rank]
        for place in listed:
            own[place] = reason


def exclude_names(
    reasons: Mapping[int, Codes], names: Collection[str], ranks: Mapping[int, RankCommunications]
) -> dict[int, Codes]:
    """Leave out all kernels of some names, which do not do what collectives do."""
    return {
        rank: np.where([name in names for name in own.name], np.int8(UNKNOWN_KERNEL), reasons[rank]).astype(np.int8)
        for rank, own in ranks.items()
    }


def _recording_span(rank: int, own: RankCommunications, clocks: JobClocks) -> tuple[int, int]:
    """Return when a rank's recording begins and ends in the job's time (ns)."""
    begin, end = clocks.to_job(rank, np.array([own.recording.begin, own.recording.end])).tolist()
    return begin, end


def _unmatched_spans(
    matched: MatchedChannel[MatchKey], recordings: Mapping[int, tuple[int, int]]
) -> Iterator[_UnmatchedSpan]:
    """List what a channel's ranks have to themselves."""
    if any(matched.unmatched.values()):
        given = [rank for rank in matched.channel.members if rank in recordings]
        # Two are enough: one of them at least is another rank's.
        begins = nlargest(2, ((recordings[rank][0], rank) for rank in given))
        ends = nsmallest(2, ((recordings[rank][1], rank) for rank in given))
        for rank, places in matched.unmatched.items():
            begin, end = (next((ns for ns, other in side if other != rank), None) for side in (begins, ends))
            if begin is not None and end is not None:
                yield from ((rank, place, begin, end) for place in places)


def _outside_recordings(
    unmatched: Sequence[_UnmatchedSpan], ranks: Mapping[int, RankCommunications], clocks: JobClocks
) -> Iterator[tuple[int, list[int]]]:
    """List each rank's communications that another rank's recording does not reach."""
    rank, place, last_begin, first_end = np.array(unmatched, np.int64).reshape(-1, 4).T
    for one, mine in rows_by_value(rank).items():
        own, at = ranks[one], place[mine]
        came = clocks.to_job(one, own.arrival[at], on_gpu=own.on_gpu[at])
        left = clocks.to_job(one, own.end[at], on_gpu=own.on_gpu[at])
        yield one, at[(left < last_begin[mine]) | (came > first_end[mine])].tolist()


def summarize_unmatched(reasons: Mapping[int, Codes], ranks: Mapping[int, RankCommunications]) -> list[Unmatched]:
    """Add up what is left out, by reason; most time first."""
    code = np.concatenate([reasons[rank] for rank in ranks]) if ranks else np.zeros(0, np.int8)
    time = np.concatenate([own.end - own.start for own in ranks.values()]) if ranks else np.zeros(0, np.int64)
    total = max(int(time.sum()), 1)
    found = [
        Unmatched(text, int((code == reason).sum()), spent, spent / total)
        for reason, text in UNMATCHED_REASONS.items()
        for spent in [int(time[code == reason].sum())]
        if (code == reason).any()
    ]
    return sorted(found, key=lambda item: -item.time_ns)
