"""A path as pieces of time: each owned by one event and of one class."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hta_graph.arrays import Columns, first_of_runs, last_of_runs
from hta_graph.model import Bools, Codes, Ids, Ints

__all__ = ["SegmentTable"]


@dataclass(frozen=True, eq=False)
class SegmentTable(Columns):
    """Stretches of time; ``edge_kind``, ``event`` and ``lane`` are -1 where there is none.

    ``part`` is the place of its rank among ``graph.parts``. ``reason`` says why an unexplained one is that (-1 for all
    others), ``open_call`` what the host stood in meanwhile.
    """

    start: Ints
    end: Ints
    edge_kind: Codes
    inferred: Bools
    bound: Codes
    event: Ids
    lane: Ids
    part: Ids
    reason: Codes
    open_call: Ids

    @property
    def length(self) -> Ints:
        """Durations (ns)."""
        return self.end - self.start

    def merged(self, path: Ints, count: int) -> list[SegmentTable]:
        """Sort the pieces of each of so many paths by time, and merge neighbours of equal event, edge and class."""
        order = np.argsort(self.start, kind="stable")
        order = order[np.argsort(path[order], kind="stable")] if count > 1 else order
        ordered, path = self.take(order), path[order]
        own = path, ordered.event, ordered.lane, ordered.part
        columns = ordered.edge_kind, ordered.inferred, ordered.bound, *own, ordered.reason
        first = first_of_runs(*columns)
        every = replace(ordered.take(first), end=ordered.end[last_of_runs(*columns)])
        bounds = np.searchsorted(path[first], np.arange(count + 1)).tolist()
        return [every.take(slice(*of)) for of in pairwise(bounds)]
