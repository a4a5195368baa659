"""One rank as fast as the others: which edges of steps and ranks correspond, and what the other ranks take there.

rank 0, step 5    linear(mm) ─ linear(mm) ─ all_reduce        the second mm inside linear is compared with the second
rank 1, step 5    linear(mm) ─ linear(mm) ─ all_reduce        of steps and ranks that have as many there
rank 0, step 6    linear(mm) ─ linear(mm) ─ mm ─ all_reduce   another mm elsewhere: that does not matter

Each rank is compared on its own, wherever its graph is:

the rank   keys of its edges, and of what is alike in a step ──▶ the other ranks
another    weights of its edges with these keys, sums of what is alike
the rank   weighs like the median of the others
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hta_graph.attribution.call_paths import FRAMES, CallPaths
from hta_graph.base.arrays import (
    Columns,
    distinct,
    find_sorted,
    first_of_runs,
    freeze,
    hash_rows,
    hash_texts,
    pair_key,
    percentiles_by,
    summed_by,
    take_or,
)
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.memo import memoized, memoized_each
from hta_graph.graph.points import event_of, start_point
from hta_graph.model import ROLE, Bools, EdgeKind, EdgeRole, Ids, Ints, kind_mask
from hta_graph.paths.window_ends import issue_times
from hta_graph.what_if.changes import weigh
from hta_graph.what_if.modified_window import ModifiedWindow
from hta_graph.what_if.replay_graph import ReplayGraph, edge_weights, edges_by_rank
from hta_graph.what_if.selectors import issuing_rows


@dataclass(frozen=True, eq=False)
class EdgeCorrespondence(Columns):
    """For every edge its ``place`` (-1: none), which edges of other steps and ranks share; its rank's part and step.

    ``step`` is the profiler step that issued it, as a number; -1 outside of steps, 0 in a trace without any.
    """

    place: Ints
    part: Ids
    step: Ints


@memoized
def edge_correspondence(graph: DependencyGraph) -> EdgeCorrespondence:
    """Find the edges at the same place: of equal kind, between points of events that stand at the same place."""
    keys = correspondence_keys(graph)
    return EdgeCorrespondence(freeze(_numbered_keys(keys.place)), keys.part, keys.step)


@memoized
def correspondence_keys(graph: DependencyGraph) -> EdgeCorrespondence:
    """Find the same with large numbers that the graphs of other ranks give to the same places, each on its own."""
    place, target = _edge_keys(graph, _event_keys(graph)[0]), event_of(graph.edge_table.target)
    return EdgeCorrespondence(freeze(place), freeze(graph.rank_index_of(target)), freeze(_issuing_steps(graph)[target]))


@memoized
def _keys_of_alike(graph: DependencyGraph) -> Ints:
    """Give keys to edges between events of the same names around the same ones, however many there are of them."""
    return freeze(_edge_keys(graph, _event_keys(graph)[1]))


@memoized
def _keys_of_names(graph: DependencyGraph) -> Ints:
    return hash_texts(graph.names)[graph.event_table.name]


def _numbered_keys(keys: Ints) -> Ints:
    """Number keys; -1 stays."""
    known = np.flatnonzero(keys >= 0)
    found = np.full(len(keys), -1, np.int64)
    found[known] = np.unique(keys[known], return_inverse=True)[1]
    return found


def _edge_keys(graph: DependencyGraph, key: Ints) -> Ints:
    """Give keys to edges by those of the events that they lead between, else of their names; -1 where one has none."""
    edges = graph.edge_table
    source, target = key[event_of(edges.source)], key[event_of(edges.target)]
    # What comes from another rank is what the target takes part in, whichever rank and event of a name it comes from.
    from_others = np.isin(edges.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT))
    source[from_others] = hash_rows(_keys_of_names(graph)[event_of(edges.source[from_others])])
    side = np.where(from_others, 0, edges.source & 1)
    known = (source >= 0) & (target >= 0)
    return np.where(known, hash_rows(edges.kind, source, side, target, edges.target & 1), -1)


@memoized
def _event_keys(graph: DependencyGraph) -> tuple[Ints, Ints]:
    """Give keys to the places of events, which those of other steps and ranks share, and to the kinds of events alike.

    Those alike have one name and lie inside the same operators and annotations on a like lane; at one place are those
    that are the n-th such of n. What was issued in no step has neither (-1).
    """
    events = graph.event_table
    rows = np.arange(len(events), dtype=np.int32)
    call, part, step = issuing_rows(graph, rows), graph.rank_index_of(rows), _issuing_steps(graph)
    alike = hash_rows(
        _keys_of_names(graph), _call_path_keys(graph, call), take_or(_comparable_lanes(graph), events.lane)
    )
    owner = pair_key(part, step)
    # In the order of issue: which of several workers is free first is chance.
    issued = graph.timeline.position[start_point(np.where(call >= 0, call, rows))]
    order = np.lexsort((events.start, issued, owner, alike))
    first = np.flatnonzero(first_of_runs(alike[order], owner[order]))
    count = np.diff(np.append(first, len(order)))
    nth, among = np.empty(len(order), np.int64), np.empty(len(order), np.int64)
    nth[order] = np.arange(len(order)) - np.repeat(first, count)
    among[order] = np.repeat(count, count)
    known = (part >= 0) & (step >= 0)
    # The n-th of m: only steps and ranks with as many of a kind are compared.
    return np.where(known, hash_rows(alike, among, nth), -1), np.where(known, alike, -1)


@memoized
def _issuing_steps(graph: DependencyGraph) -> Ints:
    """Return for each event the number of the step in which its rank issued it; -1: in none."""
    issued, found = issue_times(graph), np.full(len(graph.event_table), -1, np.int64)
    for part in graph.rank_graphs:
        rows = slice(part.first_row, part.first_row + len(part.graph.event_table))
        steps = part.graph.steps()
        if not steps:
            found[rows] = 0
            continue
        starts, ends = (
            np.array(times, np.int64) for times in zip(*((s.start_ns, s.end_ns) for s in steps), strict=True)
        )
        number = np.array([item.number for item in steps], np.int64)
        at = np.searchsorted(starts, issued[rows], side="right") - 1
        inside = (at >= 0) & (issued[rows] < np.append(ends, 0)[at])
        found[rows] = np.where(inside, number[at], -1)
    return found


def _call_path_keys(graph: DependencyGraph, call: Ids) -> Ints:
    """Give keys to operators and annotations around calls; a call that is one itself lies inside those around it."""
    paths = CallPaths()
    own, parent = paths.of(graph), graph.nesting(*FRAMES).parent
    is_frame = take_or(kind_mask(graph.event_table.kind, FRAMES), call, otherwise=False)
    around = np.where(is_frame, take_or(parent, call), graph.enclosing(call, *FRAMES))
    found: Ints = paths.keys()[take_or(own, around, otherwise=0)]
    return found


def _comparable_lanes(graph: DependencyGraph) -> Ints:
    """Number lanes alike on all ranks: streams by their number, threads by how much they do.

    All that communicates on a rank's CPU counts as one lane: its workers take turns by chance.
    """
    lanes, alike = graph.lanes, np.zeros(len(graph.lanes.labels), np.int64)
    points = np.bincount(graph.event_table.lane, minlength=len(alike))
    for part in graph.rank_graphs:
        threads = np.flatnonzero((graph.rank_index_of_lane == part.index) & ~lanes.is_stream)
        alike[threads[np.argsort(-points[threads], kind="stable")]] = np.arange(len(threads))
    return np.where(lanes.is_stream, 1_000_000 + lanes.stream, np.where(lanes.is_communication, 999_999, alike))


def median_weights(graph: DependencyGraph, among: Bools) -> Ints:
    """Return for each edge the median weight (ns) of those at its place, among some edges; its own where none is."""
    places, weight = edge_correspondence(graph).place, edge_weights(graph).weight
    chosen = np.flatnonzero(among & (places >= 0))
    count = np.bincount(places[chosen], minlength=int(places.max(initial=-1)) + 1)
    median = np.zeros(len(count), np.int64)
    median[places[chosen]] = weight[chosen]
    several = chosen[count[places[chosen]] > 1]
    median[count > 1] = percentiles_by(places[several], weight[several], len(count), 50)[count > 1]
    known = take_or(count > 0, places, otherwise=False)
    found: Ints = np.where(known, take_or(median, places), weight)
    return found


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


@memoized_each
def _keyed_edges(graph: DependencyGraph, part: int) -> _KeyedEdges:
    """Return the edges of a rank (its place): each step of a job that is replayed asks for those of all ranks."""
    known, alike, row = correspondence_keys(graph), _keys_of_alike(graph), edges_by_rank(graph)[part]
    weight = edge_weights(graph).weight[row]
    # Only a lane's own time adds up, also what follows a wait: lags overlap.
    of_lane = np.isin(ROLE[graph.edge_table.kind[row]], (EdgeRole.THREAD, EdgeRole.ACTIVITY, EdgeRole.AWAKENING))
    # How much of a communication without a partner is waiting is not known.
    is_told = ~graph.without_partner[event_of(graph.edge_table.target[row])]
    has_time = of_lane & (alike[row] >= 0) & (weight > 0) & is_told
    kind = np.where(has_time, hash_rows(alike[row], known.step[row]), -1)
    return _KeyedEdges(row, weight, np.where(is_told, known.place[row], -1), kind)


def comparison_keys(base: ReplayGraph, part: int) -> ComparisonKeys:
    """Return what other ranks need to answer about a rank (its place) in a window."""
    own = _keyed_edges(base.graph, part)
    inside = np.zeros(len(base.graph.edge_table), np.bool_)
    inside[base.edges.row[base.edges.row >= 0]] = True
    inside[base.tail_edges[base.tail_edges >= 0]] = True
    chosen = inside[own.row]
    place, kind = own.place[chosen], own.kind[chosen]
    return ComparisonKeys(distinct(place[place >= 0]), distinct(kind[kind >= 0]))


def comparison_times(graph: DependencyGraph, part: int, asked: ComparisonKeys) -> ComparisonTimes:
    """Return how long a rank (its place) takes for what another one does."""
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
        base, graph = draft.base, draft.base.graph
        own = _keyed_edges(graph, graph.index_of_rank(self.rank))
        weight = self._weights(own)
        # What lies before the window belongs to the iteration before, in which it is the time behind its last point.
        before = base.first.start_ns - base.times[graph.edge_table.source[own.row]]
        weigh(own.row, np.maximum(weight, np.minimum(own.weight, before)))(draft)
        behind = find_sorted(base.tail_edges, own.row)
        tails = base.parts.edge[base.first_tail_part :] - len(base.edges.row)
        shorter = np.flatnonzero(take_or(own.weight, behind, otherwise=0) > 0)
        share = np.ones(len(behind))
        share[shorter] = np.minimum(weight[behind[shorter]] / own.weight[behind[shorter]], 1.0)
        if len(shorter):
            draft.factor[base.first_tail_part :] *= share[tails]

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
