"""Matches by order in which another communication of a rank, one that is left out, would fit as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hta_graph.job.matching.aligned_sequences import ALWAYS, FEWEST, TOGETHER_NS
from hta_graph.job.matching.clocks.rank_clocks import JobClocks
from hta_graph.job.matching.matched_ranks import MatchedChannel
from hta_graph.job.matching.meeting_channels import ORDER, MeetingChannel
from hta_graph.job.matching.rank_members import RankMembers
from hta_graph.job.matching.rank_record import Meeting, RankRecord
from hta_graph.model import Bools, Ints

__all__ = ["ambiguous_meetings"]

Records = Mapping[int, RankRecord[MeetingChannel]]


def ambiguous_meetings(
    channels: Iterable[MatchedChannel[MeetingChannel]],
    records: Records,
    ranks: Mapping[int, RankMembers],
    clocks: JobClocks,
) -> set[tuple[int, int]]:
    """Return a member (rank, place) of each such match: of equal ones that were there at that time one was lost.

    rank 0     a  a        both of rank 0 overlap with the one of rank 1: which of them it was is a guess
    rank 1      a
    """
    found: set[tuple[int, int]] = set()
    for matched in channels:
        together = [meeting for meeting in matched.together if len(meeting) > 1]
        if matched.channel.by == ORDER and together and any(matched.cut.values()):
            found |= _ambiguous_in(matched, together, records, ranks, clocks)
    return found


def _ambiguous_in(
    matched: MatchedChannel[MeetingChannel],
    together: Sequence[Meeting],
    records: Records,
    ranks: Mapping[int, RankMembers],
    clocks: JobClocks,
) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    one_time = _end_together(together, ranks, clocks)
    end_together = len(together) >= FEWEST and float(one_time.mean()) >= ALWAYS
    if end_together and not all(_waits(records[rank], [place])[0] for rank, place in together[0].items()):
        # Senders, too, wait for their receivers then, so one pair that does not end together is none.
        found |= {next(iter(together[at].items())) for at in np.flatnonzero(~one_time).tolist()}
    for rank, places in matched.cut.items():
        kept = [meeting for meeting in together if rank in meeting] if places else []
        if kept:
            latest, earliest = _others_bounds(rank, kept, records, ranks, clocks, end_together=end_together)
            at = np.array([*places, *(meeting[rank] for meeting in kept)])
            came, left = _times(rank, at, ranks, clocks)
            looks = _looks(records[rank], at.tolist())
            for cut in range(len(places)):
                fits = (left[cut] >= latest) & (came[cut] <= earliest) & (looks[len(places) :] == looks[cut])
                found.update((rank, kept[one][rank]) for one in np.flatnonzero(fits).tolist())
    return found


def _end_together(together: Sequence[Meeting], ranks: Mapping[int, RankMembers], clocks: JobClocks) -> Bools:
    """Mark the matches whose members end at one time."""
    members = sorted(set.intersection(*map(set, together)))
    places = {rank: np.array([meeting[rank] for meeting in together]) for rank in members}
    ends = np.array([_times(rank, places[rank], ranks, clocks)[1] for rank in members])
    error = min(max(clocks.error_between(members[0], other) for other in members), TOGETHER_NS)
    one_time: Bools = np.ptp(ends, axis=0) <= TOGETHER_NS + error
    return one_time


def _others_bounds(
    rank: int,
    kept: Sequence[Meeting],
    records: Records,
    ranks: Mapping[int, RankMembers],
    clocks: JobClocks,
    *,
    end_together: bool,
) -> tuple[Ints, Ints]:
    """Return per match when the last other rank came, if this one waits, and when the first one left that waits."""
    lowest, highest = np.iinfo(np.int64).min, np.iinfo(np.int64).max
    latest, earliest = np.full(len(kept), lowest), np.full(len(kept), highest)
    for other in kept[0].keys() - {rank}:
        at = np.array([meeting[other] for meeting in kept])
        came, left = _times(other, at, ranks, clocks)
        slack = clocks.error_between(rank, other)
        waits = _waits(records[other], at.tolist()) | end_together
        latest = np.maximum(latest, came - min(slack, highest >> 2))
        earliest = np.minimum(earliest, np.where(waits, left + min(slack, highest >> 2), highest))
    waits_itself = _waits(records[rank], [meeting[rank] for meeting in kept]) | end_together
    return np.where(waits_itself, latest, lowest), earliest


def _times(rank: int, at: Ints, ranks: Mapping[int, RankMembers], clocks: JobClocks) -> tuple[Ints, Ints]:
    own = ranks[rank]
    return (
        clocks.to_job(rank, own.arrival[at], on_gpu=own.on_gpu[at]),
        clocks.to_job(rank, own.end[at], on_gpu=own.on_gpu[at]),
    )


def _waits(record: RankRecord[MeetingChannel], places: Sequence[int]) -> Bools:
    return np.array([record.labels[place].waits for place in places], np.bool_)


def _looks(record: RankRecord[MeetingChannel], places: Sequence[int]) -> Ints:
    """Number what is the same: content and size."""
    seen = [(record.labels[place].content, record.labels[place].size) for place in places]
    code = {look: at for at, look in enumerate(dict.fromkeys(seen))}
    return np.array([code[look] for look in seen], np.int64)
