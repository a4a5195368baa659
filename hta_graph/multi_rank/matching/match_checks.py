"""Matches by order in which another communication of a rank, one that is left out, would fit as well."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.model import Bools, Ints
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_ranks import ORDER, MatchKey
from hta_graph.multi_rank.matching.matched_ranks import MatchedChannel
from hta_graph.multi_rank.matching.rank_members import RankCommunications
from hta_graph.multi_rank.matching.rank_record import Match, RankRecord
from hta_graph.multi_rank.matching.sequence_alignment import MIN_PAIRS, SIMULTANEOUS_NS, SIMULTANEOUS_SHARE

__all__ = ["ambiguous_matches"]

EARLIEST_NS, LATEST_NS = -(1 << 62) - (1 << 61), np.iinfo(np.int64).max
"""Before all times that errors may move, and after."""

MAX_CLOCK_ERROR = LATEST_NS >> 2

RecordsByRank = Mapping[int, RankRecord[MatchKey]]


def ambiguous_matches(
    channels: Iterable[MatchedChannel[MatchKey]],
    records: RecordsByRank,
    ranks: Mapping[int, RankCommunications],
    clocks: JobClocks,
) -> set[tuple[int, int]]:
    """Return a member (rank, place) of each such match: of equal ones that were there at that time one was lost.

    rank 0     a  a        both of rank 0 overlap with the one of rank 1: which of them it was is a guess
    rank 1      a
    """
    found: set[tuple[int, int]] = set()
    for matched in channels:
        matches = [match for match in matched.matches if len(match) > 1]
        if matched.channel.by == ORDER and matches and any(matched.unmatched.values()):
            found |= _ambiguous_in_channel(matched, matches, records, ranks, clocks)
    return found


def _ambiguous_in_channel(
    matched: MatchedChannel[MatchKey],
    matches: Sequence[Match],
    records: RecordsByRank,
    ranks: Mapping[int, RankCommunications],
    clocks: JobClocks,
) -> set[tuple[int, int]]:
    found: set[tuple[int, int]] = set()
    times = _MatchTimes.of(matches, records, ranks, clocks)
    one_time = times.end_together(clocks)
    end_together = len(matches) >= MIN_PAIRS and float(one_time.mean()) >= SIMULTANEOUS_SHARE
    if end_together and not all(_waits(records[rank], [place])[0] for rank, place in matches[0].items()):
        # Senders, too, wait for their receivers then, so one pair that does not end together is none.
        found |= {next(iter(matches[at].items())) for at in np.flatnonzero(~one_time).tolist()}
    bounds = _PeerBounds(times, end_together=end_together)
    for row, rank in enumerate(times.ranks):
        places = matched.unmatched.get(rank, ())
        if places:
            latest, earliest = bounds.of(row)
            at = np.append(np.array(places, np.int64), times.place[row])
            arrival, end = _times_in_job(rank, at, ranks, clocks)
            looks = _content_codes(records[rank], at.tolist())
            for place in range(len(places)):
                fits = (end[place] >= latest) & (arrival[place] <= earliest) & (looks[len(places) :] == looks[place])
                found.update((rank, int(times.place[row, one])) for one in np.flatnonzero(fits).tolist())
    return found


@dataclass(frozen=True, eq=False)
class _MatchTimes:
    """Matches of a channel, one row per rank, one column per match: the places, job times (ns), who waits; errors."""

    ranks: Sequence[int]
    place: Ints
    arrival: Ints
    end: Ints
    waits: Bools
    error: Ints

    @classmethod
    def of(
        cls,
        matches: Sequence[Match],
        records: RecordsByRank,
        ranks: Mapping[int, RankCommunications],
        clocks: JobClocks,
    ) -> _MatchTimes:
        """Lay out matches; a rank that is not in every match is not asked."""
        members = sorted(set.intersection(*map(set, matches)))
        place = np.array([[match[rank] for match in matches] for rank in members], np.int64)
        times = [_times_in_job(rank, at, ranks, clocks) for rank, at in zip(members, place, strict=True)]
        waits = [_waits(records[rank], at.tolist()) for rank, at in zip(members, place, strict=True)]
        error = [min(clocks.by_rank[rank].error, MAX_CLOCK_ERROR) for rank in members]
        arrival, end = (np.array([own[side] for own in times]) for side in range(2))
        return cls(members, place, arrival, end, np.array(waits, np.bool_), np.array(error, np.int64))

    def end_together(self, clocks: JobClocks) -> Bools:
        """Mark the matches whose members end at one time."""
        error = min(max(clocks.error_between(self.ranks[0], other) for other in self.ranks), SIMULTANEOUS_NS)
        one_time: Bools = np.ptp(self.end, axis=0) <= SIMULTANEOUS_NS + error
        return one_time


class _PeerBounds:
    """Per rank and match when the last other rank came, if this one waits, and when the first one left that waits.

    Both but for the errors of the two ranks' clocks together, of which no more than ``MAX_CLOCK_ERROR`` is believed.
    """

    def __init__(self, times: _MatchTimes, *, end_together: bool) -> None:
        error = times.error[:, None]
        self._waits, self._error = times.waits | end_together, times.error
        self._latest = _LargestTwo(times.arrival - error), _LargestTwo(times.arrival)
        self._earliest = tuple(
            _LargestTwo(np.where(self._waits, -end, EARLIEST_NS)) for end in (times.end + error, times.end)
        )

    def of(self, row: int) -> tuple[Ints, Ints]:
        """Return the bounds of one rank."""
        slack = int(self._error[row]), MAX_CLOCK_ERROR
        latest = np.maximum(*(side.of_others(row) - by for side, by in zip(self._latest, slack, strict=True)))
        first = [side.of_others(row) for side in self._earliest]
        earliest = -np.maximum(*(side - by for side, by in zip(first, slack, strict=True)))
        return np.where(self._waits[row], latest, EARLIEST_NS), np.where(first[0] == EARLIEST_NS, LATEST_NS, earliest)


class _LargestTwo:
    """The largest value of each column, and the largest one of the other rows: enough to leave out any row."""

    def __init__(self, values: Ints) -> None:
        self._row = values.argmax(axis=0)
        self._largest = values.max(axis=0)
        others = values.copy()
        others[self._row, np.arange(values.shape[1])] = EARLIEST_NS
        self._second = others.max(axis=0)

    def of_others(self, row: int) -> Ints:
        """Return the largest values of all rows but one."""
        largest: Ints = np.where(self._row == row, self._second, self._largest)
        return largest


def _times_in_job(rank: int, at: Ints, ranks: Mapping[int, RankCommunications], clocks: JobClocks) -> tuple[Ints, Ints]:
    own = ranks[rank]
    return (
        clocks.to_job(rank, own.arrival[at], on_gpu=own.on_gpu[at]),
        clocks.to_job(rank, own.end[at], on_gpu=own.on_gpu[at]),
    )


def _waits(record: RankRecord[MatchKey], places: Sequence[int]) -> Bools:
    return np.array([record.labels[place].waits for place in places], np.bool_)


def _content_codes(record: RankRecord[MatchKey], places: Sequence[int]) -> Ints:
    """Number what is the same: content and size."""
    seen = [(record.labels[place].content, record.labels[place].size) for place in places]
    code = {look: at for at, look in enumerate(dict.fromkeys(seen))}
    return np.array([code[look] for look in seen], np.int64)
