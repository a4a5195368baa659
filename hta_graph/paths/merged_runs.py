"""Long runs of a path's segments in one: what follows each other in the same calls and is of one class."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hta_graph.arrays import first_of_runs, last_of_runs, pair_key, summed_by, take_or
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.timeline import nearest_around
from hta_graph.model import Bools, BoundBy, EventKind, Ids, Ints
from hta_graph.paths.pieces import SegmentTable

__all__ = ["MERGE_RESOLUTION", "SegmentRuns", "merge_runs"]

MERGE_RESOLUTION = 1000
"""Calls that last at least the window's length divided by this are told apart: about a pixel of a wide screen."""

CALL_KINDS = (EventKind.CPU_OP, EventKind.RUNTIME, EventKind.PYTHON_FUNCTION, EventKind.ANNOTATION)


@dataclass(frozen=True, eq=False)
class SegmentRuns(SegmentTable):
    """Pieces of which each stands for ``segments`` neighbours, of which ``first`` is the place of the first.

    ``event`` owns most of a run's time; ``inside`` is the innermost call around all of it that is told apart (-1: none,
    or work of the GPU). ``edge_kind`` is that of the first segment where ``is_mixed`` says that they differ.
    """

    first: Ints
    segments: Ints
    inside: Ids
    is_mixed: Bools

    def holding(self, segments: Ints) -> Ints:
        """Return the run that each segment is part of."""
        return np.searchsorted(self.first, segments, side="right") - 1


def merge_runs(graph: DependencyGraph, pieces: SegmentTable, window_ns: int) -> SegmentRuns:
    """Merge neighbours of equal class, lane, evidence, reason and stack, in a path of a window of some length (ns).

    Two segments have an equal stack if the same call is the innermost one around them, where calls (operators, runtime
    calls, Python frames, annotations) shorter than a thousandth of the window are not told apart from what calls them.
    GPU activities have no stack: each stays apart, and so does what is unexplained.

        forward      |-----------------------------------|     long
        isinstance      |-|   |-|                              short
        aten::mm                      |--------|               long
        segments     |F |i| F |i| F   |   mm   |    F    |
        runs         |       F        |   mm   |    F    |     if all are of one class
    """
    inside = _distinct_calls(graph, pieces, -(-window_ns // MERGE_RESOLUTION))
    stack = np.where(_is_never_merged(graph, pieces), pieces.event, inside)
    columns = pieces.bound, pieces.lane, pieces.part, pieces.inferred, pieces.reason, stack
    is_first = first_of_runs(*columns)
    first, number = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    merged = pieces.take(is_first)
    changes_edge = (first_of_runs(pieces.edge_kind) & ~is_first).astype(np.int64)
    return SegmentRuns(
        start=merged.start,
        end=pieces.end[last_of_runs(*columns)],
        edge_kind=merged.edge_kind,
        inferred=merged.inferred,
        bound=merged.bound,
        event=_largest_owners(number, pieces),
        lane=merged.lane,
        part=merged.part,
        reason=merged.reason,
        open_call=merged.open_call,
        first=first,
        segments=np.diff(np.append(first, len(pieces))),
        inside=inside[first],
        is_mixed=summed_by(number, changes_edge, len(first)) > 0,
    )


def _distinct_calls(graph: DependencyGraph, pieces: SegmentTable, least_ns: int) -> Ids:
    """Return the innermost call around each piece that is long enough, the owner included; -1 where none is."""
    events, found = graph.event_table, np.full(len(pieces), -1, np.int32)
    on_cpu = np.flatnonzero((pieces.event >= 0) & ~take_or(graph.is_activity, pieces.event, otherwise=False))
    is_long = events.end - events.start >= least_ns
    found[on_cpu] = nearest_around(graph.nesting(*CALL_KINDS).parent, pieces.event[on_cpu], is_long)
    return found


def _is_never_merged(graph: DependencyGraph, pieces: SegmentTable) -> Bools:
    apart: Bools = (pieces.bound == BoundBy.UNEXPLAINED) | take_or(graph.is_activity, pieces.event, otherwise=False)
    return apart


def _largest_owners(number: Ints, pieces: SegmentTable) -> Ids:
    """Return for each run the event (-1: nobody) that owns most of its time, of equals the one that comes first."""
    key = pair_key(number, pieces.event)
    pairs, place = np.unique(key, return_inverse=True)
    time = summed_by(place, pieces.length, len(pairs))
    # A pair's upper half is the run also where the event is -1, which borrows from it.
    run = (pairs + 1) >> 32
    order = np.lexsort((-time, run))
    return (pairs[order] - (run[order] << 32))[first_of_runs(run[order])].astype(np.int32)
