"""Members of collectives in the job's time, and when the last rank came for whom each of them waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import Columns, find_sorted, pair_key, rows_by_value
from hta_graph.model import Ints
from hta_graph.multi_rank.matching.clock_evidence import members_of_matches
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.rank_members import ALL_RANKS, RankCommunications
from hta_graph.multi_rank.matching.rank_record import Match

__all__ = ["MatchedMembers", "matched_members"]


@dataclass(frozen=True, eq=False)
class MatchedMembers(Columns):
    """Members of collectives in the job's time (ns); ``until`` is when the last one came for whom each waits."""

    number: Ints
    rank: Ints
    place: Ints
    arrival: Ints
    start: Ints
    end: Ints
    needed: Ints
    until: Ints


def matched_members(
    matches: Sequence[Match], ranks: Mapping[int, RankCommunications], clocks: JobClocks
) -> MatchedMembers:
    """Lay matches out as columns."""
    number, rank, place = members_of_matches(matches)
    arrival, start, end, needed = (np.zeros(len(rank), np.int64) for _ in range(4))
    buffers = np.zeros(len(rank), np.bool_)
    for one, mine in rows_by_value(rank).items():
        own, at = ranks[one], place[mine]
        for times, column in ((arrival, own.arrival), (start, own.start), (end, own.end)):
            times[mine] = clocks.to_job(one, column[at], on_gpu=own.on_gpu[at])
        needed[mine] = own.needed[at]
        buffers[mine] = [own.name[item].endswith("send") for item in at.tolist()]
    until = _awaited_arrival(number, rank, arrival, needed)
    # A send that ended before the receive began went into a buffer and waited for nobody.
    until = np.where(buffers & (end < until), arrival, until)
    return MatchedMembers(number, rank, place, arrival, start, end, needed, until)


def _awaited_arrival(number: Ints, rank: Ints, arrival: Ints, needed: Ints) -> Ints:
    """Return when the last one came for whom each member waits (ns); of nobody or not known: its own arrival."""
    latest = np.full(int(number.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, number, arrival)
    key = pair_key(number, rank)
    order = np.argsort(key)
    at = find_sorted(pair_key(number, np.maximum(needed, 0)), key[order])
    root = np.where((needed >= 0) & (at >= 0), arrival[order][at], arrival)
    return np.where(needed == ALL_RANKS, latest[number], root)
