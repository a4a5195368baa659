"""Communications that are left out, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest

import numpy as np

from hta_graph.arrays import places_by
from hta_graph.model import Codes
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_ranks import MeetingChannel
from hta_graph.multi_rank.matching.matched_ranks import MatchedChannel
from hta_graph.multi_rank.matching.rank_members import RankMembers
from hta_graph.multi_rank.matching.rank_record import Meeting

__all__ = [
    "ALONE",
    "BEYOND_PHYSICS",
    "MATCHED",
    "NOT_RECORDED",
    "NO_PARTNER",
    "OUTSIDE",
    "REASONS",
    "UNKNOWN_KERNEL",
    "LeftOut",
    "summed_left_out",
    "why_left_out",
    "without_names",
]

MATCHED, ALONE, NO_PARTNER, OUTSIDE, BEYOND_PHYSICS, NOT_RECORDED, UNKNOWN_KERNEL = range(7)

REASONS = {
    NO_PARTNER: "no partner: another rank of its group recorded none that fits",
    OUTSIDE: "outside the recording of another rank of its group",
    BEYOND_PHYSICS: "physics: a rank would have left before another one came that it waits for",
    NOT_RECORDED: "the trace does not say whom it concerns",
    UNKNOWN_KERNEL: "kernels of its name do not wait for each other as members of a collective do",
}
"""Why a communication is left out; one that concerns a single rank is not."""


_Cut = tuple[int, int, int, int]
"""What only one rank has: rank, place, when the last recording of the others begins, when their first one ends."""


@dataclass(frozen=True)
class LeftOut:
    """How many communications of all ranks are left out for one reason, and their share of all communication time."""

    reason: str
    count: int
    time_ns: int
    share: float


def why_left_out(
    channels: Iterable[MatchedChannel[MeetingChannel]],
    kept: Collection[Meeting],
    ranks: Mapping[int, RankMembers],
    clocks: JobClocks,
) -> dict[int, Codes]:
    """Return for each rank's communications why they are left out (0: they are not)."""
    found = {rank: [NOT_RECORDED] * len(own) for rank, own in ranks.items()}
    recordings = {rank: _recorded_from_to(rank, own, clocks) for rank, own in ranks.items()}
    unmatched: list[_Cut] = []
    for matched in channels:
        lone = len(matched.channel.members) < 2 and matched.channel.size < 2
        _tell(found, matched.recorded.items(), ALONE if lone else BEYOND_PHYSICS)
        _tell(found, matched.unmatched.items(), ALONE if lone else NO_PARTNER)
        unmatched += _cut_of(matched, recordings)
        for match in matched.matches:
            if len(match) == 1:
                ((rank, place),) = match.items()
                found[rank][place] = ALONE if lone else NO_PARTNER
    _tell(found, _outside(unmatched, ranks, clocks), OUTSIDE)
    for match in kept:
        for rank, place in match.items():
            found[rank][place] = MATCHED
    return {rank: np.array(codes, np.int8) for rank, codes in found.items()}


def _tell(found: Mapping[int, list[int]], places: Iterable[tuple[int, Sequence[int]]], reason: int) -> None:
    for rank, listed in places:
        own = found[rank]
        for place in listed:
            own[place] = reason


def without_names(
    reasons: Mapping[int, Codes], names: Collection[str], ranks: Mapping[int, RankMembers]
) -> dict[int, Codes]:
    """Leave out all kernels of some names, which do not do what collectives do."""
    return {
        rank: np.where([name in names for name in own.name], np.int8(UNKNOWN_KERNEL), reasons[rank]).astype(np.int8)
        for rank, own in ranks.items()
    }


def _recorded_from_to(rank: int, own: RankMembers, clocks: JobClocks) -> tuple[int, int]:
    """Return when a rank's recording begins and ends in the job's time (ns)."""
    begin, end = clocks.to_job(rank, np.array([own.recording.begin, own.recording.end])).tolist()
    return begin, end


def _cut_of(matched: MatchedChannel[MeetingChannel], recordings: Mapping[int, tuple[int, int]]) -> Iterator[_Cut]:
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


def _outside(
    unmatched: Sequence[_Cut], ranks: Mapping[int, RankMembers], clocks: JobClocks
) -> Iterator[tuple[int, list[int]]]:
    """List each rank's communications that another rank's recording does not reach."""
    rank, place, last_begin, first_end = np.array(unmatched, np.int64).reshape(-1, 4).T
    for one, mine in places_by(rank).items():
        own, at = ranks[one], place[mine]
        came = clocks.to_job(one, own.arrival[at], on_gpu=own.on_gpu[at])
        left = clocks.to_job(one, own.end[at], on_gpu=own.on_gpu[at])
        yield one, at[(left < last_begin[mine]) | (came > first_end[mine])].tolist()


def summed_left_out(reasons: Mapping[int, Codes], ranks: Mapping[int, RankMembers]) -> list[LeftOut]:
    """Add up what is left out, by reason; most time first."""
    code = np.concatenate([reasons[rank] for rank in ranks]) if ranks else np.zeros(0, np.int8)
    time = np.concatenate([own.end - own.start for own in ranks.values()]) if ranks else np.zeros(0, np.int64)
    total = max(int(time.sum()), 1)
    found = [
        LeftOut(text, int((code == reason).sum()), spent, spent / total)
        for reason, text in REASONS.items()
        for spent in [int(time[code == reason].sum())]
        if (code == reason).any()
    ]
    return sorted(found, key=lambda item: -item.time_ns)
