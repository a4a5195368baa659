"""One rank as fast as the others: what these take at its places, and for what it does more often than they, or alone.

the rank   its places, and what is alike in a step ──▶ asked of others
another    weights of its edges at these places, sums of what is alike      each by itself, whoever holds its graph
the rank   weighs like the median of the others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import distinct, find_sorted, percentiles_by, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.model import ROLE, Bools, EdgeRole, Ints
from hta_graph.stable_hash import hash_rows
from hta_graph.what_if.changes import weigh
from hta_graph.what_if.draft import ModifiedWindow
from hta_graph.what_if.edge_times import edge_weights, edges_by_rank
from hta_graph.what_if.rank_normalization import correspondence_keys
from hta_graph.what_if.replay_graph import ReplayGraph

__all__ = ["ComparisonKeys", "RankNormalization", "ComparisonTimes", "comparison_keys", "comparison_times"]


@dataclass(frozen=True)
class ComparisonKeys:
    """Keys of the places of a rank's edges, and of what is alike in one step (``kind``), each once and in order."""

    place: Ints
    kind: Ints


@dataclass(frozen=True)
class ComparisonTimes:
    """What another rank takes: the weights (ns) of its edges at asked places, and for each asked kind all in all.

    ``at`` are the places of these places among those asked.
    """

    at: Ints
    weight: Ints
    total: Ints


@dataclass(frozen=True)
class _KeyedEdges:
    """The edges of one rank: their rows, weights (ns), and keys of their places and kinds (-1: none)."""

    row: Ints
    weight: Ints
    place: Ints
    kind: Ints


def _keyed_edges(graph: DependencyGraph, part: int) -> _KeyedEdges:
    known, row = correspondence_keys(graph), edges_by_rank(graph)[part]
    weight = edge_weights(graph).weight[row]
    # Only a lane's own time adds up: lags overlap.
    of_lane = np.isin(ROLE[graph.edge_table.kind[row]], (EdgeRole.THREAD, EdgeRole.ACTIVITY))
    has_time = of_lane & (known.alike[row] >= 0) & (weight > 0)
    kind = np.where(has_time, hash_rows(known.alike[row], known.step[row]), -1)
    return _KeyedEdges(row, weight, known.place[row], kind)


def comparison_keys(base: ReplayGraph, part: int) -> ComparisonKeys:
    """Return what other ranks are asked about a rank (its place) in a window."""
    own = _keyed_edges(base.graph, part)
    inside = np.zeros(len(base.graph.edge_table), np.bool_)
    inside[base.edges.row[base.edges.row >= 0]] = True
    chosen = inside[own.row]
    place, kind = own.place[chosen], own.kind[chosen]
    return ComparisonKeys(distinct(place[place >= 0]), distinct(kind[kind >= 0]))


def comparison_times(graph: DependencyGraph, part: int, asked: ComparisonKeys) -> ComparisonTimes:
    """Return what a rank (its place) takes for what is asked."""
    own = _keyed_edges(graph, part)
    at, kind = find_sorted(own.place, asked.place), find_sorted(own.kind, asked.kind)
    has_place, has_kind = at >= 0, kind >= 0
    total = summed_by(kind[has_kind], own.weight[has_kind], len(asked.kind))
    return ComparisonTimes(at[has_place], own.weight[has_place], total)


@dataclass(frozen=True, eq=False)
class RankNormalization:
    """A rank weighs like others: a change of its drafts.

    Args:
        rank: the rank.
        asked: what the others were asked.
        is_shared: whether any of them has an asked place.
        median: what its edges weigh there (ns), in the lower median.
        usual: what they take for each asked kind (ns), in the lower median.
    """

    rank: int
    asked: ComparisonKeys
    is_shared: Bools
    median: Ints
    usual: Ints

    @classmethod
    def of(cls, rank: int, asked: ComparisonKeys, taken: Sequence[ComparisonTimes]) -> RankNormalization:
        """Take the medians of what others, at least one, take."""
        count = len(asked.place)
        at = np.concatenate([own.at for own in taken])
        median = percentiles_by(at, np.concatenate([own.weight for own in taken]), count, 50)
        totals = np.sort(np.stack([own.total for own in taken]), axis=0)
        return cls(rank, asked, np.bincount(at, minlength=count) > 0, median, totals[(len(taken) - 1) // 2])

    def __call__(self, draft: ModifiedWindow) -> None:
        """Change a draft of the rank alone, or of a job in which it is."""
        graph = draft.base.graph
        own = _keyed_edges(graph, graph.index_of_rank(self.rank))
        weigh(own.row, self._weights(own))(draft)

    def _weights(self, own: _KeyedEdges) -> Ints:
        """Return for each edge of the rank what it weighs (ns) on the others: the median of those at its place.

        Where a lane's own time has no partner there, since the rank does something more often or it alone, all that is
        alike in its step takes together what the others take for that: nothing, if they do it never.
        """
        at, kind = find_sorted(own.place, self.asked.place), find_sorted(own.kind, self.asked.kind)
        is_shared = take_or(self.is_shared, at, otherwise=False)
        found = np.where(is_shared, take_or(self.median, at), own.weight)
        known = kind >= 0
        totals = summed_by(kind[known], own.weight[known], len(self.asked.kind))
        alone = np.flatnonzero(known & ~is_shared)
        # Never more than it took: what the others do besides has no place here.
        usual = np.minimum(self.usual, totals)[kind[alone]]
        found[alone] = own.weight[alone] * usual // totals[kind[alone]]
        return found

    def __str__(self) -> str:
        return f"rank_like_others={self.rank}"
