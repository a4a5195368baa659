"""Which edges stand at the same place of other steps and ranks: there durations can be compared, and exchanged.

rank 0, step 5    linear(mm) ─ linear(mm) ─ all_reduce        the second mm inside linear is compared with the second
rank 1, step 5    linear(mm) ─ linear(mm) ─ all_reduce        of steps and ranks that have as many there
rank 0, step 6    linear(mm) ─ linear(mm) ─ mm ─ all_reduce   another mm elsewhere: that does not matter
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.algorithms.replay.edge_times import edge_times
from hta_graph.algorithms.replay.selection import issuing_rows
from hta_graph.algorithms.time.carried_over import issued_times
from hta_graph.algorithms.who.call_paths import FRAMES, CallPaths
from hta_graph.columns import Columns, first_of_runs, freeze, numbered_runs, pair_key, picked, ranked_by
from hta_graph.graph import DependencyGraph
from hta_graph.graph.points import event_of, start_point
from hta_graph.graph.remembered import remembered
from hta_graph.model import Bools, EdgeKind, Ids, Ints, kind_mask

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
    """Find the edges at the same place: of equal kind, between points of events that stand at the same place."""
    edges, step = graph.edge_table, _issuing_steps(graph)
    place = _places_of_events(graph, step)
    source, target = event_of(edges.source), event_of(edges.target)
    # What comes from another rank is what the target takes part in, whichever rank and event of a name it comes from.
    from_others = np.isin(edges.kind, (EdgeKind.COLLECTIVE, EdgeKind.POINT_TO_POINT))
    begins = 2 * np.where(from_others, graph.event_table.name[source], place[source]) + (edges.source & 1)
    ends = 2 * place[target] + (edges.target & 1)
    known = (ends >= 0) & (begins >= 0)
    order = np.lexsort((edges.kind, begins, ends))
    same = np.full(len(edges), -1, np.int64)
    same[order] = numbered_runs(ends[order], begins[order], edges.kind[order])
    part = graph.part_of(target)
    return SamePlaces(freeze(np.where(known, same, -1)), freeze(part), freeze(step[target]))


def _places_of_events(graph: DependencyGraph, step: Ints) -> Ints:
    """Number the places of events, which those of other steps and ranks share; -1: issued in no step.

    They have one name, lie inside the same operators and annotations on a like lane, and are the n-th such of n.
    """
    events = graph.event_table
    rows = np.arange(len(events), dtype=np.int32)
    call, part = issuing_rows(graph, rows), graph.part_of(rows)
    lane = picked(_like_lanes(graph), events.lane)
    what = pair_key(events.name, _paths_around(graph, call)), lane
    owner = pair_key(part, step)
    # In the order of issue: which of several workers is free first is chance.
    issued = graph.timeline.position[start_point(np.where(call >= 0, call, rows))]
    order = np.lexsort((events.start, issued, owner, *what))
    kind = tuple(column[order] for column in what)
    run = numbered_runs(*kind, owner[order])
    first = np.flatnonzero(first_of_runs(run))
    nth = np.arange(len(order)) - first[run]
    # The n-th of m: only steps and ranks with as many of a kind are compared.
    count = np.diff(np.append(first, len(order)))[run]
    among = np.lexsort((nth, count, *kind))
    place = np.full(len(events), -1, np.int64)
    place[order[among]] = numbered_runs(*(column[among] for column in kind), count[among], nth[among])
    return np.where((part >= 0) & (step >= 0), place, -1)


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


def _paths_around(graph: DependencyGraph, call: Ids) -> Ids:
    """Number the operators and annotations around calls; a call that is one itself lies inside those around it."""
    own, parent = CallPaths().of(graph), graph.nesting(*FRAMES).parent
    is_frame = picked(kind_mask(graph.event_table.kind, FRAMES), call, otherwise=False)
    around = np.where(is_frame, picked(parent, call), graph.enclosing(call, *FRAMES))
    found: Ids = picked(own, around, otherwise=0)
    return found


def _like_lanes(graph: DependencyGraph) -> Ints:
    """Number lanes alike on all ranks: streams by their number, threads by how much they do.

    All that communicates on a rank's CPU counts as one lane: its workers take turns by chance.
    """
    lanes, alike = graph.lanes, np.zeros(len(graph.lanes.labels), np.int64)
    points = np.bincount(graph.event_table.lane, minlength=len(alike))
    for part in graph.parts:
        threads = np.flatnonzero((graph.part_of_lane == part.place) & ~lanes.is_stream)
        alike[threads[np.argsort(-points[threads], kind="stable")]] = np.arange(len(threads))
    return np.where(lanes.is_stream, 1_000_000 + lanes.stream, np.where(lanes.is_communication, 999_999, alike))


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
