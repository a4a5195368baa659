"""What a job's path passes on one rank: from one kept point back to the next, in the rank's whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hta_graph.arrays import Columns, distinct, freeze
from hta_graph.graph.dependency_graph import DependencyGraph
from hta_graph.graph.points import event_of
from hta_graph.model import Ids, Ints
from hta_graph.paths.pieces import SegmentTable
from hta_graph.paths.segments import segments_of_paths
from hta_graph.paths.time_accounting import TimeAccounting
from hta_graph.paths.walk_path import Chain, walk_back
from hta_graph.paths.window_ends import Sink
from hta_graph.paths.windows import Window

__all__ = ["LegSegments", "PathLegs", "segments_of_legs"]


@dataclass(frozen=True, eq=False)
class PathLegs(Columns):
    """Ways back on one rank: from ``point`` to ``stop`` (-1: as far as causes are known), in [start, end] (ns).

    ``lane`` is the thread on which a window goes on behind its last point (-1: none).
    """

    point: Ids
    stop: Ids
    start: Ints
    end: Ints
    lane: Ids


@dataclass(frozen=True)
class LegSegments:
    """The pieces of legs, each with the number of its leg, and the rows that the ways back came by."""

    hop: Ints
    pieces: SegmentTable
    passed: Ids


def segments_of_legs(graph: DependencyGraph, hops: PathLegs, data_load: Sequence[str]) -> LegSegments:
    """Return what each leg passes: pieces that tile it.

    Args:
        graph: the rank's whole graph, in the time of the legs.
        hops: ways back, with points of that graph.
        data_load: expressions of what loads data, PyTorch's if none are given.
    """
    columns = (hops.point, hops.stop, hops.start, hops.end)
    chains = [_walk_leg(graph, *of) for of in zip(*(column.tolist() for column in columns), strict=True)]
    windows = [
        Window(start, end, "hop", 0, 0, Sink(point, int(chain.times[0]), lane))
        for start, end, point, lane, chain in zip(
            hops.start.tolist(), hops.end.tolist(), hops.point.tolist(), hops.lane.tolist(), chains, strict=True
        )
    ]
    found = segments_of_paths(graph, chains, windows, TimeAccounting(graph, data_load)) if chains else []
    passed = distinct(np.concatenate([np.empty(0, np.int32), *(event_of(chain.points) for chain in chains)]))
    numbers = np.repeat(np.arange(len(found)), [len(pieces) for pieces in found])
    return LegSegments(numbers, SegmentTable.join(found), passed)


def _walk_leg(graph: DependencyGraph, point: int, stop: int, start: int, end: int) -> Chain:
    """Walk back from a point at the time at which the job's path has come there."""
    chain = walk_back(graph, point, start)
    times = np.minimum(chain.times, end)
    if stop < 0:
        return replace(chain, times=freeze(times))
    last = np.flatnonzero(chain.points == stop)
    until = int(last[0]) + 1 if len(last) else len(chain.points)
    times = times[:until].copy()
    # A clock fault on the way may have pulled the time back further than where the way ends is stamped.
    times[-1] = min(int(times[-1]), start)
    return Chain(chain.points[:until], chain.edges[: until - 1], freeze(times))
