"""A rank like the others in a job of which few rows are held: some of them are asked what they take at its places."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hta_graph.graph.job_graph import JobGraph
from hta_graph.multi_rank.what_if.replay_answer import ReplayAnswer
from hta_graph.what_if.changes import Change
from hta_graph.what_if.like_others import ComparisonKeys, RankNormalization
from hta_graph.what_if.scenarios import NamedScenario

__all__ = ["ReadReplayAnswers", "with_normalized_ranks"]

ReadReplayAnswers = Callable[[str, list[int], ComparisonKeys | None], dict[int, ReplayAnswer]]
"""Asks ranks what they take for what is asked; with nothing asked, what others are to be asked about them."""

MAX_COMPARED_RANKS, MIN_COMPARED_RANKS = 255, 8
MAX_COMPARED_WEIGHTS = 1 << 22
"""A rank is compared with so many others, evenly spread; with fewer where these have so many places to be compared."""


def with_normalized_ranks(job: JobGraph, changes: Sequence[Change], ask: ReadReplayAnswers) -> list[Change]:
    """Return changes with what others take, where a rank is to be like them.

    Raises:
        QueryError: the job has no such rank.
    """
    known: dict[str, Change] = {}
    found = []
    for change in changes:
        if isinstance(change, NamedScenario) and change.name == "rank_like_others":
            if change.argument not in known:
                known[change.argument] = _normalization_of(job, int(change.argument), ask)
            found.append(known[change.argument])
        else:
            found.append(change)
    return found


def _normalization_of(job: JobGraph, rank: int, ask: ReadReplayAnswers) -> RankNormalization:
    place = job.index_of_rank(rank)
    asked = ask("reading the rank that is compared", [rank], None)[rank].asked
    others = [part.rank for part in job.parts if part.place != place]
    most = max(MIN_COMPARED_RANKS, min(MAX_COMPARED_RANKS, MAX_COMPARED_WEIGHTS // max(len(asked.place), 1)))
    if len(others) > most:
        others = [others[at * len(others) // most] for at in range(most)]
    answers = ask("reading the ranks beside it", others, asked)
    return RankNormalization.of(rank, asked, [answers[of].taken for of in others])
