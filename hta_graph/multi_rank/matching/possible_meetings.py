"""What physics says of matches: nobody leaves before another one came that it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from hta_graph.arrays import rows_by_value
from hta_graph.model import Bools, Codes, Ints
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.job_members import MatchedMembers
from hta_graph.multi_rank.matching.left_out import NO_PARTNER, OUTSIDE_RECORDING, SINGLE_RANK, VIOLATES_CAUSALITY
from hta_graph.multi_rank.matching.rank_members import RankCommunications
from hta_graph.multi_rank.matching.rank_record import Match
from hta_graph.multi_rank.matching.read_communications import communication_kind

__all__ = ["CAUSALITY_SLACK_NS", "non_collective_names", "causally_possible", "has_known_kind"]

CAUSALITY_SLACK_NS = 1_000_000
"""By how much a rank may seem to leave before another one came that it waits for, beyond what clocks explain."""


NON_COLLECTIVE_SHARE = 0.1
"""Nobody leaves a collective before the last rank came; of one-sided kernels (DeepEP, 8 H200) 69 % did."""


def causally_possible(members: MatchedMembers, count: int, clocks: JobClocks) -> Bools:
    """Mark the collectives in which nobody left before the last one came for whom it waits."""
    possible = np.ones(count, np.bool_)
    possible[members.number[members.until > members.end + _clock_errors(members, clocks) + CAUSALITY_SLACK_NS]] = False
    return possible


def non_collective_names(
    members: MatchedMembers, reasons: Mapping[int, Codes], ranks: Mapping[int, RankCommunications], clocks: JobClocks
) -> set[str]:
    """Return the names of kernels that say nothing, and too many of which have no partner or do not wait for theirs.

    A kernel that sends, for example, may be followed by another one that receives: only that one waits.
    """
    left_early = members.take(members.until > members.end + _clock_errors(members, clocks))
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
    """Tell whether a name says what a kernel does; a job's ranks have the same few names."""
    return bool(communication_kind([name]))


def has_known_kind(matches: Sequence[Match], ranks: Mapping[int, RankCommunications]) -> list[bool]:
    """Tell for each match whether arguments or a name say what its members do."""
    silent = {rank: _has_unknown_kind(own).tolist() for rank, own in ranks.items()}
    if not any(map(any, silent.values())):
        return [True] * len(matches)
    return [not any(silent[rank][place] for rank, place in match.items()) for match in matches]


def _clock_errors(members: MatchedMembers, clocks: JobClocks) -> Ints:
    """Return how far each member's times may be wrong (ns), as far as that is worth to be believed."""
    by_rank = {rank: min(clock.error, CAUSALITY_SLACK_NS) for rank, clock in clocks.by_rank.items()}
    error = [by_rank.get(rank, 0) for rank in members.rank.tolist()]
    return np.array(error, np.int64)
