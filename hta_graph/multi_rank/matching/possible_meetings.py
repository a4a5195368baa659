"""What physics says of matches: nobody leaves before another one came that it waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np

from hta_graph.arrays import places_by
from hta_graph.model import Bools, Codes, Ints
from hta_graph.multi_rank.matching.job_clocks import JobClocks
from hta_graph.multi_rank.matching.job_members import JobMembers
from hta_graph.multi_rank.matching.left_out import ALONE, BEYOND_PHYSICS, NO_PARTNER, OUTSIDE
from hta_graph.multi_rank.matching.rank_members import RankMembers
from hta_graph.multi_rank.matching.rank_record import Meeting
from hta_graph.multi_rank.matching.read_communications import kernel_kind

__all__ = ["SLACK_NS", "names_unlike_collectives", "possible_meetings", "telling_meetings"]

SLACK_NS = 1_000_000
"""By how much a rank may seem to leave before another one came that it waits for, beyond what clocks explain."""


UNLIKE_SHARE = 0.1
"""Nobody leaves a collective before the last rank came; of one-sided kernels (DeepEP, 8 H200) 69 % did."""


def possible_meetings(members: JobMembers, count: int, clocks: JobClocks) -> Bools:
    """Mark the collectives in which nobody left before the last one came for whom it waits."""
    possible = np.ones(count, np.bool_)
    possible[members.number[members.until > members.end + _errors(members, clocks) + SLACK_NS]] = False
    return possible


def names_unlike_collectives(
    members: JobMembers, reasons: Mapping[int, Codes], ranks: Mapping[int, RankMembers], clocks: JobClocks
) -> set[str]:
    """Return the names of kernels that say nothing, and too many of which have no partner or do not wait for theirs.

    A kernel that sends, for example, may be followed by another one that receives: only that one waits.
    """
    left_early = members.take(members.until > members.end + _errors(members, clocks))
    early = places_by(left_early.rank)
    unlike, seen = Counter[str](), Counter[str]()
    for rank, own in ranks.items():
        is_bad = np.isin(reasons[rank], (NO_PARTNER, BEYOND_PHYSICS))
        is_bad[left_early.place[early.get(rank, [])]] = True
        asked = ~np.isin(reasons[rank], (ALONE, OUTSIDE)) & _says_nothing(own)
        seen.update(own.name[at] for at in np.flatnonzero(asked).tolist())
        unlike.update(own.name[at] for at in np.flatnonzero(asked & is_bad).tolist())
    return {name for name, count in unlike.items() if count > UNLIKE_SHARE * seen[name]}


def _says_nothing(own: RankMembers) -> Bools:
    """Mark the communications of which neither arguments nor a name say what they do."""
    arguments = zip(own.arguments["Collective name"], own.name, strict=True)
    return np.array([recorded is None and not _is_telling(name) for recorded, name in arguments], np.bool_)


@lru_cache(maxsize=1024)
def _is_telling(name: str) -> bool:
    """Tell whether a name says what a kernel does; a job's ranks have the same few names."""
    return bool(kernel_kind([name]))


def telling_meetings(matches: Sequence[Meeting], ranks: Mapping[int, RankMembers]) -> list[bool]:
    """Tell for each match whether arguments or a name say what its members do."""
    silent = {rank: _says_nothing(own).tolist() for rank, own in ranks.items()}
    if not any(map(any, silent.values())):
        return [True] * len(matches)
    return [not any(silent[rank][place] for rank, place in match.items()) for match in matches]


def _errors(members: JobMembers, clocks: JobClocks) -> Ints:
    """Return how far each member's times may be wrong (ns), as far as that is worth to be believed."""
    by_rank = {rank: min(clock.error, SLACK_NS) for rank, clock in clocks.by_rank.items()}
    error = [by_rank.get(rank, 0) for rank in members.rank.tolist()]
    return np.array(error, np.int64)
