"""One rank as fast as the others: what these take at its places, and for what it does more often than they, or alone.

the rank   its places, and what is alike in a step ──▶ asked of others
another    weights of its edges at these places, sums of what is alike      each by itself, whoever holds its graph
the rank   weighs like the median of the others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import distinct, looked_up, picked, ranked_by, summed_by
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import ROLE, Bools, EdgeRole, Ints
from hta_graph.stable_hash import mixed_key
from hta_graph.what_if.changes import weigh
from hta_graph.what_if.draft import Draft
from hta_graph.what_if.edge_times import edge_times, edges_of_ranks
from hta_graph.what_if.rank_normalization import place_keys
from hta_graph.what_if.replay_graph import Replayable

__all__ = ["AskedOfOthers", "LikeOthers", "TakenThere", "asked_of_others", "taken_there"]


@dataclass(frozen=True)
class AskedOfOthers:
    """Keys of the places of a rank's edges, and of what is alike in one step (``kind``), each once and in order."""

    place: Ints
    kind: Ints


@dataclass(frozen=True)
class TakenThere:
    """What another rank takes: the weights (ns) of its edges at asked places, and for each asked kind all in all.

    ``at`` are the places of these places among those asked.
    """

    at: Ints
    weight: Ints
    total: Ints


@dataclass(frozen=True)
class _OwnEdges:
    """The edges of one rank: their rows, weights (ns), and keys of their places and kinds (-1: none)."""

    row: Ints
    weight: Ints
    place: Ints
    kind: Ints


def _own_edges(graph: DependencyGraph, part: int) -> _OwnEdges:
    known, row = place_keys(graph), edges_of_ranks(graph)[part]
    weight = edge_times(graph).weight[row]
    # Only a lane's own time adds up: lags overlap.
    of_lane = np.isin(ROLE[graph.edge_table.kind[row]], (EdgeRole.THREAD, EdgeRole.ACTIVITY))
    has_time = of_lane & (known.alike[row] >= 0) & (weight > 0)
    kind = np.where(has_time, mixed_key(known.alike[row], known.step[row]), -1)
    return _OwnEdges(row, weight, known.place[row], kind)


def asked_of_others(base: Replayable, part: int) -> AskedOfOthers:
    """Return what other ranks are asked about a rank (its place) in a window."""
    own = _own_edges(base.graph, part)
    inside = np.zeros(len(base.graph.edge_table), np.bool_)
    inside[base.edges.row[base.edges.row >= 0]] = True
    chosen = inside[own.row]
    place, kind = own.place[chosen], own.kind[chosen]
    return AskedOfOthers(distinct(place[place >= 0]), distinct(kind[kind >= 0]))


def taken_there(graph: DependencyGraph, part: int, asked: AskedOfOthers) -> TakenThere:
    """Return what a rank (its place) takes for what is asked."""
    own = _own_edges(graph, part)
    at, kind = looked_up(own.place, asked.place), looked_up(own.kind, asked.kind)
    has_place, has_kind = at >= 0, kind >= 0
    total = summed_by(kind[has_kind], own.weight[has_kind], len(asked.kind))
    return TakenThere(at[has_place], own.weight[has_place], total)


@dataclass(frozen=True, eq=False)
class LikeOthers:
    """A rank weighs like others: a change of its drafts.

    Args:
        rank: the rank.
        asked: what the others were asked.
        is_shared: whether any of them has an asked place.
        median: what its edges weigh there (ns), in the lower median.
        usual: what they take for each asked kind (ns), in the lower median.
    """

    rank: int
    asked: AskedOfOthers
    is_shared: Bools
    median: Ints
    usual: Ints

    @classmethod
    def of(cls, rank: int, asked: AskedOfOthers, taken: Sequence[TakenThere]) -> LikeOthers:
        """Take the medians of what others, at least one, take."""
        count = len(asked.place)
        at = np.concatenate([own.at for own in taken])
        median = ranked_by(at, np.concatenate([own.weight for own in taken]), count, 50)
        totals = np.sort(np.stack([own.total for own in taken]), axis=0)
        return cls(rank, asked, np.bincount(at, minlength=count) > 0, median, totals[(len(taken) - 1) // 2])

    def __call__(self, draft: Draft) -> None:
        """Change a draft of the rank alone, or of a job in which it is."""
        graph = draft.base.graph
        own = _own_edges(graph, graph.place_of_rank(self.rank))
        weigh(own.row, self._weights(own))(draft)

    def _weights(self, own: _OwnEdges) -> Ints:
        """Return for each edge of the rank what it weighs (ns) on the others: the median of those at its place.

        Where a lane's own time has no partner there, since the rank does something more often or it alone, all that is
        alike in its step takes together what the others take for that: nothing, if they do it never.
        """
        at, kind = looked_up(own.place, self.asked.place), looked_up(own.kind, self.asked.kind)
        is_shared = picked(self.is_shared, at, otherwise=False)
        found = np.where(is_shared, picked(self.median, at), own.weight)
        known = kind >= 0
        totals = summed_by(kind[known], own.weight[known], len(self.asked.kind))
        alone = np.flatnonzero(known & ~is_shared)
        # Never more than it took: what the others do besides has no place here.
        usual = np.minimum(self.usual, totals)[kind[alone]]
        found[alone] = own.weight[alone] * usual // totals[kind[alone]]
        return found

    def __str__(self) -> str:
        return f"rank_like_others={self.rank}"
