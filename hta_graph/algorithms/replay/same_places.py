"""Which edges stand at the same place of other steps and ranks: there durations can be compared, and exchanged.

rank 0, step 5    mm ─ add ─ mm ─ all_reduce       the second mm of a step is compared with the second mm of other
rank 1, step 5    mm ─ add ─ mm ─ all_reduce       steps and ranks that have as many
rank 0, step 6    mm ─ add ─ mm ─ mm ─ all_reduce  one more: not compared
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.replay.edge_times import edge_times
from hta_graph.algorithms.time.carried_over import issued_times
from hta_graph.columns import Columns, first_of_runs, freeze, numbered_runs, pair_key, picked, ranked_by
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import event_of
from hta_graph.graph.remembered import remembered
from hta_graph.model import Bools, Ids, Ints

__all__ = ["SamePlaces", "median_weights", "same_places"]


@dataclass(frozen=True, eq=False)
class SamePlaces(Columns):
    """For every edge its ``place`` (-1: none), which edges of other steps and ranks share; its rank's part and step.

    ``step`` is the profiler step that issued it, as a number; -1 outside of steps, 0 in a trace without any.
    """

    place: Ints
    part: Ids
    step: Ints


@remembered
def same_places(graph: DependencyGraph) -> SamePlaces:
    """Find the edges at the same place: equal kind and names of both points on a like lane, and the n-th such of n."""
    edges, events = graph.edge_table, graph.event_table
    source, target = event_of(edges.source), event_of(edges.target)
    part = graph.part_of(target)
    step = _issuing_steps(graph)[target]
    ends = pair_key(2 * events.name[source] + (edges.source & 1), 2 * events.name[target] + (edges.target & 1))
    where = pair_key(edges.kind.astype(np.int64), _like_lanes(graph)[events.lane[target]])
    owner = pair_key(part, step)
    order = np.lexsort((graph.timeline.position[edges.target], owner, where, ends))
    kind, of_owner = (ends[order], where[order]), owner[order]
    run = numbered_runs(*kind, of_owner)
    first = np.flatnonzero(first_of_runs(run))
    nth = np.arange(len(order)) - first[run]
    count = np.diff(np.append(first, len(order)))[run]
    # The n-th of m: only steps and ranks with as many of a kind are compared.
    among = np.lexsort((nth, count, *kind[::-1]))
    same = numbered_runs(kind[0][among], kind[1][among], count[among], nth[among])
    place = np.full(len(edges), -1, np.int64)
    place[order[among]] = same
    known = (part >= 0) & (step >= 0)
    return SamePlaces(freeze(np.where(known, place, -1)), freeze(part), freeze(step))


def _issuing_steps(graph: DependencyGraph) -> Ints:
    """Return for each event the number of the step in which its rank issued it; -1: in none."""
    issued, found = issued_times(graph), np.full(len(graph.event_table), -1, np.int64)
    for part in graph.parts:
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


def _like_lanes(graph: DependencyGraph) -> Ints:
    """Number lanes alike on all ranks: streams by their number, threads by how much they do."""
    lanes, alike = graph.lanes, np.zeros(len(graph.lanes.labels), np.int64)
    points = np.bincount(graph.event_table.lane, minlength=len(alike))
    for part in graph.parts:
        threads = np.flatnonzero((graph.part_of_lane == part.place) & ~lanes.is_stream)
        alike[threads[np.argsort(-points[threads], kind="stable")]] = np.arange(len(threads))
    return np.where(lanes.is_stream, 1_000_000 + lanes.stream, alike)


def median_weights(graph: DependencyGraph, among: Bools) -> Ints:
    """Return for each edge the median weight (ns) of those at its place, among some edges; its own where none is."""
    places, weight = same_places(graph).place, edge_times(graph).weight
    chosen = np.flatnonzero(among & (places >= 0))
    count = int(places.max(initial=-1)) + 1
    median = ranked_by(places[chosen], weight[chosen], count, 50)
    has = np.bincount(places[chosen], minlength=count) > 0
    known = picked(has, places, otherwise=False)
    found: Ints = np.where(known, picked(median, places), weight)
    return found
