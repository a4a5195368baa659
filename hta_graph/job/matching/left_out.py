"""Communications that are left out, and why."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.job.matching.clocks.rank_clocks import JobClocks
from hta_graph.job.matching.matched_ranks import MatchedChannel
from hta_graph.job.matching.meeting_channels import MeetingChannel
from hta_graph.job.matching.rank_members import RankMembers
from hta_graph.job.matching.rank_record import Meeting
from hta_graph.model import Bools, Codes

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
    found = {rank: np.full(len(own), NOT_RECORDED, np.int8) for rank, own in ranks.items()}
    for matched in channels:
        lone = len(matched.channel.members) < 2 and matched.channel.size < 2
        for rank, places in matched.recorded.items():
            found[rank][list(places)] = ALONE if lone else BEYOND_PHYSICS
        for rank, places in matched.cut.items():
            others = [other for other in matched.channel.members if other != rank and other in ranks]
            outside = _outside(ranks[rank], places, rank, others, ranks, clocks)
            found[rank][places] = np.where(outside, OUTSIDE, ALONE if lone else NO_PARTNER)
        for meeting in matched.together:
            if len(meeting) == 1:
                ((rank, place),) = meeting.items()
                found[rank][place] = ALONE if lone else NO_PARTNER
    for meeting in kept:
        for rank, place in meeting.items():
            found[rank][place] = MATCHED
    return found


def without_names(
    reasons: Mapping[int, Codes], names: Collection[str], ranks: Mapping[int, RankMembers]
) -> dict[int, Codes]:
    """Leave out all kernels of some names, which do not do what collectives do."""
    return {
        rank: np.where([name in names for name in own.name], np.int8(UNKNOWN_KERNEL), reasons[rank]).astype(np.int8)
        for rank, own in ranks.items()
    }


def _outside(
    own: RankMembers,
    places: Sequence[int],
    rank: int,
    others: Sequence[int],
    ranks: Mapping[int, RankMembers],
    clocks: JobClocks,
) -> Bools:
    """Mark the communications of a rank that another rank's recording does not reach."""
    at = np.array(places, np.int64)
    came = clocks.to_job(rank, own.arrival[at], on_gpu=own.on_gpu[at])
    left = clocks.to_job(rank, own.end[at], on_gpu=own.on_gpu[at])
    outside = np.zeros(len(at), np.bool_)
    for other in others:
        recording = ranks[other].recording
        begin, end = clocks.to_job(other, np.array([recording.begin, recording.end])).tolist()
        outside |= (left < begin) | (came > end)
    return outside


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
