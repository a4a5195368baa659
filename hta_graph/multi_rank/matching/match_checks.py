"""Checks of matches: causality, ambiguity, and why communications stay unmatched.

No rank leaves before another one that it waits for; a match by order is ambiguous where another communication of
a rank, one that is unmatched, would fit as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest, nsmallest

import numpy as np

from hta_graph.base.arrays import Columns, find_sorted, pair_key, rows_by_value
from hta_graph.model import Bools, Codes, Ints
from hta_graph.multi_rank.matching.align_rank_sequences import MIN_PAIRS, SIMULTANEOUS_NS, SIMULTANEOUS_SHARE
from hta_graph.multi_rank.matching.communications import ALL_RANKS, WORKER, Match, RankCommunications, RankRecord
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.match_ranks import ORDER, MatchedChannel, MatchKey
from hta_graph.multi_rank.matching.pair_clocks import members_of_matches
from hta_graph.multi_rank.matching.read_communications import communication_kind


@dataclass(frozen=True, eq=False)
class MatchedMembers(Columns):
    """Members of collectives in the job's time (ns).

    ``since`` is from when on each waits (see :class:`RankCommunications`), ``awaited_arrival`` when the last rank
    arrived for which it does.
    """

    number: Ints
    rank: Ints
    place: Ints
    arrival: Ints
    since: Ints
    start: Ints
    end: Ints
    awaited_rank: Ints
    awaited_arrival: Ints


def matched_members(
    matches: Sequence[Match], ranks: Mapping[int, RankCommunications], clocks: JobClocks
) -> MatchedMembers:
    """Lay matches out as columns."""
    number, rank, place = members_of_matches(matches)
    arrival, since, start, end, awaited_rank = (np.zeros(len(rank), np.int64) for _ in range(5))
    is_send = np.zeros(len(rank), np.bool_)
    for one, mine in rows_by_value(rank).items():
        own, at = ranks[one], place[mine]
        columns = (arrival, own.arrival), (since, own.arrival + own.busy), (start, own.start), (end, own.end)
        for times, column in columns:
            times[mine] = clocks.to_job(one, column[at])
        awaited_rank[mine] = own.needed[at]
        is_send[mine] = [own.name[item].endswith("send") for item in at.tolist()]
    awaited_arrival = _awaited_arrival(number, rank, arrival, awaited_rank)
    # A send that ended before the receive began went into a buffer and waited for nobody.
    awaited_arrival = np.where(is_send & (end < awaited_arrival), arrival, awaited_arrival)
    return MatchedMembers(number, rank, place, arrival, since, start, end, awaited_rank, awaited_arrival)


def _awaited_arrival(number: Ints, rank: Ints, arrival: Ints, awaited_rank: Ints) -> Ints:
    """Return when the last rank that each member waits for arrived (ns); none or unknown: its own arrival."""
    latest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, number, arrival)
    key = pair_key(number, rank)
    order = np.argsort(key)
    at = find_sorted(pair_key(number, np.maximum(awaited_rank, 0)), key[order])
    root = np.where((awaited_rank >= 0) & (at >= 0), arrival[order][at], arrival)
    return np.where(awaited_rank == ALL_RANKS, latest[number], root)


IS_MATCHED, SINGLE_RANK, NO_PARTNER, OUTSIDE_RECORDING, VIOLATES_CAUSALITY, NOT_RECORDED, UNKNOWN_KERNEL = range(7)
GROUP_OPEN, IMPLAUSIBLE_CLOCKS = 7, 8

UNMATCHED_REASONS = {
    NO_PARTNER: "no partner: another rank of the group recorded no matching one",
    OUTSIDE_RECORDING: "outside the trace of another rank of the group",
    VIOLATES_CAUSALITY: "impossible: a rank would have left before the arrival of a rank that it waits for",
    NOT_RECORDED: "the trace does not name the ranks that take part",
    UNKNOWN_KERNEL: "kernels of this name do not wait for each other like members of a collective",
    GROUP_OPEN: "the trace does not record which process group ran them, and more than one or none explains them",
    IMPLAUSIBLE_CLOCKS: "matched only if clocks of one host differed by more than they can",
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
    found = {
        rank: [NOT_RECORDED if worker is None else GROUP_OPEN for worker in own.arguments[WORKER]]
        for rank, own in ranks.items()
    }
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
        came = clocks.to_job(one, own.arrival[at])
        left = clocks.to_job(one, own.end[at])
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


CAUSALITY_SLACK_NS = 1_000_000
"""By how much a rank may seem to leave before another one came that it waits for, beyond what clocks explain."""


NON_COLLECTIVE_SHARE = 0.1
"""No rank leaves a collective before the last one arrives; of one-sided kernels (DeepEP, 8 H200) 69% did."""


def causally_possible(members: MatchedMembers, count: int, clocks: JobClocks) -> Bools:
    """Mark the collectives in which no rank left before the last one that it waits for arrived."""
    possible = np.ones(count, np.bool_)
    possible[
        members.number[members.awaited_arrival > members.end + clock_errors(members, clocks) + CAUSALITY_SLACK_NS]
    ] = False
    return possible


def non_collective_names(
    members: MatchedMembers, reasons: Mapping[int, Codes], ranks: Mapping[int, RankCommunications], clocks: JobClocks
) -> set[str]:
    """Return the names of kernels that say nothing, and too many of which have no partner or do not wait for theirs.

    A kernel that sends, for example, may be followed by another one that receives: only that one waits.
    """
    left_early = members.take(members.awaited_arrival > members.end + clock_errors(members, clocks))
    early = rows_by_value(left_early.rank)
    unlike, seen = Counter[str](), Counter[str]()
    for rank, own in ranks.items():
        is_bad = np.isin(reasons[rank], (NO_PARTNER, VIOLATES_CAUSALITY))
        is_bad[left_early.place[early.get(rank, [])]] = True
        asked = ~np.isin(reasons[rank], (SINGLE_RANK, OUTSIDE_RECORDING)) & _has_unknown_kind(own)
        seen.update(own.name[at] for at in np.flatnonzero(asked).tolist())
        unlike.update(own.name[at] for at in np.flatnonzero(asked & is_bad).tolist())
    return {name for name, count in unlike.items() if count > NON_COLLECTIVE_SHARE * seen[name]}


def _has_unknown_kind(own: RankCommunications) -> Bools:
    """Mark the communications of which neither arguments nor a name say what they do."""
    arguments = zip(own.arguments["Collective name"], own.name, strict=True)
    return np.array([recorded is None and not _names_kind(name) for recorded, name in arguments], np.bool_)


@lru_cache(maxsize=1024)
def _names_kind(name: str) -> bool:
    """Return whether a name says what a kernel does; a job's ranks have the same few names."""
    return bool(communication_kind([name]))


def has_known_kind(matches: Sequence[Match], ranks: Mapping[int, RankCommunications]) -> list[bool]:
    """Mark the matches of which arguments or a name say what its members do."""
    silent = {rank: _has_unknown_kind(own).tolist() for rank, own in ranks.items()}
    if not any(map(any, silent.values())):
        return [True] * len(matches)
    return [not any(silent[rank][place] for rank, place in match.items()) for match in matches]


def clock_errors(members: MatchedMembers, clocks: JobClocks) -> Ints:
    """Return how far each member's times may be wrong (ns), as far as that is worth to be believed."""
    by_rank = {rank: min(clock.error, CAUSALITY_SLACK_NS) for rank, clock in clocks.by_rank.items()}
    error = [by_rank.get(rank, 0) for rank in members.rank.tolist()]
    return np.array(error, np.int64)


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
    one_time = times.ends_coincide(clocks)
    ends_coincide = len(matches) >= MIN_PAIRS and float(one_time.mean()) >= SIMULTANEOUS_SHARE
    if ends_coincide and not all(_waits(records[rank], [place])[0] for rank, place in matches[0].items()):
        # Senders, too, wait for their receivers then, so one pair that does not end together is none.
        found |= {next(iter(matches[at].items())) for at in np.flatnonzero(~one_time).tolist()}
    bounds = _PeerBounds(times, ends_coincide=ends_coincide)
    for row, rank in enumerate(times.ranks):
        places = matched.unmatched.get(rank, ())
        if places:
            latest, earliest = bounds.of(row)
            at = np.append(np.array(places, np.int64), times.place[row])
            arrival, end = _times_in_job(rank, at, ranks, clocks)
            contents = _content_codes(records[rank], at.tolist())
            for place in range(len(places)):
                fits = (
                    (end[place] >= latest) & (arrival[place] <= earliest) & (contents[len(places) :] == contents[place])
                )
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

    def ends_coincide(self, clocks: JobClocks) -> Bools:
        """Mark the matches whose members end at one time."""
        error = min(max(clocks.error_between(self.ranks[0], other) for other in self.ranks), SIMULTANEOUS_NS)
        one_time: Bools = np.ptp(self.end, axis=0) <= SIMULTANEOUS_NS + error
        return one_time


class _PeerBounds:
    """Per rank and match when the last other rank came, if this one waits, and when the first one left that waits.

    Both but for the errors of the two ranks' clocks together, of which no more than ``MAX_CLOCK_ERROR`` is believed.
    """

    def __init__(self, times: _MatchTimes, *, ends_coincide: bool) -> None:
        error = times.error[:, None]
        self._waits, self._error = times.waits | ends_coincide, times.error
        self._latest = _LargestTwo(times.arrival - error), _LargestTwo(times.arrival)
        self._earliest = tuple(
            _LargestTwo(np.where(self._waits, -end, EARLIEST_NS)) for end in (times.end + error, times.end)
        )

    def of(self, row: int) -> tuple[Ints, Ints]:
        """Return the bounds of one rank."""
        slack = int(self._error[row]), MAX_CLOCK_ERROR
        latest = np.maximum(*(side.max_of_others(row) - by for side, by in zip(self._latest, slack, strict=True)))
        first = [side.max_of_others(row) for side in self._earliest]
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

    def max_of_others(self, row: int) -> Ints:
        """Return the largest values of all rows but one."""
        largest: Ints = np.where(self._row == row, self._second, self._largest)
        return largest


def _times_in_job(rank: int, at: Ints, ranks: Mapping[int, RankCommunications], clocks: JobClocks) -> tuple[Ints, Ints]:
    own = ranks[rank]
    return (
        clocks.to_job(rank, own.arrival[at]),
        clocks.to_job(rank, own.end[at]),
    )


def _waits(record: RankRecord[MatchKey], places: Sequence[int]) -> Bools:
    return np.array([record.labels[place].waits for place in places], np.bool_)


def _content_codes(record: RankRecord[MatchKey], places: Sequence[int]) -> Ints:
    """Number what is the same: content and size."""
    contents = [(record.labels[place].content, record.labels[place].size) for place in places]
    code = {content: at for at, content in enumerate(dict.fromkeys(contents))}
    return np.array([code[content] for content in contents], np.int64)
